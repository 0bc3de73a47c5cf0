//! What is remembered of one page's uses: when the last one was, how many intervals between uses
//! were seen, their mean, the later ones weighing more, and whether the last of them was a brief
//! one. Where requests come in pairs a brief interval is followed by a long one.
//!
//! The mean is of times, not of their logarithms, though it is kept as one: where uses come at
//! random that tells their rate best, and one long interval outweighs the short ones of requests
//! that come in pairs.
//!
//! 4 bytes beside the time of the last use. A page that only scans have read has no uses: what a
//! registered scan reads is the scan's business, which knows better when it comes back.

use super::logarithm::{Log, OCTAVE, log, ticks};

/// Intervals that weigh alike in the mean; after that, a new one has a 32nd. Of 8, pages that are
/// used at random are mistaken for others with half or twice their rate; 64 bring nothing more.
const WEIGHED: u32 = 32;
/// An interval is brief if it is so much below the mean. Of 1.5 octaves pairs of passes over the
/// same pages are told apart less well.
const BRIEF: Log = OCTAVE / 2;
/// Packed: 6 bits tell what it is and count intervals, one whether the last was brief, 14 are the
/// mean. The bits above are free for who keeps a history.
pub(super) const PACKED_BITS: u32 = 21;
const COUNT: u32 = 0x3f;
const WAS_BRIEF: u32 = 0x40;
const MEAN: u32 = 0x3fff;

/// The intervals between a page's uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum History {
    /// Nobody but registered scans has used the page; the time kept with this is when it came in.
    Scanned,
    /// One use, or none before it that is remembered.
    Once,
    /// Intervals, at least one and at most 32 of them counted, their mean, and what the last one
    /// was beside it.
    Intervals {
        /// How many, up to 32.
        count: u32,
        /// The logarithm of their mean.
        mean: Log,
        /// The last was brief.
        brief: bool,
    },
}

impl History {
    /// With one use more, `age` ticks after the last one.
    #[inline]
    pub(super) fn used_after(self, age: u64) -> Self {
        match self {
            History::Scanned => History::Once,
            History::Once => History::Intervals { count: 1, mean: log(age), brief: false },
            History::Intervals { count, mean, .. } => {
                let (count, mean) = ((count + 1).min(WEIGHED), ticks(mean));
                let mean = log((mean + (age as f32 - mean) / count as f32) as u64);
                History::Intervals { count, mean, brief: log(age) < mean - BRIEF }
            }
        }
    }

    /// Packed; [`History::Scanned`] is 0.
    #[inline]
    pub(super) fn pack(self) -> u32 {
        match self {
            History::Scanned => 0,
            History::Once => 1,
            History::Intervals { count, mean, brief } => {
                (mean as u32) << 7 | if brief { WAS_BRIEF } else { 0 } | (count + 1)
            }
        }
    }

    /// From its packed form; every number is one.
    #[inline]
    pub(super) fn unpack(packed: u32) -> Self {
        match packed & COUNT {
            0 => History::Scanned,
            1 => History::Once,
            more => History::Intervals {
                count: (more - 1).min(WEIGHED),
                mean: (packed >> 7 & MEAN) as Log,
                brief: packed & WAS_BRIEF != 0,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::predictive::logarithm::OCTAVE;

    #[test]
    fn the_mean_follows_the_intervals() {
        let mut history = History::Scanned.used_after(77);
        assert_eq!(history, History::Once);
        for _ in 0..3 {
            history = history.used_after(1000);
        }
        assert_eq!(history, History::Intervals { count: 3, mean: log(1000), brief: false });
        for _ in 0..200 {
            history = history.used_after(64_000);
        }
        let History::Intervals { count: 32, mean, brief: false } = history else { panic!("{history:?}") };
        assert!(log(64_000) - mean < OCTAVE / 8, "{} ticks", ticks(mean));
        let mixed = History::Once.used_after(2).used_after(2000);
        let long = History::Intervals { count: 2, mean: log(1001), brief: false };
        assert_eq!(mixed, long, "a mean of times, not of logarithms");
        let brief = long.used_after(300);
        assert_eq!(brief, History::Intervals { count: 3, mean: log(767), brief: true }, "300 is not half of 767");
        for history in [History::Scanned, History::Once, history, brief] {
            assert_eq!(History::unpack(history.pack() | 1 << PACKED_BITS), history);
            assert!(history.pack() < 1 << PACKED_BITS);
        }
    }
}
