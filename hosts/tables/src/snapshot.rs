//! A version of a table, and its scan.

use std::any::Any;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::config::TableParquetOptions;
use datafusion::common::stats::{NdvFallback, Precision};
use datafusion::common::{Result, Statistics};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, empty::EmptyExec};
use parquet::arrow::RowNumber;

use crate::adapter::ByFoundColumns;
use crate::columns::TableColumns;
use crate::file::TableFile;
use crate::filters;
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
    rows: Precision<usize>,
    is_measured: bool,
    ordering: Vec<LexOrdering>,
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
    pub fn new(store: ObjectStoreUrl, columns: TableColumns, mut files: Vec<TableFile>) -> Self {
        files.iter_mut().for_each(|file| file.fit_values(columns.partitions()));
        let (rows, ordering) = (Precision::Absent, Vec::new());
        Self { store, columns, files, rows, is_measured: false, ordering, pin: None }
    }

    /// The same, of which so many rows are known to be left.
    #[must_use]
    pub fn of_rows(self, rows: u64) -> Self {
        Self { rows: Precision::Exact(rows as usize), ..self }
    }

    /// The same. What is known of its files is of all their rows, for none is deleted.
    #[must_use]
    pub fn measured(self) -> Self {
        Self { is_measured: true, ..self }
    }

    /// The same. Each file has its rows in these orders.
    #[must_use]
    pub fn ordered(self, ordering: Vec<LexOrdering>) -> Self {
        Self { ordering, ..self }
    }

    /// The same without files of which no row is asked for, by filters of partition columns alone.
    ///
    /// # Errors
    /// A filter fails.
    pub fn matching(mut self, state: &dyn Session, filters: &[Expr]) -> Result<Self> {
        let values = self.files.iter().map(TableFile::values);
        let mut matches = filters::matching(state, self.columns.partitions(), values, filters)?.into_iter();
        let all = self.files.len();
        self.files.retain(|_| matches.next() == Some(true));
        if self.files.len() < all {
            self.rows = self.rows.to_inexact();
        }
        Ok(self)
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

    /// What is known of its files, together.
    fn of_files(&self) -> Statistics {
        let schema = self.columns.with_partitions();
        let known: Option<Vec<&Statistics>> = self.files.iter().map(TableFile::statistics).collect();
        let merged = known.map(|known| Statistics::try_merge_iter_with_ndv_fallback(known, &schema, NdvFallback::Max));
        merged.and_then(Result::ok).unwrap_or_else(|| Statistics::new_unknown(&schema))
    }

    fn table_schema(&self, positions: bool) -> TableSchema {
        let partitions = self.columns.partitions();
        let schema = TableSchema::builder(Arc::clone(self.columns.in_files()));
        if !positions {
            return schema.with_table_partition_cols(partitions.clone()).build();
        }
        let first: FieldRef = Arc::new(Field::new(FIRST, DataType::Int64, false));
        let partitions: Fields = partitions.iter().cloned().chain([first]).collect();
        let schema = schema.with_table_partition_cols(partitions);
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
        let known = self.is_measured.then(|| self.of_files());
        let with_first = schema.table_partition_cols().len() > self.columns.partitions().len();
        let files = FileGroup::new(self.files.into_iter().map(|file| file.partitioned(with_first)).collect());
        // Bounds are no values of the rows that are left.
        let mut statistics = Statistics::new_unknown(schema.table_schema());
        statistics.num_rows = self.rows;
        if let Some(known) = known {
            let more = statistics.column_statistics.split_off(known.column_statistics.len());
            statistics = known;
            statistics.column_statistics.extend(more);
        }
        let mut options =
            TableParquetOptions { global: state.config_options().execution.parquet.clone(), ..Default::default() };
        // Formats of tables have times of microseconds, and Spark stores them in 96 bits. As
        // nanoseconds those before 1678 and after 2261 would become others.
        options.global.coerce_int96.get_or_insert_with(|| "us".to_owned());
        let runtime = state.runtime_env();
        let cache = runtime.cache_manager.get_file_metadata_cache();
        let readers = KeepingReaders::new(runtime.object_store(&self.store)?, cache, self.pin);
        let source = ParquetSource::new(schema)
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(readers));
        let found_as = self.columns.in_other_names();
        let adapter =
            found_as.map(|found_as| ByFoundColumns::new(Arc::clone(self.columns.in_files()), found_as.clone()));
        let config = FileScanConfigBuilder::new(self.store, Arc::new(source))
            .with_file_groups(files.split_files(state.config().target_partitions()))
            .with_statistics(statistics)
            .with_output_ordering(self.ordering)
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
