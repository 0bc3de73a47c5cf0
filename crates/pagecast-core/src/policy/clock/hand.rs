//! The hand of a clock whose marks are in the frames' own words and whose victims are looked for in
//! parallel.
//!
//! The word and the hand are counters and publish no other memory, so all accesses are relaxed. A
//! frame is taken only by [`Frames::claim`], which decides every race; a mark that is lost to a
//! race is one vote less.

use crate::FrameId;
use crate::policy::{Claimed, Frames};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A hand over the frames.
#[derive(Debug)]
pub(super) struct Hand(AtomicU32);

impl Hand {
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Moves the hand on and returns the frame it stood at.
    fn tick(&self, count: u32) -> FrameId {
        let here = self.0.fetch_add(1, Relaxed);
        if here < count {
            return FrameId(here);
        }
        // The thread that crosses the end brings the hand back, or every 2^32 steps it would jump.
        // It stands at a multiple of the count where the frames became fewer under it.
        if here.is_multiple_of(count) {
            self.0.fetch_sub(here, Relaxed);
        }
        FrameId(here % count)
    }

    /// Goes round, at most `turns` times, and takes the first frame that nobody holds and that
    /// `spare` does not spare. Ends early after a whole turn in which every frame was held.
    #[inline]
    pub(super) fn sweep(&self, frames: &dyn Frames, turns: u64, spare: impl Fn(&AtomicU64) -> bool) -> Option<Claimed> {
        let count = frames.count();
        let mut held_in_a_row = 0;
        for _ in 0..turns * u64::from(count) {
            let frame = self.tick(count);
            let Some(page) = frames.evictable(frame) else {
                held_in_a_row += 1;
                if held_in_a_row == count {
                    return None;
                }
                continue;
            };
            held_in_a_row = 0;
            if !spare(frames.word(frame))
                && let Ok(victim) = frames.claim(frame, page)
            {
                return Some(victim);
            }
        }
        None
    }
}

/// Lowers the number in `word` by one if it is above `floor`, and says whether it was. A lost race
/// counts as lowered.
#[inline]
pub(super) fn lower(word: &AtomicU64, floor: u64) -> bool {
    let count = word.load(Relaxed);
    if count > floor {
        let _ = word.compare_exchange(count, count - 1, Relaxed, Relaxed);
    }
    count > floor
}
