//! Exactly which bytes a scan will read, row group by row group, before it reads any.
//!
//! What a Parquet scan reads is decided inside DataFusion's opener, file by file, when it is too
//! late for a pool: pruning by statistics and page index, the columns (down to the leaves of a
//! nested one) and the rows that are left. The plan takes these steps by DataFusion's own code: its
//! pruning of whole files before a footer is read, of all row groups and pages of a file at once
//! ([`prune`]), and its opener and decoder for what is left ([`probe`]). Whatever a later
//! DataFusion prunes or reads is then planned as it will be read.
//!
//! Two things are known only while reading, and both can only shrink what was planned: filters that
//! are evaluated while decoding (`pushdown_filters`; planned here as if every selected row passed,
//! with the columns of the filter), and dynamic filters that tighten after the plan was made. Bloom
//! filters are not read for the plan, so that it costs no I/O beyond footers; row groups that they
//! prune are planned and released unread.
//!
//! Cost: pruning and one opening without I/O per file, about what DataFusion itself spends on it,
//! and a question to the decoder per row group that is left. Without a filter, files of one schema
//! are opened once.

mod probe;
mod prune;

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::BooleanBufferBuilder;
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{
    ParquetAccessPlan, ParquetRowSelection, RowGroupAccess, RowGroupAccessPlanFilter,
};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, ParquetSource};
use datafusion::execution::TaskContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::{StreamExt, TryStreamExt, stream};
use pagecast::forecast::Query;
use pagecast::{Pool, Relation, Share};
use parquet::arrow::arrow_reader::RowSelection;
use parquet::file::metadata::ParquetMetaData;

use self::probe::{Asked, Columns, Probe};
use self::prune::Pruner;
pub(crate) use self::prune::{FileFilter, LeftWhole, schema_read};
use crate::guard::catch_in;
use crate::row_groups::RowGroups;
use crate::{Host, HostError};

/// No file has so many rows, but a footer can say that it has.
const MOST_ROWS: usize = 1 << 34;
/// Footers that are read at the same time.
const FOOTERS: usize = 16;

/// One row group that survived pruning.
#[derive(Debug)]
pub(crate) struct PlannedRowGroup {
    /// Its number in its file.
    pub(crate) number: usize,
    /// The rows of it that the scan's own access plan names.
    access: RowGroupAccess,
    /// Rows of the whole row group, pruned pages included: its length on the scan's axis.
    pub(crate) rows: u64,
    /// The byte ranges to be read, as the decoder will ask for them.
    pub(crate) bytes: Vec<Range<u64>>,
}

/// A file of the scan, or a range of one.
#[derive(Debug)]
pub(crate) struct PlannedFile {
    /// As the scan names it.
    pub(crate) file: PartitionedFile,
    /// The generation of the file that was planned.
    pub(crate) relation: Relation,
    /// Its footer.
    pub(crate) footer: Arc<ParquetMetaData>,
    /// Whether the scan wants the numbers that rows have in the file.
    counts_rows: bool,
    /// What is left, in the order of the file.
    pub(crate) row_groups: Vec<PlannedRowGroup>,
}

impl PlannedFile {
    /// The file, to be opened for some of its row groups, which are in its order.
    pub(crate) fn with(&self, row_groups: &[PlannedRowGroup]) -> PartitionedFile {
        let (mut shown, mut access, mut next) = (Vec::new(), Vec::new(), 0);
        for row_group in row_groups {
            if self.counts_rows && next < row_group.number {
                shown.push(next..row_group.number);
                access.push(RowGroupAccess::Skip);
            }
            next = row_group.number + 1;
            shown.push(row_group.number..next);
            access.push(row_group.access.clone());
        }
        PartitionedFile { range: None, ..self.file.clone() }
            .with_extension(RowGroups(shown.into()))
            .with_extension(ParquetAccessPlan::new(access))
    }
}

/// What a scan will read.
#[derive(Debug)]
pub(crate) struct ReadPlan {
    /// In the order of the scan.
    pub(crate) files: Vec<PlannedFile>,
    /// What it loads counts against this share of the pool.
    pub(crate) share: Option<Arc<Share>>,
    /// What it is a run of, if the pool is to learn when that comes back.
    pub(crate) query: Option<Query>,
}

impl ReadPlan {
    /// All row groups, each with the file that it is in.
    pub(crate) fn row_groups(&self) -> impl Iterator<Item = (&Relation, &PlannedRowGroup)> {
        self.files.iter().flat_map(|file| file.row_groups.iter().map(|row_group| (&file.relation, row_group)))
    }

    /// Bytes of all row groups.
    pub(crate) fn bytes(&self) -> u64 {
        self.row_groups().map(|(_, row_group)| total(&row_group.bytes)).sum()
    }

