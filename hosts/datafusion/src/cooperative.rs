//! Strokes out of order: the pool says which comes next, and what it brings for several scans.
//!
//! The pool's decision is a hint about memory and nothing else. Which strokes there are, and which
//! of them went out, is kept here: so a registration may end when nobody reads, and begin again
//! with what is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::physical_plan::metrics::{Count, MetricBuilder, MetricCategory, MetricType};
use pagecast::{Lease, PageId, Relation, ScanId, Stroke, UnorderedScan, UnorderedSpec};
use parking_lot::Mutex;

use crate::Host;
use crate::inspect::ScanPlace;
use crate::metrics::{BYTES_READ, BackInOrder, ScanMetrics};
use crate::narrowing::Narrowing;
use crate::progress::Ticket;
use crate::read_plan::{PlannedFile, ReadPlan};
use crate::units::{self, UnitRead};

/// Cooperating Parquet scans are of one kind: a position is a stroke.
const UNORDERED_PARQUET_SCAN: pagecast::predictor::ScanKind = pagecast::predictor::ScanKind(1);

/// An execution whose strokes come in any order.
pub(crate) struct Cooperative(Arc<Shared>);

/// What the partitions share.
///
/// * (C1) A stroke is handed out once, unless its taker gave it back before any row of it went out.
///   Nobody waits for that: as in any delivery, a partition's rows are gone with its stream.
/// * (C2) `registered` is present only while a stream may still read.
struct Shared {
    host: Arc<Host>,
    files: Vec<PlannedFile>,
    strokes: Vec<UnitRead>,
    partitions: u32,
    narrowing: Option<Narrowing>,
    metrics: Counts,
    state: Mutex<State>,
}

struct State {
    strokes: Vec<Stand>,
    registered: Option<Arc<Registered>>,
    /// Bytes of what the pool has brought for this registration that were counted.
    counted: u64,
    /// The stroke that was handed out last.
    last: Option<usize>,
}

/// Where a stroke is.
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

/// A registration with the pool of the strokes that were not done.
struct Registered {
    scan: UnorderedScan,
    /// The number here of each stroke of the registration.
    numbers: Vec<usize>,
}

/// What EXPLAIN ANALYZE shows. Bytes that the pool has brought for the scan add to those that its
/// readers read.
struct Counts {
    strokes: Count,
    shared: Count,
    bytes_read: Count,
    row_groups_left_out: Count,
}

impl Cooperative {
    /// Registers what `plan` reads. The plan comes back, with the reason, if its strokes are too
    /// few or too large for the pool, or if the pool has no room to coordinate them.
    pub(crate) fn new(
        host: &Arc<Host>,
        config: &FileScanConfig,
        mut plan: ReadPlan,
        metrics: &ScanMetrics,
    ) -> Result<Self, (ReadPlan, BackInOrder)> {
        let strokes = units::cut(&mut plan, host.pool.page_size().into());
        // A pool that holds hardly a stroke of each scan has thrown away what it brought before it
        // is read.
        let pages: u64 = strokes.iter().flat_map(|stroke| &stroke.need).map(|need| u64::from(need.count_ones())).sum();
        let least = host.options.least_strokes.max(1);
        let room = u64::from(host.pool.frames()) * strokes.len() as u64 >= pages * least as u64;
        if strokes.len() < least || !room {
            let few = strokes.len() < least;
            let why = if few { BackInOrder::FewStrokes(least) } else { BackInOrder::SmallPool(least) };
            return Err((put_back(plan, strokes), why));
        }
        let shared = Shared {
            host: Arc::clone(host),
            files: plan.files,
            partitions: config.file_groups.len() as u32,
            narrowing: Narrowing::of(config),
            metrics: Counts::new(metrics),
            state: Mutex::new(State {
                strokes: vec![Stand::Wanted; strokes.len()],
                registered: None,
                counted: 0,
                last: None,
            }),
            strokes,
        };
        if shared.register() {
            return Ok(Self(Arc::new(shared)));
        }
        Err((put_back(ReadPlan { files: shared.files }, shared.strokes), BackInOrder::NoRoom))
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

    /// The next stroke that the pool hands out.
    pub(crate) async fn next(&self) -> Option<(PartitionedFile, Arc<Taken>)> {
        loop {
            self.0.narrow();
            let registered = self.0.state.lock().registered.clone();
            let (number, lease, scan) = match registered {
                Some(registered) => {
                    let lease = registered.scan.take().await?;
                    let number = registered.numbers[lease.stroke() as usize];
                    (number, Some(lease), Some(registered.scan.id()))
                }
                // The pool had no room when the scan came back to it.
                None => {
                    let strokes = &self.0.state.lock().strokes;
                    (strokes.iter().position(|stand| *stand == Stand::Wanted)?, None, None)
                }
            };
            {
                let mut state = self.0.state.lock();
                self.0.count_brought(&mut state);
                if state.strokes[number] == Stand::Wanted {
                    state.strokes[number] = Stand::Handed;
                    state.last = Some(number);
                    drop(state);
                    return Some(self.0.hand_out(number, lease, scan));
                }
            }
            // It was left out while it was on its way here, or another partition has it.
            if let Some(lease) = lease {
                lease.consumed();
            }
        }
    }

    /// Where the stroke begins that was handed out last, if one was.
    pub(crate) fn place(&self) -> Option<ScanPlace> {
        let state = self.0.state.lock();
        let scan = state.registered.as_ref()?.scan.id();
        let stroke = &self.0.strokes[state.last?];
        let file: &Relation = &self.0.files[stroke.file].relation;
        let offset = u64::from(stroke.unit.first) * u64::from(self.0.host.pool.page_size());
        Some(ScanPlace { scan, path: file.path().into(), offset, file_bytes: file.len() })
    }

    pub(crate) fn needs(&self, visit: &mut dyn FnMut(PageId)) {
        let state = self.0.state.lock();
        if state.registered.is_none() {
            return;
        }
        let unasked = |stand: &Stand| matches!(stand, Stand::Wanted | Stand::Handed);
        let wanted = self.0.strokes.iter().zip(&state.strokes).filter(|(_, stand)| unasked(stand));
        for (stroke, _) in wanted {
            for block in
                (0..stroke.unit.blocks).filter(|block| stroke.need[*block as usize / 64] >> (block % 64) & 1 == 1)
            {
                visit(PageId::new(stroke.unit.relation, stroke.unit.first + block));
            }
        }
    }
}

/// The plan as it was before it was cut.
fn put_back(mut plan: ReadPlan, strokes: Vec<UnitRead>) -> ReadPlan {
    for stroke in strokes {
        plan.files[stroke.file].row_groups.extend(stroke.row_groups);
    }
    plan
}

impl Shared {
    /// Registers the strokes that are not done, unless they are registered. `false` if there is no
    /// room for them.
    fn register(&self) -> bool {
        let mut state = self.state.lock();
        if state.registered.is_some() {
            return true;
        }
        let numbers: Vec<_> = (0..self.strokes.len()).filter(|&number| state.strokes[number] != Stand::Done).collect();
        if numbers.is_empty() {
            return true;
        }
        let strokes = numbers.iter().map(|&number| &self.strokes[number]);
        let strokes: Vec<_> =
            strokes.map(|stroke| Stroke { unit: stroke.unit, need: &stroke.need, joined: false }).collect();
        let spec = UnorderedSpec { kind: UNORDERED_PARQUET_SCAN, workers: self.partitions, strokes: &strokes };
        let scan = self.host.pool.register_unordered(&spec).ok();
        // Of a partition that nobody fetches from the others must not wait for: who reads them may
        // come to it only after them. What it holds it reads, or nobody wants its rows.
        scan.iter().for_each(UnorderedScan::end_early);
        state.registered = scan.map(|scan| Arc::new(Registered { scan, numbers }));
        state.registered.is_some()
    }

