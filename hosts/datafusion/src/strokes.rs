//! The strokes of one execution, and who gets which next.
//!
//! A stroke is what is opened together: a row group, or several small ones that are neighbours.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::execution::TaskContext;
use pagecast::PageId;
use parking_lot::Mutex;

use crate::cooperative::{Cooperative, Taken};
use crate::inspect::ScanPlace;
use crate::metrics::{BackInOrder, ScanMetrics};
use crate::progress::{Progress, Ticket};
use crate::read_plan::{PlannedRowGroup, ReadPlan, plan_reads, total};
use crate::{Delivery, Host};

/// All strokes of one execution.
pub(crate) enum Strokes {
    InOrder(Queue),
    OutOfOrder(Cooperative),
}

impl Strokes {
    /// Plans what the scan reads, and who hands it out: `delivery`, or in order where there is too
    /// little to choose from, or no room to choose.
    pub(crate) async fn plan(
        config: &FileScanConfig,
        host: &Arc<Host>,
        context: &Arc<TaskContext>,
        metrics: &ScanMetrics,
        delivery: Delivery,
    ) -> Result<Arc<Self>> {
        let plan = plan_reads(config, host, context, metrics.planned()).await?;
        metrics.add_planned(plan.bytes());
        let cooperative = match delivery {
            Delivery::OutOfOrder if !host.options.register => Err((plan, Some(BackInOrder::Unregistered))),
            Delivery::OutOfOrder => {
                Cooperative::new(host, config, plan, metrics).map_err(|(plan, why)| (plan, Some(why)))
            }
            Delivery::InOrder | Delivery::Stock => Err((plan, None)),
        };
        metrics.set_back_in_order(cooperative.as_ref().err().and_then(|(_, why)| *why));
        let strokes = match cooperative {
            Ok(cooperative) => {
                host.out_of_order.fetch_add(1, Relaxed);
                Self::OutOfOrder(cooperative)
            }
            Err((plan, why)) => {
                host.back_in_order.fetch_add(why.is_some().into(), Relaxed);
                Self::InOrder(Queue::new(host, &plan, config.file_groups.len()))
            }
        };
        let strokes = Arc::new(strokes);
        host.watch(&strokes);
        Ok(strokes)
    }

    /// The next stroke, as a file of its own; none if nothing is left to be read. Waits for what is
    /// on its way.
    pub(crate) async fn next(&self) -> Option<(PartitionedFile, Handed)> {
        match self {
            Self::InOrder(queue) => queue.files.lock().pop_front().map(|file| (file, Handed(None))),
            Self::OutOfOrder(scan) => scan.next().await.map(|(file, taken)| (file, Handed(Some(taken)))),
        }
    }

    /// Tells the pool what is still to be read, unless it knows already.
    pub(crate) fn register(&self) {
        match self {
            Self::InOrder(queue) => queue.progress.register(),
            Self::OutOfOrder(scan) => scan.register(),
        }
    }

    /// Nobody reads any more.
    pub(crate) fn finish(&self) {
        match self {
            Self::InOrder(queue) => queue.progress.finish(),
            Self::OutOfOrder(scan) => scan.finish(),
        }
    }

    /// Where the scan stands, while it is registered.
    pub(crate) fn place(&self) -> Option<ScanPlace> {
        match self {
            Self::InOrder(queue) => queue.progress.place(),
            Self::OutOfOrder(scan) => scan.place(),
        }
    }

    /// Visits the pages that were not asked for yet, while the scan is registered.
    pub(crate) fn needs(&self, visit: &mut dyn FnMut(PageId)) {
        match self {
            Self::InOrder(queue) => queue.progress.needs(visit),
            Self::OutOfOrder(scan) => scan.needs(visit),
        }
    }
}

/// A partition's hold on the stroke that it reads.
pub(crate) struct Handed(Option<Arc<Taken>>);

impl Handed {
    /// Rows of the stroke have gone out, so that it must not be handed out again.
    pub(crate) fn delivered(&self) {
        if let Some(taken) = &self.0 {
            taken.delivered();
        }
    }
}

/// Strokes in file order.
pub(crate) struct Queue {
    files: Mutex<VecDeque<PartitionedFile>>,
    progress: Arc<Progress>,
}

impl Queue {
    fn new(host: &Arc<Host>, plan: &ReadPlan, partitions: usize) -> Self {
        let progress = Arc::new(Progress::new(host, plan));
        let (enough, mut first, mut files) = (stroke_work(plan, partitions), 0, VecDeque::new());
        for file in &plan.files {
            for stroke in strokes(&file.row_groups, enough) {
                files.push_back(file.with(stroke).with_extension(Ticket::on_axis(&progress, first, stroke)));
                first += stroke.len();
            }
        }
        Self { files: Mutex::new(files), progress }
    }
}

/// The work of opening a stroke, as bytes that are decoded meanwhile.
const OPENING: u64 = 4 << 10;
/// A stroke of this much work is opened for next to nothing. Larger ones would keep more row groups
/// from other partitions.
const STROKE: u64 = 1 << 20;
/// Each partition is to get about this many strokes, if there are so many row groups.
const STROKES_EACH: u64 = 16;

fn work(row_group: &PlannedRowGroup) -> u64 {
    OPENING + total(&row_group.bytes)
}

/// How much work makes a stroke: so much that opening does not count, and so little that no
/// partition goes without.
pub(crate) fn stroke_work(plan: &ReadPlan, partitions: usize) -> u64 {
    let all: u64 = plan.row_groups().map(|(_, row_group)| work(row_group)).sum();
    (all / (STROKES_EACH * partitions.max(1) as u64)).min(STROKE)
}

/// The row groups of a file in strokes: one each, or as many small ones as make enough work.
pub(crate) fn strokes(row_groups: &[PlannedRowGroup], enough: u64) -> impl Iterator<Item = &[PlannedRowGroup]> {
    let mut rest = row_groups;
    std::iter::from_fn(move || {
        let mut done = 0;
        let last = rest.iter().position(|row_group| {
            done += work(row_group);
            done >= enough
        });
        let (stroke, left) = rest.split_at(last.map_or(rest.len(), |last| last + 1));
        rest = left;
        Some(stroke).filter(|stroke| !stroke.is_empty())
    })
}

#[cfg(test)]
mod tests;
