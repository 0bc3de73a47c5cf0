//! A disk whose operating-system cache and device are apart, and that remembers what was done to
//! it: so a process can be killed, or the power cut, in the middle of any operation afterwards.
//!
//! A write goes to the cache, and to the device when a sync says so or when the system likes. When
//! a process is killed, the next one sees the cache, and the device lacks what it lacked before.
//! When the power goes, each write that was not synced is there, lost, or there in part, in any
//! order. After a sync that failed the cache has the writes still and nobody tries them again.
//! Names of files and folders are safe when the call that makes them returns, as of local files.
#![allow(dead_code)] // Each of those who share it uses a part.

mod file;
mod media;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pagecast::storage::{Opener, Storage};
use pagecast_core::random::Random;

use file::DiskFile;
pub(crate) use media::{End, Files};
use media::{Media, Operation};

/// What a device writes whole.
pub(crate) const SECTOR: usize = 512;

/// What fails now and then.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Failure {
    None,
    /// Writes of pages: some bytes are written, and an error is said.
    Writes,
    /// Syncs: what was written since the last one may never reach the device.
    Syncs,
}

/// What becomes of a call that fails as it was planned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Planned {
    /// Nothing of it is done.
    Nothing,
    /// Of a write, a part is done.
    Part,
    /// All of it is done, and an error is said nevertheless. A sync has done nothing.
    All,
}

/// One call, counted from when this was planned, and all after it if it lasts.
#[derive(Clone, Copy, Debug)]
struct Plan {
    calls_left: usize,
    what: Planned,
    lasts: bool,
}

struct State {
    media: Media,
    /// As it was at first.
    before: Media,
    done: Vec<Operation>,
    random: Random,
    failure: (Failure, f64),
    failures: usize,
    /// Calls that could fail, so far.
    calls: usize,
    plan: Option<Plan>,
    unit: usize,
    /// What is called where another thread may come between.
    pause: Option<fn()>,
}

#[derive(Clone)]
pub(crate) struct Disk(Arc<Mutex<State>>);

impl Disk {
    /// An empty one that writes units of `unit` bytes whole.
    pub(crate) fn new(seed: u64, unit: usize) -> Self {
        Self::with(Media::default(), seed, unit)
    }

    /// One that holds these files, all of them safe.
    pub(crate) fn holding(files: Files, seed: u64, unit: usize) -> Self {
        Self::with(Media::holding(files), seed, unit)
    }

    fn with(media: Media, seed: u64, unit: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            before: media.clone(),
            media,
            done: Vec::new(),
            random: Random::new(seed),
            failure: (Failure::None, 0.0),
            failures: 0,
            calls: 0,
            plan: None,
            unit,
            pause: None,
        })))
    }

    /// From now on an operation of that kind fails with this probability.
    pub(crate) fn fail(&self, failure: Failure, probability: f64) {
        self.lock().failure = (failure, probability);
    }

    /// The `call`th call from here fails, 0 being the next, and with `lasts` all after it.
    pub(crate) fn fail_at(&self, call: usize, what: Planned, lasts: bool) {
        self.lock().plan = Some(Plan { calls_left: call, what, lasts });
    }

    /// No call fails any more.
    pub(crate) fn heal(&self) {
        let mut state = self.lock();
        (state.plan, state.failure) = (None, (Failure::None, 0.0));
    }

    /// Calls `pause` before and after each call.
    pub(crate) fn pause(&self, pause: fn()) {
        self.lock().pause = Some(pause);
    }

    pub(crate) fn failures(&self) -> usize {
        self.lock().failures
    }

    /// Calls that could fail, so far.
    pub(crate) fn calls(&self) -> usize {
        self.lock().calls
    }

    pub(crate) fn operations(&self) -> usize {
        self.lock().done.len()
    }

    /// The files as processes see them.
    pub(crate) fn files(&self) -> Files {
        self.lock().media.cache.clone()
    }

    /// A byte that a power cut surely leaves, now.
    pub(crate) fn surely(&self, path: &Path, offset: usize) -> u8 {
        self.lock().media.on_device(path).get(offset).copied().unwrap_or(0)
    }

    /// What becomes of the disk, operation by operation.
    pub(crate) fn replay(&self) -> Replay {
        let state = self.lock();
        Replay { media: state.before.clone(), done: Arc::new(state.done.clone()), next: 0, unit: state.unit }
    }

    /// The disk after the end of a process that is between two operations.
    pub(crate) fn after(&self, end: End, random: &mut Random) -> Self {
        let state = self.lock();
        Self::with(state.media.after(end, None, random, state.unit), random.next(), state.unit)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn let_others_in(&self) {
        let pause = self.lock().pause;
        pause.iter().for_each(|pause| pause());
    }

    /// A call that is one operation, or fails as planned.
    fn call(&self, operation: Operation) -> io::Result<()> {
        self.let_others_in();
        let mut state = self.lock();
        let outcome = match state.planned() {
            None => {
                state.do_to(operation);
                Ok(())
            }
            Some(what) => {
                match operation {
                    Operation::Sync { path } => state.do_to(Operation::FailedSync { path }),
                    _ if what == Planned::All => state.do_to(operation),
                    _ => {}
                }
                Err(planned())
            }
        };
        drop(state);
        self.let_others_in();
        outcome
    }
}

