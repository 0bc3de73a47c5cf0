//! PQ as the authors built it: block groups in queues of time.

use crate::groups::{Built, Groups};
use pagecast_core::oracle::Oracle;
use pagecast_core::policy::{Access, Claimed, Frames, SequentialPolicy};
use pagecast_core::{FrameId, PageId, Tick};
use std::collections::BTreeMap;

const TIERS: usize = 10;
const IN_TIER: usize = 5;
const QUEUES: usize = TIERS * IN_TIER;
/// Slices to the end of the last queue.
pub(crate) const SLICES: u64 = (IN_TIER * ((1 << TIERS) - 1)) as u64;

/// Groups in their order. Keys are those by which groups know their places.
type Queue = BTreeMap<i64, u32>;

pub(crate) struct AuthorsQueue {
    built: Built,
    groups: Groups,
    /// From the nearest to the furthest, and then what nobody wants.
    queues: Vec<Queue>,
    /// By group: its queue's number in `at`, and its key there.
    places: Vec<Option<(usize, i64)>>,
    /// By place in time, the queue's number.
    at: Vec<usize>,
    slice: Tick,
    passed: u64,
    keys: i64,
    /// Pages that are to leave, the last first.
    free: Vec<(FrameId, PageId)>,
    is_free: Vec<bool>,
    /// By frame.
    pages: Vec<PageId>,
}

impl AuthorsQueue {
    pub(crate) fn new(built: Built, groups: Groups, (pages, frames): (u32, u32), slice: Tick) -> Self {
        Self {
            built,
            groups,
            queues: vec![Queue::new(); QUEUES + 1],
            places: vec![None; pages.div_ceil(built.group) as usize],
            at: (0..QUEUES).collect(),
            slice: slice.max(1),
            passed: 0,
            keys: 0,
            free: Vec::new(),
            is_free: vec![false; frames as usize],
            pages: vec![PageId::from_raw(0); frames as usize],
        }
    }

    fn take_off(&mut self, group: u32) {
        if let Some((queue, key)) = self.places[group as usize].take() {
            self.queues[queue].remove(&key);
        }
    }

    /// Finds the queue of a group that has pages.
    fn place(&mut self, group: u32, now: Tick) {
        let queue = match self.groups.estimate(group) {
            Some(ticks) => self.queue_of((now + ticks) / self.slice),
            None => QUEUES,
        };
        if self.places[group as usize].is_some_and(|(old, _)| old == queue) {
            return;
        }
        self.take_off(group);
        self.keys += 1;
        self.queues[queue].insert(self.keys, group);
        self.places[group as usize] = Some((queue, self.keys));
    }

    /// The queue of what is wanted in a slice of time.
    fn queue_of(&self, slice: u64) -> usize {
        let (ahead, in_tier) = (slice.saturating_sub(self.passed), IN_TIER as u64);
        let tier = (ahead / in_tier + 1).ilog2();
        let place = u64::from(tier) * in_tier + ((ahead - in_tier * ((1 << tier) - 1)) >> tier);
        match place {
            far if far >= QUEUES as u64 && self.built.far_is_unwanted => QUEUES,
            place => self.at[place.min(QUEUES as u64 - 1) as usize],
        }
    }

    /// Lets the slices pass that have gone by.
    fn catch_up(&mut self, now: Tick) {
        while self.passed < now / self.slice {
            self.passed += 1;
            let (first, next) = (self.at[0], self.at[1]);
            let left = std::mem::take(&mut self.queues[first]);
            let moving = QUEUES.min((self.passed.trailing_zeros() as usize + 1) * IN_TIER);
            self.at[..moving].rotate_left(1);
            for (_, group) in left.into_iter().rev() {
                self.places[group as usize] = None;
                if self.built.estimates_passed {
                    self.place(group, now);
                } else {
                    // In front of what the next queue has, in the order that they had.
                    self.keys += 1;
                    self.queues[next].insert(-self.keys, group);
                    self.places[group as usize] = Some((next, -self.keys));
                }
            }
        }
    }

    fn comes(&mut self, access: &Access) {
        self.catch_up(access.at);
        for group in self.groups.comes(access) {
            if !self.groups.frames(group).is_empty() {
                self.place(group, access.at);
            }
        }
    }

    /// Makes victims of all pages of a queue, or of the page that is first.
    fn fill_free(&mut self, queue: usize) {
        let groups = self.queues[queue].values().take(if self.built.whole_queue { usize::MAX } else { 1 });
        for &group in groups {
            // The frame that came in last is the head of their list, and leaves after the others.
            let frames = self.groups.frames(group).iter().rev();
            let skipped = if self.built.whole_queue { 0 } else { frames.len().saturating_sub(1) };
            for &frame in frames.skip(skipped) {
                if !std::mem::replace(&mut self.is_free[frame as usize], true) {
                    self.free.push((FrameId(frame), self.pages[frame as usize]));
                }
            }
        }
    }

    fn take_free(&mut self, frames: &dyn Frames) -> Option<Claimed> {
        while let Some((frame, page)) = self.free.pop() {
            self.is_free[frame.index()] = false;
            if let Ok(claimed) = frames.claim(frame, page) {
                if self.groups.leaves(frame, page) {
                    self.take_off(self.groups.of(page));
                }
                return Some(claimed);
            }
        }
        None
    }
}

impl SequentialPolicy for AuthorsQueue {
    fn hit(&mut self, _frame: FrameId, access: &Access) {
        self.comes(access);
    }

    fn evict(&mut self, frames: &dyn Frames, incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        self.comes(incoming);
        if let Some(claimed) = self.take_free(frames) {
            return Some(claimed);
        }
        for place in (0..=QUEUES).rev() {
            let queue = self.at.get(place).copied().unwrap_or(QUEUES);
            self.fill_free(queue);
            if let Some(claimed) = self.take_free(frames) {
                return Some(claimed);
            }
        }
        None
    }

    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.comes(access);
        self.pages[frame.index()] = access.page;
        self.groups.admits(frame, access.page);
        let group = self.groups.of(access.page);
        if self.places[group as usize].is_none() {
            self.place(group, access.at);
        }
    }

    fn forget(&mut self, _frame: FrameId, _page: PageId) {}

    fn check(&self) {}
}
