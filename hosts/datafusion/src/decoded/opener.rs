//! Opens a chunk by columns that are decoded once.
//!
//! DataFusion's opener has the last word on what is read of a chunk. Where it would decode whole
//! columns of one row group, and nothing else, the same columns are taken from [`Decoded`], and
//! what DataFusion does with a decoded batch is done here by its own code: the expressions of the
//! projection in terms of the file's schema. Whether it is so is seen by the plan: the bytes that
//! were planned for the row group are those of the columns, and of no others. In any doubt, and if
//! there is nothing to share, DataFusion opens the chunk.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{ParquetAccessPlan, RowGroupAccess};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_adapter::{DefaultPhysicalExprAdapterFactory, PhysicalExprAdapterFactory};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use pagecast::{Relation, ScanId};
use parking_lot::Mutex;
use parquet::DecodeResult;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReader};
use parquet::arrow::push_decoder::ParquetPushDecoderBuilder;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use super::column::{Column, Decoders, Fault, Opened};
use super::of_file::{Columns, OfFile};
use crate::guard::{Reading, catch};
use crate::read_plan::{LeftWhole, filter_of_file};
use crate::reader::ColumnBytes;
use crate::row_groups::RowGroups;
use crate::ticket::Ticket;
use crate::{Host, HostError};

/// What opens the chunks of a partition.
pub(crate) struct Opener {
    host: Arc<Host>,
    config: FileScanConfig,
    source: ParquetSource,
    adapters: Arc<dyn PhysicalExprAdapterFactory>,
    projection: ProjectionExprs,
    output: SchemaRef,
    partition: usize,
    batch_size: usize,
    reading: Arc<Reading>,
    /// The file that was opened last.
    last: Mutex<Option<Arc<OfFile>>>,
}

impl Opener {
    /// Nothing if what a scan of `config` makes of a row group is not its columns alone.
    pub(crate) fn new(
        host: &Arc<Host>,
        config: &FileScanConfig,
        source: &dyn FileSource,
        (partition, batch_size): (usize, usize),
        reading: &Arc<Reading>,
    ) -> Result<Option<Self>> {
        let Some(source) = source.downcast_ref::<ParquetSource>() else { return Ok(None) };
        let filter = source.filter();
        let options = source.table_parquet_options();
        let table = source.table_schema();
        let Some(projection) = source.projection().cloned() else { return Ok(None) };
        let by_rows = config.limit.is_some()
            || !table.virtual_columns().is_empty()
            || filter.is_some() && options.global.pushdown_filters
            || options.crypto.file_decryption.is_some()
            || options.crypto.factory_id.is_some()
            || projection.expr_iter().any(|expr| asks_for_the_file(&expr));
        if !host.options.share_decoding || by_rows {
            return Ok(None);
        }
        let adapters = config.expr_adapter_factory.clone();
        Ok(Some(Self {
            host: Arc::clone(host),
            config: config.clone(),
            source: source.clone(),
            adapters: adapters.unwrap_or_else(|| Arc::new(DefaultPhysicalExprAdapterFactory)),
            output: Arc::new(projection.project_schema(table.table_schema())?),
            projection,
            partition,
            batch_size,
            reading: Arc::clone(reading),
            last: Mutex::new(None),
        }))
    }

