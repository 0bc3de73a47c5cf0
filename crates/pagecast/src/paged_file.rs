//! Open files: one generation of each, cut into pages.
//!
//! A file that is open to be read is a fixed generation. One that is open to be written is the same
//! relation for as long as its name stands for it, whatever the pool writes.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use pagecast_core::{PageId, RelationId};

use crate::PoolError;
use crate::seal::{self, Broken, Format, Lsn, SEAL_BYTES};
use crate::stats::{Counter, Counts, PoolStats, stripe};
use crate::storage::{Changed, Generation, RequestShape, Storage};
use crate::sync::atomic::{AtomicBool, Ordering::SeqCst};
use crate::sync::{Mutex, RwLock, RwLockReadGuard, unless_mistaken};

/// One generation of a file. Page `k` is bytes `k * page_size .. (k + 1) * page_size`; the last one
/// ends with the file.
pub(crate) struct PagedFile {
    id: RelationId,
    storage: Arc<dyn Storage>,
    page_size: u32,
    shape: RequestShape,
    /// Set once, when it is closed, or noticed that the file is another one now: why nobody reads
    /// it any more.
    stale: OnceLock<PoolError>,
    /// Requests for its pages, by stripe, if they are counted.
    counts: Option<Box<[Counts]>>,
    format: Format,
    /// Whether something was written that is not yet safe from a crash.
    is_unsynced: AtomicBool,
    /// One sync at a time, so that nobody takes another's sync that is under way for done. Why one
    /// has failed, if one has.
    sync: Mutex<Option<PoolError>>,
    /// Written in place by one, or read past the pool by many.
    on_storage: RwLock<()>,
    /// Held while the file grows.
    growth: Mutex<()>,
}

/// A change of the file on storage. It needs a sync that begins when the change has ended, however
/// it has ended: a sync that was under way meanwhile may have missed it.
struct Unsynced<'a>(&'a PagedFile);

impl<'a> Unsynced<'a> {
    fn new(file: &'a PagedFile) -> Self {
        #[cfg(pagecast_shuttle)]
        if crate::sync::mistake::made(crate::sync::mistake::MARKED_EARLY) {
            file.is_unsynced.store(true, SeqCst);
        }
        Self(file)
    }
}

impl Drop for Unsynced<'_> {
    fn drop(&mut self) {
        // SeqCst, here and in `sync`: whoever sees a page clean afterwards sees this too.
        unless_mistaken!(MARKED_EARLY, self.0.is_unsynced.store(true, SeqCst));
    }
}

/// What a page from storage is.
pub(crate) struct Verified {
    /// Bytes of it that are the host's.
    pub(crate) len: u32,
    /// The log record of its last change, if it says so.
    pub(crate) lsn: Lsn,
}

impl PagedFile {
    pub(crate) fn new(
        id: RelationId,
        storage: Arc<dyn Storage>,
        format: Format,
        page_size: u32,
        counts_requests: bool,
    ) -> Result<Self, PoolError> {
        let (len, max) = (storage.len(), u32::MAX);
        // A process that died may have written what the device has not.
        let is_writable = storage.is_writable();
        if len.div_ceil(u64::from(page_size)) > u64::from(max) {
            return Err(PoolError::TooLarge { path: storage.path().to_owned(), len, page_size, max });
        }
        Ok(Self {
            id,
            shape: storage.request_shape(),
            storage,
            page_size,
            stale: OnceLock::new(),
            counts: counts_requests.then(Counts::stripes),
            format,
            is_unsynced: AtomicBool::new(is_writable),
            sync: Mutex::new(None),
            on_storage: RwLock::new(()),
            growth: Mutex::new(()),
        })
    }

    /// The number under which its pages are known to policies, predictor and recorder.
    pub(crate) fn id(&self) -> RelationId {
        self.id
    }

    /// The name it was opened by.
    pub(crate) fn path(&self) -> &Path {
        self.storage.path()
    }

    /// Bytes.
    pub(crate) fn len(&self) -> u64 {
        self.storage.len()
    }

