//! LFU in the cache: the page that was used least often since it came in leaves, of equals the one
//! used longest ago.
//!
//! Counts die with the eviction ("in-cache" or "no-ghost" LFU; Robinson, Devarakonda, "Data cache
//! management using frequency-based replacement", SIGMETRICS 1990, discuss it as LFU). No
//! deviation. A refused candidate keeps its place.
//!
//! Suits popularity that does not change. A page that was hot once never leaves: see `lfu-aged`.
//!
//! Cost: O(1) per hit and per eviction (plus one step per refused candidate). 24 bytes per frame,
//! and at most 40 for each of as many groups of equal count as there are frames, of which few are
//! ever touched.

use super::counts::Counts;
use crate::policy::{Access, Claimed, Frames, Metadata, SequentialPolicy};
use crate::{FrameId, PageId, oracle::Oracle};

/// Least frequently used.
#[derive(Debug)]
pub struct Lfu {
    counts: Counts,
}

impl Lfu {
    /// For a pool of `frames` frames.
    pub fn new(frames: u32) -> Self {
        Self { counts: Counts::new(frames) }
    }
}

impl SequentialPolicy for Lfu {
    #[inline]
    fn hit(&mut self, frame: FrameId, _access: &Access) {
        self.counts.raise(frame);
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