    /// The rows of `file`, if columns of it are shared. Nothing if it is for DataFusion to open.
    pub(crate) async fn open(&self, file: &PartitionedFile) -> Result<Option<BoxStream<'static, Result<RecordBatch>>>> {
        let (Some((number, shown)), Some(ticket)) = (whole_row_group(file), file.extensions.get_arc::<Ticket>()) else {
            return Ok(None);
        };
        let relation = self.host.open(&self.config.object_store_url, &file.object_meta)?;
        let footer = self.host.footers.load(&relation).await?;
        let row_group = footer.row_group(number);
        let Some(of_file) = self.of_file(&relation, file, &footer)? else { return Ok(None) };
        let (columns, ranges) = (&of_file.columns, of_file.columns.ranges(row_group));
        let is_planned = ticket.planned_whole() == Some(sorted(ranges.iter().flatten().cloned()));
        if ranges.is_empty() || !is_planned || self.is_pruned_by_bloom(row_group) {
            return Ok(None);
        }
        let left = match &of_file.filter {
            None => LeftWhole::default(),
            Some(filter) => match filter.leaves_whole(&footer, number, shown)? {
                Some(left) => left,
                None => return Ok(None),
            },
        };
        // What this scan wants is not a reason to keep it.
        ticket.asked(&ranges.concat());
        let bytes = (Arc::clone(&of_file.bytes), ticket.scan());
        let wanted = columns.wanted(&relation, (number, row_group), &ranges, self.batch_size);
        let decoder = Decoder { metadata: columns.metadata.clone(), row_group: number, batch_size: self.batch_size };
        let open = |made: &[usize]| {
            let columns = made.iter().map(|&column| (vec![columns.roots[column]], ranges[column].clone())).collect();
            opened(bytes.clone(), decoder.clone(), columns)
        };
        let found = self.host.decoded.take(&wanted, open);
        if found.iter().all(Option::is_none) {
            return Ok(None);
        }
        // Nobody finds what is given up here before its bytes have come.
        let shared = Opening { host: &self.host, columns: found.iter().flatten().cloned().collect() };
        let alone: Vec<_> = (0..found.len()).filter(|&column| found[column].is_none()).collect();
        let mut own = None;
        if !alone.is_empty() {
            let roots = alone.iter().map(|&column| columns.roots[column]).collect();
            let ranges = alone.iter().flat_map(|&column| ranges[column].clone()).collect();
            let Ok(decoders) = opened(bytes, decoder, vec![(roots, ranges)]).await else { return Ok(None) };
            own = decoders[0].lock().take();
        }
        for column in &shared.columns {
            // It may have failed for who asked first. Who opens the chunk by itself is told.
            if column.open().await.is_err() {
                return Ok(None);
            }
        }
        drop(shared);
        left.count(of_file.bytes.file_metrics());
        Ok(Some(self.rows(Rows { found, own, next: 0, of_file, relation, host: Arc::clone(&self.host) })))
    }

    /// The same for one chunk of a file after the other, as long as the filter stays as it is.
    /// Nothing if the file is for DataFusion to open.
    fn of_file(
        &self,
        relation: &Relation,
        file: &PartitionedFile,
        footer: &Arc<ParquetMetaData>,
    ) -> Result<Option<Arc<OfFile>>> {
        let mut last = self.last.lock();
        if let Some(known) = last.as_ref().filter(|known| known.is(relation, file, &self.source)) {
            return Ok(Some(Arc::clone(known)));
        }
        let columns = Columns::new(file, footer, &self.source, self.projection.clone(), self.adapters.as_ref());
        // What is wrong is said by DataFusion's opener.
        let Some(columns) = columns.ok().flatten() else { return Ok(None) };
        let filter = filter_of_file(&self.config, &self.source, file, footer)?;
        if filter.is_none() && self.source.filter().is_some() {
            return Ok(None);
        }
        let metrics = (self.source.metrics(), self.partition);
        let bytes = ColumnBytes::new(&self.host, relation.clone(), &file.object_meta.location, metrics, &self.reading);
        let made = Arc::new(OfFile::new(relation, file, &self.source, filter, (bytes, columns)));
        Ok(Some(Arc::clone(last.insert(made))))
    }

    /// Whether there are Bloom filters, by which only DataFusion's opener prunes.
    fn is_pruned_by_bloom(&self, row_group: &RowGroupMetaData) -> bool {
        self.source.filter().is_some()
            && self.source.table_parquet_options().global.bloom_filter_on_read
            && row_group.columns().iter().any(|column| column.bloom_filter_offset().is_some())
    }

    fn rows(&self, rows: Rows) -> BoxStream<'static, Result<RecordBatch>> {
        let output = Arc::clone(&self.output);
        stream::try_unfold(rows, move |mut rows| {
            let output = Arc::clone(&output);
            async move { Ok(rows.next(&output)?.map(|batch| (batch, rows))) }
        })
        .boxed()
    }
}

/// Whether an expression tells of the file that a row is in: DataFusion's opener answers it.
fn asks_for_the_file(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut asks = false;
    let _ = expr.apply(|node| {
        let function = node.downcast_ref::<ScalarFunctionExpr>();
        asks |= function.is_some_and(|function| function.name() == "input_file_name");
        Ok(TreeNodeRecursion::Continue)
    });
    asks
}

/// The number of the row group that is opened, if it is one, of which all rows are read.
fn whole_row_group(file: &PartitionedFile) -> Option<(usize, &RowGroups)> {
    let shown = file.extension::<RowGroups>()?;
    let [numbers] = &shown.0[..] else { return None };
    let access = file.extension::<ParquetAccessPlan>()?;
    (numbers.len() == 1 && access.inner() == [RowGroupAccess::Scan]).then_some((numbers.start, shown))
}

