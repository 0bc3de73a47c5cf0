//! Delta tables in the SQL of a session.
//!
//! An analyzer rule looks at each statement. Its scans see what the session's transaction sees, if
//! one is open; a table that it changes is read at one version, of which its positions are. DELETE
//! and UPDATE become INSERTs into what takes positions of rows: their input is planned as any query
//! is. DataFusion's own way hands a provider the filters that it finds in the plan, and a subquery
//! in WHERE is none of them. All else is as in other [tables that have versions](pagecast_tables).

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::catalog::TableProvider;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DataFusionError, Result, TableReference, plan_err};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::logical_plan::TableScan;
use datafusion::logical_expr::{DmlStatement, Expr, LogicalPlan, LogicalPlanBuilder, TableSource, WriteOp};
use datafusion::optimizer::AnalyzerRule;
use datafusion::prelude::SessionContext;
use pagecast_tables::{POSITION, VersionedTable};

use crate::create::{DELTATABLE, DeltaFactory};
use crate::functions::{CompactFunction, VacuumFunction};
use crate::inlet::Inlet;
use crate::options::Options;
use crate::provider::delta;
use crate::seen::{Positioned, Version};
use crate::session::{Open, Word};
use crate::sink::{Change, Changed, Target};
use crate::table::Table;

/// Lets the session's SQL change Delta tables, and read old versions of them: table `t` as it was
/// at version 3 is `"t@v3"`. Tables may be registered before or after, in the default schema, also
/// by `CREATE EXTERNAL TABLE ... STORED AS DELTATABLE LOCATION '...'`. START TRANSACTION opens a
/// transaction of the session. `SELECT * FROM delta_compact('folder')` compacts a table, and
/// `SELECT * FROM delta_vacuum('folder')` deletes files of old versions.
///
/// # Errors
/// The session has no default schema.
pub fn install(ctx: &SessionContext) -> Result<()> {
    install_with(ctx, Options::default())
}

/// [`install`]. Tables that statements name by their folders are opened in this way.
///
/// # Errors
/// As [`install`].
pub fn install_with(ctx: &SessionContext, options: Options) -> Result<()> {
    ctx.add_analyzer_rule(Arc::new(DeltaStatements { open: Arc::default() }));
    ctx.register_udtf("delta_compact", Arc::new(CompactFunction { options: options.clone() }));
    ctx.register_udtf("delta_vacuum", Arc::new(VacuumFunction { options: options.clone() }));
    ctx.state_ref().write().table_factories_mut().insert(DELTATABLE.to_owned(), Arc::new(DeltaFactory { options }));
    pagecast_tables::install(ctx)
}

#[derive(Debug)]
struct DeltaStatements {
    open: Arc<Open>,
}

impl AnalyzerRule for DeltaStatements {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut changed = HashMap::new();
        plan.apply(|node| {
            if let LogicalPlan::Dml(DmlStatement { target, op: WriteOp::Delete | WriteOp::Update, .. }) = node
                && let Some((_, table)) = table_of(target)
            {
                changed.insert(table.folder().to_owned(), None);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let seen = plan.transform_down_with_subqueries(|node| see(node, &self.open, &mut changed))?.data;
        Ok(seen.transform_down(|node| rewrite(node, &self.open))?.data)
    }

    fn name(&self) -> &str {
        "pagecast_delta"
    }
}

/// The Delta table of a source, and how a session has it.
fn table_of(source: &Arc<dyn TableSource>) -> Option<(VersionedTable, Arc<Table>)> {
    let provider = source_as_provider(source).ok()?;
    let known = provider.downcast_ref::<VersionedTable>()?;
    Some((known.clone(), Arc::clone(delta(known)?)))
}

/// Gives a scan of the newest version what the session's transaction sees. Of a table that the
/// statement changes all scans see one version.
fn see(
    node: LogicalPlan,
    open: &Open,
    changed: &mut HashMap<PathBuf, Option<Version>>,
) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::TableScan(scan) = node else { return Ok(Transformed::no(node)) };
    let Some((known, table)) = table_of(&scan.source).filter(|(known, _)| known.version().is_none()) else {
        return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
    };
    let version = match (open.see(&table)?, changed.get_mut(table.folder())) {
        (Some(version), _) => version,
        (None, Some(Some(version))) => version.clone(),
        (None, Some(first)) => first.insert(Version::newest(&table)?).clone(),
        (None, None) => return Ok(Transformed::no(LogicalPlan::TableScan(scan))),
    };
    if *version.held.schema() != known.schema() {
        return plan_err!("the columns of {} have changed; make the view anew, or the transaction", scan.table_name);
    }
    let source = provider_as_source(Arc::new(VersionedTable::at(Arc::clone(known.versions()), Arc::new(version))));
    Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan })))
}

