//! What the opener and its decoder ask for.
//!
//! The columns of a scan, down to the leaves of a nested one, are chosen inside DataFusion's
//! opener. One row group of each file is opened by that same opener, over a reader that serves the
//! footer, notes the byte ranges it is asked for, and stops. The columns that these lie in are the
//! columns of the file's other row groups, and the decoder says which bytes of them it will ask
//! for.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{ParquetFileReaderFactory, RowGroupAccess};
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource,
};
use datafusion::datasource::source::DataSource;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use parquet::DecodeResult;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::arrow::push_decoder::ParquetPushDecoderBuilder;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use crate::row_groups::RowGroups;

/// What is read of a row group.
pub(super) enum Asked {
    /// These bytes.
    Bytes(Vec<Range<u64>>),
    /// Nothing, though it has rows: only their number is wanted, and the footer has it.
    Rows,
    /// It is pruned.
    Nothing,
}

/// The scan's opener over the noting reader.
pub(super) struct Probe<'a> {
    /// Without files.
    config: FileScanConfig,
    source: &'a ParquetSource,
    context: Arc<TaskContext>,
    /// The columns of the last file. Without a filter those of a file with the same schema are the
    /// same, and opening it would cost more than all else that is planned of a small file.
    last: Option<Columns>,
}

impl<'a> Probe<'a> {
    pub(super) fn new(config: &FileScanConfig, source: &'a ParquetSource, context: &Arc<TaskContext>) -> Self {
        let config = FileScanConfigBuilder::from(config.clone()).with_file_groups(Vec::new()).build();
        Self { config, source, context: Arc::clone(context), last: None }
    }

    /// What the opener asks for of `file`, whose footer is this one.
    pub(super) async fn ask(&self, file: PartitionedFile, footer: &Arc<ParquetMetaData>) -> Result<Asked> {
        let inquiry = Inquiry { footer: Arc::clone(footer), asked: Arc::default() };
        let group = FileGroup::new(vec![file.with_extension(inquiry.clone())]);
        // A source for each file: one that is opened again and again keeps what it counted of all.
        let config = FileScanConfigBuilder::from(self.config.clone()).with_source(probing_source(self.source)?);
        let first = config.with_file_groups(vec![group]).build().open(0, Arc::clone(&self.context))?.next().await;
        match (inquiry.asked.lock().take(), first) {
            (Some(bytes), _) => Ok(Asked::Bytes(bytes)),
            (None, Some(Ok(_))) => Ok(Asked::Rows),
            (None, Some(Err(error))) => Err(error),
            (None, None) => Ok(Asked::Nothing),
        }
    }

    /// The columns of a file that nobody was asked about, if they are known.
    pub(super) fn columns(&self, footer: &Arc<ParquetMetaData>) -> Result<Option<Columns>> {
        self.last.as_ref().map_or(Ok(None), |last| last.of_another(footer))
    }

    /// These are the columns of a file.
    pub(super) fn found(&mut self, columns: Option<Columns>) {
        if self.source.filter().is_none() {
            self.last = columns.or(self.last.take());
        }
    }
}

/// The columns that a scan reads of a file.
pub(super) struct Columns {
    metadata: ArrowReaderMetadata,
    leaves: ProjectionMask,
    limit: Option<usize>,
}

