//! What a session knows of tables that have versions: their columns as they are now, other versions
//! by names, and that all scans of a statement are of one version.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::logical_plan::TableScan;
use datafusion::optimizer::AnalyzerRule;
use datafusion::prelude::SessionContext;

use crate::versions::{Seen, VersionedTable};

/// Lets all scans of a statement see one version of a [`VersionedTable`], and SQL name other
/// versions: `"t@name"`. Tables may be registered before or after, in the default schema.
///
/// # Errors
/// The session has no default schema.
pub fn install(ctx: &SessionContext) -> Result<()> {
    let config = ctx.copied_config();
    let names = &config.options().catalog;
    let catalog = ctx.catalog(&names.default_catalog);
    let Some((catalog, inner)) =
        catalog.and_then(|catalog| Some((catalog.clone(), catalog.schema(&names.default_schema)?)))
    else {
        return plan_err!("the session has no default schema for tables that have versions");
    };
    // Another format has come before.
    if ctx.state_ref().read().analyzer().rules.iter().any(|rule| rule.name() == OneVersion::NAME) {
        return Ok(());
    }
    ctx.add_analyzer_rule(Arc::new(OneVersion));
    catalog.register_schema(&names.default_schema, Arc::new(VersionedSchema { inner }))?;
    Ok(())
}

/// The tables of a schema, with the columns that they have now, and other versions.
#[derive(Debug)]
struct VersionedSchema {
    inner: Arc<dyn SchemaProvider>,
}

#[async_trait]
impl SchemaProvider for VersionedSchema {
    fn owner_name(&self) -> Option<&str> {
        self.inner.owner_name()
    }

    fn table_names(&self) -> Vec<String> {
        self.inner.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.inner.table(name).await? {
            let fresh: Arc<dyn TableProvider> = match table.downcast_ref::<VersionedTable>() {
                Some(known) if !known.is_pinned() => {
                    Arc::new(VersionedTable::newest(Arc::clone(known.versions())).await?)
                }
                _ => table,
            };
            return Ok(Some(fresh));
        }
        let Some((table, version)) = name.rsplit_once('@') else { return Ok(None) };
        let Some(table) = self.inner.table(table).await? else { return Ok(None) };
        let Some(known) = table.downcast_ref::<VersionedTable>() else { return Ok(None) };
        let version = known.versions().named(version).await?;
        Ok(version.map(|version| Arc::new(VersionedTable::at(Arc::clone(known.versions()), version)) as _))
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.inner.table_exist(name) || name.rsplit_once('@').is_some_and(|(table, _)| self.inner.table_exist(table))
    }
}

/// The table of a scan that is of no version yet.
fn newest(node: &LogicalPlan) -> Option<VersionedTable> {
    let LogicalPlan::TableScan(scan) = node else { return None };
    let provider = source_as_provider(&scan.source).ok()?;
    provider.downcast_ref::<VersionedTable>().filter(|table| !table.is_pinned()).cloned()
}

/// Two scans are of one table if a format knows it as one.
fn key(table: &VersionedTable) -> *const () {
    Arc::as_ptr(table.versions()).cast()
}

/// Gives all scans of a table in a statement the same version, also those in views and subqueries.
#[derive(Debug)]
struct OneVersion;

impl OneVersion {
    const NAME: &str = "pagecast_one_version";
}

impl AnalyzerRule for OneVersion {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut scans: HashMap<*const (), usize> = HashMap::new();
        plan.apply_with_subqueries(|node| {
            if let Some(table) = newest(node) {
                *scans.entry(key(&table)).or_default() += 1;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let agreed = Arc::default();
        let seen: HashMap<_, _> = scans.into_iter().map(|(table, scans)| (table, Seen::new(scans, &agreed))).collect();
        let pin = |node: LogicalPlan| {
            let Some((seen, table)) = newest(&node).and_then(|table| Some((seen.get(&key(&table))?, table))) else {
                return Ok(Transformed::no(node));
            };
            let LogicalPlan::TableScan(scan) = node else { return Ok(Transformed::no(node)) };
            let source = provider_as_source(Arc::new(table.in_statement(seen)));
            Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan })))
        };
        Ok(plan.transform_down_with_subqueries(pin)?.data)
    }

    fn name(&self) -> &str {
        Self::NAME
    }
}
