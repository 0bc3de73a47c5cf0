//! A tier on flash below the frames: copies of pages that memory gave up, so that the store is not
//! asked for them again.
//!
//! ```text
//!   eviction -- offer -- core's Tier: worth a write? -- copy to a buffer -- thread writes the slot -- found
//!   load ----- find ---- a slot that is written? ------ held while an I/O thread reads it ----------- frame
//!                                                        | torn, another page: out of the tier
//!                                                        '--> ordinary load
//! ```
//!
//! Who is written and who leaves is decided by [`pagecast_core::tier`], the code that the simulator
//! runs. Here are the file ([`layout`]), the thread that writes it ([`writer`]), and what keeps the
//! two apart from those who read:
//!
//! * (F1) One lock guards the tier and what goes with it. Nobody does I/O or copies a page under
//!   it, and it is a leaf: under it the predictor is asked, which takes no lock, and nothing else.
//! * (F2) A slot is held from its offer until its write has ended, and while it is read. Who is
//!   held is not given to another page (core's I2). So no slot is written while it is read, and
//!   none is written twice at once.
//! * (F3) A slot is found only after its write has ended. Until then its page is a miss, if memory
//!   does not have it.
//! * (F4) What is read is a page only if the slot's header says name, generation, block and length,
//!   and the checksum holds. All else about a copy may be wrong without harm: the index, (F2), a
//!   crash at any write.
//! * (F5) A relation is known here by name and generation. Those that were here before a restart
//!   have numbers from the start, which they get again when they are opened ([`Flash::enter`]).
//! * (F6) Whoever meets an error of the file turns the tier off, once. From then on nothing is
//!   found and nothing is offered; loads ask their storage.
//!
//! Cost: a miss and an eviction of such pages take the lock, and look up a hash; an eviction asks
//! the predictor besides, and copies the page if it is written.

mod layout;
mod options;
mod restart;
mod writer;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::fs::Permissions;
use std::io::{self, IoSliceMut};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use pagecast_core::oracle::Oracle;
use pagecast_core::policy::{Access, Batching};
use pagecast_core::tier::Tier;
use pagecast_core::{FrameId, PageId, RelationId, Tick};
use parking_lot::{Condvar, Mutex};

use crate::PoolError;
use crate::buffer::Buffer;
use crate::stats::PoolStats;
use crate::storage::{Storage, read_full};
use layout::{BLOCK, Identity, Layout};
pub use options::{FlashAdmission, FlashOptions};

/// A tier on flash at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FlashView {
    /// Its file.
    pub path: PathBuf,
    /// How many pages it has room for.
    pub slots: u32,
    /// How many it has.
    pub pages: u32,
    /// Those of them that were there when the pool was made.
    pub restored: u32,
    /// Pages that were not considered, because as many as may be were on their way to flash.
    pub skipped: u64,
    /// Copies that were found torn, or to be of another page, and were asked of their store.
    pub broken: u64,
    /// Why it is off, if it is: in one line.
    pub off: Option<String>,
}

/// The tier. It ends when this is dropped: what is on its way is written, and the index.
pub(crate) struct Flash {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    storage: Arc<dyn Storage>,
    layout: Layout,
    state: Mutex<State>,
    /// Tells the thread of work.
    arrived: Condvar,
    /// Tells those who wait that all is written.
    settled: Condvar,
    counts: Counts,
    restored: u32,
    /// How many relations have numbers from the start (F5).
    known: u32,
    /// Why nothing is done any more (F6).
    off: OnceLock<String>,
}

#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    bytes_read: AtomicU64,
    pages_written: AtomicU64,
    bytes_written: AtomicU64,
    skipped: AtomicU64,
    broken: AtomicU64,
}

/// What the lock guards (F1).
struct State {
    tier: Tier,
    /// The relations that are open and may be copied.
    identities: HashMap<RelationId, Arc<Identity>>,
    /// Of all relations that have slots: the hash that the index has for them.
    hashes: HashMap<RelationId, u128>,
    /// Relations that have slots since before a restart, and were not opened since.
    unopened: HashMap<u128, RelationId>,
    /// Slots whose write has not ended (F3).
    writing: HashSet<FrameId>,
    buffers: Vec<Buffer>,
    queue: VecDeque<writer::Slot>,
    index: writer::Index,
    /// Somebody waits for all to be written.
    is_awaited: bool,
    is_closed: bool,
}

