//! Delta tables in the SQL of a session.
//!
//! An analyzer rule looks at each statement. It gives all scans of a table the same version, also
//! in views and subqueries. DELETE and UPDATE become INSERTs into what takes positions of rows:
//! their input is planned as any query is. DataFusion's own way hands a provider the filters that
//! it finds in the plan, and a subquery in WHERE is none of them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DataFusionError, Result, TableReference, plan_err};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::logical_plan::TableScan;
use datafusion::logical_expr::{DmlStatement, Expr, LogicalPlan, LogicalPlanBuilder, TableSource, WriteOp};
use datafusion::optimizer::AnalyzerRule;
use datafusion::prelude::SessionContext;
use pagecast_tables::POSITION;

use crate::create::{DELTATABLE, DeltaFactory};
use crate::functions::{CompactFunction, VacuumFunction};
use crate::held::{Held, look_up};
use crate::options::Options;
use crate::provider::Changed;
use crate::seen::DeltaTable;
use crate::session::{Open, Word};
use crate::sink::Change;

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
    let config = ctx.copied_config();
    let names = &config.options().catalog;
    let catalog = ctx.catalog(&names.default_catalog);
    let Some((catalog, inner)) =
        catalog.and_then(|catalog| Some((catalog.clone(), catalog.schema(&names.default_schema)?)))
    else {
        return plan_err!("the session has no default schema for Delta tables");
    };
    catalog.register_schema(&names.default_schema, Arc::new(DeltaSchema { inner }))?;
    Ok(())
}

/// The tables of a schema, with the columns that Delta tables have now, and old versions.
#[derive(Debug)]
struct DeltaSchema {
    inner: Arc<dyn SchemaProvider>,
}

/// `t@v3` is version 3 of `t`.
fn old_version(name: &str) -> Option<(&str, u64)> {
    let (table, version) = name.rsplit_once("@v")?;
    Some((table, version.parse().ok()?))
}

#[async_trait]
impl SchemaProvider for DeltaSchema {
    fn owner_name(&self) -> Option<&str> {
        self.inner.owner_name()
    }

    fn table_names(&self) -> Vec<String> {
        self.inner.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.inner.table(name).await? {
            let fresh = match table.downcast_ref::<DeltaTable>() {
                Some(delta) if delta.pinned.is_none() => Arc::new(DeltaTable::newest(&delta.table)?),
                _ => table,
            };
            return Ok(Some(fresh));
        }
        let Some((table, version)) = old_version(name) else { return Ok(None) };
        let Some(table) = self.inner.table(table).await? else { return Ok(None) };
        let Some(delta) = table.downcast_ref::<DeltaTable>() else { return Ok(None) };
        let version = look_up(|| delta.table.at(version))?;
        Ok(Some(Arc::new(DeltaTable::held(&delta.table, version))))
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.inner.table_exist(name) || old_version(name).is_some_and(|(table, _)| self.inner.table_exist(table))
    }
}

#[derive(Debug)]
struct DeltaStatements {
    open: Arc<Open>,
}

impl AnalyzerRule for DeltaStatements {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut versions = HashMap::new();
        let pinned = plan.transform_down_with_subqueries(|node| pin(node, &self.open, &mut versions))?.data;
        Ok(pinned.transform_down(|node| rewrite(node, &self.open))?.data)
    }

    fn name(&self) -> &str {
        "pagecast_delta"
    }
}

fn delta(source: &Arc<dyn TableSource>) -> Option<DeltaTable> {
    source_as_provider(source).ok()?.downcast_ref::<DeltaTable>().cloned()
}

