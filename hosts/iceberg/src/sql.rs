//! Iceberg tables in the SQL of a session: other versions by their names, new tables of catalogs.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, Session, TableProvider, TableProviderFactory};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::logical_plan::TableScan;
use datafusion::logical_expr::{CreateExternalTable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::prelude::SessionContext;
use tokio::sync::OnceCell;

use crate::catalog::{Catalog, InSqlite};
use crate::provider::IcebergTable;
use crate::table::{Options, Table, Version};

/// Lets the session's SQL name other versions of Iceberg tables: `"t@tag"`, `"t@branch"`, `"t@s"`
/// and the number of a snapshot, `"t@2026-01-31T12:00:00"`. Tables may be registered before or
/// after, in the default schema, also by `CREATE EXTERNAL TABLE ... STORED AS ICEBERG`.
///
/// # Errors
/// The session has no default schema.
pub fn install(ctx: &SessionContext) -> Result<()> {
    ctx.add_analyzer_rule(Arc::new(OneVersion));
    ctx.state_ref().write().table_factories_mut().insert("ICEBERG".to_owned(), Arc::new(IcebergFactory));
    let config = ctx.copied_config();
    let names = &config.options().catalog;
    let catalog = ctx.catalog(&names.default_catalog);
    let Some((catalog, inner)) =
        catalog.and_then(|catalog| Some((catalog.clone(), catalog.schema(&names.default_schema)?)))
    else {
        return plan_err!("the session has no default schema for Iceberg tables");
    };
    catalog.register_schema(&names.default_schema, Arc::new(IcebergSchema { inner }))?;
    Ok(())
}

/// The tables of a schema, with the columns that Iceberg tables have now, and other versions.
#[derive(Debug)]
struct IcebergSchema {
    inner: Arc<dyn SchemaProvider>,
}

#[async_trait]
impl SchemaProvider for IcebergSchema {
    fn owner_name(&self) -> Option<&str> {
        self.inner.owner_name()
    }

    fn table_names(&self) -> Vec<String> {
        self.inner.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.inner.table(name).await? {
            let fresh: Arc<dyn TableProvider> = match table.downcast_ref::<IcebergTable>() {
                Some(iceberg) if !iceberg.is_pinned() => Arc::new(IcebergTable::newest(&iceberg.table).await?),
                _ => table,
            };
            return Ok(Some(fresh));
        }
        let Some((table, version)) = name.split_once('@') else { return Ok(None) };
        let Some(table) = self.inner.table(table).await? else { return Ok(None) };
        let Some(iceberg) = table.downcast_ref::<IcebergTable>() else { return Ok(None) };
        let version = iceberg.table.named(version).await?;
        Ok(Some(Arc::new(IcebergTable::version(&iceberg.table, version))))
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.inner.table_exist(name)
    }
}

/// Gives all scans of a table in a statement the same version, also those in views and subqueries.
#[derive(Debug)]
struct OneVersion;

impl AnalyzerRule for OneVersion {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut seen: HashMap<*const Table, Arc<OnceCell<Arc<Version>>>> = HashMap::new();
        let pin = |node: LogicalPlan| {
            let LogicalPlan::TableScan(scan) = node else { return Ok(Transformed::no(node)) };
            let provider = source_as_provider(&scan.source).ok();
            let table = provider.as_ref().and_then(|provider| provider.downcast_ref::<IcebergTable>());
            let Some(table) = table.filter(|table| !table.is_pinned()) else {
                return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
            };
            let seen = seen.entry(Arc::as_ptr(&table.table)).or_default();
            let source = provider_as_source(Arc::new(table.in_statement(seen)));
            Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan })))
        };
        Ok(plan.transform_down_with_subqueries(pin)?.data)
    }

    fn name(&self) -> &str {
        "pagecast_iceberg"
    }
}

/// `CREATE EXTERNAL TABLE t STORED AS ICEBERG LOCATION '...' OPTIONS (...)`.
#[derive(Debug)]
struct IcebergFactory;

#[async_trait]
impl TableProviderFactory for IcebergFactory {
    async fn create(&self, state: &dyn Session, asked: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        let [location] = &asked.locations[..] else { return plan_err!("an Iceberg table has one location") };
        if !asked.schema.fields().is_empty() {
            return plan_err!("an Iceberg table has the columns that its metadata say, and none are named here");
        }
        // DataFusion takes options without a dot for those of a format.
        let named =
            |(key, value): (&String, &String)| (key.strip_prefix("format.").unwrap_or(key).to_owned(), value.clone());
        let mut given: HashMap<String, String> = asked.options.iter().map(named).collect();
        let allow = given.remove("allow");
        let allow = allow.iter().flat_map(|places| places.split(',')).map(|place| place.trim().to_owned());
        let options = Options { allow: allow.collect() };
        let stores = state.runtime_env().object_store_registry.as_ref();
        let is_rest = location.starts_with("http://") || location.starts_with("https://");
        let table = match (given.remove("table"), is_rest) {
            (Some(name), true) => {
                let catalog = Catalog::rest(location, &name, given).await?;
                Table::of_catalog(catalog, &options, Some(stores)).await?
            }
            (Some(name), false) => {
                let file = ["sqlite://", "file://"].iter().find_map(|scheme| location.strip_prefix(scheme));
                let catalog = InSqlite::new(Path::new(file.unwrap_or(location)), given.remove("catalog"), &name)?;
                refuse_others(&given)?;
                Table::of_catalog(Catalog::Sql(catalog), &options, Some(stores)).await?
            }
            (None, true) => {
                return plan_err!("a REST catalog has many tables; option 'table' names one: namespace.table");
            }
            (None, false) => {
                refuse_others(&given)?;
                Table::open(location, &options, Some(stores)).await?
            }
        };
        Ok(Arc::new(IcebergTable::newest(&table).await?))
    }
}

/// Names are shown, values are not: they may be secrets.
fn refuse_others(given: &HashMap<String, String>) -> Result<()> {
    match given.keys().min() {
        Some(option) => plan_err!("an Iceberg table has no option {option} here"),
        None => Ok(()),
    }
}
