//! A page becomes a mini-page when it leaves, and a mini-page goes into its page when that comes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;

use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::sync::atomic::AtomicU64;
use pagecast_core::tuples::{Heat, Keep, Visits, Weight};
use pagecast_core::{PageId, Tick};

use super::mini_page::Part;
use super::mini_page::{NEVER, find};
use super::slab::Parts;
use super::{TupleBuffer, Turnover, among, hash};
use crate::cache::Cache;
use crate::layout::within;
use crate::sync::atomic::Ordering;
use crate::token::Owned;

/// A page that was claimed, and what was true in the hold of its claim.
#[derive(Clone, Copy)]
pub(in crate::cache) struct Left {
    pub(in crate::cache) page: PageId,
    /// Loads of its shard that had begun (T2).
    pub(in crate::cache) begun: u64,
}

impl TupleBuffer {
    /// What is to be remembered of a claim. The caller holds the lock of the page's shard, `set`.
    pub(in crate::cache) fn left(&self, page: PageId, set: u32) -> Left {
        Left { page, begun: self.begun(set) }
    }
}

impl Turnover {
    /// One of `mini_pages` was made.
    fn made(&self, mini_pages: u32, now: Tick) {
        if self.made.fetch_add(1, Ordering::Relaxed) >= mini_pages {
            self.made.store(0, Ordering::Relaxed);
            let since = self.since.swap(now, Relaxed);
            self.stay.store(now.saturating_sub(since), Relaxed);
        }
    }

    /// How long a mini-page stays, as far as is known.
    fn stay(&self) -> Tick {
        match self.stay.load(Relaxed) {
            0 => Tick::MAX,
            stay => stay,
        }
    }
}

impl Cache {
    /// The visited items of a claimed page go on in a mini-page, if there are any and they are
    /// worth it. The page's bytes are still in its frame.
    pub(in crate::cache) fn dissolve(&self, victim: &Owned, left: &Left, now: Tick, oracle: &dyn Oracle) {
        let Some(tuples) = &self.tuples else { return };
        let visits = tuples.visits(victim.index());
        if self.slabs() == 0 || !visits.any() {
            return;
        }
        let Some(layout) = tuples.layout(left.page.relation()) else { return };
        if comes_back(tuples, left.page, now, oracle) {
            return;
        }
        let header = &self.headers[victim.index() as usize];
        let bytes = &self.memory.read_owned(victim)[..header.len() as usize];
        // The layout is the host's: a panic in it costs these items, and nothing else.
        let visited = catch_unwind(AssertUnwindSafe(|| visited_items(&*layout, bytes, visits)));
        let Ok(visited) = visited else { return };
        let items = kept_items(tuples, visited);
        if items.is_empty() {
            return;
        }
        let heat = AtomicU64::new(0);
        let outliving = tuples.outliving[victim.index() as usize].load(Ordering::Relaxed);
        Heat::new(&heat).begin(outliving, tuples.ages.now());
        let (page, hash) = (left.page, hash(left.page));
        let (lsn, heat) = (header.lsn(), heat.load(Relaxed));
        let parts = Parts { page, hash, lsn, heat, since: NEVER, items: &items, bytes };
        self.link(tuples, left, &parts, now);
    }

    /// Publishes a mini-page, unless a load of its shard has begun since the claim (T2).
    fn link(&self, tuples: &TupleBuffer, left: &Left, parts: &Parts<'_>, now: Tick) {
        let number = self.set_of(tuples, left.page);
        let shard = self.table.shard(left.page).lock();
        let is_stale = tuples.begun(number) != left.begun;
        #[cfg(pagecast_shuttle)]
        let is_stale = match crate::sync::mistake::made(crate::sync::mistake::STALE_PUBLICATION) {
            true => self.is_there(left.page, &shard),
            false => is_stale,
        };
        if is_stale {
            tuples.counts.stale.fetch_add(1, Relaxed);
            return;
        }
        debug_assert!(!self.is_there(left.page, &shard), "(T1): no load has begun, but the page is there");
        let mut slabs = tuples.sets[number as usize].slabs.lock();
        let Some(slab) = among(parts.hash, slabs.len() as u32) else { return };
        let is_linked = self.insert(tuples, &mut slabs[slab as usize], parts);
        drop((slabs, shard));
        if is_linked {
            tuples.counts.dissolved.fetch_add(1, Relaxed);
            let mini_pages = tuples.mini_pages.load(Ordering::Relaxed);
            tuples.ages.made(tuples.items.load(Ordering::Relaxed));
            tuples.turnover.made(mini_pages, now);
        }
    }

