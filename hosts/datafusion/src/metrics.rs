//! What EXPLAIN and EXPLAIN ANALYZE show of the pool on a scan node.

use std::fmt;
use std::sync::Arc;

use datafusion::execution::memory_pool::human_readable_size;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricCategory, MetricType};
use pagecast::ReadStats;
use parking_lot::Mutex;

/// Bytes that storage brought on a scan's behalf.
pub(crate) const BYTES_READ: &str = "pool_bytes_read";

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
            bytes_read: bytes(BYTES_READ),
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

/// The metrics of an in-order scan: those of its plan, and those of its readers as they come.
///
/// What a reader counts of ranges of files is left out: it opens chunks, and the plan has counted
/// the ranges.
#[derive(Debug, Default)]
pub(crate) struct ScanMetrics {
    shown: ExecutionPlanMetricsSet,
    /// How many of the readers' metrics were looked at.
    seen: Mutex<usize>,
    /// Why its last execution came in order, though the plan would have had it otherwise.
    back_in_order: Mutex<Option<BackInOrder>>,
    /// What an execution would read, if somebody wanted to know without one.
    expected: Mutex<Option<Expected>>,
}

/// What a scan would read now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) bytes: u64,
    /// Of these, in pages that are in memory.
    pub(crate) in_memory: u64,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [bytes, in_memory] = [self.bytes, self.in_memory].map(|bytes| human_readable_size(bytes as usize));
        write!(f, "{bytes} ({in_memory} in memory)")
    }
}

/// Why a scan that may come out of order comes in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BackInOrder {
    Unregistered,
    FewChunks(usize),
    SmallPool(usize),
    NoRoom,
}

impl fmt::Display for BackInOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unregistered => write!(f, "scans are not registered"),
            Self::FewChunks(least) => write!(f, "it has fewer than {least} chunks"),
            Self::SmallPool(least) => write!(f, "the pool holds fewer than {least} of its chunks"),
            Self::NoRoom => write!(f, "the pool has no room to coordinate it"),
        }
    }
}

impl ScanMetrics {
    /// Of the plan alone.
    pub(crate) fn planned(&self) -> &ExecutionPlanMetricsSet {
        &self.shown
    }

    /// All of them, so far.
    pub(crate) fn with(&self, readers: &ExecutionPlanMetricsSet) -> ExecutionPlanMetricsSet {
        let mut seen = self.seen.lock();
        let readers = readers.clone_inner();
        for metric in readers.iter().skip(*seen) {
            *seen += 1;
            if metric.value().name() != "files_ranges_pruned_statistics" {
                self.shown.register(Arc::clone(metric));
            }
        }
        self.shown.clone()
    }

    /// Notes how the execution that begins is delivered.
    pub(crate) fn set_back_in_order(&self, why: Option<BackInOrder>) {
        *self.back_in_order.lock() = why;
    }

    /// Notes what an execution would read, and how it would be delivered.
    pub(crate) fn expect(&self, expected: Expected, back_in_order: Option<BackInOrder>) {
        *self.expected.lock() = Some(expected);
        self.set_back_in_order(back_in_order);
    }

    pub(crate) fn expected(&self) -> Option<Expected> {
        *self.expected.lock()
    }

    pub(crate) fn back_in_order(&self) -> Option<BackInOrder> {
        *self.back_in_order.lock()
    }

    /// Adds the bytes that an execution planned to read, to compare with those it then asked for.
    pub(crate) fn add_planned(&self, bytes: u64) {
        let planned = MetricBuilder::new(&self.shown).with_type(MetricType::Summary);
        planned.with_category(MetricCategory::Bytes).global_counter("pool_bytes_planned").add(bytes as usize);
    }
}
