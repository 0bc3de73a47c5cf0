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

/// Draws, on average, for one sample that nobody holds, where all frames hold pages.
const DRAWS_PER_SAMPLE: u32 = 4;

/// Draws for `samples` pages, at most.
#[inline]
pub(super) fn most_draws(frames: &dyn Frames, samples: u32) -> u32 {
    let others = (frames.count() / frames.page_frames()).max(1);
    samples.saturating_mul(DRAWS_PER_SAMPLE).saturating_mul(others)
}

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
    for _ in 0..most_draws(frames, samples) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RelationId;
    use crate::policy::Refusal;
    use crate::sync::atomic::AtomicU64;
    use core::cell::Cell;

    /// Every sixteenth frame holds a page.
    struct Few {
        word: AtomicU64,
        looked_at: Cell<u32>,
    }

    impl Frames for Few {
        fn count(&self) -> u32 {
            1600
        }

        fn page_frames(&self) -> u32 {
            100
        }

        fn word(&self, _frame: FrameId) -> &AtomicU64 {
            &self.word
        }

        fn evictable(&self, frame: FrameId) -> Option<PageId> {
            let page = (frame.0 % 16 == 5).then(|| PageId::new(RelationId(0), frame.0));
            self.looked_at.set(self.looked_at.get() + u32::from(page.is_some()));
            page
        }

        fn page(&self, frame: FrameId) -> Option<PageId> {
            self.evictable(frame)
        }

        fn claim(&self, frame: FrameId, _page: PageId) -> Result<Claimed, Refusal> {
            Ok(Claimed::new(frame))
        }
    }

    #[test]
    fn where_few_frames_hold_pages_as_many_pages_are_looked_at() {
        let frames = Few { word: AtomicU64::new(0), looked_at: Cell::new(0) };
        let mut random = Random::new(1);
        let lowest = lowest(&frames, &mut random, 20, |frame| frame.0);
        assert!(lowest.is_some_and(|(frame, _, _)| frame.0 < 400), "{lowest:?}");
        assert_eq!(frames.looked_at.get(), 20);
    }
}
