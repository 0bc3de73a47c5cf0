//! `clock`: the clock-sweep of PostgreSQL, a clock whose pages carry a usage count.
//!
//! Source: PostgreSQL's buffer manager (`src/backend/storage/buffer`, README, "Normal Buffer
//! Replacement Strategy"), itself a GCLOCK (Smith, TODS 3(3), 1978). A hit raises the frame's count
//! up to `max` (5), a page comes in with `init` (1). The hand lowers counts and takes the first
//! unheld frame at 0. `max=1,init=0` is the one-bit clock of Corbató (1969).
//!
//! Deviations: free list, rings and background writer belong to the pool. The sweep ends after `max
//! + 2` turns at the latest, so that hits cannot keep it going.
//!
//! Suits mixed work at a cost per hit near nothing; a long scan washes it out like LRU. Cost: a hit
//! is at most one write in the frame's own line; an eviction a few frames, at worst `max + 1`
//! turns.

use super::hand::{Hand, lower};
use crate::policy::{Access, Claimed, ConcurrentPolicy, Frames, HitNeed};
use crate::sync::atomic::Ordering::Relaxed;
use crate::{FrameId, PageId, oracle::Oracle};

/// PostgreSQL's clock-sweep.
#[derive(Debug)]
pub struct ClockSweep {
    hand: Hand,
    max: u64,
    init: u64,
}

impl ClockSweep {
    /// A hand at frame 0; counts go up to `max` and start at `init`, at most `max`.
    pub fn new(max: u64, init: u64) -> Self {
        Self { hand: Hand::new(), max, init: init.min(max) }
    }
}

impl ConcurrentPolicy for ClockSweep {
    fn hit_need(&self) -> HitNeed {
        HitNeed::Count { max: self.max }
    }

    #[inline]
    fn hit(&self, frames: &dyn Frames, frame: FrameId, _access: &Access) {
        self.hit_need().is_met_by(frames.word(frame));
    }

    #[inline]
    fn evict(&self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        self.hand.sweep(frames, self.max + 2, |word| lower(word, 0))
    }

    #[inline]
    fn admit(&self, frames: &dyn Frames, frame: FrameId, _access: &Access) {
        frames.word(frame).store(self.init, Relaxed);
    }

    fn forget(&self, _frames: &dyn Frames, _frame: FrameId, _page: PageId) {}
}
