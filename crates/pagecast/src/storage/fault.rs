//! Storage that fails as it is told: for the tests of this crate and of those that build on it.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::{DirectIo, Generation, Opener, Storage, head};

/// What happens to one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nothing: it is answered.
    None,
    /// It fails with this kind of error.
    Error(io::ErrorKind),
    /// It is answered with at most this many bytes.
    Short(usize),
    /// The storage panics.
    Panic,
}

/// The faults to come, one a request and in order; requests beyond them are answered. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<VecDeque<Fault>>>);

impl Faults {
    /// The next requests meet `faults`, after those that were planned before.
    pub fn plan(&self, faults: impl IntoIterator<Item = Fault>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(faults);
    }

    /// The requests to come meet no fault.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn next(&self) -> Fault {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or(Fault::None)
    }
}

/// The files of another opener, whose requests meet planned faults.
pub struct FaultStorage<O> {
    /// Where the files are.
    pub files: O,
    /// What their requests meet.
    pub faults: Faults,
}

impl<O: Opener> Opener for FaultStorage<O> {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(FaultFile { file: self.files.open(path)?, faults: self.faults.clone() }))
    }

    fn describe(&self) -> String {
        format!("{}, with planned faults", self.files.describe())
    }
}

struct FaultFile {
    file: Arc<dyn Storage>,
    faults: Faults,
}

impl Storage for FaultFile {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn generation(&self) -> Generation {
        self.file.generation()
    }

    fn current(&self) -> io::Result<Generation> {
        self.file.current()
    }

    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self.faults.next() {
            Fault::None => self.file.read_at(offset, bufs),
            Fault::Error(kind) => Err(kind.into()),
            Fault::Short(limit) => self.file.read_at(offset, &mut head(bufs, limit)),
            Fault::Panic => panic!("a planned panic of the storage"),
        }
    }

    fn alignment(&self) -> usize {
        self.file.alignment()
    }

    fn direct(&self) -> DirectIo {
        self.file.direct()
    }
}
