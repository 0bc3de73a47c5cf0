//! The tuple buffer: hot items go on without their page when the policy gives the page up.
//!
//! ```text
//!   read_tuple(page, item)
//!      |  mini-page of the page?  copy, look again (no lock) ------------------> the item
//!      |  page resident?          pin, locate, copy, note the visit -----------> the item
//!      '- load the page -- publish: its mini-page merges, in the same hold ----> as above
//!
//!   policy.evict -> claim -> Owned -- visited items? --> locate and copy (no lock)
//!                                                          '--> the page's mini-page, in its slab
//! ```
//!
//! A *slab* is a frame that the tuple buffer has borrowed. Slabs are dealt out to *sets*, of which
//! each has the pages of one shard or of several. A page's mini-page is in one slab of its set,
//! which a linear hash says (Litwin, VLDB 1980). So there is no index, and the buffer grows and
//! shrinks by a frame at a time. A slab is a set of competitors: whoever needs room in it takes it
//! from the coldest mini-page of the slab.
//!
//! Rules, beside those of the cache:
//! * (T1) Under a shard's lock a page of it is resident or has a mini-page, never both. Publication
//!   takes the mini-page away in the hold in which it links the frame.
//! * (T2) A mini-page is linked only if no load of its set began since its page was claimed: the
//!   page could have been loaded, changed, written and evicted again. The number of begun loads is
//!   read in the hold of the claim and compared in that of the link. The layout is asked in
//!   between, under no lock.
//! * (T3) A load merges before anybody sees its page, however it was asked for.
//! * (T4) A page is claimed clean (I8), so that a new mini-page has no change of its own.
//! * (T5) All dirty items of a page go into it together, when it is loaded, and with them the
//!   page's log record becomes the last of theirs: never a part of them, since redo compares
//!   records with the page's.
//! * (T6) Who writes what is dirty looks for dirty mini-pages first, loads their pages, and looks
//!   for dirty pages then. There is no other way to storage. Between the two looks it has each
//!   shard's lock once: so whoever had taken a mini-page away by then has made its page dirty.
//! * (T7) A mini-page is read as a page is copied without a pin: the slab's version is even before
//!   and the same afterwards, and the frame is that slab. Frames stay mapped, so that a stale
//!   number leads to bytes that fail this check.
//! * (T8) A hit writes at most a counter of two bits, in memory that holds nothing else, so that a
//!   late write does no harm.
//! * (T9) Who changes an item without its page has the page as being loaded, from before the log
//!   record until the item is changed. Who wants the page waits, and loads it then. The item is
//!   seen as it was until it is changed, and never without its record.
//! * (T10) What drops a relation's pages drops its mini-pages.
//!
//! Locks: who moves the border between pages and slabs has `border`, before all others. A set's
//! slabs are locked after their shard or without it, two sets never at once.

mod border;
mod changes;
mod dissolve;
mod learn;
mod mini_page;
mod read;
mod slab;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Count, Ordering::Relaxed};

use pagecast_core::random::RandomSource;
use pagecast_core::sync::atomic::AtomicU64;
use pagecast_core::tuples::{Ages, Room, Sample, Shares, Visits};
use pagecast_core::{PageId, RelationId};

use super::{Cache, Header};
use crate::layout::TupleLayout;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::token::Owned;
pub(super) use dissolve::Left;
use mini_page::{HELD, Mini, NEVER, Shape};
pub(crate) use read::ItemRoom;
use slab::Slab;

