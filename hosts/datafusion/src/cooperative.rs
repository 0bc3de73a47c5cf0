//! Chunks out of order: the pool says which comes next, and what it brings for several scans.
//!
//! The pool's decision is a hint about memory and nothing else. Which chunks there are, and which
//! of them went out, is kept here: so a registration may end when nobody reads, and begin again
//! with what is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use datafusion::physical_plan::metrics::{Count, MetricBuilder, MetricCategory, MetricType};
use pagecast::forecast::Query;
use pagecast::{Chunk, Lease, PageId, Relation, ScanId, UnorderedScan, UnorderedSpec};
use parking_lot::Mutex;

use crate::Host;
use crate::metrics::{BYTES_READ, BackInOrder, ScanMetrics};
use crate::narrowing::Narrowing;
use crate::read_plan::{PlannedFile, PlannedRowGroup};
use crate::scan_place::ScanPlace;
use crate::units::Work;

/// Cooperating Parquet scans are of one kind: a position is a chunk.
const UNORDERED_PARQUET_SCAN: pagecast::predictor::ScanKind = pagecast::predictor::ScanKind(1);

/// An execution whose chunks come in any order.
pub(crate) struct Cooperative(Arc<Shared>);

/// What the partitions share.
///
/// * (C1) A chunk is handed out once, unless its taker gave it back before any row of it went out.
///   Nobody waits for that: as in any delivery, a partition's rows are gone with its stream.
/// * (C2) `registered` is present only while a stream may still read.
struct Shared {
    host: Arc<Host>,
    work: Work,
    partitions: u32,
    narrowing: Option<Narrowing>,
    metrics: Counts,
    state: Mutex<State>,
}

struct State {
    chunks: Vec<Stand>,
    registered: Option<Arc<Registered>>,
    /// Bytes of what the pool has brought for this registration that were counted.
    counted: u64,
    /// The chunk that was handed out last.
    last: Option<usize>,
    /// What it is a run of, until the pool knows.
    query: Option<Query>,
}

/// Where a chunk is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// To be handed out.
    Wanted,
    /// Handed out, and not asked for yet.
    Handed,
    /// All of its bytes were asked for.
    Asked,
    /// Its rows went out, or nobody wants them any more.
    Done,
}

/// A registration with the pool of the chunks that were not done.
struct Registered {
    scan: UnorderedScan,
    /// The number here of each chunk of the registration, once for each of its reads.
    numbers: Vec<usize>,
}

/// What EXPLAIN ANALYZE shows. Bytes that the pool has brought for the scan add to those that its
/// readers read.
struct Counts {
    chunks: Count,
    shared: Count,
    bytes_read: Count,
    row_groups_left_out: Count,
}

/// Why work is not handed out out of order, if scans are not registered, if there is too little of
/// it to choose from, or too little room.
pub(crate) fn why_not(host: &Host, work: &Work) -> Option<BackInOrder> {
    if !host.options.register {
        return Some(BackInOrder::Unregistered);
    }
    // A pool that holds hardly a chunk of each scan has thrown away what it brought before it is
    // read.
    let pages: u64 = work.reads.iter().flat_map(|read| &read.need).map(|need| u64::from(need.count_ones())).sum();
    let (least, chunks) = (host.options.least_chunks.max(1), work.chunks.len());
    if chunks < least {
        return Some(BackInOrder::FewChunks(least));
    }
    let room = u64::from(host.pool.frames()) * chunks as u64 >= pages * least as u64;
    (!room).then_some(BackInOrder::SmallPool(least))
}

impl Cooperative {
    /// Registers `work` for so many partitions. It comes back, with the reason, if its chunks are
    /// too few or too large for the pool, or if the pool has no room to coordinate them.
    pub(crate) fn new(
        host: &Arc<Host>,
        work: Work,
        partitions: usize,
        narrowing: Option<Narrowing>,
        metrics: &ScanMetrics,
    ) -> Result<Self, Box<(Work, BackInOrder)>> {
        if let Some(why) = why_not(host, &work) {
            return Err(Box::new((work, why)));
        }
        let chunks = work.chunks.len();
        let query = work.query;
        let shared = Shared {
            host: Arc::clone(host),
            work,
            partitions: partitions as u32,
            narrowing,
            metrics: Counts::new(metrics),
            state: Mutex::new(State {
                chunks: vec![Stand::Wanted; chunks],
                registered: None,
                counted: 0,
                last: None,
                query,
            }),
        };
        if shared.register() { Ok(Self(Arc::new(shared))) } else { Err(Box::new((shared.work, BackInOrder::NoRoom))) }
    }

