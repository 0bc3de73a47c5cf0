//! Pages that change: their way from an exclusive pin to storage, safe from a crash.
//!
//! ```text
//!   pin_mut ──▶ change ──▶ log ──▶ logged(lsn) ──▶ unpin: dirty
//!                                                    │
//!      eviction met it ── background ── checkpoint ──┤
//!                                                    ▼
//!   copy under a pin, seal ──▶ log durable to its lsn ──▶ double write, if asked for ──▶ in place ──▶ clean
//!                                                                                          sync: safe
//! ```
//!
//! Rules:
//! * (W1) A page is written only with the proof that the log is durable to its last change
//!   ([`log::Durable`]).
//! * (W2) A page is changed only while it is had alone, and is dirty before others may pin it
//!   again. What was changed and not logged is never written: the latch falls first.
//! * (W3) A page is clean from its copy on, and cannot leave before its write has ended (I8 of the
//!   cache).
//! * (W4) A relation needs a sync from the end of a write, before its pages count as written, until
//!   a sync that began later. One that was under way during the write does not count.
//! * (W5) After a failed sync nothing is written any more: nobody knows what is on the device, and
//!   a second sync that succeeds would not say so.
//! * (W6) Locks: a relation's sync, the double-write area's, the cache's, in this order; the log is
//!   flushed under none but the area's.
//!
//! Facts and the order of steps: Gray and Reuter, "Transaction processing" (1993), section 11.3
//! (write-ahead log); PostgreSQL's buffer manager for copying before a checksum is made; Rebello et
//! al., "Can applications recover from fsync failures?" (USENIX ATC 2020) for (W5).
//!
//! | file | is |
//! |---|---|
//! | `log` | the host's log, and the proof that it is durable |
//! | `batch` | pages copied, cut into runs of neighbours, written |
//! | `double_write` | copies elsewhere first, against torn pages |
//! | `background` | the thread that writes before evictions have to wait |
//! | `latch` | whether pages may still be changed |
//! | `open` | what a file must be to be written |

mod background;
mod batch;
mod double_write;
mod latch;
pub(crate) mod log;
mod open;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use pagecast_core::{PageId, RelationId};

pub use background::WriterOptions;
pub(crate) use background::{Background, Room};
use batch::Batch;
use double_write::DoubleWrite;
pub use double_write::DoubleWriteOptions;
use latch::Latch;
pub use log::Log;
pub use open::WriteOptions;
pub(crate) use open::check;

use crate::PoolError;
use crate::blocking::block_on;
use crate::cache::{Blocked, Cache};
use crate::paged_file::PagedFile;
use crate::seal::Lsn;
use crate::storage::{Device, MAX_REQUEST};
use crate::sync::{Condvar, Mutex, unless_mistaken};
use log::Gate;

/// How many full requests a batch holds: storage may make them at the same time, and where copies
/// are written first they share a sync.
const REQUESTS: usize = 4;

/// All that writes pages goes through this.
pub(crate) struct Writer {
    cache: Arc<Cache>,
    gate: Gate,
    pub(crate) latch: Latch,
    /// The relations that are open to be written.
    relations: Mutex<HashMap<RelationId, Arc<PagedFile>>>,
    double_write: Option<DoubleWrite>,
    /// How many batches have ended, for those who wait for another's write.
    ended: Mutex<u64>,
    one_ended: Condvar,
    page_size: u32,
    /// Why the last batch failed, if it did.
    trouble: Mutex<Option<PoolError>>,
}

/// What a writing call has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Pages that were written.
    pub pages: u64,
    /// Requests that they took; neighbours go together.
    pub requests: u64,
}

impl Writer {
    /// A writer for the frames of `cache`. With `double_write`, restores what a crash tore, from
    /// the area in that file.
    pub(crate) fn new(
        cache: Arc<Cache>,
        log: Option<Arc<dyn Log>>,
        device: &Device,
        double_write: Option<&DoubleWriteOptions>,
        page_size: u32,
    ) -> Result<Self, PoolError> {
        Ok(Self {
            cache,
            gate: Gate::new(log),
            latch: Latch::new(),
            relations: Mutex::new(HashMap::new()),
            double_write: double_write.map(|options| DoubleWrite::open(device, options)).transpose()?,
            ended: Mutex::new(0),
            one_ended: Condvar::new(),
            page_size,
            trouble: Mutex::new(None),
        })
    }

    pub(crate) fn has_log(&self) -> bool {
        self.gate.has_log()
    }

    /// Why dirty pages cannot leave, if that is so.
    pub(crate) fn why_full(&self) -> Option<PoolError> {
        self.trouble.lock().clone()
    }

    /// Whether pages of the file can be written.
    pub(crate) fn accepts(&self, path: &Path) -> Result<(), PoolError> {
        self.double_write.as_ref().map_or(Ok(()), |area| area.accepts(path))
    }

    /// From now on pages of `relation` may be dirty.
    pub(crate) fn add(&self, relation: &Arc<PagedFile>) {
        self.relations.lock().insert(relation.id(), relation.clone());
    }

    /// No page of the relation will be dirty any more.
    pub(crate) fn remove(&self, relation: RelationId) {
        self.relations.lock().remove(&relation);
    }

    /// Writes those of `pages` that are dirty and not being written, and dirty neighbours with
    /// them.
    pub(crate) fn write_back(&self, pages: &[(PageId, u32)]) -> Result<Written, PoolError> {
        let mut all = Vec::with_capacity(pages.len());
        for &(page, index) in pages {
            all.push((page, index));
            self.add_neighbours(page, &mut all);
        }
        self.write(all)
    }