impl Flash {
    /// Opens the tier's file, with what it holds of a former pool, and starts the thread that
    /// writes it. A file that cannot be used for want of room, or that fails, is a tier that is
    /// off.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, `options` leave no room for a page, or the system refuses a
    /// thread.
    pub(crate) fn open(options: &FlashOptions, page_size: u32, memory: u64, seed: u64) -> Result<Arc<Self>, PoolError> {
        let (layout, path) = (options.layout(page_size), options.path());
        if layout.slots == 0 {
            let minimum = Layout::minimum(page_size);
            return Err(PoolError::FlashTooSmall { path, given: options.bytes, page_size, minimum });
        }
        let storage = options.device.open_to_write(&path, true);
        let storage = storage.map_err(|source| PoolError::Open { path, source: Arc::new(source) })?;
        keep_private(storage.path());
        let off = OnceLock::new();
        let found = restart::read(storage.as_ref(), layout).unwrap_or_else(|error| {
            off.get_or_init(|| why_off(storage.path(), &error));
            restart::Found::default()
        });
        let policy = options.policy().build(layout.slots, seed)?.into_concurrent(Batching::OFF);
        let free = layout.slots - found.pages.len() as u32;
        let mut tier = Tier::new(layout.slots, policy, options.admission_for(layout, free));
        tier.restore(found.pages);
        let restored = layout.slots - tier.free();
        let buffers = if off.get().is_some() { 0 } else { options.buffers(layout, memory) };
        let state = State {
            tier,
            identities: HashMap::new(),
            hashes: found.relations.iter().map(|(&hash, &relation)| (relation, hash)).collect(),
            unopened: found.relations,
            writing: HashSet::new(),
            buffers: (0..buffers).map(|_| Buffer::new(layout.slot_bytes())).collect(),
            queue: VecDeque::new(),
            index: writer::Index::default(),
            is_awaited: false,
            is_closed: false,
        };
        let known = state.hashes.len() as u32;
        let (arrived, settled, counts) = (Condvar::new(), Condvar::new(), Counts::default());
        let shared = Arc::new(Shared {
            storage,
            layout,
            state: Mutex::new(state),
            arrived,
            settled,
            counts,
            restored,
            known,
            off,
        });
        let worker = shared.clone();
        let thread = std::thread::Builder::new()
            .name("pagecast-flash".to_owned())
            .spawn(move || worker.work())
            .map_err(|error| PoolError::setup("starting a thread that writes to flash", error))?;
        Ok(Arc::new(Self { shared, thread: Some(thread) }))
    }

    /// The first number that no relation has from the start.
    pub(crate) fn first_unknown(&self) -> u32 {
        self.shared.known
    }

    /// A relation is opened: from now on its pages are offered. The number that it had before a
    /// restart, if there are copies of it; else it gets `next`.
    pub(crate) fn enter(&self, storage: &dyn Storage, next: RelationId) -> RelationId {
        let identity = Identity::new(storage.path().as_os_str().as_bytes(), storage.generation());
        let Some(identity) = identity.filter(|_| storage.may_be_copied()) else { return next };
        let mut state = self.shared.state.lock();
        let relation = state.unopened.remove(&identity.hash).unwrap_or(next);
        state.hashes.insert(relation, identity.hash);
        state.identities.insert(relation, Arc::new(identity));
        relation
    }

    /// Nobody has the relation open any more. Its copies stay for who opens it again, if it has
    /// some.
    pub(crate) fn close(&self, relation: RelationId) {
        let mut state = self.shared.state.lock();
        let Some(hash) = state.hashes.remove(&relation) else { return };
        if state.tier.pages().any(|(_, page)| page.relation() == relation) {
            state.unopened.insert(hash, relation);
        }
        state.identities.remove(&relation);
    }

    /// Nobody asks for pages of the relation any more: another generation has its name.
    pub(crate) fn forget(&self, relation: RelationId) {
        let mut state = self.shared.state.lock();
        if state.identities.remove(&relation).is_none() {
            return;
        }
        state.hashes.remove(&relation);
        let its = |&(_, page): &(FrameId, PageId)| page.relation() == relation;
        let pages: Vec<_> = state.tier.pages().filter(its).collect();
        pages.into_iter().for_each(|(slot, page)| state.remove(slot, page));
    }

    /// Memory gives up `page`, whose bytes are these and the same as storage has. Copies them if
    /// they are worth it.
    pub(crate) fn offer(&self, page: PageId, bytes: &[u8], at: Tick, oracle: &dyn Oracle) {
        let Some((slot, identity, mut buffer)) = self.shared.take(page, at, oracle) else { return };
        identity.fill(buffer.bytes_mut(), page.block(), bytes);
        self.shared.state.lock().queue.push_back(writer::Slot { slot, page, buffer });
        self.shared.arrived.notify_one();
    }

    /// The copy of the page that a load wants, to be read.
    pub(crate) fn find(&self, access: &Access) -> Option<FlashCopy> {
        let shared = &self.shared;
        if shared.off.get().is_some() {
            return None;
        }
        let mut state = shared.state.lock();
        let slot = state.tier.find(access.page).filter(|slot| !state.writing.contains(slot))?;
        let identity = state.identities.get(&access.page.relation())?.clone();
        state.tier.hit(slot, access);
        state.tier.hold(slot);
        drop(state);
        Some(FlashCopy { shared: shared.clone(), slot, page: access.page, identity })
    }

