//! Exactly which bytes a scan will read, row group by row group, before it reads any.
//!
//! What a Parquet scan reads is decided inside DataFusion's opener, file by file, when it is too late for a pool:
//! pruning by statistics and page index, the columns (down to the leaves of a nested one) and the rows that are left.
//! Instead of doing these steps a second time in another way, each row group is opened here by that same opener, over
//! a reader that serves footers, notes the byte ranges it is asked for, and stops. Whatever a later DataFusion prunes
//! or reads is then planned as it will be read.
//!
//! Two things are known only while reading, and both can only shrink what was planned: filters that are evaluated
//! while decoding (`pushdown_filters`; planned here as if every selected row passed, with the columns of the filter),
//! and dynamic filters that tighten after the plan was made. Bloom filters are not read for the plan, so that it costs
//! no I/O beyond footers; row groups that they prune are planned and released unread.
//!
//! Cost: one opening without I/O per row group, about what DataFusion itself spends to open it.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{
    ParquetAccessPlan, ParquetFileReaderFactory, RowGroupAccess, RowGroupAccessPlanFilter,
};
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
use pagecast::Relation;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

use crate::Host;

/// One row group that survived pruning.
#[derive(Debug)]
pub(crate) struct PlannedRowGroup {
    /// The file, with an access plan for this row group alone.
    pub(crate) file: PartitionedFile,
    /// The generation of the file that was planned.
    pub(crate) relation: Arc<Relation>,
    /// Rows of the whole row group, pruned pages included: its length on the scan's axis.
    pub(crate) rows: u64,
    /// The byte ranges to be read, as the decoder will ask for them.
    pub(crate) bytes: Vec<Range<u64>>,
}

/// What a scan will read.
#[derive(Debug)]
pub(crate) struct ReadPlan {
    /// In the order of the scan's files and of the row groups in them.
    pub(crate) row_groups: Vec<PlannedRowGroup>,
    /// How many others were pruned.
    pub(crate) pruned: usize,
}

impl ReadPlan {
    /// Bytes of all row groups.
    pub(crate) fn bytes(&self) -> u64 {
        self.row_groups.iter().map(|row_group| total(&row_group.bytes)).sum()
    }
}

/// Bytes in these ranges.
pub(crate) fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Plans what the scan will read. Reads footers that were not read yet, and nothing else.
pub(crate) async fn plan_reads(
    config: &FileScanConfig,
    host: &Arc<Host>,
    context: &Arc<TaskContext>,
) -> Result<ReadPlan> {
    let candidates = candidates(config, host).await?;
    let inquiries: Vec<Inquiry> = candidates.iter().map(|_| Inquiry::default()).collect();
    let groups = candidates
        .iter()
        .zip(&inquiries)
        .map(|(candidate, inquiry)| FileGroup::new(vec![candidate.file.clone().with_extension(inquiry.clone())]));
    let probe = FileScanConfigBuilder::from(config.clone())
        .with_source(probing_source(config, host)?)
        .with_file_groups(groups.collect())
        .build();
    let (mut row_groups, mut pruned) = (Vec::with_capacity(candidates.len()), 0);
    for (index, (candidate, inquiry)) in candidates.into_iter().zip(&inquiries).enumerate() {
        let first = probe.open(index, Arc::clone(context))?.next().await;
        match (inquiry.0.lock().take(), first) {
            (Some(bytes), _) => row_groups.push(PlannedRowGroup { bytes, ..candidate }),
            // Rows without bytes: only their number is wanted, and the footer has it.
            (None, Some(Ok(_))) => row_groups.push(candidate),
            (None, Some(Err(error))) => return Err(error),
            (None, None) => pruned += 1,
        }
    }
    Ok(ReadPlan { row_groups, pruned })
}

