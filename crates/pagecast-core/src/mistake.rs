//! Mistakes that the explorations must catch, to show that they would. Only in their builds.
//!
//! One at a time for the whole process: tests that set one must not run beside each other.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// A step or a check that is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mistake {
    // Of the predictor.
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
    /// A chunk that is done late is taken for one of the scan that has its word now.
    UntaggedChunk = 8,
    /// A chunk that is done is stored, whatever others have done to the word meanwhile.
    ChunksStored = 9,
    /// A scan that ends is rewritten as an expected one while readers take it for the one that ran.
    ExpectedUnseen = 17,
    // Of the manager of cooperation.
    /// Who serves one worker takes the mark of another that waits.
    LostWakeUp = 10,
    /// A chunk that was handed out stays among those that may be.
    HandedOutTwice = 11,
    /// A unit that is being loaded may be chosen again.
    LoadedTwice = 12,
    /// Of the units that share a block only one learns of its coming.
    BorderCountedOnce = 13,
    /// A load that ends does not make its chunk deliverable.
    NotGranted = 14,
    /// A load of a scan that has ended is not taken off those under way.
    EndedLoadStays = 15,
    /// Who waits is not told that the last chunk is done.
    EndWakesNobody = 16,
}

static CURRENT: AtomicU8 = AtomicU8::new(0);

/// From here on makes `mistake`, or none.
pub fn make(mistake: Option<Mistake>) {
    CURRENT.store(mistake.map_or(0, |mistake| mistake as u8), Relaxed);
}

#[inline]
pub(crate) fn made(mistake: Mistake) -> bool {
    CURRENT.load(Relaxed) == mistake as u8
}
