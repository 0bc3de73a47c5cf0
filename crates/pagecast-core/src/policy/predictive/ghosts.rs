//! The histories of pages that left, by page, in a fixed table of sets of eight places. In a full
//! set the page makes room whose last use is oldest.
//!
//! A pool has 16 ghosts a frame. They tell which of the many pages that came once will come again.
//! With 4, traces whose pool holds a few per cent of the pages lose up to 2.5 points.
//!
//! A ghost takes 8 bytes. A page is known by 15 bits of a hash beside those that choose its set:
//! one in 4,096 gets another page's history, which only misjudges it. The time of its last use is
//! kept to a 2^28th of the time that has passed in all.
//!
//! Concurrency: a ghost is one word, read and written relaxed. Of two that want its place at once
//! one is lost. When times get coarser, the thread that raised `shift` goes through all ghosts,
//! once for each doubling of the time. One that changes meanwhile has a wrong time until it leaves.

use super::history::{History, PACKED_BITS};
use crate::random::{Random, hash};
use crate::{PageId, Tick};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Places of a set, of 8 bytes each.
pub(crate) const WAYS: usize = 8;
const SETS_PER_FRAME: u32 = 2;
/// What the ghosts of a frame take.
pub(super) const BYTES_PER_FRAME: u32 = SETS_PER_FRAME * size_of::<[AtomicU64; WAYS]>() as u32;
/// A place without a ghost; no page has tag 0.
const EMPTY: u64 = 0;
/// From the lowest bit: a packed history, the time of the page's last use, and its tag.
const TIME_BITS: u32 = 28;
const TAG_AT: u32 = PACKED_BITS + TIME_BITS;

fn time(ghost: u64) -> u64 {
    ghost >> PACKED_BITS & ((1 << TIME_BITS) - 1)
}

fn packed(ghost: u64) -> u64 {
    ghost & ((1 << PACKED_BITS) - 1)
}

fn history(ghost: u64) -> History {
    History::unpack(packed(ghost) as u32)
}

/// A ghost memory.
///
/// Invariant (I1): `in_use` is at least 1 and at most the number of sets; ghosts are sought in the
/// first so many.
#[derive(Debug)]
pub(crate) struct Ghosts {
    sets: Vec<[AtomicU64; WAYS]>,
    in_use: AtomicU32,
    /// Times are in units of `2^this` ticks.
    shift: AtomicU32,
}

impl Ghosts {
    /// For a pool of `frames` frames.
    pub(super) fn for_frames(frames: u32) -> Self {
        Self::new(frames.max(1) * SETS_PER_FRAME)
    }

    /// With so many sets of [`WAYS`] places.
    pub(crate) fn new(sets: u32) -> Self {
        let sets = sets.max(1);
        let set = |_| core::array::from_fn(|_| AtomicU64::new(EMPTY));
        Self { sets: (0..sets).map(set).collect(), in_use: AtomicU32::new(sets), shift: AtomicU32::new(0) }
    }

    /// Keeps those of `frames` frames from now on. Pages whose set is another one now are
    /// forgotten.
    pub(super) fn resize(&self, frames: u32) {
        self.in_use.store((frames.max(1) * SETS_PER_FRAME).min(self.sets.len() as u32), Relaxed);
    }

    /// How many ghosts there is room for.
    pub(super) fn room(&self) -> u32 {
        self.in_use.load(Relaxed) * WAYS as u32
    }

    fn place(&self, page: PageId) -> (&[AtomicU64; WAYS], u64) {
        let hash = hash(page.raw());
        let set = ((u128::from(hash) * u128::from(self.in_use.load(Relaxed))) >> 64) as usize;
        (&self.sets[set], (hash & ((1 << (u64::BITS - TAG_AT)) - 1)).max(1))
    }

