//! `CREATE EXTERNAL TABLE t STORED AS DUCKLAKE LOCATION 'lake.sqlite' OPTIONS ('table' 'main.t')`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::logical_expr::CreateExternalTable;
use datafusion::prelude::SessionContext;

use crate::catalog::Catalog;
use crate::table::DuckLakeTable;

/// What such tables are stored as.
const DUCKLAKE: &str = "DUCKLAKE";

/// Lets statements of a session open tables of catalogs.
pub fn install(ctx: &SessionContext) {
    ctx.state_ref().write().table_factories_mut().insert(DUCKLAKE.to_owned(), Arc::new(DuckLakeFactory));
}

/// Opens tables of catalogs for SQL. Its options are `table`, the name in the catalog if that is
/// another one, `snapshot`, and `allow`: folders, with commas between them, in which files of the
/// table may lie, too.
#[derive(Debug)]
struct DuckLakeFactory;

#[async_trait]
impl TableProviderFactory for DuckLakeFactory {
    async fn create(&self, _state: &dyn Session, asked: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        let [location] = &asked.locations[..] else { return plan_err!("a DuckLake table has one location") };
        if !asked.schema.as_arrow().fields().is_empty() {
            return plan_err!("a DuckLake table has the columns of its catalog; name none");
        }
        let (mut name, mut snapshot, mut allowed) = (asked.name.table().to_owned(), None, Vec::new());
        for (option, value) in &asked.options {
            // DataFusion puts the format before the names of options.
            match option.strip_prefix("format.").unwrap_or(option) {
                "table" => name.clone_from(value),
                "snapshot" => {
                    let number = value.parse::<i64>();
                    snapshot = Some(number.map_err(|_| plan_datafusion_err!("option snapshot: {value} is no number"))?);
                }
                "allow" => allowed.extend(value.split(',').map(|folder| PathBuf::from(folder.trim()))),
                other => return plan_err!("a DuckLake table has no option {other}; it has table, snapshot and allow"),
            }
        }
        let (schema, table) = name.split_once('.').unwrap_or(("main", &name));
        let path = location.strip_prefix("file://").unwrap_or(location);
        let catalog = Catalog::at(Path::new(path), &allowed);
        Ok(Arc::new(DuckLakeTable::open(catalog, schema, table, snapshot)?))
    }
}