/// Every row group that the scan's files and byte ranges name, before pruning.
async fn candidates(config: &FileScanConfig, host: &Arc<Host>) -> Result<Vec<PlannedRowGroup>> {
    let mut candidates = Vec::new();
    for file in config.file_groups.iter().flat_map(FileGroup::iter) {
        let relation = host.open(file)?;
        let footer = host.footers.load(&relation).await?;
        let row_groups = footer.row_groups();
        let access = file.extension::<ParquetAccessPlan>().cloned();
        let access = access.unwrap_or_else(|| ParquetAccessPlan::new_all(row_groups.len()));
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
        for (index, access) in in_range.build().into_inner().into_iter().enumerate() {
            if access == RowGroupAccess::Skip {
                continue;
            }
            let mut alone = ParquetAccessPlan::new_none(row_groups.len());
            alone.set(index, access);
            candidates.push(PlannedRowGroup {
                file: PartitionedFile { range: None, ..file.clone() }.with_extension(alone),
                relation: Arc::clone(&relation),
                rows: row_groups[index].num_rows().max(0) as u64,
                bytes: Vec::new(),
            });
        }
    }
    Ok(candidates)
}

/// The scan's source over the noting reader: same pruning, same columns, but decoding asks for all of them at once,
/// and what it counts does not reach the scan's metrics.
fn probing_source(config: &FileScanConfig, host: &Arc<Host>) -> Result<Arc<dyn FileSource>> {
    let source = config.file_source();
    let parquet = source
        .downcast_ref::<ParquetSource>()
        .ok_or_else(|| DataFusionError::Internal(format!("in-order delivery of a {} source", source.file_type())))?;
    let options = parquet.table_parquet_options().clone();
    let while_decoding = options.global.pushdown_filters;
    let mut probe = ParquetSource::new(parquet.table_schema().clone())
        .with_table_parquet_options(options)
        .with_pushdown_filters(false)
        .with_bloom_filter_on_read(false)
        .with_parquet_file_reader_factory(Arc::new(Probe { host: Arc::clone(host) }));
    let mut columns: Vec<ProjectionExpr> = parquet.projection().map_or_else(Vec::new, |p| p.as_ref().to_vec());
    if let Some(filter) = parquet.filter() {
        if while_decoding {
            let of_filter = collect_columns(&filter).into_iter().enumerate();
            columns.extend(of_filter.map(|(i, c)| ProjectionExpr::new(Arc::new(c), format!("of filter {i}"))));
        }
        probe = probe.with_predicate(filter);
    }
    let projected = probe.try_pushdown_projection(&ProjectionExprs::new(columns))?;
    Ok(projected.unwrap_or_else(|| Arc::new(probe)))
}

/// What the opener asked for; nothing if it never got as far as data. Rides on the file that is opened.
#[derive(Clone, Debug, Default)]
struct Inquiry(Arc<Mutex<Option<Vec<Range<u64>>>>>);

/// Makes readers that note and stop.
#[derive(Debug)]
struct Probe {
    host: Arc<Host>,
}

impl ParquetFileReaderFactory for Probe {
    fn create_reader(
        &self,
        _partition: usize,
        file: PartitionedFile,
        _metadata_size_hint: Option<usize>,
        _metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let relation = self.host.open(&file)?;
        let inquiry = file.extension::<Inquiry>().cloned().unwrap_or_default();
        Ok(Box::new(NotingReader { host: Arc::clone(&self.host), relation, inquiry }))
    }
}

struct NotingReader {
    host: Arc<Host>,
    relation: Arc<Relation>,
    inquiry: Inquiry,
}

impl AsyncFileReader for NotingReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        self.get_byte_ranges(vec![range]).map(|read| read.map(|_| Bytes::new())).boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        *self.inquiry.0.lock() = Some(ranges);
        let stop = ParquetError::General("the plan is made, nothing is read".to_owned());
        futures::future::ready(Err(stop)).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        async { Ok(self.host.footers.load(&self.relation).await?) }.boxed()
    }
}

#[cfg(test)]
mod tests;