/// Gives a scan of the newest version what the session's transaction sees, or else the version that
/// the statement has seen first.
fn pin(node: LogicalPlan, open: &Open, versions: &mut HashMap<PathBuf, Arc<Held>>) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::TableScan(scan) = node else { return Ok(Transformed::no(node)) };
    let Some(table) = delta(&scan.source).filter(|table| table.pinned.is_none()) else {
        return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
    };
    let schema = table.schema();
    let seen = open.see(table)?;
    let seen = match &seen.pinned {
        Some(_) => seen,
        None => {
            let root = seen.table.folder().to_owned();
            let snapshot = match versions.get(&root) {
                Some(snapshot) => Arc::clone(snapshot),
                None => seen.current()?,
            };
            versions.insert(root, Arc::clone(&snapshot));
            seen.at(snapshot)
        }
    };
    if *seen.current()?.schema() != schema {
        return plan_err!("the columns of {} have changed; make the view anew, or the transaction", scan.table_name);
    }
    let source = provider_as_source(Arc::new(seen));
    Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan })))
}

/// DELETE and UPDATE of a Delta table as an INSERT of positions; an INSERT as one into what the
/// session sees; and words about its transaction.
fn rewrite(node: LogicalPlan, open: &Arc<Open>) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Statement(statement) = &node {
        let Some(word) = Word::of(statement, open) else { return Ok(Transformed::no(node)) };
        let nothing = Arc::new(LogicalPlanBuilder::empty(false).build()?);
        return Ok(insert("transaction".into(), Arc::new(word), nothing));
    }
    let LogicalPlan::Dml(DmlStatement { target, op, input, table_name, .. }) = &node else {
        return Ok(Transformed::no(node));
    };
    let Some(target) = delta(target) else { return Ok(Transformed::no(node)) };
    let change = match op {
        WriteOp::Delete => Change::Delete,
        WriteOp::Update => Change::Update,
        WriteOp::Insert(InsertOp::Append) if target.pinned.is_none() => {
            return Ok(insert(table_name.clone(), Arc::new(open.see(target)?), Arc::clone(input)));
        }
        _ => return Ok(Transformed::no(node)),
    };
    target.check_may_change()?;
    let (columns, source) = match (change, input.as_ref()) {
        (Change::Update, LogicalPlan::Projection(values)) => (values.expr.clone(), &values.input),
        (Change::Update, other) => return plan_err!("UPDATE without values: {}", other.display()),
        _ => (Vec::new(), input),
    };
    let (source, target) = with_positions(source)?;
    let position = source.schema().iter().find(|(_, field)| field.name() == POSITION);
    let position = position.map(|(qualifier, field)| Expr::Column(Column::from((qualifier, field))));
    let position = position.ok_or_else(|| DataFusionError::Internal("rows without positions".to_owned()))?;
    let columns = columns.into_iter().chain([position]);
    let input = LogicalPlanBuilder::from(source).project(columns)?.build()?;
    let schema = Arc::new(input.schema().as_arrow().clone());
    let changed = Changed { target, change, schema };
    Ok(insert(table_name.clone(), Arc::new(changed), Arc::new(input)))
}

fn insert(name: TableReference, target: Arc<dyn TableProvider>, input: Arc<LogicalPlan>) -> Transformed<LogicalPlan> {
    let op = WriteOp::Insert(InsertOp::Append);
    Transformed::yes(LogicalPlan::Dml(DmlStatement::new(name, provider_as_source(target), op, input)))
}

/// The rows of a statement with their positions in the table that it changes, which is the first
/// one that it names; and that table, at the version that these positions are of.
fn with_positions(plan: &LogicalPlan) -> Result<(LogicalPlan, DeltaTable)> {
    if let LogicalPlan::TableScan(scan) = plan {
        let Some(table) = delta(&scan.source) else { return plan_err!("{} cannot be changed", scan.table_name) };
        let source = provider_as_source(Arc::new(table.with_positions()));
        return Ok((LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?.build()?, table));
    }
    let mut inputs: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
    let Some(first) = inputs.first_mut() else { return plan_err!("nothing to change in {}", plan.display()) };
    let (changed, table) = with_positions(first)?;
    *first = changed;
    Ok((plan.with_new_exprs(plan.expressions(), inputs)?, table))
}
