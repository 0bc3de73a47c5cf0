//! What is remembered of one page's uses: when the last one was, how many intervals between uses were seen, and their
//! mean on a logarithmic scale, the later ones weighing more.
//!
//! 4 bytes beside the time of the last use. A page that only scans have read has no uses: what a registered scan reads is
//! the scan's business, which knows better when it comes back.

use super::logarithm::{Log, log};

/// Intervals that weigh alike in the mean; after that, a new one has an eighth.
const WEIGHED: u32 = 8;
/// A mean has 14 bits at most; 8 bits above stay free for who keeps a history.
const MEAN: u32 = 0xffff;

/// The intervals between a page's uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum History {
    /// Nobody but registered scans has used the page; the time kept with this is when it came in.
    Scanned,
    /// One use, or none before it that is remembered.
    Once,
    /// Intervals, at least one and at most 8 of them counted, and their mean.
    Intervals {
        /// How many, up to 8.
        count: u32,
        /// Their mean.
        mean: Log,
    },
}

impl History {
    /// With one use more, `age` ticks after the last one.
    #[inline]
    pub(super) fn used_after(self, age: u64) -> Self {
        let (count, mean) = match self {
            History::Scanned => return History::Once,
            History::Once => (0, 0),
            History::Intervals { count, mean } => (count, mean),
        };
        let count = (count + 1).min(WEIGHED);
        History::Intervals { count, mean: mean + (log(age) - mean) / count as Log }
    }

    /// Packed; [`History::Scanned`] is 0.
    #[inline]
    pub(super) fn pack(self) -> u32 {
        match self {
            History::Scanned => 0,
            History::Once => 1,
            History::Intervals { count, mean } => (mean as u32) << 8 | (count + 1),
        }
    }

    /// From its packed form; every number is one.
    #[inline]
    pub(super) fn unpack(packed: u32) -> Self {
        match packed & 0xff {
            0 => History::Scanned,
            1 => History::Once,
            more => History::Intervals { count: (more - 1).min(WEIGHED), mean: (packed >> 8 & MEAN) as Log },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::predictive::logarithm::{OCTAVE, ticks};

    #[test]
    fn the_mean_follows_the_intervals() {
        let mut history = History::Scanned.used_after(77);
        assert_eq!(history, History::Once);
        for _ in 0..3 {
            history = history.used_after(1000);
        }
        assert_eq!(history, History::Intervals { count: 3, mean: log(1000) });
        for _ in 0..40 {
            history = history.used_after(64_000);
        }
        let History::Intervals { count: 8, mean } = history else { panic!("{history:?}") };
        assert!(log(64_000) - mean < OCTAVE / 8, "{} ticks", ticks(mean));
        for history in [History::Scanned, History::Once, history] {
            assert_eq!(History::unpack(history.pack()), history);
        }
    }
}
