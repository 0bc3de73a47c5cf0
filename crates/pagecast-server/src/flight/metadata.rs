//! What there is, as Flight SQL's own tables: one catalog, its schemas and their tables.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::error::{FlightError, Result};
use arrow_flight::sql::{CommandGetCatalogs, CommandGetDbSchemas, CommandGetTableTypes, CommandGetTables};
use datafusion::catalog::CatalogProvider;
use datafusion::datasource::TableType;
use futures::stream;
use tonic::{Response, Status};

use super::rows;
use crate::catalog::{CATALOG, DATABASE};
use crate::server::Server;

/// What sorts of tables there are. Those about PostgreSQL's objects are the system's.
const TABLE_TYPES: [&str; 3] = ["TABLE", "VIEW", "SYSTEM TABLE"];

/// The tables that clients see.
pub(super) struct Metadata(Option<Arc<dyn CatalogProvider>>);

impl Metadata {
    pub(super) fn of(server: &Server) -> Self {
        Self(server.engine.ctx.catalog(DATABASE))
    }

    pub(super) fn catalogs(query: CommandGetCatalogs) -> Result<RecordBatch> {
        let mut catalogs = query.into_builder();
        catalogs.append(DATABASE);
        catalogs.build()
    }

    pub(super) fn table_types(query: CommandGetTableTypes) -> Result<RecordBatch> {
        let mut types = query.into_builder();
        TABLE_TYPES.iter().for_each(|name| types.append(name));
        types.build()
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.0.as_ref().map_or_else(Vec::new, |catalog| catalog.schema_names());
        names.sort();
        names
    }

    pub(super) fn schemas(&self, query: CommandGetDbSchemas) -> Result<RecordBatch> {
        let mut schemas = query.into_builder();
        self.names().iter().for_each(|name| schemas.append(DATABASE, name));
        schemas.build()
    }

    pub(super) async fn tables(&self, query: CommandGetTables) -> Result<RecordBatch> {
        let mut tables = query.into_builder();
        for name in self.names() {
            let Some(schema) = self.0.as_ref().and_then(|catalog| catalog.schema(&name)) else { continue };
            let mut names = schema.table_names();
            names.sort();
            for table_name in names {
                let found =
                    schema.table(&table_name).await.map_err(|error| FlightError::ExternalError(error.into()))?;
                let Some(table) = found else { continue };
                let kind = match (name.as_str(), table.table_type()) {
                    (CATALOG, _) => TABLE_TYPES[2],
                    (_, TableType::View) => TABLE_TYPES[1],
                    _ => TABLE_TYPES[0],
                };
                tables.append(DATABASE, &name, &table_name, kind, &rows::sent(&table.schema()))?;
            }
        }
        tables.build()
    }
}

/// What `made` holds, sent.
pub(super) fn rows(made: Result<RecordBatch>) -> std::result::Result<Response<rows::Sent>, Status> {
    let batch = made?;
    Ok(Response::new(rows::encoded(batch.schema(), stream::iter([Ok(batch)]))))
}

/// No row of these columns.
pub(super) fn nothing(schema: SchemaRef) -> std::result::Result<Response<rows::Sent>, Status> {
    rows(Ok(RecordBatch::new_empty(schema)))
}

fn columns(columns: &[(&str, DataType, bool)]) -> SchemaRef {
    let field = |(name, kind, nullable): &(&str, DataType, bool)| Field::new(*name, kind.clone(), *nullable);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// The columns that primary keys have, of which there are none.
pub(super) fn primary_keys() -> SchemaRef {
    columns(&[
        ("catalog_name", DataType::Utf8, true),
        ("db_schema_name", DataType::Utf8, true),
        ("table_name", DataType::Utf8, false),
        ("column_name", DataType::Utf8, false),
        ("key_name", DataType::Utf8, true),
        ("key_sequence", DataType::Int32, false),
    ])
}

/// The same of foreign keys.
pub(super) fn foreign_keys() -> SchemaRef {
    columns(&[
        ("pk_catalog_name", DataType::Utf8, true),
        ("pk_db_schema_name", DataType::Utf8, true),
        ("pk_table_name", DataType::Utf8, false),
        ("pk_column_name", DataType::Utf8, false),
        ("fk_catalog_name", DataType::Utf8, true),
        ("fk_db_schema_name", DataType::Utf8, true),
        ("fk_table_name", DataType::Utf8, false),
        ("fk_column_name", DataType::Utf8, false),
        ("key_sequence", DataType::Int32, false),
        ("fk_key_name", DataType::Utf8, true),
        ("pk_key_name", DataType::Utf8, true),
        ("update_rule", DataType::UInt8, false),
        ("delete_rule", DataType::UInt8, false),
    ])
}
