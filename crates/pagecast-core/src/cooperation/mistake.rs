//! Mistakes that the exploration must catch, to show that it would. Only in its builds.
//!
//! One at a time for the whole process: tests that set one must not run beside each other.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// A step that is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mistake {
    /// Who serves one worker takes the mark of another that waits.
    LostWakeUp = 1,
    /// A stroke that was handed out stays among those that may be.
    HandedOutTwice = 2,
    /// A unit that is being loaded may be chosen again.
    LoadedTwice = 3,
    /// Of the units that share a block only one learns of its coming.
    BorderCountedOnce = 4,
    /// A load that ends does not make its stroke deliverable.
    NotGranted = 5,
    /// A load of a scan that has ended is not taken off those under way.
    EndedLoadStays = 6,
    /// Who waits is not told that the last stroke is done.
    EndWakesNobody = 7,
}

static CURRENT: AtomicU8 = AtomicU8::new(0);

/// From here on makes `mistake`, or none.
pub fn make(mistake: Option<Mistake>) {
    CURRENT.store(mistake.map_or(0, |mistake| mistake as u8), Relaxed);
}

#[inline]
pub(super) fn made(mistake: Mistake) -> bool {
    CURRENT.load(Relaxed) == mistake as u8
}
