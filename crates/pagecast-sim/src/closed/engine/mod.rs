//! The loop: what happens next in logical time, and who goes on then.

mod order;
mod streams;

use crate::closed::delivery::Delivery;
use crate::closed::device::{Cores, Device, Machine};
use crate::closed::manager::{Manager, UnderWay};
use crate::closed::memory::{Asked, Memory};
use crate::closed::record::Recorder;
use crate::closed::scan::{Got, Held, Scan, Taken, Way, Worker, WorkerState};
use crate::closed::words::{Words, words};
use crate::closed::workload::{Stop, Workload};
use crate::closed::{ClosedError, Outcome};
use pagecast_core::cooperation::{Load, Take};
use pagecast_core::policy::{Access, PolicySpec};
use pagecast_core::predictor::{Predictor, Registry};
use pagecast_core::{PageId, ScanId, Tick};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use streams::Stream;

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
pub(super) enum Event {
    /// The device has read a page.
    Read(PageId),
    /// A worker's piece of work is done.
    Worked(usize),
    /// A worker's scan is taken up again.
    GoesOn(usize),
    /// A stream's next query begins.
    Begins(usize),
    /// The manager is asked again for loads that it held back.
    LooksAgain,
}

/// Who waits for a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waiter {
    /// A worker that asked for it.
    Worker(usize),
    /// A load that the manager chose.
    Load(usize),
}

/// A workload while it runs.
pub(super) struct Loop<'a> {
    workload: &'a Workload,
    settings: Settings<'a>,
    now: Tick,
    events: BinaryHeap<Reverse<(Tick, u64, Event)>>,
    happened: u64,
    memory: Memory<Waiter>,
    device: Device,
    cores: Cores,
    registry: Registry<Words>,
    predictor: Predictor<Words>,
    manager: Option<Manager>,
    streams: Vec<Stream>,
    scans: Vec<Scan<'a>>,
    workers: Vec<Worker>,
    recorder: Option<Recorder>,
    /// Whether an event is to come at which the manager is asked again.
    looks_again: bool,
    outcome: Outcome,
}

