//! Elevator: one cursor goes round the table, and all scans with it.
//!
//! Source: RedBrick's and Teradata's shared scans (Świtakowski 2011, section 3.5; Zukowski et al.
//! 2007). Ours: the cursor is the last of the scans, and nobody is more than `window` units ahead
//! of it. Units that no scan needs are passed over.

use super::{Place, turn_of, unit_of};
use crate::generate::call::Call;
use std::ops::Range;

/// How far scans may be from the cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elevator {
    /// Units that a scan may be ahead of the last one.
    pub window: u32,
}

impl Elevator {
    pub(super) fn parse(call: &mut Call) -> Result<Self, String> {
        Ok(Self { window: call.count("window", 1, 0, 1 << 20)? })
    }

    pub(super) fn begin(self, units: &Range<u32>, of: u32, others: &[Place]) -> u64 {
        let cursor = others.iter().map(|other| other.turn).min().unwrap_or(u64::from(units.start));
        if units.contains(&unit_of(cursor, of)) { cursor } else { turn_of(units.start, of, cursor) }
    }

    pub(super) fn waits(self, next: u64, others: &[Place]) -> bool {
        others.iter().any(|other| other.turn + u64::from(self.window) < next)
    }
}