fn sorted(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut ranges: Vec<_> = ranges.collect();
    ranges.sort_unstable_by_key(|range| range.start);
    ranges
}

/// Makes decoders of columns of a row group.
#[derive(Clone)]
struct Decoder {
    metadata: ArrowReaderMetadata,
    row_group: usize,
    batch_size: usize,
}

impl Decoder {
    fn over(
        &self,
        roots: Vec<usize>,
        ranges: Vec<Range<u64>>,
        data: Vec<bytes::Bytes>,
    ) -> Result<ParquetRecordBatchReader> {
        let mut decoder = ParquetPushDecoderBuilder::new_with_metadata(self.metadata.clone())
            .with_projection(ProjectionMask::roots(self.metadata.parquet_schema(), roots))
            .with_row_groups(vec![self.row_group])
            .with_batch_size(self.batch_size)
            .build()?;
        decoder.push_ranges(ranges, data)?;
        match decoder.try_next_reader()? {
            DecodeResult::Data(reader) => Ok(reader),
            DecodeResult::NeedsData(_) | DecodeResult::Finished => {
                Err(DataFusionError::Internal("a column needs more than its bytes".to_owned()))
            }
        }
    }
}

/// Reads the bytes of all `columns` at once, and makes a decoder for each.
fn opened(
    (bytes, scan): (Arc<ColumnBytes>, Option<ScanId>),
    decoder: Decoder,
    columns: Vec<(Vec<usize>, Vec<Range<u64>>)>,
) -> Opened {
    let open = async move {
        let ranges: Vec<_> = columns.iter().flat_map(|(_, ranges)| ranges.clone()).collect();
        let mut data = bytes.read(&ranges, scan).await.map_err(DataFusionError::External)?.into_iter();
        let decoders = columns.into_iter().map(|(roots, ranges)| {
            let data = data.by_ref().take(ranges.len()).collect();
            let decoder = catch(|| decoder.over(roots, ranges, data)).map_err(DataFusionError::Execution)?;
            decoder.map(|decoder| Mutex::new(Some(decoder)))
        });
        decoders.collect::<Result<Decoders>>()
    };
    open.map(|decoders| decoders.map_err(Arc::new)).boxed().shared()
}

/// Columns whose bytes are awaited.
struct Opening<'a> {
    host: &'a Host,
    columns: Vec<Arc<Column>>,
}

impl Drop for Opening<'_> {
    /// A read that nobody drives may hold pages.
    fn drop(&mut self) {
        self.host.decoded.forget(self.columns.iter().filter(|column| !column.has_begun()));
    }
}

/// Where a reader is in a row group.
struct Rows {
    /// The columns that are shared.
    found: Vec<Option<Arc<Column>>>,
    /// The decoder of the others, in their order.
    own: Option<ParquetRecordBatchReader>,
    next: usize,
    of_file: Arc<OfFile>,
    relation: Relation,
    host: Arc<Host>,
}

impl Rows {
    fn next(&mut self, output: &SchemaRef) -> Result<Option<RecordBatch>> {
        let number = self.next;
        self.next += 1;
        let own = self.own.as_mut().map(|own| own.next().transpose()).transpose()?;
        let mut own = match own {
            Some(None) => return Ok(None),
            Some(Some(batch)) => batch.columns().to_vec(),
            None => Vec::new(),
        }
        .into_iter();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.found.len());
        for column in &self.found {
            let array = match column {
                None => own.next(),
                Some(column) => column.batch(number).map_err(|fault| self.failed(column, fault))?,
            };
            let Some(array) = array else { return Ok(None) };
            arrays.push(array);
        }
        let decoded = RecordBatch::try_new(Arc::clone(&self.of_file.columns.decoded), arrays)?;
        let projected = self.of_file.columns.projector.project_batch(&decoded)?;
        if self.of_file.columns.projector.output_schema() == output {
            return Ok(Some(projected));
        }
        let (_, arrays, rows) = projected.into_parts();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(output), arrays, &options)?))
    }

    /// Nobody else is to find a column whose decoder has failed.
    fn failed(&self, column: &Arc<Column>, fault: Fault) -> DataFusionError {
        self.host.decoded.forget([column].into_iter());
        match fault {
            Fault::Error(error) => error,
            Fault::Panic(what) => HostError::Decoder { path: self.relation.path().to_owned(), what }.into(),
        }
    }
}