impl<'a> Loop<'a> {
    pub(super) fn new(workload: &'a Workload, settings: Settings<'a>) -> Result<Self, ClosedError> {
        let config = settings.delivery.room(workload)?;
        let registry =
            Registry::format(words(config.words()), config).expect("the memory was made for this configuration");
        // A pool with a frame for every page never evicts; more frames would only cost memory.
        let frames = settings.frames.min(workload.pages());
        let delivery = settings.delivery;
        let manager = |unordered| Manager::new(delivery, unordered, workload, settings.machine.cores);
        let manager = delivery.unordered.as_ref().map(manager).transpose()?;
        let mut memory = Memory::new(settings.policy, frames, settings.seed)?;
        for &page in &workload.resident {
            memory.put(page);
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
            manager,
            streams: workload.streams.iter().map(|_| Stream::default()).collect(),
            scans: Vec::new(),
            workers: Vec::new(),
            looks_again: false,
            recorder: settings.record.then(|| Recorder::new(workload)),
            outcome: Outcome::of(workload),
        })
    }

    /// Runs all streams to their ends.
    pub(super) fn run(mut self) -> Result<Outcome, ClosedError> {
        for stream in 0..self.streams.len() {
            self.next_query(stream)?;
        }
        self.go_on_with_all()?;
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
                Event::GoesOn(worker) => self.goes_on(worker)?,
                Event::Begins(stream) => self.begin_query(stream)?,
                Event::LooksAgain => self.looks_again = false,
            }
            self.go_on_with_all()?;
        }
        self.check_all_done();
        self.outcome.busy = self.cores.busy;
        self.outcome.total = self.now;
        self.outcome.pictures = self.recorder.map(|recorder| recorder.finish(self.now));
        Ok(self.outcome)
    }

    /// Nothing may be left over: a worker that waits for nothing would be a fault of the manager.
    fn check_all_done(&self) {
        let waits = self.workers.iter().position(|worker| worker.state != WorkerState::Done);
        assert_eq!(waits, None, "this worker waits for nothing");
        self.memory.check_quiet();
        if let Some(manager) = &self.manager {
            manager.cooperation.members(|member| panic!("{member:?} is left over"));
            assert!(manager.loads.iter().all(Option::is_none), "a load is left over");
        }
    }

    /// Cores take what they have room for, whoever the manager can serve is served, and loads and
    /// reads begin. All that happens at one moment happens before anything is chosen by it.
    fn go_on_with_all(&mut self) -> Result<(), ClosedError> {
        loop {
            while let Some((worker, work)) = self.cores.begin() {
                self.later(self.now + work, Event::Worked(worker));
            }
            if self.events.peek().is_some_and(|Reverse((next, ..))| *next == self.now) {
                return Ok(());
            }
            // First those who wait: what came for them may be evicted by the next load.
            let woken = self.manager.as_mut().map_or(Vec::new(), Manager::woken);
            for &scan in &woken {
                let starves = |worker: &Worker| worker.scan == scan && worker.state == WorkerState::Starves;
                let starving: Vec<_> = (0..self.workers.len()).filter(|&at| starves(&self.workers[at])).collect();
                starving.into_iter().try_for_each(|worker| self.go_on(worker))?;
            }
            let load = self.manager.as_mut().and_then(|manager| manager.cooperation.next_load(self.now));
            if let Some(load) = load {
                self.load(load);
            }
            if woken.is_empty() && load.is_none() {
                break;
            }
        }
        while let Some((at, page)) = self.device.begin(self.now) {
            self.later(at, Event::Read(page));
        }
        let look = self.manager.as_ref().and_then(|manager| manager.cooperation.look_again(self.now));
        if let Some(ticks) = look.filter(|_| !self.looks_again) {
            self.looks_again = true;
            self.later(self.now + ticks, Event::LooksAgain);
        }
        Ok(())
    }

    pub(super) fn later(&mut self, at: Tick, event: Event) {
        self.events.push(Reverse((at, self.happened, event)));
        self.happened += 1;
    }

    /// A worker without work looks for the next piece.
    pub(super) fn go_on(&mut self, worker: usize) -> Result<(), ClosedError> {
        self.release_done(worker);
        let asked = self.workers[worker].held.len();
        let number = self.workers[worker].scan;
        match self.scans[number].taken {
            Taken::NotAnyMore => return self.worker_done(worker),
            Taken::NotBefore(then) if then > self.now => {
                self.workers[worker].state = WorkerState::Rests;
                self.later(then, Event::GoesOn(worker));
                return Ok(());
            }
            _ => {}
        }
        let (state, scan) = (&mut self.workers[worker], &self.scans[number]);
        match scan.way {
            Way::InOrder { ahead } => return self.go_on_in_order(worker, ahead),
            Way::AnyOrder(member) => {
                let Some(manager) = &mut self.manager else { return Ok(()) };
                match manager.cooperation.take(member, self.now) {
                    Take::Chunk { chunk, shared, resident } => {
                        state.want_chunk(scan, chunk);
                        if let Some(recorder) = &mut self.recorder {
                            let unit = scan.chunk(chunk).0;
                            if !resident {
                                recorder.load((number, scan), unit, self.now);
                            }
                            recorder.step((number, scan), unit, shared, self.now);
                        }
                        self.outcome.chunks += 1;
                        self.outcome.shared += u64::from(shared);
                    }
                    Take::Wait => {
                        state.state = WorkerState::Starves;
                        return Ok(());
                    }
                    Take::End => return self.worker_done(worker),
                }
            }
        }
        self.ask_for(worker, asked);
        Ok(())
    }

    /// Asks for the pages that the worker has noted from the `first` on, and begins to work if it
    /// has all that it needs.
    pub(super) fn ask_for(&mut self, worker: usize, first: usize) {
        let id = self.scans[self.workers[worker].scan].id;
        let in_order = self.workers[worker].chunk.is_none();
        self.workers[worker].state = WorkerState::Waits;
        for at in first..self.workers[worker].held.len() {
            let page = self.workers[worker].held[at].page;
            if in_order && !self.memory.is_resident(page) {
                self.predictor.missed(id, page, self.now);
            }
            let asked = self.ask(page, Some(id), Waiter::Worker(worker));
            self.outcome.counts.requests += 1;
            match asked {
                Asked::Here(frame) => self.workers[worker].held[at].got = Got::Frame(frame),
                Asked::Begun | Asked::Coming | Asked::NoRoom => self.outcome.counts.misses += 1,
            }
        }
        if let Some(chunk) = self.workers[worker].chunk {
            let place = self.scans[self.workers[worker].scan].number(chunk);
            self.predictor.complete(id, place.into(), self.now);
        }
        self.work_if_ready(worker);
    }

    /// Asks the pool for a page, and the device if nobody else has.
    fn ask(&mut self, page: PageId, scan: Option<ScanId>, who: Waiter) -> Asked {
        let access = Access { page, scan, write: false, at: self.now };
        // A load brings pages into the pool or not at all: its scan will read them for itself.
        let ahead = matches!(who, Waiter::Load(_));
        let asked = self.memory.ask(access, who, ahead, &self.predictor);
        if asked == Asked::Begun {
            let view = scan.and_then(|scan| self.predictor.scan(scan));
            let need = view.map_or(0, |view| ((view.length - view.position) as f64 * view.pace) as Tick);
            self.device.submit(page, need);
            self.outcome.reads += 1;
        }
        for page in self.memory.left.drain(..) {
            if let Some(manager) = &mut self.manager {
                manager.cooperation.left(page);
            }
        }
        asked
    }

    /// Begins a load.
    fn load(&mut self, load: Load) {
        let Some(manager) = &mut self.manager else { return };
        let (pages, number) = (manager.pages(&load), manager.loads.len());
        let Some(trigger) = manager.scan(load.member) else {
            return manager.cooperation.loaded(&load, self.now);
        };
        let scan = &self.scans[trigger];
        let (id, unit) = (scan.id, scan.chunk(load.chunk).0);
        let recorded = self.recorder.as_mut().map(|recorder| recorder.load((trigger, scan), unit, self.now));
        manager.loads.push(Some(UnderWay { load, missing: pages.len() as u32, held: Vec::new(), recorded }));
        for page in pages {
            match self.ask(page, Some(id), Waiter::Load(number)) {
                Asked::Here(frame) => self.loaded_page(number, Got::Frame(frame)),
                Asked::NoRoom => self.loaded_page(number, Got::PastPool),
                Asked::Begun | Asked::Coming => {}
            }
        }
        self.end_load(number);
    }

    /// A page of a load is there.
    fn loaded_page(&mut self, number: usize, got: Got) {
        let Some(under_way) = self.manager.as_mut().and_then(|manager| manager.loads[number].as_mut()) else { return };
        under_way.missing -= 1;
        if let Got::Frame(frame) = got {
            under_way.held.push(frame);
        }
    }

    /// Ends a load all of whose pages have come.
    fn end_load(&mut self, number: usize) {
        let Some(manager) = &mut self.manager else { return };
        if let Some(under_way) = manager.loads[number].take_if(|under_way| under_way.missing == 0) {
            manager.cooperation.loaded(&under_way.load, self.now);
            if let (Some(recorder), Some(recorded)) = (&mut self.recorder, under_way.recorded) {
                recorder.loaded(recorded, self.now);
            }
            under_way.held.into_iter().for_each(|frame| self.memory.release(frame));
        }
    }

    /// Begins the worker's piece of work if all pages of it are there.
    fn work_if_ready(&mut self, worker: usize) {
        let state = &mut self.workers[worker];
        if let Some(end) = state.ready_until() {
            let work = ((end - state.at) as f64 * self.scans[state.scan].program.row_cost) as Tick;
            (state.end, state.state) = (end, WorkerState::Works);
            self.cores.submit(worker, work);
        }
    }

    /// A page has come.
    fn arrived(&mut self, page: PageId) {
        let (waiting, frame) = self.memory.arrive(page, self.now);
        if let Some(manager) = self.manager.as_mut().filter(|_| frame.is_some()) {
            manager.cooperation.arrived(page);
        }
        let got = frame.map_or(Got::PastPool, Got::Frame);
        for waiter in waiting {
            match waiter {
                Waiter::Worker(worker) => {
                    let left = !self.workers[worker].gets(page, got);
                    if let Got::Frame(frame) = got
                        && left
                    {
                        self.memory.release(frame);
                    }
                    if self.workers[worker].state == WorkerState::Waits {
                        self.work_if_ready(worker);
                    }
                }
                Waiter::Load(number) => {
                    self.loaded_page(number, got);
                    self.end_load(number);
                }
            }
        }
    }

    /// A worker has done its piece.
    fn worked(&mut self, worker: usize) -> Result<(), ClosedError> {
        let state = &mut self.workers[worker];
        let number = state.scan;
        let scan = &mut self.scans[number];
        let stop = scan.has_read(state.end - state.at);
        state.at = state.end;
        match (scan.way, state.chunk.take()) {
            (Way::AnyOrder(member), Some(chunk)) => {
                if let Some(manager) = &mut self.manager {
                    manager.cooperation.consumed(member, chunk);
                }
            }
            _ => self.predictor.report(scan.id, scan.position(state.leg, state.at), self.now),
        }
        match stop {
            None => {}
            Some(Stop { pause: Some(pause), .. }) => scan.taken = Taken::NotBefore(self.now + pause),
            Some(Stop { pause: None, .. }) => self.cancel(number)?,
        }
        self.go_on(worker)
    }

    /// Lets go of the pages that lie behind the worker.
    fn release_done(&mut self, worker: usize) {
        let at = self.workers[worker].at;
        self.release(worker, |held| held.until <= at);
    }

    pub(super) fn release(&mut self, worker: usize, done: impl Fn(&Held) -> bool) {
        let worker = &mut self.workers[worker];
        for held in worker.held.extract_if(.., |held| done(held)) {
            if let Got::Frame(frame) = held.got {
                self.memory.release(frame);
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.read(held.page, self.now);
                self.scans[worker.scan].has_seen(held.page);
            }
        }
    }
}
