//! `random`: every page that nobody holds is as likely to leave as any other.
//!
//! Belady, "A study of replacement algorithms for a virtual-storage computer" (IBM Systems Journal
//! 5(2), 1966), has it as RAND. No deviation: a draw that hits a held frame is repeated up to 64
//! times, after which the frames are taken in order from one more random place, so that a pool in
//! which nearly all is held still yields its free frames.
//!
//! Suits nothing in particular; loops and scans larger than the pool do better than under LRU. It
//! is the baseline that a sampling policy without information falls back to.
//!
//! Cost: nothing per hit, one random number per eviction; no memory.

use super::claim_any;
use crate::policy::{Access, Claimed, ConcurrentPolicy, Frames, HitNeed};
use crate::random::RandomSource;
use crate::{FrameId, PageId, oracle::Oracle};

/// Draws before the frames are gone through in order.
const DRAWS: u32 = 64;

/// A random victim.
#[derive(Debug)]
pub struct RandomChoice {
    random: RandomSource,
}

impl RandomChoice {
    /// The choices that belong to `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { random: RandomSource::new(seed) }
    }
}

impl ConcurrentPolicy for RandomChoice {
    fn hit_need(&self) -> HitNeed {
        HitNeed::Nothing
    }

    fn hit(&self, _frames: &dyn Frames, _frame: FrameId, _access: &Access) {}

    #[inline]
    fn evict(&self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        let mut random = self.random.fork();
        for _ in 0..DRAWS {
            let frame = FrameId(random.below(frames.count()));
            if let Some(page) = frames.evictable(frame)
                && let Ok(victim) = frames.claim(frame, page)
            {
                return Some(victim);
            }
        }
        claim_any(frames, &mut random)
    }

    fn admit(&self, _frames: &dyn Frames, _frame: FrameId, _access: &Access) {}

    fn forget(&self, _frames: &dyn Frames, _frame: FrameId, _page: PageId) {}
}
