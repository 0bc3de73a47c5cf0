//! The histories of pages that left, by page: a fixed table, four places a set, the page that was used last longest ago
//! makes room.
//!
//! 16 bytes a ghost. A page is known by 32 bits of a hash beside those that choose its set: a page in 2^30 gets another's
//! history, which only misjudges it.
//!
//! Concurrency: a ghost is two words that are read and written relaxed, and two threads may take one place at once. A
//! history with another page's time misjudges a page once; nothing else depends on it.

use super::history::History;
use crate::random::{Random, hash};
use crate::{PageId, Tick};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const WAYS: usize = 4;
/// A place without a ghost; no page has tag 0.
const EMPTY: u64 = 0;

#[derive(Debug)]
struct Ghost {
    /// The page's tag in the upper half, its history in the lower.
    who: AtomicU64,
    last: AtomicU64,
}

/// A ghost memory.
///
/// Invariant (I1): `in_use` is at least 1 and at most the number of sets; ghosts are sought in the first so many.
#[derive(Debug)]
pub(super) struct Ghosts {
    sets: Vec<[Ghost; WAYS]>,
    in_use: AtomicU32,
}

impl Ghosts {
    /// Room for `4 * sets` ghosts; at least one set.
    pub(super) fn new(sets: u32) -> Self {
        let ghost = || Ghost { who: AtomicU64::new(EMPTY), last: AtomicU64::new(0) };
        let sets = sets.max(1);
        Self { sets: (0..sets).map(|_| core::array::from_fn(|_| ghost())).collect(), in_use: AtomicU32::new(sets) }
    }

    /// Uses the first `sets` sets from now on. Pages whose set is another one now are forgotten.
    pub(super) fn resize(&self, sets: u32) {
        self.in_use.store(sets.clamp(1, self.sets.len() as u32), Relaxed);
    }

    /// How many ghosts there is room for.
    pub(super) fn room(&self) -> u32 {
        self.in_use.load(Relaxed) * WAYS as u32
    }

    fn place(&self, page: PageId) -> (&[Ghost; WAYS], u64) {
        let hash = hash(page.raw());
        let set = ((u128::from(hash) * u128::from(self.in_use.load(Relaxed))) >> 64) as usize;
        (&self.sets[set], (hash & 0xffff_ffff).max(1) << 32)
    }

    /// Remembers a page that left, with its packed history.
    pub(super) fn insert(&self, page: PageId, packed: u32, last: Tick) {
        let (set, tag) = self.place(page);
        let age = |ghost: &&Ghost| if ghost.who.load(Relaxed) == EMPTY { 0 } else { ghost.last.load(Relaxed).max(1) };
        if let Some(ghost) = set.iter().min_by_key(age) {
            ghost.who.store(tag | u64::from(packed), Relaxed);
            ghost.last.store(last, Relaxed);
        }
    }

    /// Takes out what is remembered of `page`, and when it was used last.
    pub(super) fn take(&self, page: PageId) -> Option<(u32, Tick)> {
        let (set, tag) = self.place(page);
        let ghost = set.iter().find(|ghost| ghost.who.load(Relaxed) >> 32 == tag >> 32)?;
        Some((ghost.who.swap(EMPTY, Relaxed) as u32, ghost.last.load(Relaxed)))
    }

    /// A random place: its ghost, if there is one.
    pub(super) fn any(&self, random: &mut Random) -> Option<(History, Tick)> {
        let set = &self.sets[random.below(self.in_use.load(Relaxed)) as usize];
        let ghost = &set[random.below(WAYS as u32) as usize];
        let who = ghost.who.load(Relaxed);
        (who != EMPTY).then(|| (History::unpack(who as u32), ghost.last.load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_make_room() {
        let ghosts = Ghosts::new(16);
        assert_eq!(ghosts.room(), 64);
        for page in 0..1000 {
            ghosts.insert(PageId::from_raw(page), History::Once.pack(), page + 1);
        }
        assert_eq!(ghosts.take(PageId::from_raw(999)), Some((History::Once.pack(), 1000)));
        assert_eq!(ghosts.take(PageId::from_raw(999)), None, "taken is taken");
        let left = (0..1000).filter(|&page| ghosts.take(PageId::from_raw(page)).is_some());
        let oldest = left.min();
        assert!(oldest > Some(700), "{oldest:?}");
    }
}
