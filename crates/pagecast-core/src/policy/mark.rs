//! One bit of a frame's word: whether its page was used since a hand passed.
//!
//! Hits set it without a lock ([`super::HitNeed::Count`] up to 1) while the policy's owner clears
//! it. A hit that comes between the two accesses of [`take`] is forgotten with the ones before;
//! that is the order in which it might have come.

use super::Frames;
use crate::FrameId;
use crate::sync::atomic::Ordering::Relaxed;

/// Clears the bit and says whether it was set. Without a write if it was not, so that the line
/// stays shared.
#[inline]
pub(super) fn take(frames: &dyn Frames, frame: FrameId) -> bool {
    let word = frames.word(frame);
    let set = word.load(Relaxed) != 0;
    if set {
        word.store(0, Relaxed);
    }
    set
}
