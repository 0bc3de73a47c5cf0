//! The store as its users see it.

mod inner;
mod open;
mod range;

use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use pagecast::{Lsn, PageGuardMut, Pool};
use parking_lot::Mutex;

use crate::change::{Change, encode_page};
use crate::log::WriteAheadLog;
use crate::log_file::record_length;
use crate::page::{Node, largest_entry, longest_key};
use crate::pages::{Known, Pages, Workspace};
use crate::route::{Moves, Target};
use crate::{Batch, Error, Options, Result, tree};
use inner::Inner;
pub use range::Range;

/// An ordered map from bytes to bytes, in a folder. It is used by many threads at once, through
/// references.
///
/// Readers do not wait for each other, nor for a writer but for the moment in which it changes
/// their page. Writers change pages one after the other, which takes microseconds: each brings its
/// pages before it takes its turn, and waits for the log after it, together with the others.
///
/// There are no snapshots: pages are changed in place and know one version. A range sees each of
/// its leaves as it is at one moment. Who has seen one change of a batch sees all of it from then
/// on.
pub struct Store {
    pub(crate) pages: Pages,
    pub(crate) moves: Moves,
    pub(crate) pool: Pool,
    pub(crate) log: Arc<WriteAheadLog>,
    /// Whose turn it is to change pages.
    turn: Mutex<Turn>,
    pub(crate) inner: Inner,
    /// How many batches were put into pages: entries may have come and gone.
    batches: AtomicU64,
    checkpointing: Mutex<()>,
    /// Whether the last checkpoint failed.
    is_stalled: AtomicBool,
    /// Whether the pool wants frames back in which entries are changed.
    frees_frames: AtomicBool,
    sync_commits: bool,
    /// How many bytes of the log may wait for a flush where commits do not.
    log_buffer: u64,
}

struct Turn {
    /// How many pages were changed since somebody looked how many are dirty.
    changed: u32,
    /// The part of the frames that entries were to have then.
    share: f64,
}

impl Store {
    /// Opens the store in the folder at `path`, and makes it if there is none. What a crash left is
    /// recovered.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("store");
    /// use pagecast_kv::{Options, Store};
    ///
    /// let store = Store::open(&path, Options::default())?;
    /// store.put(b"page", b"a part of a file")?;
    /// assert_eq!(store.get(b"page")?.as_deref(), Some(&b"a part of a file"[..]));
    /// store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Another process has it open ([`Error::Locked`]), its files are not a store's
    /// ([`Error::Foreign`]), or of a later or an earlier format ([`Error::Newer`],
    /// [`Error::Older`]), or cannot be read.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        open::open(path.as_ref(), &options)
    }

    pub(crate) fn new(pool: Pool, pages: Pages, log: Arc<WriteAheadLog>, options: &Options) -> Self {
        Self {
            pages,
            moves: Moves::default(),
            pool,
            log,
            turn: Mutex::new(Turn { changed: 0, share: 0.0 }),
            inner: Inner::default(),
            batches: AtomicU64::new(0),
            checkpointing: Mutex::new(()),
            is_stalled: AtomicBool::new(false),
            frees_frames: AtomicBool::new(false),
            sync_commits: options.sync_commits,
            log_buffer: options.log_buffer(),
        }
    }

    /// The pool below: its memory, policy and counts, and the device's.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}

