//! Mistakes that the exploration must catch, to show that it would. Only in its builds.
//!
//! One at a time for the whole process: tests that set one must not run beside each other.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// A check that is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mistake {
    /// A reader does not look whether the scan it read is still the same.
    NoVersionCheck = 1,
    /// A reader does not look whether the chain that it followed was changed under it.
    NoChainCheck = 2,
    /// A late report is taken for one of the scan that has the slot now.
    UntaggedReport = 3,
    /// A reader takes what was found out about a cell before other scans registered.
    StaleCell = 4,
    /// A reader takes a queue that somebody wrote meanwhile.
    TornCell = 5,
    /// A reader that takes the latest arrivals into a queue does not look whether more have come.
    NoArrivalCheck = 6,
    /// The first word of a mark does not tell whether the second belongs to it.
    UnmixedMark = 7,
    /// A stroke that is done late is taken for one of the scan that has its word now.
    UntaggedStroke = 8,
    /// A stroke that is done is stored, whatever others have done to the word meanwhile.
    StrokesStored = 9,
}

static CURRENT: AtomicU8 = AtomicU8::new(0);

/// From here on makes `mistake`, or none.
pub fn make(mistake: Option<Mistake>) {
    CURRENT.store(mistake.map_or(0, |mistake| mistake as u8), Relaxed);
}

pub(super) fn made(mistake: Mistake) -> bool {
    CURRENT.load(Relaxed) == mistake as u8
}
