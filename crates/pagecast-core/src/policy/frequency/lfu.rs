//! LFU in the cache: the page that was used least often since it came in leaves, of equals the one
//! used longest ago. With aging, counts are halved whenever their mean passes a bound.
//!
//! Counts die with the eviction ("in-cache" LFU; Robinson, Devarakonda, "Data cache management
//! using frequency-based replacement", SIGMETRICS 1990). A refused candidate keeps its place. Aging
//! is section 2: when the mean count exceeds Amax, every count c becomes c/2, rounded up.
//! Deviations: its sections (new, middle, old) are left out; Amax, open there, is `mean`, 10 by
//! default. Frames whose counts meet by halving keep the order of the counts they had, then of use.
//!
//! `lfu` suits popularity that does not change: a page that was hot once never leaves. `lfu-aged`
//! suits popularity that changes slowly.
//!
//! Cost: O(1) per hit, eviction and refused candidate; O(frames) at a halving, at most one every
//! frames * mean / 2 hits. 24 bytes per frame, and at most 40 for each of as many groups of equal
//! count as there are frames, of which few are ever touched.

use super::counts::Counts;
use crate::policy::{Access, Claimed, Frames, Metadata, SequentialPolicy};
use crate::{FrameId, PageId, oracle::Oracle};

/// Least frequently used.
#[derive(Debug)]
pub struct Lfu {
    counts: Counts,
    /// The mean above which counts are halved. Without, they never fade.
    max_mean: Option<f64>,
}

impl Lfu {
    /// For a pool of `frames` frames, with counts that stay.
    pub fn new(frames: u32) -> Self {
        Self { counts: Counts::new(frames), max_mean: None }
    }

    /// For a pool of `frames` frames; counts are halved when their mean is above `max_mean`, which
    /// is at least 2.
    pub fn aged(frames: u32, max_mean: f64) -> Self {
        Self { counts: Counts::new(frames), max_mean: Some(max_mean.max(2.0)) }
    }
}

impl SequentialPolicy for Lfu {
    #[inline]
    fn hit(&mut self, frame: FrameId, _access: &Access) {
        self.counts.raise(frame);
        if self.max_mean.is_some_and(|max| self.counts.mean() > max) {
            self.counts.halve();
        }
    }

    #[inline]
    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        self.counts.claim(frames)
    }

    #[inline]
    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.counts.insert(frame, access);
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        self.counts.remove(frame);
    }

    fn metadata(&self) -> Option<Metadata> {
        Some(self.counts.metadata())
    }

    fn check(&self) {
        self.counts.check();
    }
}
