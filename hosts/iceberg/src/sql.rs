//! Iceberg tables in the SQL of a session.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::CreateExternalTable;
use datafusion::prelude::SessionContext;
use pagecast_tables::VersionedTable;

use crate::catalog::{Catalog, InSqlite};
use crate::table::{Options, Table};

/// Lets the session's SQL name other versions of Iceberg tables: `"t@tag"`, `"t@branch"`, `"t@s"`
/// and the number of a snapshot, `"t@2026-01-31T12:00:00"`. Tables may be registered before or
/// after, in the default schema, also by `CREATE EXTERNAL TABLE ... STORED AS ICEBERG`; those may
/// have files in `allowed`, too.
///
/// # Errors
/// The session has no default schema.
pub fn install(ctx: &SessionContext, allowed: &[String]) -> Result<()> {
    pagecast_tables::install(ctx)?;
    let factory = Arc::new(IcebergFactory { allowed: allowed.to_vec() });
    ctx.state_ref().write().table_factories_mut().insert("ICEBERG".to_owned(), factory);
    Ok(())
}

/// `CREATE EXTERNAL TABLE t STORED AS ICEBERG LOCATION '...' OPTIONS (...)`.
#[derive(Debug)]
struct IcebergFactory {
    /// Places in which files of any such table may lie.
    allowed: Vec<String>,
}

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
        let named = given.remove("allow");
        let named = named.iter().flat_map(|places| places.split(',')).map(|place| place.trim().to_owned());
        let options = Options { allow: named.chain(self.allowed.iter().cloned()).collect() };
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
        Ok(Arc::new(VersionedTable::newest(table).await?))
    }
}

/// Names are shown, values are not: they may be secrets.
fn refuse_others(given: &HashMap<String, String>) -> Result<()> {
    match given.keys().min() {
        Some(option) => plan_err!("an Iceberg table has no option {option} here"),
        None => Ok(()),
    }
}
