//! What each partition of a stage reads, and which executor has it.
//!
//! Ballista fixes how many partitions a stage has when it plans, and cuts files by that number.
//! Which partition reads what is open until the first of its tasks is bound. Until then the scans
//! are dealt out anew, each partition from the ranges of one executor.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use ballista_scheduler::state::task_builder::restrict_plan_to_partitions;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use pagecast_cluster::affinity::{RangeId, Workers};
use pagecast_cluster::dealing::deal_within;
use pagecast_cluster::ranges::{cut, parquet_scan};

/// `plan` with the ranges of its scans dealt out among their partitions, at home. None if it has no
/// scan of Parquet files.
pub(crate) fn dealt_out(
    plan: &Arc<dyn ExecutionPlan>,
    executors: &Workers,
    step: NonZeroU64,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let dealt = Arc::clone(plan).transform_up(|node| {
        let Some(config) = parquet_scan(node.as_ref()) else { return Ok(Transformed::no(node)) };
        let dealt = DataSourceExec::from_data_source(deal_within(config, executors, step));
        Ok(Transformed::yes(dealt as Arc<dyn ExecutionPlan>))
    })?;
    Ok(dealt.transformed.then_some(dealt.data))
}

/// Where the ranges of a stage's scans are at home.
pub(crate) struct Homes<'a> {
    plan: &'a Arc<dyn ExecutionPlan>,
    step: NonZeroU64,
    executors: usize,
    /// Of each scan, in the plan's order.
    scans: Vec<BTreeMap<RangeId, usize>>,
    /// How many partitions each scan has.
    partitions: Vec<usize>,
}

impl<'a> Homes<'a> {
    pub(crate) fn new(plan: &'a Arc<dyn ExecutionPlan>, executors: &Workers, step: NonZeroU64) -> Result<Self> {
        let (mut scans, mut partitions) = (Vec::new(), Vec::new());
        each_scan(plan, |config| {
            let pieces = cut(config, step);
            let loads: Vec<_> = pieces.iter().map(|piece| piece.load).collect();
            scans.push(loads.iter().map(|load| load.id).zip(executors.place(&loads)).collect());
            partitions.push(config.file_groups.len());
        })?;
        Ok(Self { plan, step, executors: executors.len(), scans, partitions })
    }

    /// The executor that has most of what this task would read and no other one. None if any will
    /// do.
    pub(crate) fn of(&self, partitions: &[usize]) -> Result<Option<usize>> {
        if self.scans.is_empty() {
            return Ok(None);
        }
        let mut bytes = vec![0u64; self.executors];
        let mut scan = 0;
        let task = restrict_plan_to_partitions(Arc::clone(self.plan), partitions)?;
        each_scan(&task, |config| {
            let (homes, of_stage) = (&self.scans[scan], self.partitions[scan]);
            scan += 1;
            // What each task reads whole, as the build side of a join, is no task's own.
            if config.file_groups.len() < of_stage || of_stage == partitions.len() {
                for piece in cut(config, self.step) {
                    let Some(&home) = homes.get(&piece.load.id) else { continue };
                    bytes[home] += piece.load.bytes.max(1);
                }
            }
        })?;
        let most = (0..self.executors).rev().max_by_key(|&executor| bytes[executor]);
        Ok(most.filter(|&executor| bytes[executor] > 0))
    }
}

/// Calls `f` for each scan of Parquet files, in the plan's order.
fn each_scan(plan: &Arc<dyn ExecutionPlan>, mut f: impl FnMut(&FileScanConfig)) -> Result<()> {
    plan.apply(|node| {
        if let Some(config) = parquet_scan(node.as_ref()) {
            f(config);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}