    /// Of these, those in pages that are in memory at this moment.
    pub(crate) fn bytes_in_memory(&self, pool: &Pool) -> u64 {
        let size = u64::from(pool.page_size());
        let ranges =
            self.row_groups().flat_map(|(relation, row_group)| row_group.bytes.iter().map(move |of| (relation, of)));
        let pages = ranges.flat_map(|(relation, range)| {
            let pages = range.start / size..range.end.div_ceil(size);
            pages.map(move |page| (relation, page, range.end.min((page + 1) * size) - range.start.max(page * size)))
        });
        pages.filter(|(relation, page, _)| pool.has(relation.page(*page as u32))).map(|(.., bytes)| bytes).sum()
    }
}

/// Bytes in these ranges.
pub(crate) fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Plans what the scan will read, and counts what it leaves out in `metrics`. Reads footers that
/// were not read yet, and nothing else.
pub(crate) async fn plan_reads(
    config: &FileScanConfig,
    host: &Arc<Host>,
    context: &Arc<TaskContext>,
    metrics: &ExecutionPlanMetricsSet,
) -> Result<ReadPlan> {
    let source = config.file_source();
    let counts_rows = !source.table_schema().virtual_columns().is_empty();
    let source = source
        .downcast_ref::<ParquetSource>()
        .ok_or_else(|| DataFusionError::Internal(format!("in-order delivery of a {} source", source.file_type())))?;
    let pruner = Pruner::new(config, source, metrics);
    let mut probe = Probe::new(config, source, context);
    let mut files = Vec::new();
    for file in config.file_groups.iter().flat_map(FileGroup::iter) {
        if !pruner.leaves_nothing(file)? {
            files.push(file.clone());
        }
    }
    let mut opened =
        stream::iter(files.into_iter().map(|file| open(host, &config.object_store_url, file))).buffered(FOOTERS);
    let query = host.recurring.query_of(config, source, &host.pool, context.session_config().options());
    let mut plan = ReadPlan { files: Vec::new(), share: context.session_config().get_extension(), query };
    while let Some((file, relation, footer)) = opened.try_next().await? {
        let mut planned = PlannedFile { file, relation, footer, counts_rows, row_groups: Vec::new() };
        let planning = async {
            let footer = Arc::clone(&planned.footer);
            let access = wanted(&mut planned.file, &footer)?;
            // One row group is pruned by the opener alone, which is asked about it anyway.
            let several = access.row_group_index_iter().nth(1).is_some();
            let left = if several { pruner.prune(&planned.file, &footer, access.clone())? } else { access.clone() };
            ask(&mut planned, &footer, access, left, &mut probe, config.limit).await
        };
        let result = catch_in(planning).await;
        result.map_err(|what| HostError::Decoder { path: planned.relation.path().to_owned(), what })??;
        plan.files.push(planned);
    }
    Ok(plan)
}

/// Which of these row groups of a file that was planned the scan's filter leaves now, by their
/// statistics.
pub(crate) fn left_now(
    config: &FileScanConfig,
    file: &PlannedFile,
    row_groups: impl Iterator<Item = usize>,
) -> Result<ParquetAccessPlan> {
    let mut wanted = ParquetAccessPlan::new_none(file.footer.num_row_groups());
    row_groups.for_each(|number| wanted.scan(number));
    let Some(source) = config.file_source().downcast_ref::<ParquetSource>() else { return Ok(wanted) };
    Pruner::new(config, source, &ExecutionPlanMetricsSet::new()).left_by_statistics(&file.file, &file.footer, wanted)
}

/// The scan's filter as it is now, for the row groups of a file; nothing if only DataFusion's
/// opener can adapt it.
pub(crate) fn filter_of_file(
    config: &FileScanConfig,
    source: &ParquetSource,
    file: &PartitionedFile,
    footer: &Arc<ParquetMetaData>,
) -> Result<Option<FileFilter>> {
    Pruner::new(config, source, &ExecutionPlanMetricsSet::new()).of_file(file, footer)
}

/// The row groups of `file` that the scan names, and its filter leaves by their statistics.
pub(crate) fn row_groups_left(
    config: &FileScanConfig,
    file: &mut PartitionedFile,
    footer: &Arc<ParquetMetaData>,
) -> Result<ParquetAccessPlan> {
    let access = wanted(file, footer)?;
    let Some(source) = config.file_source().downcast_ref::<ParquetSource>() else { return Ok(access) };
    Pruner::new(config, source, &ExecutionPlanMetricsSet::new()).left_by_statistics(file, footer, access)
}

/// Finds the generation of `file` that was listed, and its footer.
async fn open(
    host: &Host,
    url: &ObjectStoreUrl,
    file: PartitionedFile,
) -> Result<(PartitionedFile, Relation, Arc<ParquetMetaData>)> {
    let relation = host.open(url, &file.object_meta)?;
    let footer = host.footers.load(&relation).await?;
    Ok((file, relation, footer))
}

