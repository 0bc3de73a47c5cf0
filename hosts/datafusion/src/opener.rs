//! Opens a chunk that is one whole row group.
//!
//! DataFusion's opener adapts, prunes and prepares a file anew for each chunk of it. Where it would
//! read whole columns of one row group, and nothing else, that is done here once for all chunks of
//! the file, and by DataFusion's own code: the filter that prunes, the expressions of the
//! projection in terms of the file's schema. Whether it is so is seen by the plan: the bytes that
//! were planned for the row group are those of the columns, and of no others. In any doubt
//! DataFusion opens the chunk.
//!
//! Rows may be deleted, as long as most are left: all are decoded then, and those that are left are
//! taken out of each batch.
//!
//! A filter that is evaluated while decoding (`pushdown_filters`) has its columns decoded first,
//! and those of the projection for the rows that it leaves. DataFusion's opener does so for a row
//! group in one turn; here others have theirs in between.
//!
//! Not here: row groups of which pages or most rows are left out, limits, Bloom filters, times of
//! 96 bits, row groups read for no column, deleted rows beneath a filter.
//!
//! Cost: a row group's pruning, one decoder, and a copy of the rows of which some are deleted; with
//! a filter a second decoder.

mod of_file;
mod rows_left;

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use datafusion::arrow::array::{BooleanBufferBuilder, RecordBatch};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{ParquetAccessPlan, RowGroupAccess};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileSource, ParquetSource};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_adapter::{DefaultPhysicalExprAdapterFactory, PhysicalExprAdapterFactory};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use pagecast::Relation;
use parking_lot::Mutex;
use parquet::DecodeResult;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection};
use parquet::arrow::push_decoder::ParquetPushDecoderBuilder;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use tokio::task::yield_now;

use self::of_file::{Columns, OfFile};
use self::rows_left::RowsLeft;
use crate::Host;
use crate::guard::Reading;
use crate::read_plan::{LeftWhole, filter_of_file};
use crate::reader::{ColumnBytes, Counts};
use crate::row_groups::RowGroups;
use crate::ticket::Ticket;

/// How long a filter is evaluated without giving way.
const TURN: Duration = Duration::from_millis(1);

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
    /// Of all files that are opened here.
    counts: OnceLock<Counts>,
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
        let options = source.table_parquet_options();
        let table = source.table_schema();
        let Some(projection) = source.projection().cloned() else { return Ok(None) };
        let by_rows = config.limit.is_some()
            || !table.virtual_columns().is_empty()
            || options.crypto.file_decryption.is_some()
            || options.crypto.factory_id.is_some()
            || projection.expr_iter().any(|expr| asks_for_the_file(&expr));
        if by_rows {
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
            counts: OnceLock::new(),
            last: Mutex::new(None),
        }))
    }

    /// The rows of `file`. Nothing if it is for DataFusion to open.
    pub(crate) async fn open(&self, file: &PartitionedFile) -> Result<Option<BoxStream<'static, Result<RecordBatch>>>> {
        let (Some((number, shown, rows)), Some(ticket)) = (row_group(file), file.extensions.get_arc::<Ticket>()) else {
            return Ok(None);
        };
        let relation = self.host.open(&self.config.object_store_url, &file.object_meta)?;
        let footer = self.host.footers.load(&relation).await?;
        let Some(row_group) = footer.row_groups().get(number) else { return Ok(None) };
        let Some(of_file) = self.of_file(&relation, file, &footer)? else { return Ok(None) };
        let (ranges, condition) = (of_file.columns.ranges(row_group), of_file.columns.condition.is_some());
        let is_planned = ticket.planned_whole().as_ref() == Some(&ranges);
        if ranges.is_empty() || !is_planned || self.is_pruned_by_bloom(row_group) || condition && !rows.are_all() {
            return Ok(None);
        }
        let left = match &of_file.filter {
            None => LeftWhole::default(),
            Some(filter) => match filter.leaves_whole(&footer, number, shown)? {
                Some(left) => left,
                None => return Ok(None),
            },
        };
        // As before any read: it begins by taking every page that is resident, and none of them
        // needs to stay for it.
        ticket.asked(&ranges);
        let data = of_file.bytes.read(&ranges, Some(&footer), ticket.scan()).await?;
        left.count(of_file.bytes.file_metrics());
        let row_group = RowGroup { number, ranges, data, batch_size: self.batch_size };
        if condition {
            return Ok(Some(passing(row_group, of_file, Arc::clone(&self.output))));
        }
        let decoder = row_group.decoder(&of_file.columns, &of_file.columns.mask, None)?;
        Ok(Some(projected(decoder, of_file, rows, Arc::clone(&self.output))))
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
        let while_decoding = self.source.table_parquet_options().global.pushdown_filters;
        let filter = self.source.filter().filter(|_| while_decoding).map(snapshot_physical_expr).transpose()?;
        let exprs = (self.projection.clone(), filter);
        let columns = Columns::new(file, footer, &self.source, exprs, self.adapters.as_ref());
        // What is wrong is said by DataFusion's opener.
        let Some(columns) = columns.ok().flatten() else { return Ok(None) };
        let filter = filter_of_file(&self.config, &self.source, file, footer)?;
        if filter.is_none() && self.source.filter().is_some() {
            return Ok(None);
        }
        let counts = self.counts.get_or_init(|| {
            let files = self.config.file_groups.iter().map(FileGroup::len).sum::<usize>();
            let named = file.object_meta.location.as_ref();
            Counts::new(if files > 1 { "all files" } else { named }, self.source.metrics(), self.partition)
        });
        let bytes = ColumnBytes::new(&self.host, relation.clone(), counts.clone(), self.partition, &self.reading);
        let made = Arc::new(OfFile::new(relation, file, &self.source, filter, (bytes, columns)));
        Ok(Some(Arc::clone(last.insert(made))))
    }

    /// Whether there are Bloom filters, by which only DataFusion's opener prunes.
    fn is_pruned_by_bloom(&self, row_group: &RowGroupMetaData) -> bool {
        self.source.filter().is_some()
            && self.source.table_parquet_options().global.bloom_filter_on_read
            && row_group.columns().iter().any(|column| column.bloom_filter_offset().is_some())
    }
}

