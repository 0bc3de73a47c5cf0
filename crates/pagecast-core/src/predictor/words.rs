//! Access to the predictor's memory that cannot fail: another process may have written anything
//! there.

use crate::sync::atomic::{AtomicU64, Ordering};

/// The end of a list of indices.
pub(super) const NIL: u32 = u32::MAX;

/// The memory. An index outside of it reads as 0 and is not written.
#[derive(Clone, Copy)]
pub(super) struct Words<'a>(pub(super) &'a [AtomicU64]);

impl<'a> Words<'a> {
    #[inline]
    pub(super) fn load(self, at: usize, order: Ordering) -> u64 {
        self.0.get(at).map_or(0, |word| word.load(order))
    }

    #[inline]
    pub(super) fn store(self, at: usize, value: u64, order: Ordering) {
        if let Some(word) = self.0.get(at) {
            word.store(value, order);
        }
    }

    /// `N` words from `at` on.
    #[inline]
    pub(super) fn record<const N: usize>(&self, at: usize) -> Option<&'a [AtomicU64; N]> {
        self.0.get(at..)?.first_chunk()
    }

    /// Whether the word held `old` and now holds `new`.
    #[inline]
    pub(super) fn exchange(self, at: usize, old: u64, new: u64, success: Ordering) -> bool {
        self.0.get(at).is_some_and(|word| word.compare_exchange(old, new, success, Ordering::Relaxed).is_ok())
    }
}

/// Two halves of a word: `(upper, lower)`.
#[inline]
pub(super) const fn split(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// A word of two halves.
#[inline]
pub(super) const fn join(upper: u32, lower: u32) -> u64 {
    ((upper as u64) << 32) | lower as u64
}
