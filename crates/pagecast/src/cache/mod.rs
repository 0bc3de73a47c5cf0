//! Frames, page table and loads: the protocol by which pages come, are pinned, and go.
//!
//! ```text
//!   request(page)
//!      |  find + pin + look again (no lock)        hit -----------------------------> Held
//!      |  under the shard's lock:  resident? ------------------------------------> Held
//!      |                           in flight? ---- join ---------> Waiter ------.
//!      '-- else enter a load ----> Loading + Waiter                             |
//!                                    |  free frame, or policy.evict -> claim     |
//!                                    |  I/O, no lock held                        v
//!                                    '-- publish / fail / give up ----> pin, error or "no frame"
//! ```
//!
//! Three rules keep it right, and three mistakes against them are kept for the exploration to catch
//! (`exploration.rs`): a claimed frame loses its page at once, tag and chain (rule 1); who pinned a
//! frame without a lock looks again whose it is (rule 2); a load ends for all its waiters, with or
//! without a page (rule 3).
//!
//! Having a page alone is in `exclusive.rs`, its way to storage in `write_back.rs`, pages brought
//! ahead in `ahead.rs`, what the policy hears of uses in `touch.rs`.
//!
//! No call here waits for a frame or for I/O, so nobody waits who keeps others waiting; only a
//! [`Waiter`] waits, and its load is in the hands of an I/O thread or of a caller on its way to
//! hand it over.

mod ahead;
mod check;
mod client;
mod evict;
mod exclusive;
mod frame;
mod free;
mod load;
mod shares;
mod table;
mod touch;
mod tuples;
mod write_back;

#[cfg(all(test, pagecast_shuttle))]
pub(crate) mod exploration;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use pagecast_core::policy::{Access, CoarseClock, ConcurrentPolicy, HitNeed, Refusal};
use pagecast_core::{PageId, RelationId, Tick};

use crate::cooperation::{Cooperation, Residency};
use crate::flash::{Flash, FlashCopy};
use crate::frame_memory::FrameMemory;
use crate::stats::{Counter, PoolStats, Statistics};
use crate::sync::{Mutex, unless_mistaken};
use crate::token::{Held, Owned};
pub(crate) use ahead::Ahead;
pub use check::FrameCounts;
use client::SharedQueues;
pub(crate) use client::{Anyone, Client, SessionState};
pub(crate) use evict::Placement;
pub(crate) use exclusive::{Exclusive, Upgrade};
use frame::Header;
use free::FreeFrames;
use load::Load;
pub(crate) use load::{Carried, Loading, Waiter};
pub(crate) use shares::{Capped, MAX_RESERVES};
use shares::{Caps, Reserves};
use table::Table;
#[cfg(all(test, not(pagecast_shuttle)))]
pub(crate) use table::look_ups;
pub use tuples::TupleStats;
pub(crate) use tuples::{ItemRoom, TupleConfig};
use tuples::{Left, TupleBuffer};
pub(crate) use write_back::{Blocked, Writing};

/// The frames of a pool and all that is known about them.
///
/// Invariants:
/// * (I1) A frame is owned, resident, or exclusive. Of an owned frame there is exactly one
///   [`Owned`]: among the free frames or the slabs (`tuples`), in a [`Loading`] or an
///   [`Exclusive`], or on the way between them.
/// * (I2) Under a shard's lock its chains link exactly the resident and the exclusive frames of its
///   pages, each tagged with its page. Claim and publication change state, tag and link in one hold
///   of that lock.
/// * (I3) Under a shard's lock a page of it is resident in one frame, or has one load in flight, or
///   neither. Publication removes the load and links the frame in one hold; a request looks for
///   both in one hold. A page that somebody has or wants alone counts as being loaded, by that
///   caller.
/// * (I4) A frame's pins are its [`Held`]s: with users, or in an ended load for waiters that have
///   not come yet. Each waiter has its pin before it wakes.
/// * (I5) A load ends once, through its [`Loading`], and leaves the shard's table in the same hold.
/// * (I6) Locks are taken in this order: a queue's, the policy's own, that of the unordered scans
///   (`crate::cooperation`), a shard's, a load's, the caps'. No two queues' or shards' at once.
///   Those of tuples are said there. The policy is never called under a shard's lock, and nothing
///   is read or woken under any.
/// * (I7) `flagged` counts the loads and frames that carry the flag of a page brought ahead
///   (`ahead.rs`). A flag moves from the load to the frame at publication, and is taken off once.
/// * (I8) A frame that is dirty, being written or exclusive is not claimed. A page is being written
///   once at a time.
/// * (I9) The version of a frame is even only while it is resident or a slab and nobody may write
///   to it.
pub(crate) struct Cache {
    headers: Box<[Header]>,
    memory: FrameMemory,
    table: Table,
    free: FreeFrames,
    policy: Box<dyn ConcurrentPolicy>,
    hit_need: HitNeed,
    /// For a policy that counts uses within a step of it as one.
    clock: Option<CoarseClock>,
    /// Hits of callers without a session.
    queues: SharedQueues,
    loads: AtomicU32,
    max_loads: u32,
    flagged: AtomicU32,
    caps: Caps,
    reserves: Reserves,
    /// None of a pool without tuples.
    tuples: Option<Box<TupleBuffer>>,
    /// Who waits for the last pin of others on a frame, to have its page alone.
    draining: Mutex<Vec<(u32, Waker)>>,
    /// Dirty pages that should have left.
    wanted: Mutex<Vec<(PageId, u32)>>,
    /// Who is told of pages that come and go.
    pub(crate) cooperation: Cooperation,
    /// The tier on flash, if there is one: who is offered pages that leave.
    flash: OnceLock<Arc<Flash>>,
    pub(crate) statistics: Statistics,
}

