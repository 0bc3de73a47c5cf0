//! Tables whose columns somebody declares, in a statement or in a program.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::prelude::col;

use crate::tables::{FOLDER, Layout, Table};
use crate::types::{Container, Kind};

/// A statement that says what columns a table has; none if SQL has no name for a type of them.
pub(crate) fn declaration(table: &Table, folder: &Path) -> Option<String> {
    let columns = table.columns.iter().map(|column| {
        let kind = match column.kind {
            Kind::Bool => "BOOLEAN".to_owned(),
            Kind::Int(8) => "TINYINT".to_owned(),
            Kind::Int(16) => "SMALLINT".to_owned(),
            Kind::Int(32) => "INT".to_owned(),
            Kind::Int(_) => "BIGINT".to_owned(),
            Kind::Float { bits: 64, .. } => "DOUBLE".to_owned(),
            Kind::Decimal { precision: precision @ ..=38, scale } => format!("DECIMAL({precision},{scale})"),
            Kind::Date => "DATE".to_owned(),
            Kind::Text(Container::Plain | Container::View) | Kind::Digits => "VARCHAR".to_owned(),
            _ => return None,
        };
        Some(format!("{} {kind}", column.name))
    });
    let columns = columns.collect::<Option<Vec<_>>>()?.join(", ");
    let by = match &table.layout {
        Layout::DeclaredHive => format!("PARTITIONED BY ({FOLDER}) "),
        Layout::Declared { ordered: true } => "WITH ORDER (k ASC NULLS FIRST) ".to_owned(),
        _ => String::new(),
    };
    let (name, folder) = (&table.name, folder.display());
    Some(format!("CREATE EXTERNAL TABLE {name} ({columns}) STORED AS PARQUET {by}LOCATION '{folder}/'"))
}

/// What CREATE EXTERNAL TABLE makes of a list of columns, of which one may be that of folders.
pub(crate) fn declared(
    schema: SchemaRef,
    folder: &Path,
    ordered: bool,
    format: Arc<dyn FileFormat>,
) -> Result<ListingTable> {
    let mut options = ListingOptions::new(format).with_file_extension(".parquet");
    if ordered {
        options = options.with_file_sort_order(vec![vec![col("k").sort(true, false)]]);
    }
    let (folders, columns): (Vec<_>, Vec<_>) =
        schema.fields().iter().cloned().partition(|field| field.name() == FOLDER);
    let folders = folders.iter().map(|field| (field.name().clone(), field.data_type().clone()));
    options = options.with_table_partition_cols(folders.collect());
    let url = ListingTableUrl::parse(format!("{}/", folder.display()))?;
    let schema = Arc::new(Schema::new(columns));
    let config = ListingTableConfig::new(url).with_listing_options(options).with_schema(schema);
    Ok(ListingTable::try_new(config)?)
}