/// A row group that was read.
struct RowGroup {
    number: usize,
    ranges: Vec<Range<u64>>,
    data: Vec<bytes::Bytes>,
    batch_size: usize,
}

impl RowGroup {
    /// Decodes some columns, of all rows or of some.
    fn decoder(
        &self,
        columns: &Columns,
        mask: &ProjectionMask,
        rows: Option<RowSelection>,
    ) -> Result<ParquetRecordBatchReader> {
        let mut decoder = ParquetPushDecoderBuilder::new_with_metadata(columns.metadata.clone())
            .with_projection(mask.clone())
            .with_row_groups(vec![self.number])
            .with_batch_size(self.batch_size);
        if let Some(rows) = rows {
            decoder = decoder.with_row_selection(rows);
        }
        let mut decoder = decoder.build()?;
        decoder.push_ranges(self.ranges.clone(), self.data.clone())?;
        match decoder.try_next_reader()? {
            DecodeResult::Data(reader) => Ok(reader),
            DecodeResult::NeedsData(_) | DecodeResult::Finished => {
                Err(DataFusionError::Internal("a row group needs more than its columns' bytes".to_owned()))
            }
        }
    }
}

/// What a scan gives of a row group.
type Batches = BoxStream<'static, Result<RecordBatch>>;

fn projected(
    decoder: ParquetRecordBatchReader,
    of_file: Arc<OfFile>,
    mut left: RowsLeft,
    output: SchemaRef,
) -> Batches {
    let mut project = move |batch| match left.take_out_of(&batch)? {
        Some(batch) => of_file.columns.project(&batch, &output).map(Some),
        None => Ok(None),
    };
    let batches = decoder.map(move |batch| Ok(batch?)).map(move |batch| batch.and_then(&mut project).transpose());
    stream::iter(batches.flatten()).boxed()
}

/// The same of the rows that the filter leaves.
fn passing(row_group: RowGroup, of_file: Arc<OfFile>, output: SchemaRef) -> Batches {
    let passing = async move {
        let columns = &of_file.columns;
        let rows = rows_passing(&row_group, columns).await?;
        if rows.count_set_bits() == 0 {
            return Ok(stream::empty().boxed());
        }
        let decoder = row_group.decoder(columns, &columns.mask, Some(RowSelection::from_boolean_buffer(rows)))?;
        Ok::<_, DataFusionError>(projected(decoder, of_file, RowsLeft::all(), output))
    };
    stream::once(passing).try_flatten().boxed()
}

/// Which rows of a row group the filter leaves. Others have their turn in between.
async fn rows_passing(row_group: &RowGroup, columns: &Columns) -> Result<BooleanBuffer> {
    let mut passing = BooleanBufferBuilder::new(0);
    let Some(condition) = &columns.condition else { return Ok(passing.finish()) };
    let mut begun = Instant::now();
    for batch in row_group.decoder(columns, &condition.mask, None)? {
        passing.append_buffer(&condition.leaves(&batch?)?);
        if begun.elapsed() > TURN {
            yield_now().await;
            begun = Instant::now();
        }
    }
    Ok(passing.finish())
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

/// The number of the row group that is opened, if it is one, and which of its rows are left: most.
fn row_group(file: &PartitionedFile) -> Option<(usize, &RowGroups, RowsLeft)> {
    let shown = file.extension::<RowGroups>()?;
    let [numbers] = &shown.0[..] else { return None };
    let [access] = file.extension::<ParquetAccessPlan>()?.inner() else { return None };
    let left = match access {
        RowGroupAccess::Scan => RowsLeft::all(),
        RowGroupAccess::Selection(rows) => RowsLeft::most(rows)?,
        RowGroupAccess::Skip => return None,
    };
    (numbers.len() == 1).then_some((numbers.start, shown, left))
}
