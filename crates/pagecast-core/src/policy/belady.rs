//! `opt`: Belady's MIN, the floor that no policy can beat.
//!
//! Source: Belady, "A study of replacement algorithms for a virtual-storage computer" (IBM Systems
//! Journal 5(2), 1966); that it is optimal: Mattson et al. (1970), and section 3.1 of the PBM
//! thesis. It evicts the page whose next request is furthest away. The future is in [`NextUses`],
//! which one backward pass over the trace computes.
//!
//! Deviations: none that changes a miss. A missed page always comes in (no bypass). Among pages
//! that are never requested again the highest frame leaves first, which is free choice.
//!
//! Each resident page has a key of its own: the index of its next request, or, if there is none,
//! the number of requests plus its frame. A bitmap over the keys, with a tree of 64-way summaries
//! above it, finds the largest. Cost: O(log64 (requests + frames)) per request, 5 steps for 100
//! million. 8 bytes per request (next use, and the frame that waits for it), 1 bit per key; 12
//! bytes per frame.

use crate::policy::{Access, Claimed, Frames, SequentialPolicy};
use crate::{FrameId, PageId, oracle::Oracle};
use alloc::vec::Vec;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// For each request of a trace the index of the next request of the same page.
#[derive(Clone, Debug)]
pub struct NextUses(Vec<u32>);

/// The page is not requested again.
const NEVER: u32 = u32::MAX;

impl NextUses {
    /// Computes them for `pages`, in one pass from the end.
    ///
    /// # Panics
    ///
    /// If there are 2^31 requests or more: their indices would not fit.
    pub fn of(pages: &[PageId]) -> Self {
        let mut seen = HashMap::with_hasher(FixedState::default());
        Self::backward(pages.len(), |at| seen.insert(pages[at], at as u32))
    }

    /// The same for pages numbered from 0 up to, not including, `unique`: an array replaces the
    /// hash table.
    ///
    /// # Panics
    ///
    /// If a number is `unique` or more, or there are 2^31 requests or more.
    pub fn of_dense(pages: &[u32], unique: u32) -> Self {
        let mut seen = alloc::vec![NEVER; unique as usize];
        Self::backward(pages.len(), |at| {
            let next = core::mem::replace(&mut seen[pages[at] as usize], at as u32);
            (next != NEVER).then_some(next)
        })
    }

    /// `note(at)` remembers request `at` as its page's latest seen and returns the one remembered
    /// before.
    fn backward(requests: usize, mut note: impl FnMut(usize) -> Option<u32>) -> Self {
        assert!(requests < 1 << 31, "a replay through Belady takes at most 2^31 - 1 requests, not {requests}");
        let mut next = alloc::vec![NEVER; requests];
        for at in (0..requests).rev() {
            next[at] = note(at).unwrap_or(NEVER);
        }
        Self(next)
    }

    /// The index of the request that follows request `at` for the same page.
    pub fn after(&self, at: usize) -> Option<usize> {
        let next = self.0[at];
        (next != NEVER).then_some(next as usize)
    }
}

/// A set of numbers below a bound that yields its largest: a bitmap and, level by level, which
/// words of it have a bit.
#[derive(Debug)]
struct OrderedBits(Vec<Vec<u64>>);

impl OrderedBits {
    /// For numbers below `bound`, which gets a place of its own: a search that starts there, where
    /// no number is, must find its way up to the top word even if `bound` is a power of 64.
    fn new(bound: usize) -> Self {
        let mut levels = Vec::new();
        let mut words = bound + 1;
        while levels.is_empty() || words > 1 {
            words = words.div_ceil(64).max(1);
            levels.push(alloc::vec![0u64; words]);
        }
        Self(levels)
    }

    fn insert(&mut self, number: u32) {
        let mut i = number as usize;
        for level in &mut self.0 {
            let word = &mut level[i / 64];
            let was_empty = *word == 0;
            *word |= 1 << (i % 64);
            if !was_empty {
                return;
            }
            i /= 64;
        }
    }

    fn remove(&mut self, number: u32) {
        let mut i = number as usize;
        for level in &mut self.0 {
            let word = &mut level[i / 64];
            *word &= !(1 << (i % 64));
            if *word != 0 {
                return;
            }
            i /= 64;
        }
    }