/// What became of a request.
pub(crate) enum Request {
    /// The page is resident.
    Hit(Held),
    /// It is on its way already.
    Joined {
        waiter: Waiter,
        /// Whether it was brought ahead, so that this is the use that it is admitted for.
        first: bool,
    },
    /// The caller has to see to its load.
    Started(Loading, Waiter),
    /// As many loads are in flight as there may be.
    Full,
}

impl Request {
    /// As what it counts.
    pub(crate) fn counter(&self) -> Counter {
        match self {
            Request::Hit(_) => Counter::Hits,
            Request::Joined { .. } => Counter::Waits,
            Request::Started(..) | Request::Full => Counter::Misses,
        }
    }
}

impl Cache {
    /// Bytes of the queues in which hits wait for a policy that keeps an order.
    pub(crate) const fn queue_bytes(length: u32) -> u64 {
        SharedQueues::bytes(length)
    }

    /// Bytes of headers, free list, page table and at most `loads` loads in flight for `frames`
    /// frames.
    pub(crate) fn metadata_bytes(frames: u32, loads: u32) -> [u64; 3] {
        // A load's own block with its counts, its place in the shard's hash table (at most 7/8
        // full, and twice that after growing), its duty in the I/O queue, and a waiter with its
        // waker.
        let load = size_of::<Load>() + 16 + 4 * (size_of::<(PageId, Arc<Load>)>() + 1) + size_of::<Loading>() + 32;
        [
            u64::from(frames) * (size_of::<Header>() + size_of::<Owned>()) as u64,
            Table::bytes(frames),
            u64::from(frames.min(loads)) * load as u64,
        ]
    }

    /// Bytes of what a pool of at most `frames` frames needs for tuples.
    pub(crate) fn tuple_bytes(frames: u32, page_size: u32) -> u64 {
        TupleBuffer::bytes(frames, page_size, Table::shards_for(frames))
    }

    /// `frames` of the memory's frames are in use at first. The policy is built for all. At most
    /// `loads` loads are in flight. Tuples are kept as `tuples` says.
    pub(crate) fn new(
        memory: FrameMemory,
        (frames, loads): (u32, u32),
        policy: Box<dyn ConcurrentPolicy>,
        cooperation: Cooperation,
        tuples: Option<TupleConfig>,
    ) -> Arc<Self> {
        let most = memory.frames();
        let (page_size, shards) = (memory.page_size(), Table::shards_for(most));
        let buffer = |config| {
            let tuples = TupleBuffer::new(most, page_size, shards, config);
            tuples.bound_models(frames);
            Box::new(tuples)
        };
        policy.resize(frames);
        Arc::new(Self {
            headers: (0..most).map(|_| Header::new()).collect(),
            memory,
            table: Table::new(most),
            free: FreeFrames::new(frames, most),
            hit_need: policy.hit_need(),
            clock: (policy.hit_need() == HitNeed::LaterThanWord).then(|| CoarseClock::new(frames)),
            policy,
            queues: SharedQueues::new(),
            loads: AtomicU32::new(0),
            max_loads: most.min(loads),
            flagged: AtomicU32::new(0),
            caps: Caps::new(),
            reserves: Reserves::new(),
            tuples: tuples.map(buffer),
            draining: Mutex::new(Vec::new()),
            wanted: Mutex::new(Vec::new()),
            cooperation,
            flash: OnceLock::new(),
            statistics: Statistics::new(),
        })
    }