    /// Puts a mini-page into its slab, and lets others leave for it. False if it needs more than
    /// can leave.
    pub(super) fn insert(&self, tuples: &TupleBuffer, owned: &mut Owned, parts: &Parts<'_>) -> bool {
        let (age, visits) = (tuples.ages.now(), tuples.visits(owned.index()));
        let (gone, is_in) = self.change(tuples, owned, |slab| {
            if let Some(former) = slab.find(parts.page, parts.hash) {
                slab.remove(&former);
            }
            let need = parts.need(tuples.shape) as u32;
            let gone = slab.make_room(need, visits, age, &mut tuples.random.fork());
            (gone, slab.insert(parts))
        });
        tuples.counts.evicted.fetch_add(gone.whole.into(), Relaxed);
        tuples.counts.trimmed.fetch_add(gone.trimmed.into(), Relaxed);
        is_in
    }

    /// The page of a load is about to be resident in `frame`: its mini-page goes, and its visits go
    /// on in the page, and so do its hits (T1, T3). The caller holds the lock of the page's shard.
    #[inline]
    pub(in crate::cache) fn merge(&self, page: PageId, frame: u32) {
        if let Some(tuples) = &self.tuples {
            self.merge_mini_page(tuples, page, frame);
        }
    }

    fn merge_mini_page(&self, tuples: &TupleBuffer, page: PageId, frame: u32) {
        let (set, hash, visits) = (self.set_of(tuples, page), hash(page), tuples.visits(frame));
        visits.clear();
        // Relaxed, as the visits: who claims the page next does so under the same lock.
        tuples.outliving[frame as usize].store(0, Ordering::Relaxed);
        let mut slabs = tuples.sets[set as usize].slabs.lock();
        let Some(slab) = among(hash, slabs.len() as u32) else { return };
        let owned = &mut slabs[slab as usize];
        let words = self.memory.read_owned(owned);
        let Some(mini) = find(words, tuples.shape, page, hash) else { return };
        let (new, age) = (tuples.visits(owned.index()), tuples.ages.now());
        let heat = AtomicU64::new(mini.heat_with(words, new, age));
        tuples.outliving[frame as usize].store(Heat::new(&heat).outliving(age), Ordering::Relaxed);
        for entry in mini.entries(words) {
            visits.raise(entry.name, entry.visits.saturating_add(new.count(entry.counter)));
        }
        let is_changed = mini.since(words) != NEVER;
        self.change(tuples, owned, |slab| slab.remove(&mini));
        tuples.changed.fetch_sub(is_changed.into(), Ordering::Relaxed);
        tuples.counts.merged.fetch_add(1, Relaxed);
    }
}

/// Whether a scan brings the page back sooner than its mini-page would go.
fn comes_back(tuples: &TupleBuffer, page: PageId, now: Tick, oracle: &dyn Oracle) -> bool {
    let stay = tuples.turnover.stay();
    let question = Question { above: Some(stay), ..Question::new(page, now) };
    oracle.next_access(question).is_some_and(|ticks| ticks <= stay)
}

/// The items that were visited, as far as the layout can be believed.
fn visited_items(layout: &dyn crate::layout::TupleLayout, page: &[u8], visits: Visits<'_>) -> Vec<Part> {
    let mut items = Vec::new();
    layout.each(page, &mut |name, range| {
        let count = visits.count(name);
        // More items than bytes there cannot be.
        if count > 0
            && items.len() < page.len()
            && let Some(range) = within(page.len(), range)
        {
            let (start, len) = (range.start as u32, range.len() as u32);
            items.push(Part { name, visits: count, is_dirty: false, is_hidden: false, start, len });
        }
    });
    items
}

/// Those of the visited items that are worth a mini-page, in the order of their names.
fn kept_items(tuples: &TupleBuffer, mut visited: Vec<Part>) -> Vec<Part> {
    visited.sort_by_key(|part| part.name);
    visited.dedup_by_key(|part| part.name);
    let weight = |at: u32| Weight { count: visited[at as usize].visits, length: visited[at as usize].len };
    let mut kept: Vec<u32> = Keep::new(visited.len() as u32, tuples.room, weight).collect();
    kept.sort_unstable();
    kept.into_iter().map(|at| visited[at as usize]).collect()
}