    /// The largest number below `bound`.
    fn last_below(&self, bound: u32) -> Option<u32> {
        let mut i = bound as usize;
        let mut level = 0;
        // Up, until a word has a bit below the path that was taken, then down along the highest
        // bits.
        loop {
            let words = self.0.get(level)?;
            let below = match words.get(i / 64) {
                Some(word) => word & ((1u64 << (i % 64)) - 1),
                None => 0,
            };
            if below != 0 {
                i = i / 64 * 64 + below.ilog2() as usize;
                break;
            }
            i /= 64;
            level += 1;
        }
        for words in self.0[..level].iter().rev() {
            i = i * 64 + words[i].ilog2() as usize;
        }
        Some(i as u32)
    }
}

/// Belady's MIN, for one replay of the trace that its [`NextUses`] were computed from.
///
/// [`Access::at`] must be the request's index in that trace.
///
/// Invariants: (I1) `keys` holds exactly the keys of resident frames. (I2) `waiting[key]` is the
/// frame of a key in `keys` that is below the number of requests; frame `f` without a next request
/// has the key `requests + f`.
#[derive(Debug)]
pub struct Belady {
    next: NextUses,
    keys: OrderedBits,
    waiting: Vec<u32>,
    /// By frame: its key and its page.
    resident: Vec<(u32, PageId)>,
}

/// In `resident`: no page.
const EMPTY: (u32, PageId) = (u32::MAX, PageId::from_raw(0));

impl Belady {
    /// For a pool of `frames` frames and the trace that `next` describes.
    pub fn new(frames: u32, next: NextUses) -> Self {
        let requests = next.0.len();
        Self {
            keys: OrderedBits::new(requests + frames as usize),
            waiting: alloc::vec![0; requests],
            resident: alloc::vec![EMPTY; frames as usize],
            next,
        }
    }

    /// Frame `frame` holds the page of request `at`: it is keyed by the request after.
    #[inline]
    fn key(&mut self, frame: FrameId, access: &Access) {
        let key = match self.next.0[access.at as usize] {
            NEVER => self.waiting.len() as u32 + frame.0,
            next => {
                self.waiting[next as usize] = frame.0;
                next
            }
        };
        self.keys.insert(key);
        self.resident[frame.index()] = (key, access.page);
    }

    fn unkey(&mut self, frame: FrameId) {
        self.keys.remove(self.resident[frame.index()].0);
        self.resident[frame.index()] = EMPTY;
    }

    fn frame_of(&self, key: u32) -> FrameId {
        let requests = self.waiting.len() as u32;
        FrameId(if key < requests { self.waiting[key as usize] } else { key - requests })
    }
}

impl SequentialPolicy for Belady {
    #[inline]
    fn hit(&mut self, frame: FrameId, access: &Access) {
        self.unkey(frame);
        self.key(frame, access);
    }

    #[inline]
    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        let mut bound = (self.waiting.len() + self.resident.len()) as u32;
        while let Some(key) = self.keys.last_below(bound) {
            let frame = self.frame_of(key);
            if let Ok(victim) = frames.claim(frame, self.resident[frame.index()].1) {
                self.unkey(frame);
                return Some(victim);
            }
            bound = key;
        }
        None
    }

    #[inline]
    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.key(frame, access);
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        self.unkey(frame);
    }

    fn check(&self) {
        let mut bound = (self.waiting.len() + self.resident.len()) as u32;
        let mut keys = 0;
        while let Some(key) = self.keys.last_below(bound) {
            let frame = self.frame_of(key);
            assert_eq!(self.resident[frame.index()].0, key, "(I1), (I2): key {key} leads to {frame:?}");
            keys += 1;
            bound = key;
        }
        assert_eq!(keys, self.resident.iter().filter(|&&slot| slot != EMPTY).count(), "(I1)");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use alloc::collections::BTreeSet;

    /// Bounds around the sizes at which another level begins.
    #[test]
    fn ordered_bits_agree_with_an_ordered_set_at_every_number_of_levels() {
        let mut random = crate::random::Random::new(7);
        for bound in [1, 2, 63, 64, 65, 127, 128, 4095, 4096, 4097, 262_143, 262_144, 262_145u32] {
            let mut bits = OrderedBits::new(bound as usize);
            let mut set = BTreeSet::new();
            for number in [0, bound - 1, bound / 2] {
                bits.insert(number);
                set.insert(number);
                assert_eq!(bits.last_below(bound), set.last().copied(), "below {bound}");
                bits.remove(number);
                set.remove(&number);
                assert_eq!(bits.last_below(bound), None, "below {bound}");
            }
            for _ in 0..2000 {
                let number = random.below(bound);
                if set.insert(number) {
                    bits.insert(number);
                } else {
                    set.remove(&number);
                    bits.remove(number);
                }
                let below = random.below(bound) + 1;
                assert_eq!(bits.last_below(below), set.range(..below).next_back().copied(), "below {below} of {bound}");
            }
        }
    }
}
