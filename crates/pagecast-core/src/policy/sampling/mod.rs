//! Policies that look at a few random frames and keep no order.

mod chosen;
mod hyperbolic;
mod intervals;
mod leanevict;
mod published;
mod random_choice;
mod watt;

pub use hyperbolic::Hyperbolic;
pub use intervals::Frequency;
pub use leanevict::LeanEvict;
pub use published::{MAX_BULK, PublishedOptions, PublishedSampling};
pub use random_choice::RandomChoice;
pub use watt::Watt;

use crate::policy::{Claimed, Frames};
use crate::random::Random;
use crate::{FrameId, PageId};

/// The most frames that a choice may look at, if not [`ALL`].
pub const MAX_SAMPLES: u32 = 256;
/// As a number of samples: every frame.
pub const ALL: u32 = u32::MAX;

/// Draws, on average, for one sample that nobody holds.
pub(super) const DRAWS_PER_SAMPLE: u32 = 4;

/// The frame of `count` at place `draw` of a sequence that is even in every stretch: multiples of
/// the golden ratio, of which the part behind the point is taken.
#[inline]
pub(super) fn evenly(draw: u32, count: u32) -> FrameId {
    let part = draw.wrapping_mul(0x9e37_79b1);
    FrameId(((u64::from(part) * u64::from(count)) >> 32) as u32)
}

/// Takes the first frame that can be had, in one round of all frames from a random start.
pub(super) fn claim_any(frames: &dyn Frames, random: &mut Random) -> Option<Claimed> {
    let count = frames.count();
    let start = random.below(count);
    (start..count).chain(0..start).map(FrameId).find_map(|frame| frames.claim(frame, frames.evictable(frame)?).ok())
}

/// Of `samples` frames that nobody holds, drawn with replacement, the one with the lowest value; of
/// equals the first drawn. A held frame is drawn again, within bounds.
fn lowest<V: PartialOrd>(
    frames: &dyn Frames,
    random: &mut Random,
    samples: u32,
    value: impl Fn(FrameId) -> V,
) -> Option<(FrameId, PageId, V)> {
    let mut lowest: Option<(FrameId, PageId, V)> = None;
    let mut drawn = 0;
    for _ in 0..samples * DRAWS_PER_SAMPLE {
        if drawn == samples {
            break;
        }
        let frame = FrameId(random.below(frames.count()));
        let Some(page) = frames.evictable(frame) else { continue };
        drawn += 1;
        let value = value(frame);
        if lowest.as_ref().is_none_or(|(_, _, least)| value < *least) {
            lowest = Some((frame, page, value));
        }
    }
    lowest
}