fn planned() -> io::Error {
    io::Error::other("a planned failure")
}

impl State {
    fn fails(&mut self, failure: Failure) -> bool {
        let fails = self.failure.0 == failure && self.random.unit() < self.failure.1;
        self.failures += usize::from(fails);
        fails
    }

    /// What is planned for this call.
    fn planned(&mut self) -> Option<Planned> {
        self.calls += 1;
        let plan = self.plan.as_mut()?;
        if plan.calls_left > 0 {
            plan.calls_left -= 1;
            return None;
        }
        let what = plan.what;
        if !plan.lasts {
            self.plan = None;
        }
        self.failures += 1;
        Some(what)
    }

    fn do_to(&mut self, operation: Operation) {
        self.media.perform(&operation);
        self.done.push(operation);
    }
}

/// The disk after some of the operations.
pub(crate) struct Replay {
    media: Media,
    done: Arc<Vec<Operation>>,
    next: usize,
    unit: usize,
}

impl Replay {
    /// The next operation is done.
    pub(crate) fn step(&mut self) {
        if let Some(operation) = self.done.get(self.next) {
            self.media.perform(operation);
            self.next += 1;
        }
    }

    /// The disk after the end of a process in the middle of the next operation.
    pub(crate) fn after(&self, end: End, random: &mut Random) -> Disk {
        let under_way = self.done.get(self.next);
        let media = self.media.after(end, under_way, random, self.unit);
        Disk::with(media, random.next(), self.unit)
    }
}

impl Opener for Disk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Storage>> {
        self.open_to_write(path, false)
    }

    fn open_to_write(&self, path: &Path, create: bool) -> io::Result<Arc<dyn Storage>> {
        let is_there = self.lock().media.cache.contains_key(path);
        let has_folder = path.parent().is_none_or(|folder| self.lock().media.has_folder(folder));
        if !is_there && (!create || !has_folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if !is_there {
            self.call(Operation::Create { path: path.to_owned() })?;
        }
        Ok(Arc::new(DiskFile::new(self, path)))
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.call(Operation::MakeFolder { path: path.to_owned() })
    }

    /// One that reads, so that all that happens has an order.
    fn threads(&self) -> u32 {
        1
    }

    fn describe(&self) -> String {
        "a disk that remembers".to_owned()
    }
}

/// Both ways for a process to end, so that a test can go through them.
pub(crate) const ENDS: [End; 2] = [End::Killed, End::PowerLost];
