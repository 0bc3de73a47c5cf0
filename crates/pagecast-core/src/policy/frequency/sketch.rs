//! How often pages were asked for lately, estimated in a few bits a page, resident or not.
//!
//! A count-min sketch (Cormode, Muthukrishnan 2005) of 4-bit counters in 4 rows with the aging of
//! TinyLFU (Einziger, Friedman, Manes, "TinyLFU: A highly efficient cache admission policy", ACM
//! TOS 13(4), 2017, section 3.3): after so many increments every counter is halved. A row has 4
//! counters, and the whole sketch 16, for each frame, the number of frames rounded up to a power of
//! two: 8 bytes per frame, at most 16. The sample grows with the sketch.

use crate::PageId;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use foldhash::fast::FixedState;

const MAX: u64 = 15;
const ROWS: u32 = 4;
/// The lowest bit of each counter, and all bits but the highest of each.
const LOW_BITS: u64 = 0x1111_1111_1111_1111;
const HALVED: u64 = 0x7777_7777_7777_7777;

/// The sketch.
#[derive(Debug)]
pub(super) struct Sketch {
    /// 16 counters a word; the counters of row r are the four at 4r.
    words: Vec<u64>,
    mask: u64,
    increments: u64,
    sample: u64,
    sample_per_frame: u64,
}

impl Sketch {
    /// For `frames` frames; counters are halved after `sample` increments per frame, rounded up as
    /// the sketch is.
    pub(super) fn new(frames: u32, sample: u64) -> Self {
        let words = u64::from(frames).next_power_of_two();
        Self {
            words: alloc::vec![0; words as usize],
            mask: words - 1,
            increments: 0,
            sample: sample * words,
            sample_per_frame: sample,
        }
    }

    /// For `frames` frames, at most as many as it was made for. If that asks for another number of
    /// words the counts are forgotten: a counter's place depends on it.
    pub(super) fn resize(&mut self, frames: u32) {
        let words = u64::from(frames).next_power_of_two().min(self.words.len() as u64);
        if words - 1 != self.mask {
            (self.mask, self.sample, self.increments) = (words - 1, self.sample_per_frame * words, 0);
            self.words.fill(0);
        }
    }

    /// The word and the shift of a page's counter in each row.
    fn places(&self, page: PageId) -> [(usize, u32); ROWS as usize] {
        let hash = FixedState::default().hash_one(page.raw());
        let step = (hash >> 32) | 1;
        [0, 1, 2, 3].map(|row| {
            let row_hash = hash.wrapping_add(step.wrapping_mul(u64::from(row)));
            let word = (row_hash & self.mask) as usize;
            let counter = row * 4 + ((hash >> (56 + 2 * row)) & 3) as u32;
            (word, counter * 4)
        })
    }

    /// Counts one request of `page`.
    #[inline]
    pub(super) fn increment(&mut self, page: PageId) {
        let mut added = false;
        for (word, shift) in self.places(page) {
            if (self.words[word] >> shift) & MAX < MAX {
                self.words[word] += 1 << shift;
                added = true;
            }
        }
        if added {
            self.increments += 1;
            if self.increments >= self.sample {
                self.halve();
            }
        }
    }

    /// How often `page` was asked for, from 0 to 15; never too low but for halvings.
    #[inline]
    pub(super) fn estimate(&self, page: PageId) -> u64 {
        let counts = self.places(page).map(|(word, shift)| (self.words[word] >> shift) & MAX);
        counts.into_iter().fold(MAX, u64::min)
    }

    fn halve(&mut self) {
        let mut odd = 0;
        for word in &mut self.words {
            odd += u64::from((*word & LOW_BITS).count_ones());
            *word = (*word >> 1) & HALVED;
        }
        // Every increment added to each row, so that what rounding down lost counts by the row.
        self.increments = (self.increments - odd / u64::from(ROWS)) / 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_rise_stop_and_fade() {
        let mut sketch = Sketch::new(64, 10);
        let page = PageId::from_raw(7);
        for n in 1..=20 {
            sketch.increment(page);
            assert_eq!(sketch.estimate(page), n.min(15));
        }
        assert_eq!(sketch.estimate(PageId::from_raw(8)), 0);
        for other in 100..100 + 640 {
            sketch.increment(PageId::from_raw(other));
        }
        assert!(sketch.estimate(page) < 15, "640 increments halve the counters");
    }
}