    /// Bytes of a page.
    pub(crate) fn page_size(&self) -> u32 {
        self.page_size
    }

    /// How many pages one request to its storage brings.
    pub(crate) fn pages_of_a_request(&self) -> usize {
        (self.shape.max_bytes / self.page_size as usize).max(1)
    }

    /// Over how many pages in between two requests to its storage become one.
    pub(crate) fn pages_of_a_gap(&self) -> usize {
        self.shape.max_gap / self.page_size as usize
    }

    /// How many pages it has.
    pub(crate) fn pages(&self) -> u32 {
        self.len().div_ceil(u64::from(self.page_size)) as u32
    }

    /// Whether its storage keeps no thread for a read. Of a file that is written, a read holds
    /// locks of its thread.
    pub(crate) fn starts_errands(&self) -> bool {
        self.storage.starts_errands() && !self.is_writable()
    }

    /// The page that holds byte `offset`, as policies and predictor know it.
    pub(crate) fn page(&self, block: u32) -> PageId {
        PageId::new(self.id, block)
    }

    /// The generation of the file that its pages are of.
    pub(crate) fn generation(&self) -> Generation {
        self.storage.generation()
    }

    /// The open file below.
    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Whether no change of the file is known. Costs a load of a shared flag.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.stale.get().is_none()
    }

    /// Fails if the relation was closed, or it is known that the file has changed. Looks at no
    /// file.
    pub(crate) fn check_known(&self) -> Result<(), PoolError> {
        match self.stale.get() {
            None => Ok(()),
            Some(changed) => Err(changed.clone()),
        }
    }

    /// Looks at the file, and remembers a change.
    pub(crate) fn verify(&self) -> Result<(), PoolError> {
        self.check_known()?;
        let verdict = self.storage.verify_unchanged();
        if let Err(error @ PoolError::Changed { .. }) = &verdict {
            // Whoever noticed first has already said it.
            let _ = self.stale.set(error.clone());
        }
        verdict
    }

    /// Whether its name stands for nothing any more, if that can be found out without a request.
    pub(crate) fn is_gone(&self) -> bool {
        let is_missing = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
        !self.storage.compares_reads() && self.storage.current().is_err_and(is_missing)
    }

    /// Of an answer that has come: whether it is of this generation. Looks at the file unless its
    /// storage has compared the answer itself.
    pub(crate) fn verify_read(&self) -> Result<(), PoolError> {
        if self.storage.compares_reads() { self.check_known() } else { self.verify() }
    }

    /// What a read failed with, for its callers. A change is remembered.
    pub(crate) fn read_error(&self, offset: u64, len: u64, error: io::Error) -> PoolError {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Changed>()) {
            Some(Changed { how }) => self.changed(how.clone()),
            None => PoolError::io(self.path(), offset, len, error),
        }
    }

    /// Remembers that the file is another one now, and says how it was noticed first.
    fn changed(&self, how: String) -> PoolError {
        self.stale.get_or_init(|| PoolError::Changed { path: self.path().to_owned(), how }).clone()
    }

    /// Counts a request for one of its pages.
    pub(crate) fn count(&self, counter: Counter) {
        if let Some(counts) = &self.counts {
            counts[stripe()].add(counter, 1);
        }
    }

    /// The requests for its pages, if they are counted.
    pub(crate) fn counted(&self) -> Option<PoolStats> {
        self.counts.as_ref().map(|counts| PoolStats::sum(counts.iter()))
    }

    /// Whether its pages may be changed.
    pub(crate) fn is_writable(&self) -> bool {
        self.storage.is_writable()
    }

    /// Whether its pages carry a checksum, in their last [`SEAL_BYTES`] bytes.
    pub(crate) fn is_sealed(&self) -> bool {
        self.format == Format::Sealed
    }

    /// Checks a page that came from storage into a frame of `bytes`.
    pub(crate) fn verify_page(&self, block: u32, bytes: &[u8]) -> Result<Verified, PoolError> {
        let len = self.page_len(block);
        match self.format {
            Format::Raw => Ok(Verified { len, lsn: Lsn::NONE }),
            Format::Sealed => match seal::verify(&bytes[..len as usize], block) {
                Ok(lsn) => Ok(Verified { len: len - SEAL_BYTES, lsn }),
                Err(Broken::Checksum) => Err(PoolError::Checksum { path: self.path().to_owned(), block }),
                Err(Broken::Misplaced { block: found }) => {
                    Err(PoolError::Misplaced { path: self.path().to_owned(), block, found })
                }
            },
        }
    }

    /// Fails unless it is open to be written.
    pub(crate) fn check_writable(&self) -> Result<(), PoolError> {
        if self.is_writable() { Ok(()) } else { Err(PoolError::NotWritable { path: self.path().to_owned() }) }
    }

    /// Makes what was written before the call safe from a crash. After a failure nothing is, ever:
    /// nobody knows what is on the device.
    pub(crate) fn sync(&self) -> Result<(), PoolError> {
        let mut failure = self.sync.lock();
        if let Some(failure) = &*failure {
            return Err(failure.clone());
        }
        if !self.is_unsynced.swap(false, SeqCst) {
            return Ok(());
        }
        self.storage.sync().map_err(|source| {
            let error = PoolError::Sync { path: self.path().to_owned(), source: Arc::new(source) };
            unless_mistaken!(FAILURE_FORGOTTEN, *failure = Some(error.clone()));
            error
        })
    }

    /// Runs a write while nobody reads the file past the pool.
    pub(crate) fn write<R>(&self, write: impl FnOnce(&dyn Storage) -> R) -> R {
        let _unsynced = Unsynced::new(self);
        let _alone = self.on_storage.write();
        write(self.storage.as_ref())
    }

    /// Nobody writes the file while this is held.
    pub(crate) fn shared_on_storage(&self) -> RwLockReadGuard<'_, ()> {
        self.on_storage.read()
    }

    /// Adds `pages` pages of zeros; the first of them.
    pub(crate) fn grow(&self, pages: u32) -> Result<u32, PoolError> {
        self.check_writable()?;
        let _one = self.growth.lock();
        let first = self.pages();
        let (len, max) = ((u64::from(first) + u64::from(pages)) * u64::from(self.page_size), u32::MAX);
        if first.checked_add(pages).is_none() {
            return Err(PoolError::TooLarge { path: self.path().to_owned(), len, page_size: self.page_size, max });
        }
        let _unsynced = Unsynced::new(self);
        self.storage.set_len(len).map_err(|source| PoolError::Write {
            path: self.path().to_owned(),
            offset: len,
            len: 0,
            source: Arc::new(source),
        })?;
        Ok(first)
    }

    /// What its pages are.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Another relation has the file from now on.
    pub(crate) fn replace(&self) {
        self.changed("it was opened anew".to_owned());
    }

    /// Fails whoever asks from now on: the relation is closed.
    pub(crate) fn close(&self) {
        let _ = self.stale.set(PoolError::RelationClosed { path: self.path().to_owned() });
    }

    /// Bytes of page `block` on storage.
    pub(crate) fn page_len(&self, block: u32) -> u32 {
        let start = u64::from(block) * u64::from(self.page_size);
        self.len().saturating_sub(start).min(u64::from(self.page_size)) as u32
    }

    /// Fails unless there is such a page.
    pub(crate) fn check_block(&self, block: u32) -> Result<(), PoolError> {
        if block < self.pages() {
            return Ok(());
        }
        Err(PoolError::NoPage { path: self.path().to_owned(), block, pages: self.pages() })
    }

    /// Fails unless the file has all bytes of `range`.
    pub(crate) fn contains(&self, range: &Range<u64>) -> Result<(), PoolError> {
        if range.start <= range.end && range.end <= self.len() {
            return Ok(());
        }
        let path: PathBuf = self.path().to_owned();
        Err(PoolError::OutOfBounds { path, start: range.start, end: range.end, len: self.len() })
    }
}

impl fmt::Debug for PagedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedFile").field("id", &self.id).field("path", &self.path()).field("len", &self.len()).finish()
    }
}
