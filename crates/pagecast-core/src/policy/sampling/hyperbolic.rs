//! Hyperbolic caching: of a random sample the page leaves with the fewest uses per time in the
//! cache.
//!
//! Source: Blankstein, Sen, Freedman, "Hyperbolic caching: Flexible caching for web applications"
//! (USENIX ATC 2017), section 3: priority n / t, n the uses since the page came in, t the time
//! since then, for `samples` (64) random pages.
//!
//! Deviations: all pages are equal in cost and size, and not grouped. Time is the owner's. A sample
//! that is lost to a race is drawn anew up to 4 times; then any frame is taken that can be had.
//!
//! Suits popularity that differs from page to page and fades; loops do no worse than under
//! `random`. Cost: a hit is one atomic write in the frame's own line; an eviction looks at
//! `samples` frames. 8 bytes per frame. Concurrency: counts and times are relaxed; they only rank,
//! and the claim decides.

use super::{claim_any, lowest};
use crate::policy::{Access, Claimed, ConcurrentPolicy, Frames, HitNeed};
use crate::random::RandomSource;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::{FrameId, PageId, Tick, oracle::Oracle};
use alloc::vec::Vec;
use core::cmp::Ordering;

/// Rounds of sampling before any frame is taken.
const ROUNDS: u32 = 4;

/// Hyperbolic caching.
#[derive(Debug)]
pub struct Hyperbolic {
    samples: u32,
    random: RandomSource,
    /// By frame: when its page came in.
    since: Vec<AtomicU64>,
}

/// Uses per time. Compared without division.
#[derive(Clone, Copy, Debug)]
struct Rate {
    uses: u64,
    time: Tick,
}

impl PartialEq for Rate {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let (a, b) = (u128::from(self.uses), u128::from(other.uses));
        Some((a * u128::from(other.time)).cmp(&(b * u128::from(self.time))))
    }
}

impl Hyperbolic {
    /// For a pool of `frames` frames; an eviction looks at `samples` of them, drawn by `seed`.
    pub fn new(frames: u32, samples: u32, seed: u64) -> Self {
        let since = (0..frames).map(|_| AtomicU64::new(0)).collect();
        Self { samples: samples.max(1), random: RandomSource::new(seed), since }
    }
}

impl ConcurrentPolicy for Hyperbolic {
    fn hit_need(&self) -> HitNeed {
        HitNeed::Count { max: u64::MAX }
    }

    #[inline]
    fn hit(&self, frames: &dyn Frames, frame: FrameId, _access: &Access) {
        self.hit_need().is_met_by(frames.word(frame));
    }

    #[inline]
    fn evict(&self, frames: &dyn Frames, incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        let mut random = self.random.fork();
        for _ in 0..ROUNDS {
            let rate = |frame: FrameId| {
                let since = self.since[frame.index()].load(Relaxed);
                Rate { uses: frames.word(frame).load(Relaxed), time: incoming.at.saturating_sub(since).max(1) }
            };
            let Some((frame, page, _)) = lowest(frames, &mut random, self.samples, rate) else { break };
            if let Ok(victim) = frames.claim(frame, page) {
                return Some(victim);
            }
        }
        claim_any(frames, &mut random)
    }

    #[inline]
    fn admit(&self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        frames.word(frame).store(1, Relaxed);
        self.since[frame.index()].store(access.at, Relaxed);
    }

    fn forget(&self, _frames: &dyn Frames, _frame: FrameId, _page: PageId) {}
}