    pub(crate) fn register(&self) {
        self.0.register();
    }

    pub(crate) fn finish(&self) {
        let mut state = self.0.state.lock();
        self.0.count_brought(&mut state);
        state.counted = 0;
        let registered = state.registered.take();
        drop(state);
        drop(registered);
    }

    /// The number of the next chunk that the pool hands out, and the hold on it.
    pub(crate) async fn next(&self) -> Option<(usize, Arc<Taken>)> {
        loop {
            self.0.narrow();
            let registered = self.0.state.lock().registered.clone();
            let (number, lease, scan) = match registered {
                Some(registered) => {
                    let lease = registered.scan.take().await?;
                    let number = registered.numbers[lease.chunk() as usize];
                    (number, Some(lease), Some(registered.scan.id()))
                }
                // The pool had no room when the scan came back to it.
                None => {
                    let chunks = &self.0.state.lock().chunks;
                    (chunks.iter().position(|stand| *stand == Stand::Wanted)?, None, None)
                }
            };
            {
                let mut state = self.0.state.lock();
                self.0.count_brought(&mut state);
                if state.chunks[number] == Stand::Wanted {
                    state.chunks[number] = Stand::Handed;
                    state.last = Some(number);
                    drop(state);
                    return Some((number, self.0.hand_out(number, lease, scan)));
                }
            }
            // It was left out while it was on its way here, or another partition has it.
            if let Some(lease) = lease {
                lease.consumed();
            }
        }
    }

    /// The files of a chunk, and which of their row groups are its.
    pub(crate) fn files(&self, number: usize) -> impl Iterator<Item = (&PlannedFile, &[PlannedRowGroup])> {
        self.0.work.chunk(number).iter().map(|read| (&self.0.work.files[read.file], &read.row_groups[..]))
    }

    /// Where the chunk begins that was handed out last, if one was.
    pub(crate) fn place(&self) -> Option<ScanPlace> {
        let state = self.0.state.lock();
        let scan = state.registered.as_ref()?.scan.id();
        let read = self.0.work.chunk(state.last?).first()?;
        let file: &Relation = &self.0.work.files[read.file].relation;
        let offset = u64::from(read.unit.first) * u64::from(self.0.host.pool.page_size());
        Some(ScanPlace { scan, path: file.path().into(), offset, file_bytes: file.len() })
    }

    pub(crate) fn needs(&self, visit: &mut dyn FnMut(PageId)) {
        let state = self.0.state.lock();
        if state.registered.is_none() {
            return;
        }
        let unasked = |stand: &Stand| matches!(stand, Stand::Wanted | Stand::Handed);
        let wanted = (0..state.chunks.len()).filter(|&number| unasked(&state.chunks[number]));
        for read in wanted.flat_map(|number| self.0.work.chunk(number)) {
            for block in (0..read.unit.blocks).filter(|block| read.need[*block as usize / 64] >> (block % 64) & 1 == 1)
            {
                visit(PageId::new(read.unit.relation, read.unit.first + block));
            }
        }
    }
}

impl Shared {
    /// Registers the chunks that are not done, unless they are registered. `false` if there is no
    /// room for them.
    fn register(&self) -> bool {
        let mut state = self.state.lock();
        if state.registered.is_some() {
            return true;
        }
        let (mut numbers, mut chunks) = (Vec::new(), Vec::new());
        for number in (0..state.chunks.len()).filter(|&number| state.chunks[number] != Stand::Done) {
            for (at, read) in self.work.chunk(number).iter().enumerate() {
                numbers.push(number);
                chunks.push(Chunk { unit: read.unit, need: &read.need, joined: at > 0 });
            }
        }
        if numbers.is_empty() {
            return true;
        }
        let spec = UnorderedSpec { kind: UNORDERED_PARQUET_SCAN, workers: self.partitions, chunks: &chunks };
        let scan = match &self.work.share {
            Some(share) => share.register_unordered(&spec),
            None => self.host.pool.register_unordered(&spec),
        };
        let scan = scan.ok();
        // Of a partition that nobody fetches from the others must not wait for: who reads them may
        // come to it only after them. What it holds it reads, or nobody wants its rows.
        scan.iter().for_each(UnorderedScan::end_early);
        // What the first registration has is all that the query reads.
        if let Some(scan) = &scan
            && let Some(query) = state.query.take()
        {
            scan.recurs(query);
        }
        state.registered = scan.map(|scan| Arc::new(Registered { scan, numbers }));
        state.registered.is_some()
    }

