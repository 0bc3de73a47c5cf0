//! Storage that fails as it is told: for the tests of this crate and of those that build on it.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::forward::forward;
use super::{Opener, Storage, head, head_of};

/// What happens to one read.
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

/// What happens to one write, or one sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteFault {
    /// Nothing: it is done.
    None,
    /// It fails with this kind of error; nothing is written.
    Error(io::ErrorKind),
    /// At most this many bytes are written, and it says so. A sync is done.
    Short(usize),
    /// At most this many bytes are written, and it fails: a page may be torn. A sync fails.
    Torn(usize),
    /// It says that it is done, and nothing is. Only a checksum, or a copy elsewhere, tells.
    Lost,
    /// The storage panics.
    Panic,
}

/// The faults to come, one a request and in order; requests beyond them are answered. Reads, writes
/// and syncs meet their own. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<Planned>>);

#[derive(Debug, Default)]
struct Planned {
    reads: VecDeque<Fault>,
    writes: VecDeque<WriteFault>,
    syncs: VecDeque<WriteFault>,
}

impl Faults {
    /// The next reads meet `faults`, after those that were planned before.
    pub fn plan(&self, faults: impl IntoIterator<Item = Fault>) {
        self.lock().reads.extend(faults);
    }

    /// The next writes meet `faults`, after those that were planned before.
    pub fn plan_writes(&self, faults: impl IntoIterator<Item = WriteFault>) {
        self.lock().writes.extend(faults);
    }

    /// The next syncs meet `faults`, after those that were planned before.
    pub fn plan_syncs(&self, faults: impl IntoIterator<Item = WriteFault>) {
        self.lock().syncs.extend(faults);
    }

    /// The requests to come meet no fault.
    pub fn clear(&self) {
        *self.lock() = Planned::default();
    }

    fn lock(&self) -> MutexGuard<'_, Planned> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_read(&self) -> Fault {
        self.lock().reads.pop_front().unwrap_or(Fault::None)
    }

    fn next_write(&self) -> WriteFault {
        self.lock().writes.pop_front().unwrap_or(WriteFault::None)
    }

    fn next_sync(&self) -> WriteFault {
        self.lock().syncs.pop_front().unwrap_or(WriteFault::None)
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

    fn open_to_write(&self, path: &Path, create: bool) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(FaultFile { file: self.files.open_to_write(path, create)?, faults: self.faults.clone() }))
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.files.make_folder(path)
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
    forward!(file);

    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self.faults.next_read() {
            Fault::None => self.file.read_at(offset, bufs),
            Fault::Error(kind) => Err(kind.into()),
            Fault::Short(limit) => self.file.read_at(offset, &mut head(bufs, limit)),
            Fault::Panic => panic!("a planned panic of the storage"),
        }
    }

    fn write_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.faults.next_write() {
            WriteFault::None => self.file.write_at(offset, bufs),
            WriteFault::Error(kind) => Err(kind.into()),
            WriteFault::Short(limit) => self.file.write_at(offset, &head_of(bufs, limit)),
            WriteFault::Torn(limit) => {
                self.file.write_at(offset, &head_of(bufs, limit))?;
                Err(io::Error::other("a planned failure in the middle of a write"))
            }
            WriteFault::Lost => Ok(bufs.iter().map(|buf| buf.len()).sum()),
            WriteFault::Panic => panic!("a planned panic of the storage"),
        }
    }

    fn sync(&self) -> io::Result<()> {
        match self.faults.next_sync() {
            WriteFault::None | WriteFault::Short(_) => self.file.sync(),
            WriteFault::Error(kind) => Err(kind.into()),
            WriteFault::Torn(_) => Err(io::Error::other("a planned failure of a sync")),
            WriteFault::Lost => Ok(()),
            WriteFault::Panic => panic!("a planned panic of the storage"),
        }
    }
}
