//! `clock`: the clock-sweep of PostgreSQL, a clock whose pages carry a usage count instead of one bit.
//!
//! After PostgreSQL's buffer manager (`src/backend/storage/buffer`: its README, section "Normal Buffer Replacement
//! Strategy"), itself a GCLOCK (Smith, "Sequentiality and prefetching in database systems", TODS 3(3), 1978). A hit
//! raises the frame's count up to `max` (5), a page comes in with count `init` (1), the hand lowers counts as it passes
//! and takes the first unheld frame that stands at 0. With `max=1,init=0` it is the one-bit clock of Corbató (1969),
//! second chance in place.
//!
//! Deviations: PostgreSQL's free list, its rings for bulk reads and its background writer belong to the pool, not here.
//! Its sweep ends after a whole turn in which every frame was held; ours ends after `max + 2` turns at the latest, so
//! that hits which raise counts as fast as the hand lowers them cannot keep it going.
//!
//! Suits mixed work at a cost per hit near nothing; a scan longer than the pool washes it out like LRU.
//!
//! Cost: a hit is at most one atomic write in the frame's own line, none once the count stands at `max`. An eviction
//! looks at `max + 1` turns at worst, a few frames usually. 8 bytes per frame (its word in the pool), one hand.
//!
//! Concurrency: the word and the hand are counters and publish no other memory, so all accesses are relaxed. A frame is
//! taken only by [`Frames::claim`], which decides every race; a count that is lost to a race is one vote less.

use crate::policy::{Access, Claim, ConcurrentPolicy, Frames, HitNeed};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::{FrameId, PageId, oracle::Oracle};

/// PostgreSQL's clock-sweep.
#[derive(Debug)]
pub struct ClockSweep {
    /// Passes counted without end; the frame under the hand is this modulo the number of frames.
    hand: AtomicU32,
    max: u64,
    init: u64,
}

impl ClockSweep {
    /// A hand at frame 0; counts go up to `max` and start at `init`, at most `max`.
    pub fn new(max: u64, init: u64) -> Self {
        Self { hand: AtomicU32::new(0), max, init: init.min(max) }
    }

    /// Moves the hand on and returns the frame it stood at.
    fn tick(&self, count: u32) -> FrameId {
        let here = self.hand.fetch_add(1, Relaxed);
        if here < count {
            return FrameId(here);
        }
        // The thread that crosses the end brings the hand back, or every 2^32 passes it would jump.
        if here == count {
            self.hand.fetch_sub(count, Relaxed);
        }
        FrameId(here % count)
    }
}

/// Lowers the count unless it is 0 already, in which case the frame may be taken. A lost race counts as lowered.
fn lower(word: &AtomicU64) -> bool {
    let count = word.load(Relaxed);
    if count == 0 {
        return false;
    }
    let _ = word.compare_exchange(count, count - 1, Relaxed, Relaxed);
    true
}

impl ConcurrentPolicy for ClockSweep {
    fn hit_need(&self) -> HitNeed {
        HitNeed::Count { max: self.max }
    }

    #[inline]
    fn hit(&self, frames: &dyn Frames, frame: FrameId, _access: &Access) {
        let word = frames.word(frame);
        let count = word.load(Relaxed);
        if count < self.max {
            let _ = word.compare_exchange(count, count + 1, Relaxed, Relaxed);
        }
    }

    #[inline]
    fn evict(&self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<FrameId> {
        let count = frames.count();
        let mut held_in_a_row = 0;
        for _ in 0..(self.max + 2) * u64::from(count) {
            let frame = self.tick(count);
            let Some(page) = frames.evictable(frame) else {
                held_in_a_row += 1;
                if held_in_a_row == count {
                    return None;
                }
                continue;
            };
            if lower(frames.word(frame)) {
                held_in_a_row = 0;
            } else if frames.claim(frame, page) == Claim::Taken {
                return Some(frame);
            }
        }
        None
    }

    #[inline]
    fn admit(&self, frames: &dyn Frames, frame: FrameId, _access: &Access) {
        frames.word(frame).store(self.init, Relaxed);
    }

    fn forget(&self, _frames: &dyn Frames, _frame: FrameId, _page: PageId) {}
}
