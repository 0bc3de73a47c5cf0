//! Frames that hold no page: those to be filled next, and those that are out of use until the pool
//! grows.
//!
//! A pool has address space for more frames than it uses. One that is out of use is *retired*: its
//! memory goes back to the system, and it waits here. A shrink stops nobody: it lowers the count,
//! retires what is free and what the policy gives up ([`Cache::shed`]). What is pinned, dirty or
//! being filled at that moment is left in use; the misses that follow go on.
//!
//! So any frame may be retired. Policies look at all frames below the *span*, and those that hold
//! nothing cost them looks. So a frame that changes hands above the count is exchanged for a
//! retired one below, until the frames in use are the first ones again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pagecast_core::oracle::Oracle;
use pagecast_core::policy::{Access, Refusal};
use pagecast_core::{FrameId, PageId, RelationId, Tick};

use super::Cache;
use crate::frame_memory::FrameMemory;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::atomic::{AtomicBool, AtomicU32};
use crate::sync::{Mutex, unless_mistaken};
use crate::token::Owned;

/// How many pages a miss lets go after a shrink that could not: few beside what a miss costs.
pub(super) const SHED_PER_MISS: u32 = 4;

/// How many frames [`FreeFrames::give_back`] withholds at once from those who want one.
const BATCH: usize = 64;

/// Frames without a page.
///
/// Invariants, under the lock: (F1) beside those that somebody looks for no more frames are in use
/// than `count`, or none is free and `draining` says so. (F2) A frame's memory is given back before
/// the frame is retired, by who owns it. (F3) All frames in use are below `span`.
pub(super) struct FreeFrames {
    lists: Mutex<Lists>,
    /// Frames to be in use. Changed under the lock, read without it where an old value does no
    /// harm.
    count: AtomicU32,
    span: AtomicU32,
    draining: AtomicBool,
    /// All frames.
    most: u32,
}

struct Lists {
    free: Vec<Owned>,
    /// Frames to be retired as soon as somebody has found them ([`FreeFrames::begin_shed`]): what
    /// others give back meanwhile is not one too many, and can be had.
    shedding: u32,
    /// The lowest on top.
    retired: BinaryHeap<Reverse<Owned>>,
}

impl Lists {
    fn lowest_retired(&self) -> Option<u32> {
        self.retired.peek().map(|Reverse(owned)| owned.index())
    }

    fn retire(&mut self, mut owned: Owned, memory: &FrameMemory) {
        memory.give_back(&mut owned);
        self.retired.push(Reverse(owned));
    }
}

impl FreeFrames {
    /// All frames of a new pool, of which the first `count` are in use.
    pub(super) fn new(count: u32, most: u32) -> Self {
        let free = (0..count).rev().map(Owned::new).collect();
        let retired = (count..most).map(|index| Reverse(Owned::new(index))).collect();
        Self {
            lists: Mutex::new(Lists { free, shedding: 0, retired }),
            count: AtomicU32::new(count),
            span: AtomicU32::new(count),
            draining: AtomicBool::new(false),
            most,
        }
    }

    /// Frames in use. Relaxed: whoever acts on an old value meets the lock or a claim before it
    /// matters.
    #[inline]
    pub(super) fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    /// Above all frames in use. Relaxed: who has an old value overlooks a frame that has just come
    /// into use, or looks at one that has left.
    #[inline]
    pub(super) fn span(&self) -> u32 {
        self.span.load(Relaxed)
    }

    /// Frames in use that hold nothing and that nobody has; frames out of use.
    pub(super) fn idle(&self) -> [u32; 2] {
        let lists = self.lists.lock();
        [lists.free.len() as u32, lists.retired.len() as u32]
    }

    /// A frame to fill.
    pub(super) fn take(&self) -> Option<Owned> {
        self.lists.lock().free.pop()
    }

    /// Takes a frame that holds no page any more.
    pub(super) fn give(&self, owned: Owned, memory: &FrameMemory) {
        let mut lists = self.lists.lock();
        if let Some(owned) = self.in_use(&mut lists, owned, memory) {
            lists.free.push(owned);
        }
        self.note(&lists);
    }

    /// The frame that is in use for this one, which holds no page any more; none if there were too
    /// many.
    pub(super) fn exchange(&self, owned: Owned, memory: &FrameMemory) -> Option<Owned> {
        // By an old value the frame stays where it is until its next turn.
        if owned.index() < self.count() && !self.is_draining() {
            return Some(owned);
        }
        let mut lists = self.lists.lock();
        let owned = self.in_use(&mut lists, owned, memory);
        self.note(&lists);
        owned
    }

    fn in_use(&self, lists: &mut Lists, owned: Owned, memory: &FrameMemory) -> Option<Owned> {
        let is_lower = |lowest: u32| lowest < self.count() && owned.index() >= self.count();
        if self.excess(lists) > 0 {
            lists.retire(owned, memory);
            return None;
        }
        if !lists.lowest_retired().is_some_and(is_lower) {
            return Some(owned);
        }
        lists.retire(owned, memory);
        lists.retired.pop().map(|Reverse(lower)| lower)
    }

    /// Frames in use that are too many, and that nobody looks for.
    fn excess(&self, lists: &Lists) -> u32 {
        (self.most - self.count()).saturating_sub(lists.retired.len() as u32 + lists.shedding)
    }

