//! A disk that remembers what was done to it, so that its power can be cut at any moment
//! afterwards.

use std::collections::HashMap;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use pagecast::storage::{DirectIo, Generation, Opener, Storage};
use pagecast_core::random::Random;

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

#[derive(Clone, Debug)]
enum Operation {
    Write {
        path: PathBuf,
        offset: usize,
        bytes: Vec<u8>,
        /// How long the file is for the process when it writes: it does not become longer than
        /// before and shorter than that.
        len: usize,
    },
    Resize {
        path: PathBuf,
        len: usize,
    },
    Sync {
        path: PathBuf,
    },
    /// A sync that failed: what was written before it is no longer tried.
    FailedSync {
        path: PathBuf,
    },
}

struct State {
    /// As the process sees them.
    files: HashMap<PathBuf, Vec<u8>>,
    /// As they were at first.
    before: HashMap<PathBuf, Vec<u8>>,
    done: Vec<Operation>,
    random: Random,
    failure: (Failure, f64),
    failures: usize,
    unit: usize,
}

#[derive(Clone)]
pub(crate) struct Disk(Arc<Mutex<State>>);

impl Disk {
    /// An empty one that writes units of `unit` bytes whole.
    pub(crate) fn new(seed: u64, unit: usize) -> Self {
        Self::with(HashMap::new(), seed, unit)
    }

    fn with(files: HashMap<PathBuf, Vec<u8>>, seed: u64, unit: usize) -> Self {
        let before = files.clone();
        let random = Random::new(seed);
        let failure = (Failure::None, 0.0);
        Self(Arc::new(Mutex::new(State { files, before, done: Vec::new(), random, failure, failures: 0, unit })))
    }

    /// From now on an operation of that kind fails with this probability.
    pub(crate) fn fail(&self, failure: Failure, probability: f64) {
        self.lock().failure = (failure, probability);
    }

    pub(crate) fn failures(&self) -> usize {
        self.lock().failures
    }

    pub(crate) fn operations(&self) -> usize {
        self.lock().done.len()
    }