    fn count_brought(&self, state: &mut State) {
        let brought = state.registered.as_ref().map_or(0, |registered| registered.scan.brought_bytes());
        self.metrics.bytes_read.add(brought.saturating_sub(state.counted) as usize);
        // A load that found no frame is taken off again.
        state.counted = state.counted.max(brought);
    }

    fn hand_out(
        self: &Arc<Self>,
        number: usize,
        lease: Option<Lease>,
        scan: Option<ScanId>,
    ) -> (PartitionedFile, Arc<Taken>) {
        self.metrics.strokes.add(1);
        self.metrics.shared.add(lease.as_ref().is_some_and(Lease::was_shared).into());
        let taken =
            Taken { of: Arc::clone(self), number, lease: Mutex::new(lease), scan, delivered: AtomicBool::default() };
        let (taken, stroke) = (Arc::new(taken), &self.strokes[number]);
        let file = self.files[stroke.file].with(&stroke.row_groups);
        (file.with_extension(Ticket::of_lease(&taken, &stroke.row_groups)), taken)
    }

    /// Takes out of the pool's plan what the filter, which may have become narrower since, no
    /// longer lets through.
    fn narrow(&self) {
        let Some(narrowing) = self.narrowing.as_ref().filter(|narrowing| narrowing.has_changed()) else { return };
        let wanted = self.state.lock().strokes.iter().map(|stand| *stand == Stand::Wanted).collect::<Vec<_>>();
        let strokes: Vec<_> = self.strokes.iter().enumerate().filter(|(number, _)| wanted[*number]).collect();
        for of_file in strokes.chunk_by(|(_, a), (_, b)| a.file == b.file) {
            let row_groups = of_file.iter().flat_map(|(_, stroke)| &stroke.row_groups);
            let file = &self.files[of_file[0].1.file];
            let Some(left) = narrowing.left(file, row_groups.map(|planned| planned.number)) else { continue };
            for (number, stroke) in of_file {
                if !stroke.row_groups.iter().any(|planned| left.should_scan(planned.number)) {
                    self.leave_out(*number);
                }
            }
        }
    }

    fn leave_out(&self, number: usize) {
        let mut state = self.state.lock();
        if state.strokes[number] != Stand::Wanted {
            return;
        }
        state.strokes[number] = Stand::Done;
        self.metrics.row_groups_left_out.add(self.strokes[number].row_groups.len());
        let Some(registered) = &state.registered else { return };
        if let Ok(place) = registered.numbers.binary_search(&number) {
            registered.scan.remove(place as u32);
        }
    }
}

impl Counts {
    fn new(metrics: &ScanMetrics) -> Self {
        let summary = || MetricBuilder::new(metrics.planned()).with_type(MetricType::Summary);
        let count = |name| summary().global_counter(name);
        Self {
            strokes: count("pool_strokes"),
            shared: count("pool_strokes_shared"),
            bytes_read: summary().with_category(MetricCategory::Bytes).global_counter(BYTES_READ),
            row_groups_left_out: count("pool_row_groups_left_out"),
        }
    }
}

/// A stroke that a partition has taken. Held by who reads it, and by the reader for as long as it
/// lives.
pub(crate) struct Taken {
    of: Arc<Shared>,
    number: usize,
    lease: Mutex<Option<Lease>>,
    scan: Option<ScanId>,
    delivered: AtomicBool,
}

impl Taken {
    pub(crate) fn scan(&self) -> Option<ScanId> {
        self.scan
    }

    /// All bytes of the stroke have been asked for.
    pub(crate) fn asked(&self) {
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
        let state = &mut self.of.state.lock().strokes[self.number];
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
