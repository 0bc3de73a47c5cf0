//! What a scan of a version reads.
//!
//! The files are read by DataFusion's own Parquet source. The rows of a file that are left are its
//! row selection, from which the opener makes the access plan of its row groups: pages without such
//! rows are not read, and pruning and filters go on as in any Parquet file. Rows that were inserted
//! and not yet committed come from memory, beside the files.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::common::config::TableParquetOptions;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, ScalarValue, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, empty::EmptyExec};
use object_store::path::Path as StorePath;
use object_store::{ObjectMeta, path};
use pagecast_core::positions::{Layer, Piece};
use parquet::arrow::RowNumber;
use parquet::arrow::arrow_reader::RowSelection;

use crate::held::{Held, HoldingReaders};
use crate::mapping::renamed;
use crate::snapshot::DataFile;

/// The hidden column that tells where a row is: its number among the stored rows, or, for a row in
/// memory, the negative number behind zero.
pub(crate) const POSITION: &str = "__pagecast_position";
const FIRST: &str = "__pagecast_first_row";
const ROW: &str = "__pagecast_row_number";

/// A version as a scan sees it.
pub(crate) struct View<'a> {
    pub(crate) snapshot: &'a Arc<Held>,
    /// Where its rows are.
    pub(crate) layer: Layer,
    /// Inserted rows, by their numbers in a layer.
    pub(crate) inserted: Vec<RecordBatch>,
}

/// The schema of the table with the hidden column.
pub(crate) fn with_position(schema: &SchemaRef) -> SchemaRef {
    let position = Arc::new(Field::new(POSITION, DataType::Int64, false));
    Arc::new(Schema::new(schema.fields().iter().cloned().chain([position]).collect::<Fields>()))
}

