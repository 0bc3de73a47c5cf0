//! Policies that look at a few random frames and keep no order.

mod pbm;
mod random_choice;

pub use pbm::{MAX_SAMPLES, PbmSampling};
pub use random_choice::RandomChoice;

use crate::FrameId;
use crate::policy::{Claim, Frames};
use crate::random::Random;

/// Takes the first frame that can be had, in one round of all frames from a random start.
fn claim_any(frames: &dyn Frames, random: &mut Random) -> Option<FrameId> {
    let count = frames.count();
    let start = random.below(count);
    (start..count)
        .chain(0..start)
        .map(FrameId)
        .find(|&frame| frames.evictable(frame).is_some_and(|page| frames.claim(frame, page) == Claim::Taken))
}