impl Columns {
    /// Those that the opener asked `bytes` of, in this row group.
    pub(super) fn of(
        bytes: &[Range<u64>],
        row_group: &RowGroupMetaData,
        footer: &Arc<ParquetMetaData>,
        limit: Option<usize>,
    ) -> Result<Self> {
        let asked = |&leaf: &usize| {
            let (start, len) = row_group.column(leaf).byte_range();
            bytes.iter().any(|range| start <= range.start && range.start < start + len)
        };
        let leaves = (0..row_group.num_columns()).filter(asked);
        let leaves = ProjectionMask::leaves(footer.file_metadata().schema_descr(), leaves);
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(footer), ArrowReaderOptions::default())?;
        Ok(Self { metadata, leaves, limit })
    }

    /// The same columns of another file, if it has the same schema.
    fn of_another(&self, footer: &Arc<ParquetMetaData>) -> Result<Option<Self>> {
        if self.metadata.parquet_schema() != footer.file_metadata().schema_descr() {
            return Ok(None);
        }
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(footer), ArrowReaderOptions::default())?;
        Ok(Some(Self { metadata, leaves: self.leaves.clone(), limit: self.limit }))
    }

    /// What the decoder asks for of another row group.
    pub(super) fn ask(&self, number: usize, access: &RowGroupAccess) -> Result<Asked> {
        let mut builder = ParquetPushDecoderBuilder::new_with_metadata(self.metadata.clone())
            .with_projection(self.leaves.clone())
            .with_row_groups(vec![number]);
        if let RowGroupAccess::Selection(rows) = access {
            builder = builder.with_row_selection(rows.clone());
        }
        if let Some(limit) = self.limit {
            builder = builder.with_limit(limit);
        }
        Ok(match builder.build()?.try_next_reader()? {
            DecodeResult::NeedsData(bytes) => Asked::Bytes(bytes),
            DecodeResult::Data(_) => Asked::Rows,
            DecodeResult::Finished => Asked::Nothing,
        })
    }
}

/// The scan's source over the noting reader: same pruning, same columns, but decoding asks for all
/// of them at once, and what it counts does not reach the scan's metrics.
fn probing_source(source: &ParquetSource) -> Result<Arc<dyn FileSource>> {
    let options = source.table_parquet_options().clone();
    let while_decoding = options.global.pushdown_filters;
    let mut probe = ParquetSource::new(source.table_schema().clone())
        .with_table_parquet_options(options)
        .with_pushdown_filters(false)
        .with_bloom_filter_on_read(false)
        .with_parquet_file_reader_factory(Arc::new(NotingReaders));
    let mut columns: Vec<ProjectionExpr> = source.projection().map_or_else(Vec::new, |p| p.as_ref().to_vec());
    if let Some(filter) = source.filter() {
        if while_decoding {
            let of_filter = collect_columns(&filter).into_iter().enumerate();
            columns.extend(of_filter.map(|(i, c)| ProjectionExpr::new(Arc::new(c), format!("of filter {i}"))));
        }
        probe = probe.with_predicate(filter);
    }
    let projected = probe.try_pushdown_projection(&ProjectionExprs::new(columns))?;
    Ok(projected.unwrap_or_else(|| Arc::new(probe)))
}

/// What the opener is answered, and what it asked for; nothing if it never got as far as data.
/// Rides on the file that is opened.
#[derive(Clone)]
struct Inquiry {
    footer: Arc<ParquetMetaData>,
    asked: Arc<Mutex<Option<Vec<Range<u64>>>>>,
}

/// Makes readers that note and stop.
#[derive(Debug)]
struct NotingReaders;

impl ParquetFileReaderFactory for NotingReaders {
    fn create_reader(
        &self,
        _partition: usize,
        file: PartitionedFile,
        _metadata_size_hint: Option<usize>,
        _metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let inquiry = file.extension::<Inquiry>().cloned();
        let inquiry = inquiry.ok_or_else(|| DataFusionError::Internal("a file that nobody asked about".to_owned()))?;
        let row_groups = file.extension::<RowGroups>().cloned();
        Ok(Box::new(NotingReader { inquiry, row_groups }))
    }
}

struct NotingReader {
    inquiry: Inquiry,
    row_groups: Option<RowGroups>,
}

impl AsyncFileReader for NotingReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        self.get_byte_ranges(vec![range]).map(|read| read.map(|_| Bytes::new())).boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        *self.inquiry.asked.lock() = Some(ranges);
        let stop = ParquetError::General("the plan is made, nothing is read".to_owned());
        futures::future::ready(Err(stop)).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        let footer = Arc::clone(&self.inquiry.footer);
        let footer = self.row_groups.as_ref().map_or_else(|| Ok(Arc::clone(&footer)), |shown| shown.of(footer.clone()));
        futures::future::ready(footer).boxed()
    }
}