    /// From now on pages that leave are offered to the tier. There is one in a cache's life.
    pub(crate) fn set_flash(&self, flash: Arc<Flash>) {
        let _ = self.flash.set(flash);
    }

    /// The copy on flash of the page that a request wants.
    pub(crate) fn copy_on_flash(&self, access: &Access) -> Option<FlashCopy> {
        self.flash.get()?.find(access)
    }

    /// How many frames are in use.
    pub(crate) fn frames(&self) -> u32 {
        self.free.count()
    }

    /// Pins `page` if it is resident and no frame moves under our feet. `access` is asked for only
    /// if the policy wants to know; it reads the clock if it is given no time.
    #[inline]
    pub(crate) fn hit(
        &self,
        client: &mut impl Client,
        page: PageId,
        access: impl FnOnce(Option<Tick>) -> Access,
    ) -> Option<Held> {
        let frame = self.table.find(&self.headers, page)?;
        // The page's own first line is on its way while the frame is pinned: a processor lets no
        // read pass an atomic.
        self.memory.prefetch(frame);
        let header = &self.headers[frame as usize];
        let held = header.pin(frame)?;
        // Rule 2: between finding and pinning, the frame may have been claimed and filled with
        // another page. Now that it is pinned it keeps the page it has.
        unless_mistaken!(NO_RECHECK, {
            if !header.is_tagged(page) {
                self.unpin(held);
                return None;
            }
        });
        client.count(self, Counter::Hits, 1);
        self.first_use_or_touch(client, &held, access);
        Some(held)
    }

    /// Copies bytes of a resident page from `offset` on without a pin, and says how many. `None` if
    /// the page is not resident, or changed hands while it was copied: what is in `into` then is of
    /// no use.
    pub(crate) fn copy_unpinned(
        &self,
        client: &mut impl Client,
        page: PageId,
        offset: u32,
        into: &mut [u8],
        access: impl FnOnce(Option<Tick>) -> Access,
    ) -> Option<usize> {
        let frame = self.table.find(&self.headers, page)?;
        let header = &self.headers[frame as usize];
        let version = header.stable_version()?;
        // Of this version or of a later one, which the last look tells. The first use of a page
        // that was brought ahead takes its flag off, and with it a pin.
        if !header.is_tagged(page) || header.is_flagged() {
            return None;
        }
        // Nothing of a page that ends before it.
        let len = header.len();
        let offset = offset.min(len);
        let bytes = into.len().min((len - offset) as usize);
        self.memory.copy_unpinned(frame, offset as usize, &mut into[..bytes]);
        unless_mistaken!(NO_VALIDATION, {
            if !header.is_unchanged(version) {
                return None;
            }
        });
        client.count(self, Counter::Hits, 1);
        self.touch(client, frame, access);
        Some(bytes)
    }

    /// Pins the page, or finds or begins its load.
    pub(crate) fn request(self: &Arc<Self>, client: &mut impl Client, access: Access) -> Request {
        self.request_with(client, access, Load::new)
    }

    /// The same for who has room for the bytes: the load needs no frame before they are here, and
    /// there may be more of them than frames.
    pub(crate) fn request_for_reader(self: &Arc<Self>, client: &mut impl Client, access: Access) -> Request {
        self.request_with(client, access, Load::of_reader)
    }

    fn request_with(
        self: &Arc<Self>,
        client: &mut impl Client,
        access: Access,
        load: impl FnOnce(Access) -> Arc<Load>,
    ) -> Request {
        // What the policy hears of this request must come after what its client did before.
        self.settle(client);
        let request = self.find_or_load(access, load);
        client.count(self, request.counter(), 1);
        if let Request::Hit(held) = &request {
            self.first_use_or_touch(client, held, |_| access);
        }
        request
    }

    fn find_or_load(self: &Arc<Self>, access: Access, load: impl FnOnce(Access) -> Arc<Load>) -> Request {
        let page = access.page;
        let mut shard = self.table.shard(page).lock();
        let resident = self.table.find_locked(&self.headers, page, &shard);
        if let Some(held) = resident.and_then(|frame| self.headers[frame as usize].pin(frame)) {
            return Request::Hit(held);
        }
        if let Some(load) = shard.get(&page) {
            let was_marked = load.unflag();
            if was_marked {
                self.take_off(Counter::PrefetchLate);
            }
            return Request::Joined { waiter: load.join(self), first: was_marked };
        }
        let load = load(access);
        if load.is_counted() && self.loads.fetch_add(1, Relaxed) >= self.max_loads {
            self.ended_one();
            return Request::Full;
        }
        let waiter = load.join(self);
        shard.insert(page, load.clone());
        self.note_load(page);
        Request::Started(Loading::new(self.clone(), load), waiter)
    }

