//! The chunks of one execution, and who gets which next.
//!
//! A chunk is what is opened together: a row group, or several small ones that are neighbours.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::execution::TaskContext;
use pagecast::PageId;
use parking_lot::Mutex;

use crate::cooperative::{Asked, Cooperative, Taken};
use crate::metrics::ScanMetrics;
use crate::narrowing::Narrowing;
use crate::progress::Progress;
use crate::read_plan::{PlannedRowGroup, ReadPlan, plan_reads, total};
use crate::scan_place::ScanPlace;
use crate::ticket::Ticket;
use crate::units::Work;
use crate::{Delivery, Host};

/// All chunks of one execution.
pub(crate) enum Chunks {
    InOrder(Queue),
    OutOfOrder(Cooperative),
}

impl Chunks {
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
        let partitions = config.file_groups.len();
        if delivery != Delivery::OutOfOrder {
            metrics.set_back_in_order(None);
            return Ok(Self::InOrder(Queue::new(host, &plan, partitions)).watched(host));
        }
        let work = Work::of_units(plan, host.pool.page_size().into());
        let cooperative = Self::cooperate(host, work, partitions, Narrowing::of(config), metrics);
        let chunks = match cooperative {
            Ok(cooperative) => Self::OutOfOrder(cooperative),
            Err(work) => Self::InOrder(Queue::new(host, &work.put_back(), partitions)),
        };
        Ok(chunks.watched(host))
    }

    /// Hands out the chunks of `work`: out of order if that is the `delivery` and it can be, else
    /// one after the other.
    pub(crate) fn of(
        host: &Arc<Host>,
        work: Work,
        partitions: usize,
        metrics: &ScanMetrics,
        delivery: Delivery,
    ) -> Arc<Self> {
        let cooperative = match delivery {
            Delivery::OutOfOrder => Self::cooperate(host, work, partitions, None, metrics),
            Delivery::InOrder | Delivery::Stock => Err(work),
        };
        let chunks = cooperative.map_or_else(|work| Self::InOrder(Queue::of(host, work)), Self::OutOfOrder);
        chunks.watched(host)
    }

    /// Out of order; `work` comes back if it cannot be.
    fn cooperate(
        host: &Arc<Host>,
        work: Work,
        partitions: usize,
        narrowing: Option<Narrowing>,
        metrics: &ScanMetrics,
    ) -> Result<Cooperative, Work> {
        let cooperative = Cooperative::new(host, work, partitions, narrowing, metrics);
        let count = if cooperative.is_ok() { &host.out_of_order } else { &host.back_in_order };
        count.fetch_add(1, Relaxed);
        metrics.set_back_in_order(cooperative.as_ref().err().map(|back| back.1));
        cooperative.map_err(|back| back.0)
    }

    fn watched(self, host: &Host) -> Arc<Self> {
        let chunks = Arc::new(self);
        host.watch(&chunks);
        chunks
    }

    /// The number of the next chunk, and a file for each part of it; none if nothing is left to be
    /// read. Waits for what is on its way.
    pub(crate) async fn next(&self) -> Option<(usize, Vec<PartitionedFile>, Handed)> {
        match self {
            Self::InOrder(queue) => {
                queue.chunks.lock().pop_front().map(|(number, files)| (number, files, Handed(None)))
            }
            Self::OutOfOrder(scan) => {
                let (number, taken) = scan.next().await?;
                let asked = Arc::new(Asked(Arc::clone(&taken)));
                let files = scan.files(number).map(|(file, row_groups)| {
                    file.with(row_groups).with_extension(Ticket::of_lease(&asked, row_groups))
                });
                Some((number, files.collect(), Handed(Some(taken))))
            }
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

/// A partition's hold on the chunk that it reads.
pub(crate) struct Handed(Option<Arc<Taken>>);

impl Handed {
    /// Rows of the chunk have gone out, so that it must not be handed out again.
    pub(crate) fn delivered(&self) {
        if let Some(taken) = &self.0 {
            taken.delivered();
        }
    }
}

/// Chunks in file order.
pub(crate) struct Queue {
    chunks: Mutex<VecDeque<(usize, Vec<PartitionedFile>)>>,
    progress: Arc<Progress>,
}

impl Queue {
    fn new(host: &Arc<Host>, plan: &ReadPlan, partitions: usize) -> Self {
        let progress = Arc::new(Progress::new(host, plan));
        let (enough, mut first, mut queue) = (chunk_work(plan, partitions), 0, VecDeque::new());
        for file in &plan.files {
            for chunk in chunks(&file.row_groups, enough) {
                let ticket = Ticket::on_axis(&progress, first, chunk);
                queue.push_back((queue.len(), vec![file.with(chunk).with_extension(ticket)]));
                first += chunk.len();
            }
        }
        Self { chunks: Mutex::new(queue), progress }
    }

    /// The chunks of `work` in their order.
    fn of(host: &Arc<Host>, work: Work) -> Self {
        let reads: Vec<_> = work.reads.iter().map(|read| (read.file, read.row_groups.len())).collect();
        let (ranges, plan) = (work.chunks.clone(), work.put_back());
        let progress = Arc::new(Progress::new(host, &plan));
        // Of each file the row groups that are not in the queue yet, and how many are in all.
        let mut rest: Vec<&[PlannedRowGroup]> = plan.files.iter().map(|file| &file.row_groups[..]).collect();
        let (mut first, mut queue) = (0, VecDeque::new());
        for (number, range) in ranges.into_iter().enumerate() {
            let mut files = Vec::new();
            for &(file, count) in &reads[range] {
                let (chunk, left) = rest[file].split_at(count);
                rest[file] = left;
                let ticket = Ticket::on_axis(&progress, first, chunk);
                files.push(plan.files[file].with(chunk).with_extension(ticket));
                first += count;
            }
            queue.push_back((number, files));
        }
        Self { chunks: Mutex::new(queue), progress }
    }
}

/// The work of opening a chunk, as bytes that are decoded meanwhile.
const OPENING: u64 = 4 << 10;
/// A chunk of this much work is opened for next to nothing. Larger ones would keep more row groups
/// from other partitions.
const CHUNK: u64 = 1 << 20;
/// Each partition is to get about this many chunks, if there are so many row groups.
const CHUNKS_EACH: u64 = 16;

fn work(row_group: &PlannedRowGroup) -> u64 {
    OPENING + total(&row_group.bytes)
}

/// How much work makes a chunk: so much that opening does not count, and so little that no
/// partition goes without.
pub(crate) fn chunk_work(plan: &ReadPlan, partitions: usize) -> u64 {
    let all: u64 = plan.row_groups().map(|(_, row_group)| work(row_group)).sum();
    (all / (CHUNKS_EACH * partitions.max(1) as u64)).min(CHUNK)
}

/// The row groups of a file in chunks: one each, or as many small ones as make enough work.
pub(crate) fn chunks(row_groups: &[PlannedRowGroup], enough: u64) -> impl Iterator<Item = &[PlannedRowGroup]> {
    let mut rest = row_groups;
    std::iter::from_fn(move || {
        let mut done = 0;
        let last = rest.iter().position(|row_group| {
            done += work(row_group);
            done >= enough
        });
        let (chunk, left) = rest.split_at(last.map_or(rest.len(), |last| last + 1));
        rest = left;
        Some(chunk).filter(|chunk| !chunk.is_empty())
    })
}

#[cfg(test)]
mod tests;
