//! Access to memory that a host lends, which cannot fail: another process may have written anything
//! there.

use crate::sync::atomic::{AtomicU64, Ordering};

/// The end of a list of indices.
pub(crate) const NIL: u32 = u32::MAX;

/// The memory. An index outside of it reads as 0 and is not written.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a>(pub(crate) &'a [AtomicU64]);

impl<'a> Words<'a> {
    #[inline]
    pub(crate) fn load(self, at: usize, order: Ordering) -> u64 {
        self.0.get(at).map_or(0, |word| word.load(order))
    }

    #[inline]
    pub(crate) fn store(self, at: usize, value: u64, order: Ordering) {
        if let Some(word) = self.0.get(at) {
            word.store(value, order);
        }
    }

    /// The word at `at`, for who has the host's lock or needs no order.
    #[inline]
    pub(crate) fn get(self, at: usize) -> u64 {
        self.load(at, Ordering::Relaxed)
    }

    /// The same for writing.
    #[inline]
    pub(crate) fn set(self, at: usize, value: u64) {
        self.store(at, value, Ordering::Relaxed);
    }

    /// `N` words from `at` on.
    #[inline]
    pub(crate) fn record<const N: usize>(&self, at: usize) -> Option<&'a [AtomicU64; N]> {
        self.0.get(at..)?.first_chunk()
    }

    /// Whether the word held `old` and now holds `new`.
    #[inline]
    pub(crate) fn exchange(self, at: usize, old: u64, new: u64, success: Ordering) -> bool {
        self.0.get(at).is_some_and(|word| word.compare_exchange(old, new, success, Ordering::Relaxed).is_ok())
    }
}

/// Two halves of a word: `(upper, lower)`.
#[inline]
pub(crate) const fn split(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// A word of two halves.
#[inline]
pub(crate) const fn join(upper: u32, lower: u32) -> u64 {
    ((upper as u64) << 32) | lower as u64
}

/// One of `places`, a power of two. Fibonacci hashing, by the upper bits of the product: what is
/// numbered in sequence, as relations and cells are, comes to lie evenly.
#[inline]
pub(crate) fn scatter(key: u64, places: usize) -> usize {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(hash) * places as u128) >> 64) as usize
}
