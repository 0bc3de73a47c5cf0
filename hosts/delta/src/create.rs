//! `CREATE EXTERNAL TABLE t (...) STORED AS DELTATABLE LOCATION '...'`: a table that is there, or a
//! new one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::CreateExternalTable;

use crate::options::Options;
use crate::table::Table;
use crate::{DeltaError, log};

/// What such tables are stored as, as in delta-rs.
pub(crate) const DELTATABLE: &str = "DELTATABLE";

#[derive(Debug)]
pub(crate) struct DeltaFactory {
    pub(crate) options: Options,
}

#[async_trait]
impl TableProviderFactory for DeltaFactory {
    async fn create(&self, _state: &dyn Session, asked: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        let [location] = &asked.locations[..] else { return plan_err!("a Delta table has one location") };
        let options = options_of(asked, self.options.clone())?;
        let folder = PathBuf::from(location.strip_prefix("file://").unwrap_or(location));
        let columns = asked.schema.as_arrow();
        let table = match (log::is_table(&folder), columns.fields().is_empty()) {
            (false, true) => {
                return plan_err!("no Delta table is in {location}; to make one, name its columns");
            }
            (true, _) => same_columns(&folder, columns, options)?,
            (false, false) => {
                let partitions: Vec<&str> = asked.table_partition_cols.iter().map(String::as_str).collect();
                Table::create(&folder, columns, &partitions, options)?
            }
        };
        Ok(Arc::new(table.provider()?))
    }
}

/// What the session and the statement allow: `OPTIONS ('allow' '/a,/b')`.
/// DataFusion puts `format.` before names.
fn options_of(asked: &CreateExternalTable, mut options: Options) -> Result<Options> {
    for (name, value) in &asked.options {
        match name.strip_prefix("format.").unwrap_or(name) {
            "allow" => options.allowed.extend(value.split(',').map(|folder| PathBuf::from(folder.trim()))),
            other => return plan_err!("a Delta table has no option {other} here; there is 'allow'"),
        }
    }
    Ok(options)
}

/// The table in `folder`, if it has the columns that are named.
fn same_columns(folder: &Path, columns: &datafusion::arrow::datatypes::Schema, options: Options) -> Result<Arc<Table>> {
    let table = Table::open_with(folder, options)?;
    let snapshot = table.newest()?;
    let names = |schema: &datafusion::arrow::datatypes::Schema| -> Vec<String> {
        schema.fields().iter().map(|field| field.name().clone()).collect()
    };
    let (has, named) = (names(snapshot.schema()), names(columns));
    if !named.is_empty() && has != named {
        let what = format!("a Delta table is here already, and its columns are {}", has.join(", "));
        return Err(DeltaError::Refused { path: folder.to_owned(), what }.into());
    }
    Ok(table)
}
