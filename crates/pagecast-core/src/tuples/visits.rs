//! Which items of a page were asked for since it came in: two bits an item.
//!
//! Cost: a visit is one load, and an exchange as long as the counter is below its maximum. Bytes:
//! 8 for each 32 items, in words of the owner. Concurrency: no lock. A race loses one of the two
//! visits and no other counter. Relaxed: a counter publishes no memory.

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The largest count; more visits write nothing.
pub const MOST_VISITS: u8 = 3;
/// Counters in a word.
const PER_WORD: u32 = u64::BITS / 2;

/// The counters of a page's items, in words that belong to its frame.
///
/// Items beyond the counters share them, so that hashed names of items work as well as numbers.
///
/// ```
/// use pagecast_core::sync::atomic::AtomicU64;
/// use pagecast_core::tuples::Visits;
///
/// let words: Vec<_> = (0..Visits::words(40)).map(|_| AtomicU64::new(0)).collect();
/// let visits = Visits::new(&words);
/// (0..9).for_each(|_| visits.visit(39));
/// visits.visit(7);
/// assert_eq!([7, 8, 39].map(|item| visits.count(item)), [1, 0, 3]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Visits<'a>(&'a [AtomicU64]);

impl<'a> Visits<'a> {
    /// How many words the counters of `items` items take; 1 at least.
    pub const fn words(items: u32) -> usize {
        let words = items.div_ceil(PER_WORD) as usize;
        if words == 0 { 1 } else { words }
    }

    /// The counters in `words`, which are not empty.
    #[inline]
    pub fn new(words: &'a [AtomicU64]) -> Self {
        debug_assert!(!words.is_empty());
        Self(words)
    }

    /// The word of `item`, and how far its counter is shifted in it.
    #[inline]
    fn place(self, item: u32) -> Option<(&'a AtomicU64, u32)> {
        let word = item / PER_WORD;
        let at = if (word as usize) < self.0.len() { word as usize } else { word as usize % self.0.len().max(1) };
        Some((self.0.get(at)?, item % PER_WORD * 2))
    }

    /// `item` was asked for by its name: not in a range of the page, and not by a scan.
    #[inline]
    pub fn visit(self, item: u32) {
        let Some((word, shift)) = self.place(item) else { return };
        let value = word.load(Relaxed);
        if value >> shift & u64::from(MOST_VISITS) < u64::from(MOST_VISITS) {
            // A race with another counter of the word loses a vote, which the next visit brings.
            let _ = word.compare_exchange(value, value + (1 << shift), Relaxed, Relaxed);
        }
    }

    /// How often `item` was visited, [`MOST_VISITS`] at most.
    #[inline]
    pub fn count(self, item: u32) -> u8 {
        self.place(item).map_or(0, |(word, shift)| (word.load(Relaxed) >> shift & u64::from(MOST_VISITS)) as u8)
    }

    /// Raises the counter of `item` to `count`, which its mini-page had: for a load that merges.
    pub fn raise(self, item: u32, count: u8) {
        (self.count(item)..count.min(MOST_VISITS)).for_each(|_| self.visit(item));
    }

    /// Whether any item was visited: if not, nothing of the page is worth a mini-page.
    pub fn any(self) -> bool {
        self.0.iter().any(|word| word.load(Relaxed) != 0)
    }

    /// Forgets all, for another page in the frame.
    pub fn clear(self) {
        self.0.iter().for_each(|word| word.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn words(items: u32) -> Vec<AtomicU64> {
        (0..Visits::words(items)).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn a_counter_stops_at_its_maximum_and_leaves_its_neighbours() {
        let words = words(100);
        let visits = Visits::new(&words);
        assert!(!visits.any());
        for item in 0..100 {
            (0..item % 6).for_each(|_| visits.visit(item));
        }
        for item in 0..100 {
            assert_eq!(u32::from(visits.count(item)), (item % 6).min(3), "item {item}");
        }
        visits.raise(6, 2);
        visits.raise(5, 2);
        assert_eq!((visits.count(6), visits.count(5)), (2, 3), "raising takes nothing away");
        assert!(visits.any());
        visits.clear();
        assert!(!visits.any());
    }

    #[test]
    fn names_beyond_the_counters_share_them() {
        let words = words(64);
        let visits = Visits::new(&words);
        visits.visit(u32::MAX);
        assert_eq!(visits.count(u32::MAX), 1);
        assert_eq!((0..64).filter(|&item| visits.count(item) == 1).count(), 1);
    }
}
