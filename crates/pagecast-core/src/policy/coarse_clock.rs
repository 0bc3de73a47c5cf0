//! A clock that stands still for as long as it takes a small part of the pool to change.
//!
//! Uses of a page that follow each other at once say nothing of how it is used: correlated
//! references, in the words of O'Neil, O'Neil, Weikum, "The LRU-K page replacement algorithm"
//! (SIGMOD 1993). They need not be counted one by one. A policy that declares
//! [`LaterThanWord`](super::HitNeed::LaterThanWord) is shown hits at the times of this clock, and
//! counts the uses of a page at one time as one.
//!
//! A step is the time in which one frame in [`STEPS`] gets another page, measured over the last
//! such page or pages. While none comes in, the steps grow; hits in a pool that holds everything
//! then end at a comparison.
//!
//! Cost: nothing per hit; three shared reads where a session looks at the clock, a shared write per
//! step, a shared add per admission. Concurrency: no lock. A race makes one step too short or long.

use crate::Tick;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Steps in the time in which as many pages come in as there are frames.
const STEPS: u64 = 1 << 16;

/// Turns exact times into coarse ones.
///
/// ```
/// use pagecast_core::policy::CoarseClock;
///
/// let clock = CoarseClock::new(65_536);
/// clock.admitted(1000);
/// clock.admitted(1100); // a page in 100 ticks
/// let now = clock.at(1100);
/// assert_eq!(clock.at(now + 99), now);
/// assert_eq!(clock.at(now + 100), now + 100);
/// ```
#[derive(Debug)]
pub struct CoarseClock {
    frames: AtomicU32,
    /// The coarse time, and the exact time that passes before the next.
    now: AtomicU64,
    step: AtomicU64,
    /// Pages that came in, and when the step was measured last.
    admissions: AtomicU64,
    measured: AtomicU64,
}

impl CoarseClock {
    /// For a pool of `frames` frames.
    pub fn new(frames: u32) -> Self {
        Self {
            frames: AtomicU32::new(frames),
            now: AtomicU64::new(0),
            step: AtomicU64::new(0),
            admissions: AtomicU64::new(0),
            measured: AtomicU64::new(0),
        }
    }

    /// The coarse time at the exact time `exact`.
    #[inline]
    pub fn at(&self, exact: Tick) -> Tick {
        let now = self.now.load(Relaxed);
        if exact.saturating_sub(now) < self.step.load(Relaxed) { now } else { self.advance(now, exact) }
    }

    fn advance(&self, now: Tick, exact: Tick) -> Tick {
        // No page has come in since the step was measured: it is longer than that.
        let (_, so_far) = self.step_of(exact.saturating_sub(self.measured.load(Relaxed)));
        self.step.fetch_max(so_far, Relaxed);
        self.now.store(exact.max(now), Relaxed);
        exact.max(now)
    }

    /// A page came in at the exact time `exact`.
    pub fn admitted(&self, exact: Tick) {
        if self.admissions.fetch_add(1, Relaxed).is_multiple_of(self.step_of(0).0) {
            let passed = exact.saturating_sub(self.measured.swap(exact, Relaxed));
            self.step.store(self.step_of(passed).1, Relaxed);
        }
    }

    /// The pool now has `frames` frames.
    pub fn resize(&self, frames: u32) {
        self.frames.store(frames, Relaxed);
    }

    /// After how many pages a step is measured, and the ticks of a step if they came in within
    /// `passed`.
    fn step_of(&self, passed: u64) -> (u64, u64) {
        let frames = u64::from(self.frames.load(Relaxed));
        let pages = (frames / STEPS).max(1);
        (pages, (passed as f32 * frames as f32 / (pages * STEPS) as f32) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_small_pool_under_steady_misses_has_the_exact_time() {
        let clock = CoarseClock::new(1000);
        for exact in 0..10_000 {
            clock.admitted(exact);
            assert_eq!(clock.at(exact), exact);
        }
    }

    #[test]
    fn steps_grow_while_nothing_comes_in_and_shrink_afterwards() {
        let clock = CoarseClock::new(1 << 16);
        (0..100).for_each(|exact| clock.admitted(exact));
        let steps = |from: Tick, to: Tick| {
            let mut times: Vec<_> = (from..to).map(|exact| clock.at(exact)).collect();
            assert!(times.is_sorted());
            times.dedup();
            times.len()
        };
        assert!(steps(100, 100_000) < 20, "each step is as long as nothing has come in");
        (100_000..100_100).for_each(|exact| clock.admitted(exact));
        assert!(steps(100_100, 100_200) > 5, "a step is one tick again");
    }
}
