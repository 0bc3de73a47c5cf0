//! What EXPLAIN ANALYZE shows of the pool on a scan node.

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricCategory, MetricType};
use pagecast::ReadStats;

use crate::read_plan::ReadPlan;

/// Counters of one partition of one scan.
#[derive(Clone, Debug)]
pub(crate) struct PoolMetrics {
    pages: Count,
    hits: Count,
    bytes_requested: Count,
    bytes_read: Count,
    bypassed_bytes: Count,
}

impl PoolMetrics {
    pub(crate) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let summary = || MetricBuilder::new(metrics).with_type(MetricType::Summary);
        let bytes = |name: &'static str| summary().with_category(MetricCategory::Bytes).counter(name, partition);
        Self {
            pages: summary().counter("pool_pages", partition),
            hits: summary().counter("pool_hits", partition),
            bytes_requested: bytes("pool_bytes_requested"),
            bytes_read: bytes("pool_bytes_read"),
            bypassed_bytes: bytes("pool_bypassed_bytes"),
        }
    }

    /// Adds what one read through the pool did.
    pub(crate) fn add(&self, read: &ReadStats) {
        self.pages.add(read.pages as usize);
        self.hits.add(read.hits as usize);
        self.bytes_requested.add(read.bytes_requested as usize);
        self.bytes_read.add(read.bytes_read as usize);
        self.bypassed_bytes.add(read.bypassed_bytes as usize);
    }
}

/// Adds the bytes that an execution planned to read, to compare with those it then asked for, and the row groups that
/// the plan left out, which DataFusion's own counts of pruning do not get to see.
pub(crate) fn add_planned(metrics: &ExecutionPlanMetricsSet, plan: &ReadPlan) {
    let summary = || MetricBuilder::new(metrics).with_type(MetricType::Summary);
    let bytes = summary().with_category(MetricCategory::Bytes).global_counter("pool_bytes_planned");
    bytes.add(plan.bytes() as usize);
    summary().pruning_metrics("row_groups_pruned_statistics", 0).add_pruned(plan.pruned);
}