/// Reads.
impl Store {
    /// The value of a key.
    ///
    /// # Errors
    ///
    /// A page cannot be read, or is damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.pages.entry(&self.moves, key)? {
            Known::Value { value, .. } => Ok(Some(value)),
            Known::Absent => Ok(None),
            Known::Nothing => self.entry_of_leaf(key, <[u8]>::to_vec),
        }
    }

    /// What `read` makes of the value of a key. A page may be pinned meanwhile: `read` must not
    /// write to the store.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn get_with<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        match self.pages.entry(&self.moves, key)? {
            Known::Value { value, .. } => Ok(Some(read(&value))),
            Known::Absent => Ok(None),
            Known::Nothing => self.entry_of_leaf(key, read),
        }
    }

    fn entry_of_leaf<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let leaf = self.pages.leaf(&self.moves, Target::Key(key), None, None)?;
        let value = match leaf.node().search(key) {
            Some(Err(_)) => return Ok(None),
            Some(Ok(at)) => leaf.node().value(at),
            None => None,
        };
        let value = value.ok_or_else(|| self.pages.damaged(leaf.block, "an entry is cut off"))?;
        Ok(Some(read(value)))
    }

    /// Whether there is such a key.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn contains_key(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get_with(key, |_| ())?.is_some())
    }

    /// The entries of these keys, in their order or, by [`rev`](Iterator::rev), from the last on.
    /// A range that goes on to other leaves registers as a scan, so that the pool knows what it
    /// will read, and reads ahead.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = pagecast_kv::Store::open(folder.path(), Default::default())?;
    /// for key in [b"a", b"b", b"c", b"d"] {
    ///     store.put(key, b"")?;
    /// }
    /// let keys: Vec<_> = store.range(&b"b"[..]..).rev().map(|entry| Ok(entry?.0)).collect::<pagecast_kv::Result<_>>()?;
    /// assert_eq!(keys, [b"d", b"c", b"b"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> Range<'_> {
        let owned = |bound: Bound<&&[u8]>| bound.map(|key| key.to_vec());
        Range::new(self, owned(keys.start_bound()), owned(keys.end_bound()))
    }

    /// All entries.
    pub fn iter(&self) -> Range<'_> {
        Range::new(self, Bound::Unbounded, Bound::Unbounded)
    }
}