/// The row groups and rows that the scan names of the file, before pruning.
fn wanted(file: &mut PartitionedFile, footer: &ParquetMetaData) -> Result<ParquetAccessPlan> {
    let row_groups = footer.row_groups();
    let access = match (file.extension::<ParquetAccessPlan>(), file.extension::<ParquetRowSelection>()) {
        (Some(access), _) => access.clone(),
        (None, Some(rows)) => {
            let access = of_rows(file, rows, footer)?;
            // Each part of the file gets its share as an access plan, and DataFusion takes only one
            // of the two.
            std::mem::take(&mut file.extensions);
            access
        }
        (None, None) => ParquetAccessPlan::new_all(row_groups.len()),
    };
    if access.len() != row_groups.len() {
        return Err(DataFusionError::Execution(format!(
            "{}: the access plan has {} row groups, but the file has {}",
            file.object_meta.location,
            access.len(),
            row_groups.len()
        )));
    }
    let mut in_range = RowGroupAccessPlanFilter::new(access);
    if let Some(range) = &file.range {
        in_range.prune_by_range(row_groups, range);
    }
    Ok(in_range.build())
}

/// Rows of the whole file as rows of its row groups: a bit for each, whatever stretches they form.
fn of_rows(file: &PartitionedFile, rows: &ParquetRowSelection, footer: &ParquetMetaData) -> Result<ParquetAccessPlan> {
    let lengths = || footer.row_groups().iter().map(|row_group| row_group.num_rows().max(0) as usize);
    let stored = lengths().fold(0, usize::saturating_add);
    let named = rows.selection().row_count().saturating_add(rows.selection().skipped_row_count());
    if stored != named || stored > MOST_ROWS {
        let file = &file.object_meta.location;
        return exec_err!("/{file}: the file has {stored} rows, and the selection of rows specifies {named} rows");
    }
    let (mask, mut first) = (mask_of(rows.selection()), 0);
    let access = lengths().map(|length| {
        let left = mask.slice(first, length);
        first += length;
        match left.count_set_bits() {
            0 => RowGroupAccess::Skip,
            all if all == length => RowGroupAccess::Scan,
            _ => RowGroupAccess::Selection(RowSelection::from_boolean_buffer(left)),
        }
    });
    Ok(ParquetAccessPlan::new(access.collect()))
}

fn mask_of(rows: &RowSelection) -> BooleanBuffer {
    if let Some(mask) = rows.as_mask() {
        return mask.clone();
    }
    let mut mask = BooleanBufferBuilder::new(rows.row_count() + rows.skipped_row_count());
    rows.iter().for_each(|stretch| mask.append_n(stretch.row_count, !stretch.skip));
    mask.finish()
}

/// Adds the row groups that are left to `planned`, with what is read of them.
async fn ask(
    planned: &mut PlannedFile,
    footer: &Arc<ParquetMetaData>,
    wanted: ParquetAccessPlan,
    left: ParquetAccessPlan,
    probe: &mut Probe<'_>,
    limit: Option<usize>,
) -> Result<()> {
    let mut columns = probe.columns(footer)?;
    let entries = wanted.into_inner().into_iter().zip(left.into_inner()).enumerate();
    for (number, (access, mut left)) in entries.filter(|(_, (_, left))| left.should_scan()) {
        let rows = footer.row_group(number).num_rows().max(0) as u64;
        // The same bytes, and asking costs less.
        if limit.is_none() && reads_all_pages(&left, footer, number) {
            left = RowGroupAccess::Scan;
        }
        let mut row_group = PlannedRowGroup { number, access: left, rows, bytes: Vec::new() };
        let asked = match &columns {
            Some(columns) => columns.ask(number, &row_group.access)?,
            None => probe.ask(planned.with(std::slice::from_ref(&row_group)), footer).await?,
        };
        // What only the opener prunes has its part as the scan names it.
        row_group.access = access;
        // It stays in the plan, without length, and is pruned and counted when it is opened.
        let opened = !matches!(asked, Asked::Nothing);
        if !opened {
            row_group.rows = 0;
        }
        if let Asked::Bytes(bytes) = asked {
            row_group.bytes = bytes;
        }
        if opened && columns.is_none() {
            columns = Some(Columns::of(&row_group.bytes, footer.row_group(number), footer, limit)?);
        }
        planned.row_groups.push(row_group);
    }
    probe.found(columns);
    Ok(())
}

/// Whether each page of a row group has a row that is left, as far as the file's index says where
/// pages begin.
fn reads_all_pages(left: &RowGroupAccess, footer: &ParquetMetaData, number: usize) -> bool {
    let RowGroupAccess::Selection(rows) = left else { return false };
    let (Some(mask), Some(index)) = (rows.as_mask(), footer.offset_index().and_then(|index| index.get(number))) else {
        return false;
    };
    index.iter().all(|column| {
        let firsts = column.page_locations().iter().map(|page| page.first_row_index);
        let ends = firsts.clone().skip(1).chain([mask.len() as i64]);
        firsts.zip(ends).all(|(first, end)| match (usize::try_from(first), usize::try_from(end)) {
            (Ok(first), Ok(end)) if first < end && end <= mask.len() => mask.slice(first, end - first).has_true(),
            _ => false,
        })
    })
}

#[cfg(test)]
mod tests;
