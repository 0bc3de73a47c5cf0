//! Attach: a new scan begins where a running one is that it shares most units with.
//!
//! Source: Microsoft SQL Server, after Cook 2001 (in Świtakowski 2011, section 3.5), with the
//! choice among several of Zukowski et al. 2007. Deviation: it begins at the unit that the other is
//! in. If the other is not among its units, it begins at its first, to which the other may come.

use super::{Place, turn_of, unit_of};
use std::ops::Range;

pub(super) fn begin(units: &Range<u32>, of: u32, others: &[Place]) -> u64 {
    let shared = |other: &&Place| {
        let turns = (other.turn..other.end).filter(|&turn| other.reads_in(turn));
        turns.filter(|&turn| units.contains(&unit_of(turn, of))).count()
    };
    match others.iter().max_by_key(shared).filter(|other| shared(other) > 0) {
        Some(other) if units.contains(&unit_of(other.turn, of)) => other.turn,
        other => turn_of(units.start, of, other.map_or(0, |other| other.turn)),
    }
}
