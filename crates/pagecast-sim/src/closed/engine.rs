//! The loop: what happens next in logical time, and who goes on then.

use super::delivery::Delivery;
use super::device::{Cores, Device, Machine};
use super::memory::{Asked, Memory};
use super::record::Recorder;
use super::scan::{Got, Scan, Worker, WorkerState};
use super::workload::{Query, ScanProgram, Workload};
use super::{ClosedError, Outcome};
use pagecast_core::policy::{Access, PolicySpec};
use pagecast_core::predictor::{Predictor, Registry};
use pagecast_core::sync::atomic::AtomicU64;
use pagecast_core::{PageId, Tick};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

pub(super) type Words = Arc<[AtomicU64]>;

/// Words of memory for a predictor or a manager.
pub(super) fn words(count: usize) -> Words {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

/// How a workload is run.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// The machine.
    pub machine: Machine,
    /// How scans get their rows.
    pub delivery: &'a Delivery,
    /// The pool's policy.
    pub policy: &'a PolicySpec,
    /// Pages of the pool.
    pub frames: u32,
    /// Seed of what the policy leaves to chance.
    pub seed: u64,
    /// Whether to keep what pictures show.
    pub record: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// The device has read a page.
    Read(PageId),
    /// A worker's piece of work is done.
    Worked(usize),
}

/// Who waits for a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waiter {
    /// A worker that asked for it.
    Worker(usize),
}

/// A stream, and the query that it runs.
#[derive(Default)]
struct Stream {
    /// Its queries that have begun.
    begun: usize,
    /// When the last of them did.
    began: Tick,
    /// Its scans that have begun, and how many registrations of the last one still run.
    scans: usize,
    running: usize,
}

/// A workload while it runs.
pub(super) struct Loop<'a> {
    pub(super) workload: &'a Workload,
    pub(super) settings: Settings<'a>,
    pub(super) now: Tick,
    events: BinaryHeap<Reverse<(Tick, u64, Event)>>,
    happened: u64,
    pub(super) memory: Memory<Waiter>,
    pub(super) device: Device,
    cores: Cores,
    pub(super) registry: Registry<Words>,
    pub(super) predictor: Predictor<Words>,
    streams: Vec<Stream>,
    pub(super) scans: Vec<Scan<'a>>,
    pub(super) workers: Vec<Worker>,
    pub(super) recorder: Option<Recorder>,
    outcome: Outcome,
}

impl<'a> Loop<'a> {
    pub(super) fn new(workload: &'a Workload, settings: Settings<'a>) -> Result<Self, ClosedError> {
        let config = settings.delivery.room(workload);
        let registry = Registry::format(words(config.words()), config).expect("the memory was made for it");
        // A pool with a frame for every page never evicts; more frames would only cost memory.
        let frames = settings.frames.min(workload.pages());
        let mut memory = Memory::new(settings.policy, frames, settings.seed)?;
        for &page in &workload.resident {
            if !memory.put(page) {
                break;
            }
        }
        Ok(Self {
            workload,
            settings,
            now: 0,
            events: BinaryHeap::new(),
            happened: 0,
            memory,
            device: Device::new(settings.machine, workload.page_bytes),
            cores: Cores::new(settings.machine.cores),
            predictor: registry.predictor(),
            registry,
            streams: workload.streams.iter().map(|_| Stream::default()).collect(),
            scans: Vec::new(),
            workers: Vec::new(),
            recorder: settings.record.then(|| Recorder::new(workload)),
            outcome: Outcome::of(workload),
        })
    }

