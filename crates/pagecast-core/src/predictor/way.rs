//! How a scan goes through a cell, so that the position of one of its blocks is had without a
//! search in the scan's pages.
//!
//! Most who ask only want to know whether a page is wanted later than some others, and mostly it is
//! not. The first scan that comes to the page shows that, and its way through the cell says nearly
//! always where on its axis the page lies.
//!
//! What is kept is of the scan's registration, which never changes, and not of where it stands.

use super::records::MAX_LENGTH;

/// The way of one part's scan through the blocks of a cell, in 12 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// Only a search can tell.
    Unknown,
    /// It reads the blocks of one run and no other of the cell.
    Even {
        /// Of the first of these blocks.
        position: u64,
        /// Their places in the cell.
        first: u8,
        last: u8,
        /// Positions from one to the next.
        step: u16,
    },
    /// It reads blocks of several runs, or not evenly.
    Runs {
        /// None is read later than here.
        highest: u64,
        /// The place of the last of these runs in the arena.
        at: u32,
        /// How many there are, at most 255.
        count: u8,
    },
}

/// The kind is in the upper bits of the word of the position.
const KIND: u32 = 62;
const EVEN: u64 = 1;
const RUNS: u64 = 2;
/// Below the kind, the number of runs.
const COUNT: u32 = KIND - 8;
const _: () = assert!(MAX_LENGTH < 1 << COUNT);

impl Way {
    /// The position of the block at `place` of the cell, if the way is even and has it.
    #[inline]
    pub(super) fn position_of(self, place: u8) -> Option<u64> {
        match self {
            Way::Even { position, first, last, step } if place <= last => {
                Some(position.saturating_add(u64::from(place.checked_sub(first)?) * u64::from(step)))
            }
            _ => None,
        }
    }

    #[inline]
    pub(super) fn pack(self) -> (u64, u32) {
        match self {
            Way::Unknown => (0, 0),
            Way::Even { position, first, last, step } => {
                let blocks = u32::from(step) << 16 | u32::from(last) << 8 | u32::from(first);
                (EVEN << KIND | position & MAX_LENGTH, blocks)
            }
            Way::Runs { highest, at, count } => (RUNS << KIND | u64::from(count) << COUNT | highest & MAX_LENGTH, at),
        }
    }

    /// From its packed form; every word is one.
    #[inline]
    pub(super) fn unpack(word: u64, half: u32) -> Self {
        let position = word & MAX_LENGTH;
        match word >> KIND {
            EVEN => Way::Even { position, first: half as u8, last: (half >> 8) as u8, step: (half >> 16) as u16 },
            RUNS => Way::Runs { highest: position, at: half, count: (word >> COUNT) as u8 },
            _ => Way::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_itself_when_packed() {
        let even = Way::Even { position: MAX_LENGTH, first: 3, last: 250, step: u16::MAX };
        for way in [Way::Unknown, even, Way::Runs { highest: MAX_LENGTH, at: u32::MAX, count: 255 }] {
            let (word, half) = way.pack();
            assert_eq!(Way::unpack(word, half), way);
        }
    }
}
