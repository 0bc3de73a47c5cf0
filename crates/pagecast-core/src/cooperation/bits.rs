//! Sets of small numbers as bits of the manager's memory: blocks of a unit, chunks of a scan,
//! scans.

use crate::sync::atomic::Ordering::Relaxed;
use crate::words::Words;

/// A set; a number past its words is never in it.
#[derive(Clone, Copy)]
pub(super) struct Bits<'a> {
    pub(super) words: Words<'a>,
    /// The first word.
    pub(super) at: usize,
    /// How many words.
    pub(super) count: usize,
}

impl<'a> Bits<'a> {
    #[inline]
    pub(super) fn word(self, index: usize) -> u64 {
        if index < self.count { self.words.get(self.at + index) } else { 0 }
    }

    #[inline]
    pub(super) fn has(self, number: u32) -> bool {
        self.word(number as usize / 64) >> (number % 64) & 1 == 1
    }

    /// Puts a number in or takes it out; whether that changed anything.
    #[inline]
    pub(super) fn put(self, number: u32, present: bool) -> bool {
        let index = number as usize / 64;
        let changed = index < self.count && self.has(number) != present;
        if changed {
            self.words.set(self.at + index, self.word(index) ^ 1 << (number % 64));
        }
        changed
    }

    #[inline]
    pub(super) fn words(self) -> impl Iterator<Item = u64> + use<'a> {
        let words = self.words.0.get(self.at..self.at.saturating_add(self.count)).unwrap_or(&[]);
        words.iter().map(|word| word.load(Relaxed))
    }

    pub(super) fn clear(self) {
        (0..self.count).for_each(|index| self.words.set(self.at + index, 0));
    }

    pub(super) fn add_all(self, other: Self) {
        for (index, word) in other.words().enumerate().take(self.count) {
            self.words.set(self.at + index, self.word(index) | word);
        }
    }

    /// How many numbers are in both sets.
    #[inline]
    pub(super) fn common(self, other: Self) -> u32 {
        self.words().zip(other.words()).map(|(a, b)| (a & b).count_ones()).sum()
    }

    #[inline]
    pub(super) fn meets(self, other: Self) -> bool {
        self.words().zip(other.words()).any(|(a, b)| a & b != 0)
    }

    #[inline]
    pub(super) fn len(self) -> u32 {
        self.words().map(u64::count_ones).sum()
    }

    /// The numbers, lowest first.
    #[inline]
    pub(super) fn iter(self) -> impl Iterator<Item = u32> + use<'a> {
        numbers(self.words())
    }
}

/// The numbers of the bits in a row of words, lowest first.
#[inline]
pub(super) fn numbers(words: impl Iterator<Item = u64>) -> impl Iterator<Item = u32> {
    words.enumerate().flat_map(|(index, word)| ones(word).map(move |bit| index as u32 * 64 + bit))
}

/// The numbers of a word's bits, lowest first.
#[inline]
fn ones(mut word: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}
