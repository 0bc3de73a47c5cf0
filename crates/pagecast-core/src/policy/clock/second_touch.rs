//! `clock2t`: the second-touch clock; a page must be used twice more before the hand spares it.
//!
//! Source: the cooling stage that PostgreSQL's developers discuss as a successor of the
//! clock-sweep, after LeanStore's (Leis, Haubenschild, Kemper, Neumann, "LeanStore: In-memory data
//! management beyond main memory", ICDE 2018, section III-C). A page is new, touched or hot. A use
//! takes it one step up. The hand takes hot pages one step down, where one use makes them hot again
//! (they cool), and evicts all others. So a page that a scan reads, and one used twice in a burst
//! as it comes in, leave on the hand's first pass, where the one-bit clock would spare the second.
//!
//! Deviations: nothing final is published; this is our reading of it. The sweep ends after three
//! turns at the latest.
//!
//! Suits scans beside a hot set, at the price of the clock. Cost: a hit is at most one atomic write
//! in the frame's own line, none once the page is hot. An eviction looks at two turns at worst. 8
//! bytes per frame (its word in the pool), one hand.

use super::hand::{Hand, lower};
use crate::policy::{Access, Claimed, ConcurrentPolicy, Frames, HitNeed};
use crate::sync::atomic::Ordering::Relaxed;
use crate::{FrameId, PageId, oracle::Oracle};

/// What a frame's word says.
const NEW: u64 = 0;
const TOUCHED: u64 = 1;
const HOT: u64 = 2;

/// The second-touch clock.
#[derive(Debug)]
pub struct SecondTouchClock {
    hand: Hand,
}

impl SecondTouchClock {
    /// A hand at frame 0.
    pub fn new() -> Self {
        Self { hand: Hand::new() }
    }
}

impl Default for SecondTouchClock {
    fn default() -> Self {
        Self::new()
    }
}

impl ConcurrentPolicy for SecondTouchClock {
    fn hit_need(&self) -> HitNeed {
        HitNeed::Count { max: HOT }
    }

    #[inline]
    fn hit(&self, frames: &dyn Frames, frame: FrameId, _access: &Access) {
        self.hit_need().is_met_by(frames.word(frame));
    }

    #[inline]
    fn evict(&self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        self.hand.sweep(frames, 3, |word| lower(word, TOUCHED))
    }

    #[inline]
    fn admit(&self, frames: &dyn Frames, frame: FrameId, _access: &Access) {
        frames.word(frame).store(NEW, Relaxed);
    }

    fn forget(&self, _frames: &dyn Frames, _frame: FrameId, _page: PageId) {}
}
