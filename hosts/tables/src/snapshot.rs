//! A version of a table, and its scan.

use std::any::Any;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::config::TableParquetOptions;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, empty::EmptyExec};
use parquet::arrow::RowNumber;

use crate::adapter::ByFoundColumns;
use crate::columns::TableColumns;
use crate::file::TableFile;
use crate::kept::{KeepingReaders, Pin};

/// The hidden column that tells where a row is: its number among the stored rows of the version.
pub const POSITION: &str = "__pagecast_position";
const FIRST: &str = "__pagecast_first_row";
const ROW: &str = "__pagecast_row_number";

/// A version of a table. Queries that started on it read it to their end.
pub struct TableSnapshot {
    store: ObjectStoreUrl,
    columns: TableColumns,
    files: Vec<TableFile>,
    rows: Option<u64>,
    pin: Option<Pin>,
}

impl std::fmt::Debug for TableSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableSnapshot").field("columns", &self.columns).field("files", &self.files).finish()
    }
}

/// The schema with the hidden column behind it.
pub fn with_position(schema: &SchemaRef) -> SchemaRef {
    let position = Arc::new(Field::new(POSITION, DataType::Int64, false));
    Arc::new(Schema::new(schema.fields().iter().cloned().chain([position]).collect::<Fields>()))
}

impl TableSnapshot {
    /// A version that has these files of a store.
    pub fn new(store: ObjectStoreUrl, columns: TableColumns, files: Vec<TableFile>) -> Self {
        Self { store, columns, files, rows: None, pin: None }
    }

    /// The same, of which so many rows are known to be left.
    #[must_use]
    pub fn of_rows(self, rows: u64) -> Self {
        Self { rows: Some(rows), ..self }
    }

    /// The same. Its scans have `pin` until the last of their streams ends.
    #[must_use]
    pub fn pinned_by(self, pin: Arc<dyn Any + Send + Sync>) -> Self {
        Self { pin: Some(pin), ..self }
    }

    /// A scan of these columns.
    ///
    /// # Errors
    /// The session does not know the store, or the table lacks a column.
    pub fn scan(self, state: &dyn Session, columns: &[usize], limit: Option<usize>) -> Result<Arc<dyn ExecutionPlan>> {
        if self.files.is_empty() {
            return Ok(Arc::new(EmptyExec::new(Arc::new(self.columns.all().project(columns)?))));
        }
        let schema = self.table_schema(false);
        let scanned = self.columns.scanned(columns)?;
        self.scan_files(state, schema, scanned, limit)
    }

    /// The same with the hidden column [`POSITION`] behind them.
    ///
    /// # Errors
    /// As [`TableSnapshot::scan`].
    pub fn scan_with_positions(
        self,
        state: &dyn Session,
        columns: &[usize],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.files.is_empty() {
            let schema = Arc::new(self.columns.all().project(columns)?);
            return Ok(Arc::new(EmptyExec::new(with_position(&schema))));
        }
        let schema = self.table_schema(true);
        let mut scanned = self.columns.scanned(columns)?;
        let width = self.columns.all().fields().len();
        scanned.extend([width, width + 1]);
        position_of(self.scan_files(state, schema, scanned, limit)?, columns.len())
    }

    fn table_schema(&self, positions: bool) -> TableSchema {
        let first: FieldRef = Arc::new(Field::new(FIRST, DataType::Int64, false));
        let partitions: Fields = self.columns.partitions().iter().cloned().chain([first]).collect();
        let schema = TableSchema::builder(Arc::clone(self.columns.in_files())).with_table_partition_cols(partitions);
        if !positions {
            return schema.build();
        }
        let row = Field::new(ROW, DataType::Int64, false).with_extension_type(RowNumber);
        schema.with_virtual_columns(vec![Arc::new(row)]).build()
    }

    fn scan_files(
        self,
        state: &dyn Session,
        schema: TableSchema,
        scanned: Vec<usize>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut options =
            TableParquetOptions { global: state.config_options().execution.parquet.clone(), ..Default::default() };
        // Formats of tables have times of microseconds, and Spark stores them in 96 bits. As
        // nanoseconds those before 1678 and after 2261 would become others.
        options.global.coerce_int96.get_or_insert_with(|| "us".to_owned());
        // Bounds are no values of the rows that are left.
        let mut statistics = Statistics::new_unknown(schema.table_schema());
        statistics.num_rows = self.rows.map_or(Precision::Absent, |rows| Precision::Exact(rows as usize));
        let readers = KeepingReaders::new(state.runtime_env().object_store(&self.store)?, self.pin);
        let source = ParquetSource::new(schema)
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(readers));
        let files = FileGroup::new(self.files.into_iter().map(TableFile::partitioned).collect());
        let found_as = self.columns.in_other_names();
        let adapter =
            found_as.map(|found_as| ByFoundColumns::new(Arc::clone(self.columns.in_files()), found_as.clone()));
        let config = FileScanConfigBuilder::new(self.store, Arc::new(source))
            .with_file_groups(files.split_files(state.config().target_partitions()))
            .with_statistics(statistics)
            .with_projection_indices(Some(scanned))?
            .with_expr_adapter(adapter.map(|adapter| Arc::new(adapter) as _))
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}

/// The first row of a file and the row's number in it, behind so many columns, become one position.
fn position_of(scan: Arc<dyn ExecutionPlan>, columns: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = scan.schema();
    let column = |i: usize| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(schema.field(i).name(), i)) };
    let sum = Arc::new(BinaryExpr::new(column(columns), Operator::Plus, column(columns + 1)));
    let mut exprs: Vec<(Arc<dyn PhysicalExpr>, String)> =
        (0..columns).map(|i| (column(i), schema.field(i).name().clone())).collect();
    exprs.push((sum, POSITION.to_owned()));
    Ok(Arc::new(ProjectionExec::try_new(exprs, scan)?))
}
