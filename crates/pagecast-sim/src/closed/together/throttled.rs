//! Throttled: a scan that goes ahead of another one waits until that is near, within bounds.
//!
//! Source: Lang, Bhattacharjee, Malkemus, Padmanabhan, Wong, "Increasing buffer-locality for
//! multiple relational table scans through grouping and throttling" (ICDE 2007): scans close to
//! each other are a group, its leader is held back, and no scan loses more than 80 % of its time.
//! Deviations: each scan looks at the one behind it, not at its group's last one. Where a scan
//! begins is attach's business, not a matter of equal speeds.

use super::Place;
use crate::generate::call::Call;

/// Who waits for whom, and how long.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Throttled {
    /// Units that a scan may be ahead of the next one.
    pub gap: u32,
    /// Units behind which nobody is waited for.
    pub group: u32,
    /// By how much of the time that it did not wait a scan may be held up.
    pub slower: f64,
}

impl Throttled {
    pub(super) fn parse(call: &mut Call) -> Result<Self, String> {
        Ok(Self {
            gap: call.count("gap", 2, 1, 1 << 20)?,
            group: call.count("group", 16, 1, 1 << 20)?,
            slower: call.number("slower", 0.8, 0.0, 100.0)?,
        })
    }

    /// Whether a scan waits that is done with `turn`, in which one behind it will read.
    pub(super) fn waits(self, turn: u64, next: u64, others: &[Place]) -> bool {
        let behind = others.iter().filter(|other| other.turn < next && other.reads_in(turn));
        let distance = behind.map(|other| next - other.turn).min();
        distance.is_some_and(|distance| distance > self.gap.into() && distance <= self.group.into())
    }
}
