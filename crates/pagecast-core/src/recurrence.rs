//! What the usual time between the uses of a page says of its next use.
//!
//! Khalaji et al., PVLDB 18(13) 2025, section 4.2 and Algorithm 2, which the text, the pseudocode
//! and the authors' code define in three ways.

use crate::Tick;

/// What a page whose usual interval is known is expected to do, some time after its last use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frequency {
    /// Nothing: no statistics are kept.
    Off,
    /// As the text has it: the greater of interval and idle time. A page that is overdue is
    /// expected later and later.
    Max,
    /// As the pseudocode has it: the lesser of the two, zero right after a use and no more than the
    /// interval ever after.
    Min,
    /// As the code has it: the interval, and once that has passed half the sum of interval and idle
    /// time.
    Mean,
}

impl Frequency {
    /// Ticks until the next use, `idle` ticks after the last one; `None` when off.
    pub fn until_next(self, interval: Tick, idle: Tick) -> Option<Tick> {
        match self {
            Self::Off => None,
            Self::Max => Some(interval.max(idle)),
            Self::Min => Some(interval.min(idle)),
            Self::Mean if idle > interval => Some(interval.midpoint(idle)),
            Self::Mean => Some(interval),
        }
    }
}