    /// A load of the page has begun. The caller holds the lock of its shard.
    fn note_load(&self, page: PageId) {
        if let Some(tuples) = &self.tuples {
            tuples.note_load(self.set_of(tuples, page));
        }
    }

    fn ended(&self, load: &Load) {
        if load.is_counted() {
            self.ended_one();
        }
    }

    fn ended_one(&self) {
        self.loads.fetch_sub(1, Relaxed);
    }

    /// The bytes of a pinned page.
    #[inline]
    pub(crate) fn bytes<'a>(&'a self, held: &'a Held) -> &'a [u8] {
        let len = self.headers[held.index() as usize].len() as usize;
        &self.memory.read(held)[..len]
    }

    /// The log record of a pinned page's last change.
    pub(crate) fn lsn(&self, held: &Held) -> u64 {
        self.headers[held.index() as usize].lsn()
    }

    #[inline]
    pub(crate) fn unpin(&self, held: Held) {
        let index = held.index();
        if self.headers[index as usize].unpin(held) {
            self.wake_drained(index);
        }
    }

    /// Frees the frames of a relation that nobody will ask for again, changes that were not written
    /// included. Pages that are pinned or on their way stay, until the policy finds that nobody
    /// wants them.
    pub(crate) fn discard(&self, relation: RelationId) {
        self.cap(Capped::Relation(relation), None);
        self.reserve(relation, 0);
        self.discard_items(relation);
        for (index, header) in self.headers.iter().enumerate() {
            if let Some(page) = header.evictable().filter(|page| page.relation() == relation) {
                self.abandon(index as u32, page);
                self.evacuate(index as u32, page);
            }
        }
    }

    /// Takes the frame from `page` if it still has it, nobody holds it and it is clean.
    fn take_from(&self, index: u32, page: PageId) -> Result<Owned, Refusal> {
        self.take_noting(index, page).map(|(owned, _)| owned)
    }

    /// The same, with what its tuples need to know.
    fn take_noting(&self, index: u32, page: PageId) -> Result<(Owned, Option<Left>), Refusal> {
        let header = self.headers.get(index as usize).ok_or(Refusal::Pinned)?;
        let shard = self.table.shard(page).lock();
        // Under the lock of `page`'s shard the frame keeps this tag if it has it (I2).
        if !header.is_tagged(page) {
            return Err(Refusal::Pinned);
        }
        let owned = header.claim(index)?;
        // Rule 1: from here on nobody finds the page, and nobody who found it before can pin the
        // frame.
        unless_mistaken!(TAG_KEPT, {
            header.invalidate();
            self.table.unlink(&self.headers, page, index, &shard);
        });
        let left = self.tuples.as_ref().map(|tuples| tuples.left(page, self.set_of(tuples, page)));
        let is_told = self.cooperation.left_just_now(page);
        drop(shard);
        self.unflag(header, Counter::PrefetchWasted);
        self.reserves.count(page, -1);
        if !is_told {
            self.cooperation.left(page, || self.is_resident(page));
        }
        Ok((owned, left))
    }

    /// Whether the page is in a frame at this moment.
    pub(crate) fn is_resident(&self, page: PageId) -> bool {
        let shard = self.table.shard(page).lock();
        self.table.find_locked(&self.headers, page, &shard).is_some()
    }

    /// Who says which pages are resident, for somebody who asks for so many of them: by a look at
    /// each under its lock, or at all frames now, whichever are fewer.
    pub(crate) fn residency(&self, pages: u64) -> Residency<'_> {
        if pages <= self.headers.len() as u64 {
            return Box::new(|page| self.is_resident(page));
        }
        // A tag is set before its page is told of, and taken away before (U6).
        let resident: HashSet<_, FixedState> = self.headers.iter().filter_map(Header::tagged).collect();
        Box::new(move |page| resident.contains(&page))
    }

    /// What the pool has done so far.
    pub(crate) fn stats(&self) -> PoolStats {
        let mut stats = PoolStats { policy_lock: self.policy.lock_counts(), ..self.statistics.snapshot() };
        self.cooperation.count(&mut stats);
        stats
    }

    /// Frames that are pinned at this moment.
    pub(crate) fn pinned(&self) -> u32 {
        self.headers.iter().filter(|header| header.pins() > 0).count() as u32
    }
}