    /// Waits until all that was admitted before is written, and the index with it.
    pub(crate) fn settle(&self) {
        let mut state = self.shared.state.lock();
        if state.is_settled() {
            return;
        }
        state.is_awaited = true;
        self.shared.arrived.notify_one();
        while self.shared.off.get().is_none() && !state.is_settled() {
            self.shared.settled.wait(&mut state);
        }
    }

    /// Adds what it has counted.
    pub(crate) fn count(&self, stats: &mut PoolStats) {
        let of = |count: &AtomicU64| count.load(Relaxed);
        let counts = &self.shared.counts;
        stats.flash_hits = of(&counts.hits);
        stats.flash_bytes_read = of(&counts.bytes_read);
        stats.flash_pages_written = of(&counts.pages_written);
        stats.flash_bytes_written = of(&counts.bytes_written);
    }

    pub(crate) fn view(&self) -> FlashView {
        let Shared { storage, layout, counts, restored, off, .. } = &*self.shared;
        FlashView {
            path: storage.path().to_owned(),
            slots: layout.slots,
            pages: layout.slots - self.shared.state.lock().tier.free(),
            restored: *restored,
            skipped: counts.skipped.load(Relaxed),
            broken: counts.broken.load(Relaxed),
            off: off.get().cloned(),
        }
    }
}

impl Drop for Flash {
    fn drop(&mut self) {
        self.shared.state.lock().is_closed = true;
        self.shared.arrived.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic in it has turned the tier off.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Flash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Flash").field(&self.view()).finish()
    }
}

impl State {
    /// The page is here no more, and the index says so when it is written next.
    fn remove(&mut self, slot: FrameId, page: PageId) {
        self.tier.remove(page);
        self.index.change(slot);
    }
}

impl Shared {
    /// A slot for a page that memory gives up, and a buffer to write it from.
    fn take(&self, page: PageId, at: Tick, oracle: &dyn Oracle) -> Option<(FrameId, Arc<Identity>, Buffer)> {
        if self.off.get().is_some() {
            return None;
        }
        let mut state = self.state.lock();
        let identity = state.identities.get(&page.relation())?.clone();
        if state.tier.find(page).is_some() {
            return None;
        }
        let Some(buffer) = state.buffers.pop() else {
            self.counts.skipped.fetch_add(1, Relaxed);
            return None;
        };
        let Some(slot) = state.tier.offer(page, at, oracle) else {
            state.buffers.push(buffer);
            return None;
        };
        state.tier.hold(slot);
        state.writing.insert(slot);
        Some((slot, identity, buffer))
    }

    /// Ends all of it, for this reason (F6).
    fn turn_off(&self, error: &io::Error) {
        let _ = self.off.set(why_off(self.storage.path(), error));
        // Under the lock, so that nobody begins to wait after this.
        let _state = self.state.lock();
        self.settled.notify_all();
    }
}

/// Who may read a store's objects is the store's to say: on this machine it is who runs the pool.
/// A device without such a file, or without such rights, has nothing to keep.
fn keep_private(path: &Path) {
    let _ = std::fs::set_permissions(path, Permissions::from_mode(0o600));
}

fn why_off(path: &Path, error: &io::Error) -> String {
    format!("{}: the tier on flash is off, pages come from their store: {error}", path.display())
}

/// A page's copy, held until this is dropped.
pub(crate) struct FlashCopy {
    shared: Arc<Shared>,
    slot: FrameId,
    page: PageId,
    identity: Arc<Identity>,
}

impl FlashCopy {
    /// Reads the copy into `page`, which has room for a page. False if it is not the `len` bytes of
    /// that page, whatever is in `page` then: they must come from storage.
    pub(crate) fn read(&self, page: &mut [u8], len: u32) -> bool {
        if self.shared.off.get().is_some() {
            return false;
        }
        let (storage, offset) = (self.shared.storage.as_ref(), self.shared.layout.slot_offset(self.slot.0));
        let mut header = Buffer::new(BLOCK as usize);
        let mut bufs = [IoSliceMut::new(header.bytes_mut()), IoSliceMut::new(page)];
        let read = catch_unwind(AssertUnwindSafe(|| read_full(storage, offset, &mut bufs)));
        match read.unwrap_or_else(|_| Err(io::Error::other("the storage panicked"))) {
            Ok(_) if self.identity.is_in(header.bytes(), page, self.page.block(), len) => true,
            Ok(_) => {
                self.shared.counts.broken.fetch_add(1, Relaxed);
                let mut state = self.shared.state.lock();
                // Unless it has left, and is back in another slot.
                if state.tier.find(self.page) == Some(self.slot) {
                    state.remove(self.slot, self.page);
                }
                false
            }
            Err(error) => {
                self.shared.turn_off(&error);
                false
            }
        }
    }

    /// Counts that its page has come from here.
    pub(crate) fn served(&self, bytes: u32) {
        self.shared.counts.hits.fetch_add(1, Relaxed);
        self.shared.counts.bytes_read.fetch_add(bytes.into(), Relaxed);
    }
}

impl Drop for FlashCopy {
    fn drop(&mut self) {
        self.shared.state.lock().tier.release(self.slot);
    }
}
