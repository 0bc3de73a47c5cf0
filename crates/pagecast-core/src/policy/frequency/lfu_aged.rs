//! LFU with aging: counts are halved whenever their mean passes a bound.
//!
//! Robinson, Devarakonda, "Data cache management using frequency-based replacement" (SIGMETRICS
//! 1990), section 2: when the mean reference count exceeds Amax, every count c becomes c/2, rounded
//! up. Of that paper only the aging is taken; its sections (new, middle, old) are another policy.
//!
//! Deviations: the paper leaves Amax open; `mean` is 10 by default. Frames whose counts meet by
//! halving are ordered by the count they had, then by last use.
//!
//! Suits popularity that changes slowly.
//!
//! Cost: O(1) per hit and eviction, and O(frames) at a halving, of which there is at most one every
//! frames * mean / 2 hits. Memory as `lfu`.

use super::counts::Counts;
use crate::policy::{Access, Claimed, Frames, Metadata, SequentialPolicy};
use crate::{FrameId, PageId, oracle::Oracle};

/// Least frequently used, with counts that fade.
#[derive(Debug)]
pub struct LfuAged {
    counts: Counts,
    max_mean: f64,
}

impl LfuAged {
    /// For a pool of `frames` frames; counts are halved when their mean is above `max_mean`, which
    /// is at least 2.
    pub fn new(frames: u32, max_mean: f64) -> Self {
        Self { counts: Counts::new(frames), max_mean: max_mean.max(2.0) }
    }
}

impl SequentialPolicy for LfuAged {
    #[inline]
    fn hit(&mut self, frame: FrameId, _access: &Access) {
        self.counts.raise(frame);
        if self.counts.mean() > self.max_mean {
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
