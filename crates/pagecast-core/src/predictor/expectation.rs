//! How a scan is expected that does not run yet, in one word of its record.
//!
//! The word has the trust in its upper half and the spread in its lower, an `f32` each. Trust is
//! above 0, so that the word of a running scan is 0 and no other is.

use super::Expectation;
use super::words::{join, split};
use crate::Tick;

/// The least trust. What is trusted less says nothing, and hosts had better withdraw it.
const LEAST: f32 = 1.0 / 1024.0;

impl Expectation {
    /// Ticks from `now` until the scan begins. One that is overdue is expected later and later: as
    /// long as it has been waited for.
    #[inline]
    fn wait(self, now: Tick) -> Tick {
        self.start.abs_diff(now).max(self.spread)
    }

    /// Ticks from `now` until the scan comes to what it reads `ticks` after its beginning.
    #[inline]
    pub(super) fn until(self, ticks: Tick, now: Tick) -> Tick {
        (self.wait(now).saturating_add(ticks) as f64 / f64::from(self.trust)) as Tick
    }

    /// As [`until`](Self::until), but no more than it will be at any later moment, less the time
    /// until then.
    #[inline]
    pub(super) fn until_at_least(self, ticks: Tick, now: Tick) -> Tick {
        self.start.saturating_sub(now).saturating_add(ticks)
    }
}

pub(super) fn pack(expected: Expectation) -> u64 {
    let trust = if expected.trust > LEAST { expected.trust.min(1.0) } else { LEAST };
    join(trust.to_bits(), (expected.spread as f32).to_bits())
}

#[inline]
pub(super) fn unpack(word: u64, start: Tick) -> Expectation {
    let (trust, spread) = split(word);
    Expectation { start, spread: f32::from_bits(spread) as Tick, trust: f32::from_bits(trust) }
}