/// A slab without a frame.
const NIL: u32 = u32::MAX;
/// Bytes of a page for which there is a counter of visits.
const BYTES_PER_COUNTER: u32 = 64;
/// A pool has no more sets than one for so many frames.
const FRAMES_PER_SET: u32 = 8;
/// Frames that are never lent, of a pool that has twice as many.
const LEAST_PAGES: u32 = 64;
/// What a pool needs beside its pages to keep tuples.
pub(super) struct TupleBuffer {
    shape: Shape,
    room: Room,
    /// The visits of each frame's items: of a page by the items' names, of a slab by the counters
    /// of its mini-pages.
    visits: Box<[AtomicU64]>,
    words_of_frame: usize,
    /// The hits of the mini-page that merged into each frame's page.
    outliving: Box<[AtomicU32]>,
    /// The frame of each slab.
    directory: Box<[AtomicU32]>,
    /// How many slabs there are. Changed under `border` and the lock of the set whose slab comes or
    /// goes.
    slabs: AtomicU32,
    sets: Box<[Set]>,
    /// The part of the frames that are to be slabs, as bits of an `f64`.
    share: Count,
    max_share: f64,
    /// Frames that hold pages in any case, beside [`LEAST_PAGES`].
    kept_pages: AtomicU32,
    /// Whose requests the share is learned from, and by what, if it is.
    sample: Option<Sample>,
    shares: Option<Mutex<Shares>>,
    layouts: Mutex<HashMap<RelationId, Arc<dyn TupleLayout>>>,
    border: Mutex<()>,
    mini_pages: AtomicU32,
    /// Items of all of them.
    items: AtomicU32,
    /// Mini-pages that are dirty, or of which an item is being changed.
    changed: AtomicU32,
    ages: Ages,
    turnover: Turnover,
    random: RandomSource,
    counts: Counts,
}

/// How tuples are kept.
pub(crate) struct TupleConfig {
    /// The part of the frames that may be slabs, and is if it is not learned.
    pub(crate) max_share: f64,
    /// What learns it.
    pub(crate) shares: Option<Shares>,
    pub(crate) seed: u64,
}

/// The slabs of the pages of one shard, or of several.
struct Set {
    /// Loads that have begun, of any of the pages. A page's are counted under its shard's lock.
    begun: Count,
    /// Slab `n` of the set is slab `n * sets + set` of all.
    slabs: Mutex<Vec<Owned>>,
}

/// How long a mini-page stays: the time in which as many are made as there are.
#[derive(Default)]
struct Turnover {
    since: Count,
    made: AtomicU32,
    stay: Count,
}

/// What the tuple buffer has done.
#[derive(Default)]
struct Counts {
    dissolved: Count,
    stale: Count,
    evicted: Count,
    trimmed: Count,
    merged: Count,
    updates: Count,
}

/// What the tuple buffer holds and has done; see [`Pool::tuple_stats`](crate::Pool::tuple_stats).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct TupleStats {
    /// Frames that hold mini-pages.
    pub slabs: u32,
    /// The part of the frames that are to hold mini-pages.
    pub share: f64,
    /// Mini-pages: pages of which items are held.
    pub mini_pages: u32,
    /// Mini-pages of those with changes that are not in their pages.
    pub changed: u32,
    /// Requests for an item that a mini-page answered.
    pub hits: u64,
    /// Pages that went on as a mini-page when they were evicted.
    pub dissolved: u64,
    /// Mini-pages that were thrown away as they were made, since loads had begun meanwhile.
    pub stale: u64,
    /// Mini-pages that gave way to others.
    pub evicted: u64,
    /// Mini-pages that gave way in part.
    pub trimmed: u64,
    /// Mini-pages that merged into their page when it was loaded.
    pub merged: u64,
    /// Changes of items without their pages.
    pub updates: u64,
}

impl TupleBuffer {
    /// Bytes for a pool of at most `frames` frames.
    pub(super) fn bytes(frames: u32, page_size: u32, shards: u32) -> u64 {
        let words = Visits::words(page_size / BYTES_PER_COUNTER) as u64;
        u64::from(frames) * (words * 8 + 8 + 2 * size_of::<Owned>() as u64)
            + u64::from(sets(frames, shards)) * size_of::<Set>() as u64
    }

    pub(super) fn new(frames: u32, page_size: u32, shards: u32, config: TupleConfig) -> Self {
        let words_of_frame = Visits::words(page_size / BYTES_PER_COUNTER);
        let share = if config.shares.is_some() { 0.0 } else { config.max_share };
        let set = || Set { begun: Count::new(0), slabs: Mutex::new(Vec::new()) };
        Self {
            shape: Shape::new(page_size),
            room: Room::new(page_size),
            visits: (0..frames as usize * words_of_frame).map(|_| AtomicU64::new(0)).collect(),
            words_of_frame,
            outliving: (0..frames).map(|_| AtomicU32::new(0)).collect(),
            directory: (0..frames).map(|_| AtomicU32::new(NIL)).collect(),
            slabs: AtomicU32::new(0),
            sets: (0..sets(frames, shards)).map(|_| set()).collect(),
            share: Count::new(share.to_bits()),
            max_share: config.max_share,
            kept_pages: AtomicU32::new(0),
            sample: config.shares.as_ref().map(Shares::sample),
            shares: config.shares.map(Mutex::new),
            layouts: Mutex::new(HashMap::new()),
            border: Mutex::new(()),
            mini_pages: AtomicU32::new(0),
            items: AtomicU32::new(0),
            changed: AtomicU32::new(0),
            ages: Ages::default(),
            turnover: Turnover::default(),
            random: RandomSource::new(config.seed),
            counts: Counts::default(),
        }
    }