impl View<'_> {
    /// A scan of these columns. With `positions` the hidden column is the last.
    pub(crate) fn scan(
        &self,
        state: &dyn Session,
        projection: &[usize],
        limit: Option<usize>,
        positions: bool,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut branches = Vec::new();
        let files = self.files()?;
        if !files.is_empty() {
            branches.push(self.stored(state, files, projection, limit, positions)?);
        }
        let rows = self.in_memory(positions)?;
        if !rows.is_empty() {
            branches.push(self.memory_source(rows, projection, positions)?);
        }
        match branches.len() {
            0 => {
                let schema = Arc::new(self.snapshot.schema().project(projection)?);
                Ok(Arc::new(EmptyExec::new(if positions { with_position(&schema) } else { schema })))
            }
            1 => Ok(branches.swap_remove(0)),
            _ => UnionExec::try_new(branches),
        }
    }

    /// The files of which rows are left, with those rows.
    fn files(&self) -> Result<Vec<PartitionedFile>> {
        let mut files = Vec::new();
        for (first, file) in &self.snapshot.files {
            let pieces = self.layer.pieces(self.layer.rids_of(*first..first + file.rows));
            let stored = pieces.filter_map(|piece| match piece {
                Piece::Stored(rows) => Some((rows.start - first) as usize..(rows.end - first) as usize),
                Piece::Inserted(_) => None,
            });
            let left: Vec<Range<usize>> = stored.collect();
            let rows: usize = left.iter().map(ExactSizeIterator::len).sum();
            if rows == 0 {
                continue;
            }
            let mut part = partitioned(file, *first)?;
            if rows as u64 != file.rows {
                let selection = RowSelection::from_consecutive_ranges(left.into_iter(), file.rows as usize);
                part = part.with_extension(ParquetRowSelection::from(selection));
            }
            files.push(part);
        }
        Ok(files)
    }

    fn stored(
        &self,
        state: &dyn Session,
        files: Vec<PartitionedFile>,
        projection: &[usize],
        limit: Option<usize>,
        positions: bool,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = &self.snapshot.columns;
        let first: FieldRef = Arc::new(Field::new(FIRST, DataType::Int64, false));
        let row: FieldRef = Arc::new(Field::new(ROW, DataType::Int64, false).with_extension_type(RowNumber));
        let partitions: Fields = columns.partitions.iter().cloned().chain([first]).collect();
        let mut schema = TableSchema::builder(Arc::clone(&columns.in_files)).with_table_partition_cols(partitions);
        if positions {
            schema = schema.with_virtual_columns(vec![row]);
        }
        let schema = schema.build();
        let width = columns.all.fields().len();
        let mut scanned: Vec<usize> = projection.iter().map(|&column| columns.places[column]).collect();
        if positions {
            scanned.extend([width, width + 1]);
        }
        let options =
            TableParquetOptions { global: state.config_options().execution.parquet.clone(), ..Default::default() };
        let statistics = self.statistics(&schema);
        let url = ObjectStoreUrl::local_filesystem();
        let readers = HoldingReaders::new(state.runtime_env().object_store(&url)?, Arc::clone(self.snapshot));
        let source = ParquetSource::new(schema)
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(readers));
        let partitions = state.config().target_partitions();
        let config = FileScanConfigBuilder::new(url, Arc::new(source))
            .with_file_groups(FileGroup::new(files).split_files(partitions))
            .with_statistics(statistics)
            .with_projection_indices(Some(scanned))?
            .with_limit(limit)
            .build();
        let scan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(config);
        let scan = if positions { position_of(scan, projection.len())? } else { scan };
        if !columns.mapped {
            return Ok(scan);
        }
        let fields: Vec<_> = projection.iter().map(|&column| Arc::clone(&columns.all.fields()[column])).collect();
        renamed(scan, &fields)
    }

    /// How many rows there are is known. Bounds are no values of the rows that are left.
    fn statistics(&self, schema: &TableSchema) -> Statistics {
        let rows = self.layer.pieces(0..self.layer.rows()).map(|piece| match piece {
            Piece::Stored(rows) => rows.end - rows.start,
            Piece::Inserted(_) => 0,
        });
        let mut statistics = Statistics::new_unknown(schema.table_schema());
        statistics.num_rows = Precision::Exact(rows.sum::<u64>() as usize);
        statistics
    }

    /// The inserted rows that are left.
    fn in_memory(&self, positions: bool) -> Result<Vec<RecordBatch>> {
        let mut slices = Vec::new();
        let behind = self.layer.rids_of(self.snapshot.stored..self.snapshot.stored);
        for piece in self.layer.pieces(behind) {
            let Piece::Inserted(insert) = piece else { continue };
            let mut start = 0;
            for batch in &self.inserted {
                let end = start + batch.num_rows() as u64;
                let (from, to) = (insert.rows.start.max(start), insert.rows.end.min(end));
                if from < to {
                    let rows = batch.slice((from - start) as usize, (to - from) as usize);
                    slices.push(if positions { numbered(&rows, from..to)? } else { rows });
                }
                start = end;
            }
        }
        Ok(slices)
    }

    fn memory_source(
        &self,
        rows: Vec<RecordBatch>,
        projection: &[usize],
        positions: bool,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = rows[0].schema();
        let mut columns = projection.to_vec();
        columns.extend(positions.then(|| self.snapshot.schema().fields().len()));
        // Statements of few rows leave small batches.
        let rows = concat_batches(&schema, &rows)?;
        Ok(MemorySourceConfig::try_new_exec(&[vec![rows]], schema, Some(columns))?)
    }
}

/// The rows with their positions: those in memory have negative ones.
fn numbered(rows: &RecordBatch, numbers: Range<u64>) -> Result<RecordBatch> {
    let positions: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.map(|number| -1 - number as i64)));
    let columns = rows.columns().iter().cloned().chain([positions]).collect();
    Ok(RecordBatch::try_new(with_position(&rows.schema()), columns)?)
}

/// A file as the Parquet source takes it.
fn partitioned(file: &DataFile, first: u64) -> Result<PartitionedFile> {
    let location = StorePath::from_absolute_path(&file.path)
        .map_err(|error: path::Error| datafusion::common::DataFusionError::External(Box::new(error)))?;
    // A file of the log never changes, so its time does not matter.
    let last_modified = std::time::SystemTime::UNIX_EPOCH.into();
    let meta = ObjectMeta { location, last_modified, size: file.add.size as u64, e_tag: None, version: None };
    let mut part = PartitionedFile::new_from_meta(meta);
    part.partition_values = file.values.clone();
    part.partition_values.push(ScalarValue::Int64(Some(first as i64)));
    Ok(part.with_statistics(Arc::clone(&file.statistics)))
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
