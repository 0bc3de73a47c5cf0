//! `clock`: the clock-sweep of PostgreSQL, a clock whose pages carry a usage count instead of one
//! bit.
//!
//! After PostgreSQL's buffer manager (`src/backend/storage/buffer`: its README, section "Normal
//! Buffer Replacement Strategy"), itself a GCLOCK (Smith, "Sequentiality and prefetching in
//! database systems", TODS 3(3), 1978). A hit raises the frame's count up to `max` (5), a page
//! comes in with count `init` (1), the hand lowers counts as it passes and takes the first unheld
//! frame that stands at 0. With `max=1,init=0` it is the one-bit clock of Corbató (1969), second
//! chance in place.
//!
//! Deviations: PostgreSQL's free list, its rings for bulk reads and its background writer belong to
//! the pool, not here. Its sweep ends after a whole turn in which every frame was held; ours ends
//! after `max + 2` turns at the latest too, so that hits which raise counts as fast as the hand
//! lowers them cannot keep it going.
//!
//! Suits mixed work at a cost per hit near nothing; a scan longer than the pool washes it out like
//! LRU.
//!
//! Cost: a hit is at most one atomic write in the frame's own line, none once the count stands at
//! `max`. An eviction looks at `max + 1` turns at worst, a few frames usually. 8 bytes per frame
//! (its word in the pool), one hand.

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
