//! Open files: one generation of each, cut into pages.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use pagecast_core::{PageId, RelationId};

use crate::stats::{Counter, Counts, PoolStats, stripe};
use crate::storage::{Generation, Storage};
use crate::{PoolError, PoolOptions};

/// One generation of a file. Page `k` is bytes `k * page_size .. (k + 1) * page_size`; the last one ends with the file.
pub struct Relation {
    id: RelationId,
    storage: Arc<dyn Storage>,
    page_size: u32,
    /// The pool that numbered it and cut it into pages.
    pool: u64,
    /// Set once, when it is noticed that the file is another one now: what differs.
    stale: OnceLock<PoolError>,
    /// Requests for its pages, by stripe, if they are counted.
    counts: Option<Box<[Counts]>>,
}

impl Relation {
    pub(crate) fn new(
        id: RelationId,
        storage: Arc<dyn Storage>,
        options: &PoolOptions,
        pool: u64,
    ) -> Result<Self, PoolError> {
        let (len, max, page_size) = (storage.len(), u32::MAX, options.page_size);
        if len.div_ceil(u64::from(page_size)) > u64::from(max) {
            return Err(PoolError::TooLarge { path: storage.path().to_owned(), len, page_size, max });
        }
        let counts = options.count_relations.then(Counts::stripes);
        Ok(Self { id, storage, page_size, pool, stale: OnceLock::new(), counts })
    }

    /// The number under which its pages are known to policies, predictor and recorder.
    pub fn id(&self) -> RelationId {
        self.id
    }

    /// The name it was opened by.
    pub fn path(&self) -> &Path {
        self.storage.path()
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        self.storage.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> u32 {
        self.page_size
    }

    /// How many pages it has.
    pub fn pages(&self) -> u32 {
        self.len().div_ceil(u64::from(self.page_size)) as u32
    }

    /// The page that holds byte `offset`, as policies and predictor know it.
    pub fn page(&self, block: u32) -> PageId {
        PageId::new(self.id, block)
    }

    /// The generation of the file that its pages are of.
    pub fn generation(&self) -> Generation {
        self.storage.generation()
    }

    /// The open file below.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Whether it is of that pool, and no change of the file is known. Costs a load of a shared flag.
    #[inline]
    pub(crate) fn is_readable_by(&self, pool: u64) -> bool {
        self.pool == pool && self.stale.get().is_none()
    }

    /// Fails unless it is of that pool, and if it is known that the file has changed.
    pub(crate) fn check(&self, pool: u64) -> Result<(), PoolError> {
        if self.pool != pool {
            return Err(PoolError::OtherPool { path: self.path().to_owned() });
        }
        self.check_known()
    }

    /// Fails with [`PoolError::Changed`] if it is known that the file has changed. Looks at no file.
    pub(crate) fn check_known(&self) -> Result<(), PoolError> {
        match self.stale.get() {
            None => Ok(()),
            Some(changed) => Err(changed.clone()),
        }
    }

    /// Looks at the file, and remembers a change.
    pub fn verify(&self) -> Result<(), PoolError> {
        self.check_known()?;
        let verdict = self.storage.verify_unchanged();
        if let Err(error @ PoolError::Changed { .. }) = &verdict {
            // Whoever noticed first has already said it.
            let _ = self.stale.set(error.clone());
        }
        verdict
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

    /// Bytes of page `block`.
    pub(crate) fn page_len(&self, block: u32) -> u32 {
        let start = u64::from(block) * u64::from(self.page_size);
        self.len().saturating_sub(start).min(u64::from(self.page_size)) as u32
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

impl fmt::Debug for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relation").field("id", &self.id).field("path", &self.path()).field("len", &self.len()).finish()
    }
}