    /// Whether one more frame is to be retired: the caller looks for it, and says what came of that
    /// ([`end_shed`](Self::end_shed)).
    pub(super) fn begin_shed(&self) -> bool {
        let mut lists = self.lists.lock();
        let begins = self.excess(&lists) > 0;
        unless_mistaken!(SHED_UNSAID, lists.shedding += u32::from(begins));
        begins
    }

    /// A frame was found to be retired, or none.
    pub(super) fn end_shed(&self, found: Option<Owned>, memory: &FrameMemory) {
        let mut lists = self.lists.lock();
        unless_mistaken!(SHED_UNSAID, lists.shedding -= 1);
        if let Some(owned) = found.and_then(|owned| self.in_use(&mut lists, owned, memory)) {
            lists.free.push(owned);
        }
        self.retire_free(&mut lists, memory);
        self.note(&lists);
    }

    fn retire_free(&self, lists: &mut Lists, memory: &FrameMemory) {
        while self.excess(lists) > 0
            && let Some(owned) = lists.free.pop()
        {
            lists.retire(owned, memory);
        }
    }

    /// Changes how many frames are to be in use, from 1 to all.
    pub(super) fn resize(&self, count: u32, memory: &FrameMemory) {
        let mut lists = self.lists.lock();
        self.count.store(count, Relaxed);
        self.retire_free(&mut lists, memory);
        let more = lists.retired.len().saturating_sub((self.most - count) as usize);
        let mut coming: Vec<_> = (0..more).filter_map(|_| lists.retired.pop()).map(|Reverse(owned)| owned).collect();
        let span = coming.last().map_or(0, |last| last.index() + 1);
        self.span.fetch_max(span, Relaxed);
        // The lowest on top, as in a new pool.
        coming.reverse();
        lists.free.splice(..0, coming);
        self.note(&lists);
    }

    fn note(&self, lists: &Lists) {
        self.draining.store(self.excess(lists) > 0, Relaxed);
        let in_use = self.most - lists.retired.len() as u32;
        if in_use <= self.count() && lists.lowest_retired().is_none_or(|lowest| lowest >= self.count()) {
            self.span.store(self.count(), Relaxed);
        }
    }

    /// Whether more frames are in use than are to be. Relaxed: a miss that does not see it yet
    /// leaves the work to the next.
    #[inline]
    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// Gives the memory of all free frames back to the system, a few at a time, and says how many
    /// there were. They stay free: the system gives zeroed memory when they are filled again.
    pub(super) fn give_back(&self, memory: &FrameMemory) -> u32 {
        let free = self.idle()[0];
        let mut given = 0;
        while given < free {
            let mut batch = {
                let mut lists = self.lists.lock();
                let rest = lists.free.len().saturating_sub(BATCH);
                lists.free.split_off(rest)
            };
            if batch.is_empty() {
                break;
            }
            given += batch.len() as u32;
            batch.iter_mut().for_each(|owned| memory.give_back(owned));
            let mut lists = self.lists.lock();
            let excess = self.excess(&lists) as usize;
            lists.retired.extend(batch.drain(..excess.min(batch.len())).map(Reverse));
            // To the bottom, so that each frame has its turn once.
            lists.free.splice(..0, batch);
            self.note(&lists);
        }
        given
    }
}

impl Cache {
    /// Changes how many frames are in use, from 1 to all that there are, without stopping anybody.
    /// The pages that the policy gives up leave; where it has none that can be had, they leave
    /// later. Says how many are still to go.
    pub(crate) fn resize(&self, frames: u32, at: Tick, oracle: &dyn Oracle) -> u32 {
        self.policy.resize(frames);
        self.clock.iter().for_each(|clock| clock.resize(frames));
        self.free.resize(frames, &self.memory);
        self.resize_slabs();
        // A page that no policy has seen.
        let page = PageId::new(RelationId(u32::MAX), u32::MAX);
        self.shed(u32::MAX, &Access { page, scan: None, write: false, at }, oracle);
        self.free.excess(&self.free.lists.lock())
    }

    /// Tells the policy how many samples to draw; whether it draws any.
    pub(crate) fn set_samples(&self, samples: u32) -> bool {
        self.policy.set_samples(samples)
    }

    /// Retires up to `limit` of the frames that are too many, with the pages that leave first.
    pub(super) fn shed(&self, limit: u32, incoming: &Access, oracle: &dyn Oracle) {
        self.drain_slabs();
        for _ in 0..limit {
            if !self.free.begin_shed() {
                return;
            }
            let victim = self.evict(incoming, oracle).ok();
            let is_none = victim.is_none();
            self.free.end_shed(victim, &self.memory);
            if is_none {
                return;
            }
        }
    }

    /// Takes the page from a frame without asking the policy, and frees the frame, if nobody holds
    /// it. A dirty page is remembered as one to be written.
    pub(super) fn evacuate(&self, index: u32, page: PageId) {
        match self.take_from(index, page) {
            Ok(owned) => {
                self.policy.forget(self, FrameId(index), page);
                self.free.give(owned, &self.memory);
            }
            Err(Refusal::Dirty) => self.want_clean(&[(page, index)]),
            Err(_) => {}
        }
    }

    /// Gives the memory of free frames back to the system; says how many frames it was.
    pub(crate) fn give_back(&self) -> u32 {
        self.free.give_back(&self.memory)
    }
}