    #[inline]
    fn visits(&self, frame: u32) -> Visits<'_> {
        let first = frame as usize * self.words_of_frame;
        Visits::new(&self.visits[first..first + self.words_of_frame])
    }

    fn layout(&self, relation: RelationId) -> Option<Arc<dyn TupleLayout>> {
        self.layouts.lock().get(&relation).cloned()
    }

    /// A load of a page of `set` begins. The caller holds the lock of its shard.
    pub(super) fn note_load(&self, set: u32) {
        self.sets[set as usize].begun.fetch_add(1, Relaxed);
    }

    fn begun(&self, set: u32) -> u64 {
        self.sets[set as usize].begun.load(Relaxed)
    }
}

/// How many sets a pool of `frames` frames has: few enough that each has some slabs.
fn sets(frames: u32, shards: u32) -> u32 {
    let most = 1 << (frames / FRAMES_PER_SET).max(1).ilog2();
    shards.min(most)
}

/// Scatters pages: of neighbours all bits differ.
#[inline]
fn hash(page: PageId) -> u64 {
    let mixed = page.raw().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

/// Which of a set's `slabs` slabs a page is in: its hash modulo the next power of two, or modulo
/// the one before where there is no such slab yet. With one slab more, the pages of one divide.
#[inline]
fn among(hash: u64, slabs: u32) -> Option<u32> {
    let half = 1 << slabs.checked_ilog2()?;
    let number = (hash >> 32) as u32;
    let slab = number & (2 * half - 1);
    Some(if slab < slabs { slab } else { number & (half - 1) })
}

impl Cache {
    /// Whose slabs may have the mini-page of a page.
    #[inline]
    pub(super) fn set_of(&self, tuples: &TupleBuffer, page: PageId) -> u32 {
        // Both are powers of two.
        self.table.shard_number(page) & (tuples.sets.len() as u32 - 1)
    }

    /// An item of a resident page was asked for by its name. The caller holds a pin.
    #[inline]
    pub(crate) fn visit(&self, frame: u32, name: u32) {
        if let Some(tuples) = &self.tuples {
            tuples.visits(frame).visit(name);
        }
    }

    /// Changes a slab: until it is done nobody reads it without the lock of its set, which the
    /// caller has.
    fn change<R>(&self, tuples: &TupleBuffer, owned: &mut Owned, work: impl FnOnce(&mut Slab<'_>) -> R) -> R {
        let _changing = self.headers[owned.index() as usize].change_slab();
        let mut slab = Slab { shape: tuples.shape, bytes: self.memory.write(owned) };
        let before = (slab.number(), slab.items());
        let result = work(&mut slab);
        // Wraps: the sum is right whatever the order.
        tuples.mini_pages.fetch_add(slab.number().wrapping_sub(before.0), Ordering::Relaxed);
        tuples.items.fetch_add(slab.items().wrapping_sub(before.1), Ordering::Relaxed);
        result
    }

    /// From now on items of the relation's pages are where `layout` says. False if it has a layout.
    pub(crate) fn set_layout(&self, relation: RelationId, layout: &Arc<dyn TupleLayout>) -> bool {
        let Some(tuples) = &self.tuples else { return true };
        let mut layouts = tuples.layouts.lock();
        let is_new = !layouts.contains_key(&relation);
        if is_new {
            layouts.insert(relation, layout.clone());
        }
        is_new
    }

    /// The relations of which items may stay without their pages.
    pub(super) fn relations_with_items(&self) -> Vec<RelationId> {
        self.tuples.as_ref().map_or_else(Vec::new, |tuples| tuples.layouts.lock().keys().copied().collect())
    }

    /// Drops the mini-pages of a relation that nobody will ask for again (T10).
    pub(super) fn discard_items(&self, relation: RelationId) {
        let Some(tuples) = &self.tuples else { return };
        if tuples.layouts.lock().remove(&relation).is_none() {
            return;
        }
        for set in &tuples.sets {
            for owned in set.slabs.lock().iter_mut() {
                self.change(tuples, owned, |slab| {
                    let minis: Vec<_> = slab.minis().collect();
                    let of_relation = |mini: &&Mini| mini.page(slab.bytes).relation() == relation;
                    let going: Vec<_> = minis.iter().filter(of_relation).copied().collect();
                    let changed = going.iter().filter(|mini| mini.since(slab.bytes) != NEVER).count();
                    tuples.changed.fetch_sub(changed as u32, Ordering::Relaxed);
                    going.iter().for_each(|mini| slab.remove(mini));
                });
            }
        }
    }

    /// How many mini-pages hold changes that are not in their pages.
    pub(crate) fn changed_mini_pages(&self) -> u32 {
        self.tuples.as_ref().map_or(0, |tuples| tuples.changed.load(Ordering::Relaxed))
    }

    /// What the tuple buffer holds and has done.
    pub(crate) fn tuple_stats(&self) -> Option<TupleStats> {
        let tuples = self.tuples.as_ref()?;
        let counts = &tuples.counts;
        Some(TupleStats {
            slabs: tuples.slabs.load(Ordering::Relaxed),
            share: tuples.share(),
            mini_pages: tuples.mini_pages.load(Ordering::Relaxed),
            changed: tuples.changed.load(Ordering::Relaxed),
            hits: self.statistics.snapshot().tuple_hits,
            dissolved: counts.dissolved.load(Relaxed),
            stale: counts.stale.load(Relaxed),
            evicted: counts.evicted.load(Relaxed),
            trimmed: counts.trimmed.load(Relaxed),
            merged: counts.merged.load(Relaxed),
            updates: counts.updates.load(Relaxed),
        })
    }

    /// How many frames are slabs.
    pub(super) fn slabs(&self) -> u32 {
        self.tuples.as_ref().map_or(0, |tuples| tuples.slabs.load(Ordering::Relaxed))
    }

    /// Panics if an invariant of the tuple buffer does not hold. Nobody may be at work.
    pub(super) fn check_tuples(&self) {
        let Some(tuples) = &self.tuples else { return };
        let (mut slabs, mut minis, mut items, mut changed) = (0, 0, 0, 0);
        for (set, slabs_of_set) in (0..).zip(&tuples.sets) {
            let mut owned = slabs_of_set.slabs.lock();
            slabs += owned.len();
            let number_of_slabs = owned.len() as u32;
            for (place, owned) in (0..).zip(owned.iter_mut()) {
                let number = place * tuples.sets.len() as u32 + set;
                let header: &Header = &self.headers[owned.index() as usize];
                assert!(header.is_slab(number), "(T7): the frame does not say that it is slab {number}");
                assert_eq!(tuples.directory[number as usize].load(Ordering::Relaxed), owned.index(), "slab {number}");
                let slab = Slab { shape: tuples.shape, bytes: self.memory.write(owned) };
                slab.check(hash);
                minis += slab.number();
                items += slab.items();
                for mini in slab.minis() {
                    changed += u32::from(mini.since(slab.bytes) != NEVER);
                    assert!(mini.since(slab.bytes) != HELD, "(T9): an item is left as being changed");
                    let page = mini.page(slab.bytes);
                    assert_eq!(self.set_of(tuples, page), set, "{page:?} is in another set");
                    assert_eq!(among(hash(page), number_of_slabs), Some(place), "{page:?} is in another slab");
                    assert!(!self.is_resident(page), "(T1): {page:?} is whole and dissolved");
                }
            }
        }
        assert_eq!(slabs as u32, self.slabs(), "a slab is lost");
        assert_eq!(changed, tuples.changed.load(Ordering::Relaxed), "(T6): a change is counted twice or not at all");
        assert_eq!(minis, tuples.mini_pages.load(Ordering::Relaxed), "a mini-page is counted twice or not at all");
        assert_eq!(items, tuples.items.load(Ordering::Relaxed), "an item is counted twice or not at all");
    }
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod simulated;
