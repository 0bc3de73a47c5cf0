//! How many tasks a scan wants, and what each of them reads.
//!
//! A scan wants a task for each worker that one of its ranges is at home on.

use std::num::NonZeroU64;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::{DistributedLeafExec, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse};
use pagecast_cluster::affinity::Workers;
use pagecast_cluster::dealing::deal_out;
use pagecast_cluster::ranges::{may_be_dealt_out, parquet_scan};

/// Exchanges a scan for one that reads, in each task, the ranges of one worker. None for what is no
/// scan of Parquet files, or promises which partition has which rows: the planner cuts those.
pub(crate) fn scale_up(
    event: ScaleUpLeafNodeEvent<'_>,
    workers: &Workers,
    step: NonZeroU64,
) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let config = parquet_scan(event.plan.as_ref()).filter(|config| may_be_dealt_out(config))?;
    let variants = deal_out(config, workers, event.task_count, step);
    let variants =
        variants.into_iter().map(|variant| DataSourceExec::from_data_source(variant) as Arc<dyn ExecutionPlan>);
    let leaf = DistributedLeafExec::try_new(Arc::clone(event.plan), variants);
    Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
}