/// DELETE and UPDATE of a Delta table as an INSERT of positions; an INSERT as one into the
/// session's transaction; and words about that.
fn rewrite(node: LogicalPlan, open: &Arc<Open>) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Statement(statement) = &node {
        let Some(word) = Word::of(statement, open) else { return Ok(Transformed::no(node)) };
        let nothing = Arc::new(LogicalPlanBuilder::empty(false).build()?);
        return Ok(insert("transaction".into(), Inlet::new(word, Arc::new(Schema::empty())), nothing));
    }
    let LogicalPlan::Dml(DmlStatement { target, op, input, table_name, .. }) = &node else {
        return Ok(Transformed::no(node));
    };
    let Some((known, table)) = table_of(target) else { return Ok(Transformed::no(node)) };
    let pinned = Version::pinned(&known);
    let change = match op {
        WriteOp::Delete => Change::Delete,
        WriteOp::Update => Change::Update,
        WriteOp::Insert(InsertOp::Append) => Change::Insert,
        _ => return Ok(Transformed::no(node)),
    };
    if let Some(Version { held, transaction: None }) = pinned {
        let (version, folder) = (held.version(), table.folder().display());
        return plan_err!("version {version} of {folder} was asked for, and only the newest can be changed");
    }
    if change == Change::Insert {
        let open = pinned.cloned().map_or_else(|| open.see(&table), |version| Ok(Some(version)))?;
        let Some(seen) = open else { return Ok(Transformed::no(node)) };
        let target = Target { table, seen: Some(seen), columns: known.schema() };
        let changed = Inlet::new(Changed { target, change }, known.schema());
        return Ok(insert(table_name.clone(), changed, Arc::clone(input)));
    }
    let (columns, source) = match (change, input.as_ref()) {
        (Change::Update, LogicalPlan::Projection(values)) => (values.expr.clone(), &values.input),
        (Change::Update, other) => return plan_err!("UPDATE without values: {}", other.display()),
        _ => (Vec::new(), input),
    };
    let (source, target) = with_positions(source)?;
    let columns = columns.into_iter().chain([position(&source)?]);
    let input = LogicalPlanBuilder::from(source).project(columns)?.build()?;
    let schema = Arc::new(input.schema().as_arrow().clone());
    let changed = Inlet::new(Changed { target, change }, schema);
    Ok(insert(table_name.clone(), changed, Arc::new(input)))
}

fn insert(name: TableReference, target: Arc<dyn TableProvider>, input: Arc<LogicalPlan>) -> Transformed<LogicalPlan> {
    let op = WriteOp::Insert(InsertOp::Append);
    Transformed::yes(LogicalPlan::Dml(DmlStatement::new(name, provider_as_source(target), op, input)))
}

/// The rows of a statement with their positions in the table that it changes, which is the first
/// one that it names; and that table, at the version that these positions are of.
fn with_positions(plan: &LogicalPlan) -> Result<(LogicalPlan, Target)> {
    if let LogicalPlan::TableScan(scan) = plan {
        let table = table_of(&scan.source);
        let found = table.and_then(|(known, table)| Some((Version::pinned(&known)?.clone(), known, table)));
        let Some((version, known, table)) = found else { return plan_err!("{} cannot be changed", scan.table_name) };
        let source = provider_as_source(Arc::new(Positioned::new(version.clone())));
        let plan = LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?.build()?;
        return Ok((plan, Target { table, seen: Some(version), columns: known.schema() }));
    }
    let mut inputs: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
    let Some(first) = inputs.first_mut() else { return plan_err!("nothing to change in {}", plan.display()) };
    let (changed, target) = with_positions(first)?;
    let position = position(&changed)?;
    *first = changed;
    let mut columns = plan.expressions();
    // One stands between a condition with subqueries and what these are joined to.
    if matches!(plan, LogicalPlan::Projection(_)) {
        columns.push(position);
    }
    Ok((plan.with_new_exprs(columns, inputs)?, target))
}

fn position(plan: &LogicalPlan) -> Result<Expr> {
    let position = plan.schema().iter().find(|(_, field)| field.name() == POSITION);
    let position = position.map(|(qualifier, field)| Expr::Column(Column::from((qualifier, field))));
    position.ok_or_else(|| DataFusionError::Internal("rows without positions".to_owned()))
}
