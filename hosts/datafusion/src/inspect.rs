//! Looking at scans from outside: what the scans of a plan would read, and where the running ones
//! stand.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use datafusion::common::Result;
use datafusion::datasource::physical_plan::{FileScanConfig, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use pagecast::{PageId, Relation};

use crate::Host;
use crate::chunks::Chunks;
use crate::metrics::BYTES_READ;
use crate::read_plan::{PlannedRowGroup, plan_reads};
use crate::scan_place::ScanPlace;
use crate::source::PoolScan;

/// What the scans of a plan will read of one row group, after pruning.
#[derive(Clone, Debug)]
pub struct PlannedRead {
    /// The file.
    pub path: PathBuf,
    /// Bytes of column chunks or, where pages were pruned, of parts of them.
    pub bytes: Vec<Range<u64>>,
}

/// Bytes that storage brought on behalf of an executed plan, footers left out: what its scans read
/// for themselves, and what was loaded for them. Sums over all plans are the pool's own count.
pub fn bytes_read(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name(BYTES_READ)).map_or(0, |bytes| bytes.as_usize());
    own as u64 + plan.children().into_iter().map(bytes_read).sum::<u64>()
}

/// Has the scans of a plan show in `EXPLAIN` what an execution would read now, how much of that is
/// in memory, and how it would be delivered. Reads footers that were not read yet.
///
/// # Errors
///
/// A file cannot be read, or is no longer the one that was planned.
pub async fn expect(plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<()> {
    let mut nodes = vec![plan];
    while let Some(node) = nodes.pop() {
        nodes.extend(node.children());
        let source = node.downcast_ref::<DataSourceExec>().map(DataSourceExec::data_source);
        if let Some(scan) = source.and_then(|source| source.downcast_ref::<PoolScan>()) {
            scan.expect(context).await?;
        }
    }
    Ok(())
}

impl Host {
    /// The reads that an execution of `plan` would make of Parquet files, duplicates
    /// included; nothing is executed. `plan` was made by a session that this host is installed in.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or is no longer the one that was planned.
    pub async fn planned_reads(
        self: &Arc<Self>,
        plan: &Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<PlannedRead>> {
        let (mut reads, mut nodes) = (Vec::new(), vec![plan]);
        while let Some(node) = nodes.pop() {
            nodes.extend(node.children());
            let Some(source) = node.downcast_ref::<DataSourceExec>().map(DataSourceExec::data_source) else { continue };
            let pooled = source.downcast_ref::<PoolScan>().map(PoolScan::config);
            let Some(config) = pooled.or_else(|| source.downcast_ref::<FileScanConfig>()) else { continue };
            if config.file_source().is::<ParquetSource>() {
                let plan = plan_reads(config, self, context, &ExecutionPlanMetricsSet::new()).await?;
                let read = |(relation, group): (&Relation, &PlannedRowGroup)| PlannedRead {
                    path: relation.path().into(),
                    bytes: group.bytes.clone(),
                };
                reads.extend(plan.row_groups().map(read));
            }
        }
        Ok(reads)
    }

    /// Where every registered scan of this host stands.
    pub fn scans(&self) -> Vec<ScanPlace> {
        self.running().iter().filter_map(|chunks| chunks.place()).collect()
    }

    /// How many bytes exactly one running scan still needs, how many exactly two need, and so on;
    /// the last says how many five or more need. What a page holds counts whole.
    pub fn sharing(&self) -> [u64; 5] {
        let mut wanted: HashMap<PageId, usize> = HashMap::new();
        for chunks in self.running() {
            let mut of_scan = HashSet::new();
            chunks.needs(&mut |page| _ = of_scan.insert(page));
            of_scan.into_iter().for_each(|page| *wanted.entry(page).or_default() += 1);
        }
        let mut bytes = [0; 5];
        for scans in wanted.into_values() {
            bytes[scans.clamp(1, 5) - 1] += u64::from(self.pool.page_size());
        }
        bytes
    }

    fn running(&self) -> Vec<Arc<Chunks>> {
        let mut running = self.running.lock();
        running.retain(|chunks| chunks.strong_count() > 0);
        // Upgraded ones may turn out to be the last; they must not be dropped under this lock.
        running.iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn watch(&self, chunks: &Arc<Chunks>) {
        let mut running = self.running.lock();
        running.retain(|chunks| chunks.strong_count() > 0);
        running.push(Arc::downgrade(chunks));
    }
}