/// Writes.
impl Store {
    /// Gives a key its value, be it new or not.
    ///
    /// # Errors
    ///
    /// The entry is too large, or nothing can be written at the moment. After [`Error::Log`] only,
    /// the change may be seen; whether it lasts is known when a later write succeeds, or when the
    /// store is opened again.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.commit(&[(key, Some(value))]).map(drop)
    }

    /// Takes a key away. Whether it was there.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        self.commit(&[(key, None)])
    }

    /// Makes all changes of a batch, or none.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put). Besides, it may change more pages than a quarter of the pool (half of
    /// it without tuples), or take more of the log than one of its files has:
    /// [`Error::BatchTooLarge`].
    pub fn write(&self, batch: &Batch) -> Result<()> {
        let writes: Vec<_> = batch.writes.iter().map(|(key, value)| (&key[..], value.as_deref())).collect();
        self.commit(&writes).map(drop)
    }

    /// Makes all writes so far safe from a crash.
    ///
    /// # Errors
    ///
    /// The log cannot be written.
    pub fn flush(&self) -> Result<()> {
        self.log.flush()
    }

    /// Brings all writes so far to their pages on storage, so that a recovery need not make them
    /// again. The store does this by itself when its log asks for it.
    ///
    /// # Errors
    ///
    /// Pages or log cannot be written ([`Error::Stalled`]).
    pub fn checkpoint(&self) -> Result<()> {
        let _one = self.checkpointing.lock();
        // Every record before this place was taken while its pages were had alone, so the pool
        // knows of all of them.
        let upto = self.log.end();
        let outcome = self.pool.checkpoint(upto);
        self.is_stalled.store(outcome.is_err(), Relaxed);
        outcome.map_err(|cause| Error::Stalled { cause })?;
        self.log.checkpointed(upto);
        Ok(())
    }

    /// Writes everything, so that the store opens without a recovery. A store that is dropped
    /// without this leaves that to its log.
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Self::checkpoint).
    pub fn close(self) -> Result<()> {
        self.log.flush()?;
        let _turn = self.turn.lock();
        self.pool.close().map_err(|cause| Error::Stalled { cause })?;
        self.log.checkpointed(self.log.end());
        self.log.flush()
    }

    /// Keeps others from changing pages while this is held.
    pub(crate) fn hold_turn(&self) -> impl Drop + '_ {
        self.turn.lock()
    }

    /// Makes the changes, and, if commits do, waits until they are durable. Whether one of the keys
    /// to be deleted was there.
    fn commit(&self, writes: &[(&[u8], Option<&[u8]>)]) -> Result<bool> {
        for &(key, value) in writes {
            self.admit(key, value.unwrap_or_default())?;
        }
        let overwritten = match *writes {
            [(key, Some(value))] => self.overwrite(key, value)?,
            _ => None,
        };
        let (at, was_there) = match overwritten {
            Some(at) => (Some(at), true),
            None => {
                for &(key, _) in writes {
                    // Before the turn, so that writers wait for the device at the same time.
                    self.pages.leaf(&self.moves, Target::Key(key), None, None)?;
                }
                self.change(&mut self.turn.lock(), writes)?
            }
        };
        match at {
            Some(at) if self.sync_commits => self.log.flush_record(at)?,
            // There was nothing to change: an earlier write has done it, which may not be safe yet.
            None if self.sync_commits => self.log.flush()?,
            _ if self.log.waiting() > self.log_buffer => self.log.flush()?,
            _ => {}
        }
        self.checkpoint_if_due();
        Ok(was_there)
    }

    fn admit(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let page_size = self.pool.page_size();
        let (length, limit) = (key.len(), longest_key(page_size));
        if length > limit {
            return Err(Error::KeyTooLong { length, limit });
        }
        let (length, limit) = (key.len() + value.len(), largest_entry(page_size));
        if length > limit { Err(Error::EntryTooLarge { length, limit }) } else { Ok(()) }
    }

    /// Gives a key another value of the same length, without its leaf if the pool has the entry
    /// without it. `None`: there is no such entry, or others come and go around it.
    fn overwrite(&self, key: &[u8], value: &[u8]) -> Result<Option<Lsn>> {
        // Acquire: who sees a batch's pages sees that it was counted.
        let before = self.batches.load(Acquire);
        let block = match self.pages.entry(&self.moves, key)? {
            Known::Value { block, value: former } if former.len() == value.len() => block,
            _ => return Ok(None),
        };
        let mut turn = self.turn.lock();
        if self.batches.load(Acquire) != before {
            return Ok(None);
        }
        self.look_at_dirty(&mut turn)?;
        let (mut changes, mut record) = (Vec::new(), Vec::new());
        Change::Overwrite { key, value }.encode(&mut changes);
        encode_page(block, &changes, &mut record);
        self.reserve(&record)?;
        let mut at = Lsn::NONE;
        self.pages.write_entry(block, key, value, || {
            at = self.log.append(&record);
            at
        })?;
        turn.changed += 1;
        Ok(Some(at))
    }

    /// Changes the pages. What fails, fails before the first of them is changed.
    fn change(&self, turn: &mut Turn, writes: &[(&[u8], Option<&[u8]>)]) -> Result<(Option<Lsn>, bool)> {
        self.look_at_dirty(turn)?;
        let (mut pages, mut was_there) = (Workspace::new(&self.pages), false);
        for &(key, value) in writes {
            match value {
                Some(value) => tree::put(&mut pages, key, value)?,
                None => was_there |= tree::delete(&mut pages, key)?,
            }
        }
        let at = if pages.changed().len() == 0 { None } else { Some(self.publish(turn, &pages)?) };
        Ok((at, was_there))
    }

    /// Puts the copies of a batch into their pages, with one record of the log.
    pub(crate) fn publish_first(&self, pages: &Workspace<'_>) -> Result<()> {
        let at = self.publish(&mut self.turn.lock(), pages)?;
        self.log.flush_record(at)
    }

    fn publish(&self, turn: &mut Turn, pages: &Workspace<'_>) -> Result<Lsn> {
        let record = pages.record();
        self.reserve(&record)?;
        let mut pins = self.pin_all(pages)?;
        if pages.is_structural {
            self.moves.more();
        }
        self.batches.fetch_add(1, Release);
        let at = self.log.append(&record);
        for (pin, (_, changed)) in pins.iter_mut().zip(pages.changed()) {
            self.inner.note(Node { bytes: pin }.kind(), Node { bytes: &changed.bytes }.kind());
            pin.copy_from_slice(&changed.bytes);
            pin.logged(at);
        }
        self.keep_inner();
        turn.changed += pins.len() as u32;
        Ok(at)
    }

    /// Pins all pages of a batch, alone. Entries that go on without their leaves give up frames for
    /// a large one.
    fn pin_all<'s>(&'s self, pages: &Workspace<'_>) -> Result<Vec<PageGuardMut<'s>>> {
        let (needed, slabs) = (pages.changed().len() as u32, self.pool.tuple_stats().map(|stats| stats.slabs));
        // Half of the frames can be had for pages, whatever entries have. Others read meanwhile.
        let limit = self.pool.frames() / if slabs.is_some() { 4 } else { 2 };
        if needed > limit {
            let (needed, limit) = (needed.into(), limit.into());
            return Err(Error::BatchTooLarge { needed, limit, unit: "pages of memory", remedy: "memory" });
        }
        let inner = self.inner.count();
        let for_leaves = self.pool.frames().saturating_sub(slabs.unwrap_or(0)).saturating_sub(inner);
        let is_large = needed > for_leaves / 2;
        if is_large {
            // Frames with changed entries are not given up.
            if self.pool.tuple_stats().is_some_and(|stats| stats.changed > 0) {
                self.checkpoint()?;
            }
            self.pool.reserve_pages(inner + 2 * needed);
        }
        // No reader waits for a page while it holds another, so these are all had in the end.
        let alone = pages.changed().map(|(block, _)| self.pages.relation.pin_mut(block, None));
        let pins = alone.collect::<std::result::Result<Vec<_>, _>>();
        if is_large {
            self.pool.reserve_pages(inner);
        }
        Ok(pins?)
    }

    /// Makes room for a record in the log. By whoever has the turn.
    fn reserve(&self, record: &[u8]) -> Result<()> {
        let (needed, limit) = (record_length(record.len()), self.log.capacity());
        if needed > limit {
            return Err(Error::BatchTooLarge { needed, limit, unit: "bytes of the log", remedy: "log_size" });
        }
        while !self.log.reserve(needed)? {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Lets nobody change more pages while most of the pool holds what storage does not take, so
    /// that readers find clean ones to give up.
    ///
    /// Entries that were changed without their leaves are none of them: the pool bounds those.
    /// Inner pages stay, so that only what is left of the frames can hold dirty leaves. Where
    /// entries have most of the pool that is little, and more would drive inner pages out.
    fn look_at_dirty(&self, turn: &mut Turn) -> Result<()> {
        if self.is_stalled.load(Relaxed) {
            return self.checkpoint();
        }
        let tuples = self.pool.tuple_stats().unwrap_or_default();
        if tuples.share < turn.share && tuples.changed > 0 {
            self.frees_frames.store(true, Relaxed);
        }
        turn.share = tuples.share;
        let pages = self.pool.frames().saturating_sub(tuples.slabs).saturating_sub(self.inner.count());
        if turn.changed < pages / 8 {
            return Ok(());
        }
        turn.changed = 0;
        if self.pool.dirty().saturating_sub(tuples.changed) > pages / 2 {
            let written = self.pool.write_back(u64::from(pages) * u64::from(self.pool.page_size()));
            self.is_stalled.store(written.is_err(), Relaxed);
            written.map_err(|cause| Error::Stalled { cause })?;
        }
        Ok(())
    }

    /// By whoever committed and finds it due, one at a time; others go on meanwhile. Its failure is
    /// told to the next who writes: this commit is safe in the log.
    ///
    /// It is due for the log's sake, and when pages turn out to serve better than entries: many
    /// changed entries keep their frames until they are written.
    fn checkpoint_if_due(&self) {
        let is_due = self.log.wants_checkpoint() || self.frees_frames.load(Relaxed);
        if is_due && !self.checkpointing.is_locked() {
            self.frees_frames.store(false, Relaxed);
            let _ = self.checkpoint();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Commits that did not wait; what fails here is in doubt as after a crash.
        let _ = self.log.end_with_note();
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.pages.path()).finish_non_exhaustive()
    }
}