    /// Dirty pages right before and after `page`, together with it at most a request's bytes.
    fn add_neighbours(&self, page: PageId, pages: &mut Vec<(PageId, u32)>) {
        let neighbour = |by: i64| {
            let block = u32::try_from(i64::from(page.block()) + by).ok()?;
            let page = PageId::new(page.relation(), block);
            self.cache.find_dirty(page).map(|index| (page, index))
        };
        let most = self.pages_of_a_request() as i64 - 1;
        let before = pages.len();
        pages.extend((1..=most).map_while(neighbour));
        let left = most - (pages.len() - before) as i64;
        pages.extend((1..=left).map_while(|by| neighbour(-by)));
    }

    fn pages_of_a_request(&self) -> usize {
        (MAX_REQUEST / self.page_size as usize).max(1)
    }

    /// Writes those of `pages` that are dirty and not being written.
    fn write(&self, mut pages: Vec<(PageId, u32)>) -> Result<Written, PoolError> {
        pages.sort_unstable();
        pages.dedup();
        let mut written = Written::default();
        for pages in pages.chunks(self.pages_of_a_request() * REQUESTS) {
            let end = End(self);
            let outcome = self.write_batch(pages);
            *self.trouble.lock() = outcome.clone().err();
            drop(end);
            let one = outcome?;
            written.pages += one.pages;
            written.requests += one.requests;
        }
        Ok(written)
    }

    fn write_batch(&self, pages: &[(PageId, u32)]) -> Result<Written, PoolError> {
        let mut batch = Batch::new(pages.len(), self.page_size);
        for &(page, index) in pages {
            // Another file has its name: nobody can write the page, or will ask for it again.
            let Some(relation) = self.relations.lock().get(&page.relation()).cloned() else {
                self.cache.abandon(index, page);
                continue;
            };
            if let Some(writing) = self.cache.begin_write(index, page, batch.room()) {
                batch.push(relation, writing);
            }
        }
        // After the copies: a page that was changed and not logged let the latch fall before it
        // could be copied (W2).
        self.latch.may_write()?;
        if batch.is_empty() {
            return Ok(Written::default());
        }
        let written = Written { pages: batch.len() as u64, requests: batch.runs().count() as u64 };
        let durable = self.gate.flush_to(batch.lsn())?;
        match &self.double_write {
            None => batch.write(durable, |_| {})?,
            Some(area) => area.write(batch, durable, self)?,
        }
        Ok(written)
    }

    /// Writes every page that was dirty before log record `upto` when this was called, and makes it
    /// safe. Pages that become dirty meanwhile do not prolong it. `None`: every dirty page,
    /// whatever the record.
    pub(crate) fn checkpoint(&self, upto: Option<Lsn>) -> Result<Written, PoolError> {
        let upto = upto.map(|lsn| lsn.0);
        let mut pages = self.cache.unwritten(upto);
        let mut written = Written::default();
        while !pages.is_empty() {
            let one = self.write(pages.clone())?;
            written.pages += one.pages;
            written.requests += one.requests;
            pages.retain(|&(page, index)| self.cache.is_unwritten(index, page, upto));
            self.wait_for_others(&pages);
        }
        self.sync_all()?;
        Ok(written)
    }

    /// Waits for those who keep `pages` from being written: batches of other threads, and whoever
    /// has a page alone.
    fn wait_for_others(&self, pages: &[(PageId, u32)]) {
        for &(page, index) in pages {
            // Before the look at the page: a batch that has it under way then ends, and counts,
            // later.
            let ended = self.batches_ended();
            match self.cache.blocked(index, page) {
                None => {}
                Some(Blocked::UnderWay) => self.wait_for_a_batch_after(ended),
                Some(Blocked::Exclusive) => {
                    if let Some(waiter) = self.cache.join(page)
                        && let Ok(Some(held)) = block_on(waiter)
                    {
                        self.cache.unpin(held);
                    }
                }
            }
        }
    }

    /// How many batches have ended so far.
    pub(crate) fn batches_ended(&self) -> u64 {
        *self.ended.lock()
    }

    /// Waits until more than `ended` batches have ended. That comes to pass if a page was being
    /// written at a look after `ended` was read: its batch ends, and counts, later.
    pub(crate) fn wait_for_a_batch_after(&self, ended: u64) {
        let mut now = self.ended.lock();
        while *now == ended {
            self.one_ended.wait(&mut now);
        }
    }

    /// Makes all that was written safe from a crash.
    pub(crate) fn sync_all(&self) -> Result<(), PoolError> {
        self.latch.may_write()?;
        let relations: Vec<_> = self.relations.lock().values().cloned().collect();
        let mut gone = Ok(());
        for relation in relations {
            let Err(error) = relation.sync() else { continue };
            match relation.verify() {
                // The loss is that of the file, and of it alone.
                Err(changed @ PoolError::Changed { .. }) => gone = Err(changed),
                _ => self.latch.fail(error),
            }
        }
        self.latch.may_write().and(gone)
    }

    /// Lets nobody change a page any more, and writes what was changed.
    pub(crate) fn close(&self) -> Result<(), PoolError> {
        unless_mistaken!(CLOSED_LATE, self.shut());
        let outcome = self.checkpoint(None).and_then(|_| match &self.double_write {
            Some(area) => area.empty(self),
            None => Ok(()),
        });
        self.latch.close();
        outcome
    }

    /// Whoever may still change a page has it alone when this returns, and is seen by the
    /// checkpoint; see [`Cache::pass_all_shards`].
    pub(crate) fn shut(&self) {
        self.latch.close();
        self.cache.pass_all_shards();
    }
}

/// Says that a batch has ended, on a panic of the storage too.
struct End<'a>(&'a Writer);

impl Drop for End<'_> {
    fn drop(&mut self) {
        *self.0.ended.lock() += 1;
        self.0.one_ended.notify_all();
    }
}