    /// What the device holds, operation by operation.
    pub(crate) fn replay(&self) -> Replay {
        let state = self.lock();
        let (durable, done) = (state.before.clone(), state.done.clone());
        Replay { durable, pending: Vec::new(), done, next: 0, unit: state.unit }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl State {
    fn fails(&mut self, failure: Failure) -> bool {
        let fails = self.failure.0 == failure && self.random.unit() < self.failure.1;
        self.failures += usize::from(fails);
        fails
    }

    fn do_to(&mut self, operation: Operation) {
        apply(&mut self.files, &operation, |_| true, 1);
        self.done.push(operation);
    }
}

/// Does an operation, of a write those parts of `unit` bytes that `survives` says.
fn apply(
    files: &mut HashMap<PathBuf, Vec<u8>>,
    operation: &Operation,
    mut survives: impl FnMut(usize) -> bool,
    unit: usize,
) {
    match operation {
        Operation::Write { path, offset, bytes, len } => {
            let file = files.entry(path.clone()).or_default();
            if file.len() < offset + bytes.len() {
                file.resize((*len).max(offset + bytes.len()), 0);
            }
            let unit = if unit == 1 { bytes.len().max(1) } else { unit };
            for (number, part) in bytes.chunks(unit).enumerate() {
                if survives(number) {
                    let start = offset + number * unit;
                    file[start..start + part.len()].copy_from_slice(part);
                }
            }
        }
        // Files only grow here, and a growth that reaches the device late takes nothing away.
        Operation::Resize { path, len } => {
            let file = files.entry(path.clone()).or_default();
            file.resize(file.len().max(*len), 0);
        }
        Operation::Sync { .. } | Operation::FailedSync { .. } => {}
    }
}

/// The device after some of the operations.
pub(crate) struct Replay {
    durable: HashMap<PathBuf, Vec<u8>>,
    pending: Vec<Operation>,
    done: Vec<Operation>,
    next: usize,
    unit: usize,
}

impl Replay {
    /// The next operation is done.
    pub(crate) fn step(&mut self) {
        let Some(operation) = self.done.get(self.next).cloned() else { return };
        self.next += 1;
        let reaches = |path: &PathBuf, durable: &mut HashMap<_, _>, pending: &mut Vec<Operation>, all: bool| {
            pending.retain(|one| {
                let is_of = one.path() == path;
                // Of what a failed sync gave up, every second write was on the device already.
                if is_of && (all || one.offset() % 2 == 0) {
                    apply(durable, one, |_| true, 1);
                }
                !is_of
            });
        };
        match &operation {
            Operation::Sync { path } => reaches(path, &mut self.durable, &mut self.pending, true),
            Operation::FailedSync { path } => reaches(path, &mut self.durable, &mut self.pending, false),
            Operation::Write { .. } | Operation::Resize { .. } => self.pending.push(operation),
        }
    }

    /// The disk, with what a power cut has left on it.
    pub(crate) fn disk_of(&self, files: HashMap<PathBuf, Vec<u8>>) -> Disk {
        Disk::with(files, 0, self.unit)
    }

    /// The power is cut in the middle of the next operation. What was synced is there; of the rest
    /// each is there, lost, or there in part, in any order.
    pub(crate) fn power_cut(&self, random: &mut Random) -> HashMap<PathBuf, Vec<u8>> {
        let mut files = self.durable.clone();
        let under_way = self.done.get(self.next).into_iter();
        let mut pending: Vec<&Operation> = self.pending.iter().chain(under_way).collect();
        for i in (1..pending.len()).rev() {
            pending.swap(i, random.below(i as u32 + 1) as usize);
        }
        for operation in pending {
            match random.below(3) {
                0 => {}
                1 => apply(&mut files, operation, |_| true, self.unit),
                _ => apply(&mut files, operation, |_| random.below(2) == 0, self.unit),
            }
        }
        files.entry("log".into()).or_default();
        files
    }
}

impl Operation {
    fn path(&self) -> &PathBuf {
        match self {
            Operation::Write { path, .. }
            | Operation::Resize { path, .. }
            | Operation::Sync { path }
            | Operation::FailedSync { path } => path,
        }
    }

    /// Something that differs between writes.
    fn offset(&self) -> usize {
        match self {
            Operation::Write { offset, .. } => offset / SECTOR / 8,
            _ => 0,
        }
    }
}

impl Opener for Disk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Storage>> {
        self.open_to_write(path, false)
    }

    fn open_to_write(&self, path: &Path, create: bool) -> io::Result<Arc<dyn Storage>> {
        let mut state = self.lock();
        if !state.files.contains_key(path) {
            if !create {
                return Err(io::ErrorKind::NotFound.into());
            }
            state.files.insert(path.to_owned(), Vec::new());
        }
        Ok(Arc::new(DiskFile { disk: self.clone(), path: path.to_owned() }))
    }

    fn describe(&self) -> String {
        "a disk that remembers".to_owned()
    }
}

struct DiskFile {
    disk: Disk,
    path: PathBuf,
}

impl Storage for DiskFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn generation(&self) -> Generation {
        Generation::of_object(self.len(), 0, None)
    }

    fn current(&self) -> io::Result<Generation> {
        Ok(self.generation())
    }

    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let state = self.disk.lock();
        let file = &state.files[&self.path];
        let mut rest = &file[file.len().min(offset as usize)..];
        rest.read_vectored(bufs)
    }

    fn direct(&self) -> DirectIo {
        DirectIo::Direct
    }

    fn len(&self) -> u64 {
        self.disk.lock().files[&self.path].len() as u64
    }

    fn is_writable(&self) -> bool {
        true
    }

    /// Now and then shorter than asked for, and sometimes failing in the middle.
    fn write_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.disk.lock();
        let mut bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        let fails = self.path != Path::new("log") && state.fails(Failure::Writes);
        if fails || state.random.below(16) == 0 {
            let keep = state.random.below(bytes.len() as u32) as usize + 1;
            bytes.truncate(keep.next_multiple_of(state.unit));
        }
        let written = bytes.len();
        let len = state.files.get(&self.path).map_or(0, Vec::len);
        state.do_to(Operation::Write { path: self.path.clone(), offset: offset as usize, bytes, len });
        if fails { Err(io::Error::other("a failure in the middle of a write")) } else { Ok(written) }
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        let path = self.path.clone();
        if state.fails(Failure::Syncs) {
            state.do_to(Operation::FailedSync { path });
            return Err(io::Error::other("a failure of a sync"));
        }
        state.do_to(Operation::Sync { path });
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.lock().do_to(Operation::Resize { path: self.path.clone(), len: len as usize });
        Ok(())
    }
}