    /// Runs all streams to their ends.
    pub(super) fn run(mut self) -> Result<Outcome, ClosedError> {
        for stream in 0..self.streams.len() {
            self.next_scan(stream)?;
        }
        self.begin_what_waits();
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            self.now = at;
            match event {
                Event::Read(page) => {
                    self.device.done();
                    self.arrived(page);
                }
                Event::Worked(worker) => {
                    self.cores.done();
                    self.worked(worker)?;
                }
            }
            self.begin_what_waits();
        }
        assert!(self.workers.iter().all(|worker| worker.state == WorkerState::Done), "a worker waits for nothing");
        self.memory.check_quiet();
        self.outcome.counts = self.memory.counts;
        self.outcome.busy = self.cores.busy;
        self.outcome.total = self.now;
        self.outcome.pictures = self.recorder.map(|recorder| recorder.finish(self.now));
        Ok(self.outcome)
    }

    /// Device and cores take what they have room for.
    fn begin_what_waits(&mut self) {
        while let Some((at, page)) = self.device.begin(self.now) {
            self.later(at, Event::Read(page));
        }
        while let Some((worker, work)) = self.cores.begin() {
            self.later(self.now + work, Event::Worked(worker));
        }
    }

    fn later(&mut self, at: Tick, event: Event) {
        self.events.push(Reverse((at, self.happened, event)));
        self.happened += 1;
    }

    /// The stream's next scan: of its query, or of the next one.
    fn next_scan(&mut self, number: usize) -> Result<(), ClosedError> {
        let queries = &self.workload.streams[number];
        let (stream, now) = (&mut self.streams[number], self.now);
        if let Some(query) = stream.begun.checked_sub(1).map(|last| &queries[last]) {
            if let Some(scan) = query.scans.get(stream.scans) {
                stream.scans += 1;
                return self.begin_scan(number, scan);
            }
            self.outcome.latencies[query.kind].push(now - stream.began);
        }
        let stream = &mut self.streams[number];
        let Some(query) = queries.get(stream.begun) else {
            self.outcome.streams[number] = now;
            return Ok(());
        };
        *stream = Stream { begun: stream.begun + 1, began: now, scans: 0, running: 0 };
        match query {
            // It has nothing to do.
            Query { scans, .. } if scans.is_empty() => self.next_scan(number),
            Query { scans, .. } => {
                self.streams[number].scans = 1;
                self.begin_scan(number, &scans[0])
            }
        }
    }

    /// Registers a scan, once or as often as the delivery says.
    fn begin_scan(&mut self, stream: usize, program: &'a ScanProgram) -> Result<(), ClosedError> {
        let table = &self.workload.tables[program.table];
        let delivery = self.settings.delivery.of(table, program);
        let shares: Vec<_> = delivery.shares(&program.rows).collect();
        self.streams[stream].running = shares.len();
        let first = self.workers.len();
        for rows in shares {
            let scan = self.scans.len();
            let registered = Scan::register(&mut self.registry, table, program, rows, &delivery, self.now)?;
            if let Some(recorder) = &mut self.recorder {
                registered.each_page(|page| recorder.wanted(page, self.now));
            }
            self.scans.push(Scan { stream, ..registered });
            self.workers.extend((0..delivery.workers()).map(|_| Worker::new(scan, &self.scans[scan])));
        }
        for worker in first..self.workers.len() {
            self.go_on(worker)?;
        }
        Ok(())
    }

    /// A worker without work looks for the next piece.
    fn go_on(&mut self, worker: usize) -> Result<(), ClosedError> {
        self.release_done(worker);
        let state = &mut self.workers[worker];
        let scan = &self.scans[state.scan];
        if state.at == scan.rows.end {
            let scan = state.scan;
            state.state = WorkerState::Done;
            return self.ended(scan);
        }
        let mut wanted = Vec::new();
        state.wants(scan, &mut wanted);
        for held in wanted {
            let page = held.page;
            self.workers[worker].held.push(held);
            match self.ask(page, worker) {
                Asked::Here(frame) => self.workers[worker].gets(page, Got::Frame(frame)),
                Asked::Begun | Asked::Coming => {}
            }
        }
        self.work_if_ready(worker);
        Ok(())
    }

    /// A worker asks the pool for a page.
    fn ask(&mut self, page: PageId, worker: usize) -> Asked {
        let id = self.scans[self.workers[worker].scan].id;
        let access = Access { page, scan: Some(id), write: false, at: self.now };
        if !self.memory.is_resident(page) {
            self.predictor.missed(id, page, self.now);
        }
        let asked = self.memory.ask(access, Waiter::Worker(worker), &self.predictor);
        if asked == Asked::Begun {
            self.read(access);
        }
        self.note_left();
        asked
    }

    /// Sends a read to the device.
    fn read(&mut self, access: Access) {
        let view = access.scan.and_then(|scan| self.predictor.scan(scan));
        let need = view.map_or(0, |view| ((view.length - view.position) as f64 * view.pace) as Tick);
        self.device.submit(access.page, need);
        self.outcome.reads += 1;
    }

    /// Tells those who must know which pages have left.
    fn note_left(&mut self) {
        self.memory.left.clear();
    }

    /// Begins the worker's piece of work if all pages of it are there.
    fn work_if_ready(&mut self, worker: usize) {
        let state = &mut self.workers[worker];
        let scan = &self.scans[state.scan];
        if let Some(end) = state.ready_until(scan) {
            let work = ((end - state.at) as f64 * scan.program.row_cost) as Tick;
            state.end = end;
            state.state = WorkerState::Works;
            self.cores.submit(worker, work);
        }
    }

    /// A page has come.
    fn arrived(&mut self, page: PageId) {
        let (waiting, frame) = self.memory.arrive(page, self.now);
        let got = frame.map_or(Got::PastPool, Got::Frame);
        for waiter in waiting {
            match waiter {
                Waiter::Worker(worker) => {
                    self.workers[worker].gets(page, got);
                    if self.workers[worker].state == WorkerState::Waits {
                        self.work_if_ready(worker);
                    }
                }
            }
        }
    }

    /// A worker has done its piece.
    fn worked(&mut self, worker: usize) -> Result<(), ClosedError> {
        let state = &mut self.workers[worker];
        let scan = &self.scans[state.scan];
        (state.at, state.state) = (state.end, WorkerState::Waits);
        self.predictor.report(scan.id, state.at - scan.rows.start, self.now);
        self.go_on(worker)
    }

    /// Lets go of the pages that lie behind the worker.
    fn release_done(&mut self, worker: usize) {
        let state = &mut self.workers[worker];
        let at = state.at;
        for held in state.held.extract_if(.., |held| held.until <= at) {
            if let Got::Frame(frame) = held.got {
                self.memory.release(frame);
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.read(held.page, self.now);
            }
        }
    }

    /// A registration has nothing more to read.
    fn ended(&mut self, scan: usize) -> Result<(), ClosedError> {
        let Scan { id, stream, .. } = self.scans[scan];
        self.registry.finish(id, self.now);
        self.streams[stream].running -= 1;
        if self.streams[stream].running == 0 { self.next_scan(stream) } else { Ok(()) }
    }
}
