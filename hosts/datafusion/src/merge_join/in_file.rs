//! Names that a file has for columns of the table. In tables whose columns are found by ids they
//! need not be the table's: another column may have had the name when the file was written.

use std::sync::Arc;

use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_adapter::PhysicalExprAdapter;
use parquet::file::metadata::ParquetMetaData;

use crate::read_plan::schema_read;

/// How one file names columns.
pub(super) struct InFile(Option<Arc<dyn PhysicalExprAdapter>>);

impl InFile {
    /// Nothing if only DataFusion's opener knows the columns of the file.
    pub(super) fn of(
        config: &FileScanConfig,
        source: &ParquetSource,
        file: &PartitionedFile,
        footer: &Arc<ParquetMetaData>,
    ) -> Option<Self> {
        let Some(adapters) = &config.expr_adapter_factory else { return Some(Self(None)) };
        let table = source.table_schema().file_schema();
        let (_, physical) = schema_read(file, footer, table).ok()??;
        adapters.create(Arc::clone(table), physical).ok().map(|adapter| Self(Some(adapter)))
    }

    /// The file's name of a column, if it has it.
    pub(super) fn name(&self, column: &Column) -> Option<String> {
        let Some(adapter) = &self.0 else { return Some(column.name().to_owned()) };
        let column: Arc<dyn PhysicalExpr> = Arc::new(column.clone());
        let stored = collect_columns(&adapter.rewrite(column).ok()?);
        stored.into_iter().next().map(|column| column.name().to_owned())
    }
}
