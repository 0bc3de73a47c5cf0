//! Frames that are worth looking at again: the best of what earlier evictions saw and did not need, and the last to come
//! in.
//!
//! Concurrency: a slot is one atomic. Who looks takes the slots, so that two evictions at once look at different frames;
//! what they store over each other is lost, and found again by sampling. Relaxed: a slot is a hint, the claim decides.

use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};
use crate::{FrameId, PageId};

/// Candidates kept from one eviction to the next.
const KEPT: usize = 16;
/// Frames that came in last.
const LATEST: usize = 4;
const NONE: u32 = u32::MAX;

/// A frame, the page that was seen in it, and what holding it costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) frame: FrameId,
    pub(super) page: PageId,
    /// Ticks per use, finite.
    pub(super) cost: f32,
}

/// The candidates that cost most, dearest last.
#[derive(Debug)]
pub(super) struct Ranked {
    places: [Candidate; KEPT + 1],
    len: usize,
}

impl Ranked {
    pub(super) fn new() -> Self {
        let blank = Candidate { frame: FrameId(0), page: PageId::from_raw(0), cost: 0.0 };
        Self { places: [blank; KEPT + 1], len: 0 }
    }

    /// Ranks a candidate, if it is among the dearest and not there yet. Of equals the first stays dearer.
    #[inline]
    pub(super) fn put(&mut self, candidate: Candidate) {
        let full = self.len == self.places.len();
        if full && candidate.cost <= self.places[0].cost || self.frames().any(|frame| frame == candidate.frame) {
            return;
        }
        let at = self.places[..self.len].partition_point(|place| place.cost < candidate.cost);
        if full {
            self.places.copy_within(1..at, 0);
            self.places[at - 1] = candidate;
        } else {
            self.places.copy_within(at..self.len, at + 1);
            self.places[at] = candidate;
            self.len += 1;
        }
    }

    /// Takes out the candidate that costs most.
    pub(super) fn take_worst(&mut self) -> Option<Candidate> {
        self.len = self.len.checked_sub(1)?;
        Some(self.places[self.len])
    }

    fn frames(&self) -> impl Iterator<Item = FrameId> + '_ {
        self.places[..self.len].iter().map(|place| place.frame)
    }
}

/// What one eviction leaves to the next.
#[derive(Debug)]
pub(super) struct Kept {
    seen: [AtomicU32; KEPT],
    latest: [AtomicU32; LATEST],
    cursor: AtomicU32,
}

impl Kept {
    pub(super) fn new() -> Self {
        let none = || AtomicU32::new(NONE);
        Self {
            seen: core::array::from_fn(|_| none()),
            latest: core::array::from_fn(|_| none()),
            cursor: AtomicU32::new(0),
        }
    }

    /// Notes that a page came into `frame`.
    pub(super) fn came_in(&self, frame: FrameId) {
        let at = self.cursor.fetch_add(1, Relaxed) as usize % LATEST;
        self.latest[at].store(frame.0, Relaxed);
    }

    /// The frames to look at; each is handed out once.
    pub(super) fn take(&self) -> impl Iterator<Item = FrameId> + '_ {
        let seen = self.seen.iter().map(|slot| slot.swap(NONE, Relaxed));
        let latest = self.latest.iter().map(|slot| slot.load(Relaxed));
        seen.chain(latest).filter(|&frame| frame != NONE).map(FrameId)
    }

    /// Keeps what is left of `ranked`, but for the victim.
    pub(super) fn keep(&self, ranked: &Ranked, victim: Option<FrameId>) {
        let frames = ranked.frames().filter(|&frame| Some(frame) != victim);
        for (slot, frame) in self.seen.iter().zip(frames) {
            slot.store(frame.0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_dearest_are_kept_in_order() {
        let mut ranked = Ranked::new();
        let numbers: Vec<u32> = (0..100).map(|i| i * 37 % 100).collect();
        for &number in numbers.iter().chain(&numbers) {
            let page = PageId::from_raw(u64::from(number));
            ranked.put(Candidate { frame: FrameId(number), page, cost: (number / 2) as f32 });
        }
        let kept = Kept::new();
        let worst = ranked.take_worst().map(|candidate| candidate.cost);
        assert_eq!(worst, Some(49.0));
        kept.keep(&ranked, None);
        let frames: Vec<u32> = kept.take().map(|frame| frame.0).collect();
        assert_eq!(frames.len(), KEPT);
        assert!(frames.iter().all(|&frame| frame >= 100 - KEPT as u32 - 2), "{frames:?}");
        assert_eq!(kept.take().count(), 0, "each is handed out once");
    }
}
