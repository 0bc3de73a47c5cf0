//! Sessions: what a thread or a client keeps for itself while it uses a pool.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use pagecast_core::ScanId;

use crate::blocking::block_on;
use crate::cache::{Anyone, SessionState};
use crate::engine::{self, Engine, ReadResult};

use crate::relation::Relation;
use crate::stats::PoolStats;
use crate::tuples::{TupleId, Tuples};
use crate::{PageGuard, PoolError};

/// A thread's or client's own way to a pool: the same requests as the pool's, with hits noted in a
/// queue and counts kept in memory that nobody else writes to. A hit then writes no shared cache
/// line but that of the frame it pins.
///
/// It goes where its owner goes, from thread to thread or through an async task, and makes one
/// request at a time; pins are the relation's and outlive the session. Relations of another pool
/// are read as if there were no session. A policy that keeps an order hears of the last hits (half
/// of [`Batching::queue`](crate::Batching) of them, or all if it is busy) later, at the latest when
/// a victim is chosen, or the session misses or ends. A session takes about 3 KiB beside the pool's
/// memory.
///
/// Callers without a session ([`Relation::pin`](crate::Relation::pin)) share a few queues and
/// counts, which costs them a lock of their own and at more than sixteen threads an occasional
/// wait.
///
/// ```
/// use pagecast::storage::{Device, MemoryFiles};
/// use pagecast::{Pool, PoolOptions};
///
/// let files = MemoryFiles::new();
/// files.write("table", vec![7u8; 300_000]);
/// let device = Device::new(files, None);
/// let pool = Pool::new(PoolOptions::default().memory(1 << 20).device(device).policy("2q".parse()?))?;
/// let table = pool.open("table".as_ref())?;
///
/// let mut session = pool.session();
/// let first = session.pin(&table, 0, None)?;
/// let second = session.pin(&table, 1, None)?;
/// assert_eq!((first[0], second[0]), (7, 7));
/// assert_eq!(session.stats().requests, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session<'pool> {
    engine: &'pool Arc<Engine>,
    state: SessionState,
    /// The item that was read last, for who looks at it in place.
    item: Vec<u8>,
}

impl<'pool> Session<'pool> {
    pub(crate) fn new(engine: &'pool Arc<Engine>) -> Self {
        Self { engine, state: SessionState::enter(&engine.cache), item: Vec::new() }
    }

    /// The session's queue and counts, for a relation of its pool.
    #[inline]
    fn state_for(&mut self, relation: &Relation) -> Option<&mut SessionState> {
        relation.is_of(self.engine).then_some(&mut self.state)
    }

