//! The memory of a session's queue of hits: a ring that the session fills without a lock and that
//! whoever has the policy's lock empties.
//!
//! One writer and one reader at a time. The writer stores a hit and then says so with `noted`
//! (release); the reader sees that (acquire) before it reads the hit. The reader says with `told`
//! (release) that it has read; the writer sees that (acquire) before it writes to the same place
//! again. What a hit is made of are words of its own, so that the ring needs no unsafe code; these
//! go by the order of the two numbers and are relaxed.
//!
//! Cost: a hit is four words and two numbers, of which nobody else writes any but `told`, and that
//! only when he empties the ring.

use super::Access;
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::{FrameId, PageId, ScanId};
use alloc::boxed::Box;

/// A hit.
#[derive(Debug, Default)]
struct Slot {
    page: AtomicU64,
    at: AtomicU64,
    /// The scan's slot, and its generation in the upper half.
    scan: AtomicU64,
    /// The frame, and above it whether the hit writes.
    frame: AtomicU64,
}

/// Above the number of a frame.
const WRITE: u64 = 1 << 32;

/// Hits that the policy has not been told of.
///
/// Invariants: (R1) the slots from `told` up to `noted`, modulo their number, are hits; there are
/// no more than slots. The session writes to the others only. (R2) Of those who call
/// [`HitRing::tell`] each has the policy's lock.
#[derive(Debug)]
pub(super) struct HitRing {
    noted: AtomicU64,
    told: AtomicU64,
    /// A power of two.
    slots: Box<[Slot]>,
}

impl HitRing {
    /// Bytes of a ring for `length` hits.
    pub(super) const fn bytes(length: u32) -> u64 {
        size_of::<Self>() as u64 + length.next_power_of_two() as u64 * size_of::<Slot>() as u64
    }

    /// For at least `length` hits.
    pub(super) fn new(length: u32) -> Self {
        let slots = (0..length.next_power_of_two()).map(|_| Slot::default()).collect();
        Self { noted: AtomicU64::new(0), told: AtomicU64::new(0), slots }
    }

    #[inline]
    fn slot(&self, number: u64) -> &Slot {
        &self.slots[number as usize & (self.slots.len() - 1)]
    }

    /// How many hits wait. For the session an upper bound, for whoever has the lock a lower one.
    #[inline]
    pub(super) fn len(&self) -> usize {
        // `told` first: it never passes `noted`.
        let told = self.told.load(Acquire);
        (self.noted.load(Acquire) - told) as usize
    }

    /// Adds a hit and says how many wait now. Of a full ring nobody is told the hit. The session's.
    #[inline]
    pub(super) fn note(&self, frame: FrameId, access: &Access) -> usize {
        // Nobody but the caller writes it.
        let noted = self.noted.load(Relaxed);
        let waiting = (noted - self.told.load(Acquire)) as usize;
        if waiting == self.slots.len() {
            return waiting;
        }
        let ScanId { slot, generation } = access.scan.unwrap_or(ScanId::NOBODY);
        let to = self.slot(noted);
        to.page.store(access.page.raw(), Relaxed);
        to.at.store(access.at, Relaxed);
        to.scan.store(u64::from(generation) << 32 | u64::from(slot), Relaxed);
        to.frame.store(u64::from(frame.0) | if access.write { WRITE } else { 0 }, Relaxed);
        self.noted.store(noted + 1, Release);
        waiting + 1
    }

    /// The frames of the hits that wait, but for the first `but` hits since the ring was made. The
    /// session's.
    pub(super) fn frames_after(&self, but: u64) -> impl Iterator<Item = FrameId> {
        let first = self.told.load(Acquire).max(but);
        (first..self.noted.load(Relaxed)).map(|number| FrameId(self.slot(number).frame.load(Relaxed) as u32))
    }

    /// How many hits there have been. The session's.
    pub(super) fn noted(&self) -> u64 {
        self.noted.load(Relaxed)
    }

    /// Hands over the hits that wait, in their order (R2).
    pub(super) fn tell(&self, mut hear: impl FnMut(FrameId, &Access)) {
        // Nobody else writes it while the caller has the lock, and who had it before gave the lock
        // to him.
        let told = self.told.load(Relaxed);
        let noted = self.noted.load(Acquire);
        for number in told..noted {
            let from = self.slot(number);
            let (frame, scan) = (from.frame.load(Relaxed), from.scan.load(Relaxed));
            let scan = ScanId { slot: scan as u32, generation: (scan >> 32) as u32 };
            let access = Access {
                page: PageId::from_raw(from.page.load(Relaxed)),
                scan: Some(scan).filter(|&scan| scan != ScanId::NOBODY),
                write: frame & WRITE != 0,
                at: from.at.load(Relaxed),
            };
            hear(FrameId(frame as u32), &access);
        }
        if noted > told {
            self.told.store(noted, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn hits_come_out_as_they_went_in() {
        let ring = HitRing::new(3);
        let scans = [None, Some(ScanId { slot: 7, generation: u32::MAX })];
        let hit = |n: u64| Access {
            page: PageId::from_raw(!n),
            scan: scans[n as usize % 2],
            write: n.is_multiple_of(3),
            at: n,
        };
        let mut heard = Vec::new();
        for n in 0..21 {
            assert_eq!(ring.note(FrameId(u32::MAX - n as u32), &hit(n)), 1 + n as usize % 3);
            if n % 3 == 2 {
                ring.tell(|frame, access| heard.push((frame, *access)));
                assert_eq!(ring.len(), 0);
            }
        }
        for (n, (frame, access)) in (0..21).zip(&heard) {
            let expected = hit(n);
            assert_eq!((frame.0, access.page), (u32::MAX - n as u32, expected.page));
            assert_eq!((access.scan, access.write, access.at), (expected.scan, expected.write, expected.at));
        }
        assert_eq!(heard.len(), 21);
    }

    #[test]
    fn a_full_ring_takes_no_more() {
        let ring = HitRing::new(2);
        let access = Access { page: PageId::from_raw(1), scan: None, write: false, at: 0 };
        assert_eq!([0, 1, 2].map(|frame| ring.note(FrameId(frame), &access)), [1, 2, 2]);
        let mut frames = Vec::new();
        ring.tell(|frame, _| frames.push(frame.0));
        assert_eq!(frames, [0, 1]);
    }
}
