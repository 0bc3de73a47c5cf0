//! Scans in order that keep together: where a new one begins, and which one waits for others.
//!
//! They read their rows from there to the end, and then those in front of it. Before
//! [cooperative scans](super::Delivery) this was how scans shared what they read; Zukowski, Héman,
//! Nes, Boncz, "Cooperative Scans" (VLDB 2007) compares the first two with them.
//!
//! A scan's way is told in *turns*: units of its table, counted on through all rounds. Two scans in
//! the same turn read the same unit.

mod attach;
mod elevator;
mod throttled;

pub use elevator::Elevator;
pub use throttled::Throttled;

use crate::generate::call::Call;
use std::ops::Range;

/// How scans in order keep together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Together {
    /// Not at all.
    Apart,
    /// A scan begins where another one is.
    Attach,
    /// All go with one cursor.
    Elevator(Elevator),
    /// As attach, and a scan waits for those close behind.
    Throttled(Throttled),
}

/// Where a scan is that runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// The turn that it is in or waits for; it is done with those before.
    pub(super) turn: u64,
    /// The turn at which it has been everywhere.
    pub(super) end: u64,
    /// The units that it reads, of so many.
    pub(super) units: Range<u32>,
    pub(super) of: u32,
}

impl Place {
    /// Whether it will read, or reads, in this turn.
    fn reads_in(&self, turn: u64) -> bool {
        (self.turn..self.end).contains(&turn) && self.units.contains(&unit_of(turn, self.of))
    }
}

/// The unit of a turn, of so many units.
pub(super) fn unit_of(turn: u64, units: u32) -> u32 {
    (turn % u64::from(units)) as u32
}

/// The first turn of `unit`, of so many, that is not before `turn`.
pub(super) fn turn_of(unit: u32, units: u32, turn: u64) -> u64 {
    let (unit, units) = (u64::from(unit), u64::from(units));
    turn + (unit + units - turn % units) % units
}

impl Together {
    /// Reads the parameters of the delivery that `call` names.
    pub(super) fn parse(call: &mut Call) -> Result<Self, String> {
        Ok(match call.name() {
            "attach" => Self::Attach,
            "elevator" => Self::Elevator(Elevator::parse(call)?),
            "throttled" => Self::Throttled(Throttled::parse(call)?),
            _ => Self::Apart,
        })
    }

    /// The turn in which a scan of `units`, of so many, begins beside those in `others`.
    pub(super) fn begin(&self, units: &Range<u32>, of: u32, others: &[Place]) -> u64 {
        match self {
            Self::Apart => u64::from(units.start),
            Self::Attach | Self::Throttled(_) => attach::begin(units, of, others),
            Self::Elevator(elevator) => elevator.begin(units, of, others),
        }
    }

    /// Whether a scan that has been in one turn, or begins, waits before the turn `next`.
    pub(super) fn waits(&self, been_in: Option<u64>, next: u64, others: &[Place]) -> bool {
        match self {
            Self::Apart | Self::Attach => false,
            Self::Elevator(elevator) => elevator.waits(next, others),
            Self::Throttled(throttled) => been_in.is_some_and(|turn| throttled.waits(turn, next, others)),
        }
    }

    /// Whether scans may wait for others.
    pub(super) fn may_wait(&self) -> bool {
        matches!(self, Self::Elevator(_) | Self::Throttled(_))
    }

    /// By how much of the time that it did not wait a scan may be held up; `None` if by any.
    pub(super) fn most(&self) -> Option<f64> {
        if let Self::Throttled(throttled) = self { Some(throttled.slower) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(turn: u64, end: u64, units: Range<u32>) -> Place {
        Place { turn, end, units, of: 10 }
    }

    #[test]
    fn turns_go_on_through_all_rounds() {
        assert_eq!((turn_of(3, 10, 0), turn_of(3, 10, 3), turn_of(3, 10, 4), turn_of(0, 10, 29)), (3, 3, 13, 30));
        assert!((0..30).all(|turn| turn_of(unit_of(turn, 10), 10, turn) == turn));
        let wraps = place(18, 26, 6..10);
        assert!(!wraps.reads_in(17) && wraps.reads_in(18) && !wraps.reads_in(20) && !wraps.reads_in(26));
    }

    #[test]
    fn a_scan_begins_beside_the_one_it_shares_most_with() {
        let others = [place(12, 14, 0..10), place(25, 33, 0..10), place(8, 9, 8..9)];
        assert_eq!(Together::Attach.begin(&(0..10), 10, &others), 25);
        assert_eq!(Together::Attach.begin(&(0..4), 10, &others), 30, "the other comes to its beginning");
        assert_eq!(Together::Attach.begin(&(4..10), 10, &[]), 4);
        assert_eq!(Together::Apart.begin(&(4..10), 10, &others), 4);
    }

    #[test]
    fn all_wait_for_the_last_of_an_elevator() {
        let elevator = Together::Elevator(Elevator { window: 1 });
        let others = [place(12, 20, 0..10), place(17, 19, 7..9)];
        assert_eq!(elevator.begin(&(0..5), 10, &others), 12, "where the last one is");
        assert_eq!(elevator.begin(&(5..9), 10, &others), 15, "where the cursor comes to first");
        assert!(!elevator.waits(Some(12), 13, &others) && elevator.waits(Some(13), 14, &others));
        assert!(elevator.waits(None, 14, &others) && !elevator.waits(None, 14, &[]));
    }

    #[test]
    fn a_fast_scan_waits_for_one_close_behind() {
        let throttled = Together::Throttled(Throttled { gap: 2, group: 5, slower: 0.8 });
        let waits = |turn, units| throttled.waits(Some(20), 21, &[place(turn, 30, units)]);
        assert!(!waits(19, 0..10), "close enough");
        assert!(waits(17, 0..10) && waits(16, 0..10));
        assert!(!throttled.waits(None, 21, &[place(17, 30, 0..10)]), "it has just begun");
        assert!(!waits(15, 0..10), "too far behind to be waited for");
        assert!(!waits(17, 5..10), "it does not read what was just read");
        assert!(!waits(21, 0..10) && !waits(25, 0..10), "who is ahead");
    }
}