    /// As [`Relation::pin`](crate::Relation::pin).
    ///
    /// # Errors
    ///
    /// As [`Relation::pin`](crate::Relation::pin).
    #[inline]
    pub fn pin<'r>(
        &mut self,
        relation: &'r Relation,
        block: u32,
        scan: Option<ScanId>,
    ) -> Result<PageGuard<'r>, PoolError> {
        match self.state_for(relation) {
            Some(state) => relation.engine.pin(state, &relation.file, block, scan),
            None => Self::pin_elsewhere(relation, block, scan),
        }
    }

    /// Apart, so that the way to a hit stays short.
    #[cold]
    fn pin_elsewhere(relation: &Relation, block: u32, scan: Option<ScanId>) -> Result<PageGuard<'_>, PoolError> {
        relation.pin(block, scan)
    }

    /// As [`Relation::pin_async`](crate::Relation::pin_async).
    ///
    /// # Errors
    ///
    /// As [`Relation::pin`](crate::Relation::pin).
    pub async fn pin_async<'r>(
        &mut self,
        relation: &'r Relation,
        block: u32,
        scan: Option<ScanId>,
    ) -> Result<PageGuard<'r>, PoolError> {
        match self.state_for(relation) {
            Some(state) => relation.engine.pin_async(state, relation.file.clone(), block, scan).await,
            None => relation.pin_async(block, scan).await,
        }
    }

    /// As [`Relation::read`](crate::Relation::read).
    ///
    /// # Errors
    ///
    /// As [`Relation::read`](crate::Relation::read).
    pub fn read(
        &mut self,
        relation: &Relation,
        ranges: &[Range<u64>],
        scan: Option<ScanId>,
    ) -> impl Future<Output = Result<ReadResult, PoolError>> + Send + use<'_, 'pool> {
        let (relation, ranges) = (relation.clone(), ranges.to_vec());
        async move {
            match self.state_for(&relation) {
                Some(state) => engine::read(relation.engine, state, relation.file, ranges, scan).await,
                None => relation.read(&ranges, scan).await,
            }
        }
    }

    /// As [`read`](Self::read), in this thread.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_blocking(
        &mut self,
        relation: &Relation,
        ranges: &[Range<u64>],
        scan: Option<ScanId>,
    ) -> Result<ReadResult, PoolError> {
        block_on(self.read(relation, ranges, scan))
    }

    /// Copies bytes of page `block`, from byte `offset` of the page on, without pinning it: no
    /// shared memory is written (under `clock` none once the page is hot). Says how many bytes were
    /// copied, fewer than asked for at the page's end only. `None` if that did not work, because
    /// the page is not resident, was being changed or is another pool's; `into` may then hold any
    /// bytes. The caller tries again, or [`pin`](Self::pin)s.
    ///
    /// ```
    /// # use pagecast::storage::{Device, MemoryFiles};
    /// # use pagecast::{Pool, PoolError, PoolOptions};
    /// # let files = MemoryFiles::new();
    /// # files.write("table", vec![7u8; 300_000]);
    /// # let device = Device::new(files, None);
    /// # let pool = Pool::new(PoolOptions::default().memory(1 << 20).device(device))?;
    /// # let table = pool.open("table".as_ref())?;
    /// let mut session = pool.session();
    /// let mut key = [0; 8];
    /// if session.try_copy(&table, 1, 100, &mut key, None).is_none() {
    ///     key.copy_from_slice(&session.pin(&table, 1, None)?[100..108]);
    /// }
    /// assert_eq!(key, [7; 8]);
    /// assert_eq!(session.try_copy(&table, 1, 100, &mut key, None), Some(8));
    /// # Ok::<(), PoolError>(())
    /// ```
    #[inline]
    pub fn try_copy(
        &mut self,
        relation: &Relation,
        block: u32,
        offset: u32,
        into: &mut [u8],
        scan: Option<ScanId>,
    ) -> Option<usize> {
        let state = self.state_for(relation)?;
        relation.engine.copy_unpinned(state, &relation.file, (block, offset), into, scan)
    }

    /// Copies an item into `into`, as much of it as there is room for, and says how long it is.
    /// `None` if its page has no such item.
    ///
    /// # Errors
    ///
    /// As [`Relation::pin`](crate::Relation::pin).
    #[inline]
    pub fn read_tuple(&mut self, tuples: &Tuples, id: TupleId, into: &mut [u8]) -> Result<Option<usize>, PoolError> {
        match self.state_for(&tuples.relation) {
            Some(state) => tuples.read_as(state, id, into),
            None => tuples.read(id, into),
        }
    }

    /// Copies an item, whatever its length, and hands it to `work`. `None` if its page has no such
    /// item. The page may change meanwhile; what `work` sees does not.
    ///
    /// # Errors
    ///
    /// As [`Relation::pin`](crate::Relation::pin).
    ///
    /// ```
    /// # use pagecast::storage::{Device, MemoryFiles};
    /// # use pagecast::{Pool, PoolError, PoolOptions, Slotted, TupleId};
    /// # let mut page = vec![0u8; 65_536];
    /// # page[..6].copy_from_slice(&[1, 0, 16, 0, 5, 0]);
    /// # page[16..21].copy_from_slice(b"hello");
    /// # let files = MemoryFiles::new();
    /// # files.write("table", page);
    /// # let pool = Pool::new(PoolOptions::default().memory(1 << 20).device(Device::new(files, None)))?;
    /// let slots = pool.tuples(&pool.open("table".as_ref())?, Slotted { header: 0 })?;
    /// let mut session = pool.session();
    /// let length = session.with_tuple(&slots, TupleId { block: 0, item: 0 }, |bytes| bytes.len())?;
    /// assert_eq!(length, Some(5));
    /// # Ok::<(), PoolError>(())
    /// ```
    #[inline]
    pub fn with_tuple<R>(
        &mut self,
        tuples: &Tuples,
        id: TupleId,
        work: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, PoolError> {
        let mut item = std::mem::take(&mut self.item);
        let found = match self.state_for(&tuples.relation) {
            Some(state) => tuples.read_as(state, id, &mut item),
            None => tuples.read_as(&mut Anyone, id, &mut item),
        };
        let result = found.map(|found| found.map(|len| work(&item[..len])));
        self.item = item;
        result
    }

    /// What this session has asked for. Loads and evictions, which I/O threads do, are counted by
    /// the pool only.
    pub fn stats(&self) -> PoolStats {
        self.state.counts.snapshot()
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.state.leave(&self.engine.cache);
    }
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