    /// Makes times coarse enough for `last`, and gives the unit.
    fn unit_for(&self, last: Tick) -> u32 {
        let (shift, needed) = (self.shift.load(Relaxed), (u64::BITS - last.leading_zeros()).saturating_sub(TIME_BITS));
        if needed <= shift || self.shift.compare_exchange(shift, needed, Relaxed, Relaxed).is_err() {
            return shift.max(needed);
        }
        for ghost in self.sets.iter().flatten() {
            let old = ghost.load(Relaxed);
            let coarser = time(old) >> (needed - shift);
            ghost.store(old >> TAG_AT << TAG_AT | coarser << PACKED_BITS | packed(old), Relaxed);
        }
        needed
    }

    /// Remembers a page that left.
    pub(crate) fn insert(&self, page: PageId, history: History, last: Tick) {
        let (set, tag) = self.place(page);
        let time_now = last >> self.unit_for(last);
        let age = |ghost: u64| if ghost == EMPTY { 0 } else { 1 + time(ghost) };
        if let Some(ghost) = set.iter().min_by_key(|ghost| age(ghost.load(Relaxed))) {
            let known = tag << TAG_AT | time_now << PACKED_BITS | u64::from(history.pack());
            ghost.store(known, Relaxed);
        }
    }

    /// Takes out what is remembered of `page`, and when it was used last.
    pub(crate) fn take(&self, page: PageId) -> Option<(History, Tick)> {
        let (set, tag) = self.place(page);
        let ghost = set.iter().find(|ghost| ghost.load(Relaxed) >> TAG_AT == tag)?;
        let known = ghost.swap(EMPTY, Relaxed);
        Some((history(known), time(known) << self.shift.load(Relaxed)))
    }

    /// A random place: its ghost, if there is one.
    pub(super) fn any(&self, random: &mut Random) -> Option<(History, Tick)> {
        let set = &self.sets[random.below(self.in_use.load(Relaxed)) as usize];
        let known = set[random.below(WAYS as u32) as usize].load(Relaxed);
        (known != EMPTY).then(|| (history(known), time(known) << self.shift.load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_make_room() {
        let ghosts = Ghosts::for_frames(4);
        assert_eq!(ghosts.room(), 64);
        for page in 0..1000 {
            ghosts.insert(PageId::from_raw(page), History::Once, page + 1);
        }
        assert_eq!(ghosts.take(PageId::from_raw(999)), Some((History::Once, 1000)));
        assert_eq!(ghosts.take(PageId::from_raw(999)), None, "taken is taken");
        let left = (0..1000).filter(|&page| ghosts.take(PageId::from_raw(page)).is_some());
        let oldest = left.min();
        assert!(oldest > Some(700), "{oldest:?}");
    }

    #[test]
    fn what_was_used_when_time_began_is_not_taken_for_an_empty_place() {
        let ghosts = Ghosts::for_frames(1);
        for page in 0..8 {
            ghosts.insert(PageId::from_raw(page), History::Once, 0);
        }
        let left = (0..8).filter(|&page| ghosts.take(PageId::from_raw(page)).is_some()).count();
        assert!(left >= 7, "two sets of eight places hold {left} of 8");
    }

    #[test]
    fn times_get_coarser_as_they_grow() {
        let (ghosts, long) = (Ghosts::for_frames(100), History::Once.used_after(1 << 50));
        let at = |page: u64| (1 << 20) * page;
        for page in 1..40 {
            ghosts.insert(PageId::from_raw(page), long, at(page));
        }
        ghosts.insert(PageId::from_raw(77), History::Once, 1 << 46);
        for page in 1..40 {
            let Some((history, last)) = ghosts.take(PageId::from_raw(page)) else { panic!("page {page} is gone") };
            assert_eq!(history, long, "page {page}");
            assert!(at(page) - last < 1 << 19, "page {page} at {last}");
        }
        assert_eq!(ghosts.take(PageId::from_raw(77)), Some((History::Once, 1 << 46)));
    }
}
