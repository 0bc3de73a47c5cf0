//! `CREATE EXTERNAL TABLE t STORED AS DUCKLAKE LOCATION 'lake.sqlite' OPTIONS ('table' 'main.t')`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::logical_expr::CreateExternalTable;
use datafusion::prelude::SessionContext;
use pagecast_tables::VersionedTable;

use crate::catalog::Catalog;
use crate::table::Table;

/// What such tables are stored as.
const DUCKLAKE: &str = "DUCKLAKE";

/// Lets statements of a session open tables of catalogs, whose files may lie in `allowed`, too, and
/// name snapshots of them: `"t@v3"`. Tables may be registered before or after, in the default
/// schema.
///
/// # Errors
/// The session has no default schema.
pub fn install(ctx: &SessionContext, allowed: &[PathBuf]) -> Result<()> {
    pagecast_tables::install(ctx)?;
    let factory = Arc::new(DuckLakeFactory { allowed: allowed.to_vec() });
    ctx.state_ref().write().table_factories_mut().insert(DUCKLAKE.to_owned(), factory);
    Ok(())
}

/// Opens tables of catalogs for SQL. Its options are `table`, the name in the catalog if that is
/// another one, `snapshot`, and `allow`: folders, with commas between them, in which files of the
/// table may lie, too.
#[derive(Debug)]
struct DuckLakeFactory {
    /// Folders in which files of any such table may lie.
    allowed: Vec<PathBuf>,
}

#[async_trait]
impl TableProviderFactory for DuckLakeFactory {
    async fn create(&self, _state: &dyn Session, asked: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        let [location] = &asked.locations[..] else { return plan_err!("a DuckLake table has one location") };
        if !asked.schema.as_arrow().fields().is_empty() {
            return plan_err!("a DuckLake table has the columns of its catalog; name none");
        }
        let (mut name, mut snapshot, mut allowed) = (asked.name.table().to_owned(), None, self.allowed.clone());
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
        let table = Table::open(catalog, schema, table)?;
        Ok(Arc::new(match snapshot {
            Some(snapshot) => VersionedTable::at(Arc::clone(&table) as _, table.at(snapshot)?),
            None => VersionedTable::newest(table).await?,
        }))
    }
}
