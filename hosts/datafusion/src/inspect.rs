//! Looking at scans from outside: what the scans of a plan would read, and where the running ones
//! stand.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use datafusion::common::Result;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use pagecast::{Relation, ScanId};

use crate::Host;
use crate::progress::Progress;
use crate::read_plan::{PlannedRowGroup, plan_reads};
use crate::source::PoolScan;

/// What the scans of a plan will read of one row group, after pruning.
#[derive(Clone, Debug)]
pub struct PlannedRead {
    /// The file.
    pub path: PathBuf,
    /// Bytes of column chunks or, where pages were pruned, of parts of them.
    pub bytes: Vec<Range<u64>>,
}

/// Where a running scan stands.
#[derive(Clone, Debug)]
pub struct ScanPlace {
    /// The scan's name in the pool.
    pub scan: ScanId,
    /// The file that it reads.
    pub path: PathBuf,
    /// The first byte that it has yet to read there, rounded down to a page.
    pub offset: u64,
    /// The size of the file.
    pub file_bytes: u64,
}

impl Host {
    /// The reads that an execution of `plan` would make of local Parquet files, duplicates
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
            if crate::rule::is_local(config) {
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
        let mut running = self.running.lock();
        running.retain(|progress| progress.strong_count() > 0);
        // Upgraded ones may turn out to be the last; they must not be dropped under this lock.
        let alive: Vec<_> = running.iter().filter_map(Weak::upgrade).collect();
        drop(running);
        alive.iter().filter_map(|progress| progress.place()).collect()
    }

    pub(crate) fn watch(&self, progress: &Arc<Progress>) {
        let mut running = self.running.lock();
        running.retain(|progress| progress.strong_count() > 0);
        running.push(Arc::downgrade(progress));
    }
}