    fn count_brought(&self, state: &mut State) {
        let brought = state.registered.as_ref().map_or(0, |registered| registered.scan.brought_bytes());
        self.metrics.bytes_read.add(brought.saturating_sub(state.counted) as usize);
        // A load that found no frame is taken off again.
        state.counted = state.counted.max(brought);
    }

    fn hand_out(self: &Arc<Self>, number: usize, lease: Option<Lease>, scan: Option<ScanId>) -> Arc<Taken> {
        self.metrics.chunks.add(1);
        self.metrics.shared.add(lease.as_ref().is_some_and(Lease::was_shared).into());
        let (of, lease) = (Arc::clone(self), Mutex::new(lease));
        Arc::new(Taken { of, number, lease, scan, delivered: AtomicBool::default() })
    }

    /// Takes out of the pool's plan what the filter, which may have become narrower since, no
    /// longer lets through.
    fn narrow(&self) {
        let Some(narrowing) = self.narrowing.as_ref().filter(|narrowing| narrowing.has_changed()) else { return };
        let wanted = self.state.lock().chunks.iter().map(|stand| *stand == Stand::Wanted).collect::<Vec<_>>();
        // Chunks of several reads come with no filter that narrows.
        let reads: Vec<_> = self.work.reads.iter().enumerate().filter(|(number, _)| wanted[*number]).collect();
        for of_file in reads.chunk_by(|(_, a), (_, b)| a.file == b.file) {
            let row_groups = of_file.iter().flat_map(|(_, read)| &read.row_groups);
            let file = &self.work.files[of_file[0].1.file];
            let Some(left) = narrowing.left(file, row_groups.map(|planned| planned.number)) else { continue };
            for (number, read) in of_file {
                if !read.row_groups.iter().any(|planned| left.should_scan(planned.number)) {
                    self.leave_out(*number);
                }
            }
        }
    }

    fn leave_out(&self, number: usize) {
        let mut state = self.state.lock();
        if state.chunks[number] != Stand::Wanted {
            return;
        }
        state.chunks[number] = Stand::Done;
        let row_groups = self.work.chunk(number).iter().map(|read| read.row_groups.len()).sum();
        self.metrics.row_groups_left_out.add(row_groups);
        let Some(registered) = &state.registered else { return };
        let place = registered.numbers.partition_point(|&registered| registered < number);
        if registered.numbers.get(place) == Some(&number) {
            registered.scan.remove(place as u32);
        }
    }
}

impl Counts {
    fn new(metrics: &ScanMetrics) -> Self {
        let summary = || MetricBuilder::new(metrics.planned()).with_type(MetricType::Summary);
        let count = |name| summary().global_counter(name);
        Self {
            chunks: count("pool_chunks"),
            shared: count("pool_chunks_shared"),
            bytes_read: summary().with_category(MetricCategory::Bytes).global_counter(BYTES_READ),
            row_groups_left_out: count("pool_row_groups_left_out"),
        }
    }
}

/// A chunk that a partition has taken. Held by who reads it, and by the reader for as long as it
/// lives.
pub(crate) struct Taken {
    of: Arc<Shared>,
    number: usize,
    lease: Mutex<Option<Lease>>,
    scan: Option<ScanId>,
    delivered: AtomicBool,
}

/// What the readers of a chunk share until each has asked for all of its part. The last one to let
/// go tells.
pub(crate) struct Asked(pub(crate) Arc<Taken>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.asked();
    }
}

impl Taken {
    pub(crate) fn scan(&self) -> Option<ScanId> {
        self.scan
    }

    /// All bytes of the chunk have been asked for.
    fn asked(&self) {
        self.stands(Stand::Asked);
        if let Some(lease) = &*self.lease.lock() {
            lease.asked();
        }
    }

    /// Rows of it have gone out, or it has none.
    pub(crate) fn delivered(&self) {
        self.delivered.store(true, Relaxed);
    }

    fn stands(&self, stand: Stand) {
        let state = &mut self.of.state.lock().chunks[self.number];
        if *state != Stand::Done {
            *state = stand;
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let delivered = *self.delivered.get_mut();
        self.stands(if delivered { Stand::Done } else { Stand::Wanted });
        match self.lease.get_mut().take() {
            Some(lease) if delivered => lease.consumed(),
            given_back => drop(given_back),
        }
    }
}
