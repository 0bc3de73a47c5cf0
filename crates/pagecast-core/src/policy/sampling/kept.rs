//! Pages that were looked at, when they may go, and the best of them kept for the next eviction.

use crate::policy::Frames;
use crate::policy::ranked::{self, Looked};
use crate::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::{FrameId, PageId, Tick};
use alloc::vec::Vec;

/// When a page may go: the greater, the sooner. A page that is wanted ranks by the moment at which it is, and below all of
/// which nothing is known; these rank by how long ago they were used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Rank(u64);

const UNWANTED: u64 = 1 << 63;

impl Rank {
    /// Below every page's.
    pub(super) const LOWEST: Self = Self(0);

    /// Of a page that is wanted `ticks` after `now`.
    pub(super) fn wanted_in(ticks: Tick, now: Tick) -> Self {
        Self(now.saturating_add(ticks).min(UNWANTED - 1))
    }

    /// Of a page of which only its last use is known, or not even that (0).
    pub(super) fn unwanted_since(last_use: Tick) -> Self {
        Self(u64::MAX - last_use.min(UNWANTED - 1))
    }

    pub(super) fn is_unwanted(self) -> bool {
        self.0 >= UNWANTED
    }

    /// The ticks from `now` to the moment at which a page of this rank is wanted.
    pub(super) fn ticks(self, now: Tick) -> Tick {
        self.0.saturating_sub(now)
    }
}

/// A page that was looked at.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    pub(super) frame: FrameId,
    pub(super) page: PageId,
    pub(super) rank: Rank,
    /// Whether the rank is of this eviction, and not of an earlier one that kept the page.
    pub(super) fresh: bool,
}

impl Sample {
    pub(super) const BLANK: Self =
        Self { frame: FrameId(0), page: PageId::from_raw(0), rank: Rank::LOWEST, fresh: false };
}

impl Looked for Sample {
    type Rank = Rank;

    const LOWEST: Rank = Rank::LOWEST;

    fn frame(&self) -> FrameId {
        self.frame
    }

    fn rank(&self) -> Rank {
        self.rank
    }

    fn is_fresh(&self) -> bool {
        self.fresh
    }
}

/// Samples by rank.
pub(super) type Ranked<'a> = ranked::Ranked<'a, Sample>;

/// The best samples of earlier evictions that were not needed. 24 bytes each.
///
/// Concurrency: no lock that anybody waits for. `busy` is true while an eviction has the samples out; another one that comes
/// meanwhile does without. The places are only touched in between; Acquire and Release on `busy` hand them over.
/// They are proposals: whether a frame still holds its page and may go is settled by the claim.
#[derive(Debug)]
pub(super) struct Kept {
    places: Vec<[AtomicU64; 3]>,
    len: AtomicU32,
    busy: AtomicBool,
}

impl Kept {
    /// Room for `places` samples.
    pub(super) fn new(places: u32) -> Self {
        Self {
            places: (0..places).map(|_| Default::default()).collect(),
            len: AtomicU32::new(0),
            busy: AtomicBool::new(false),
        }
    }

    pub(super) fn room(&self) -> usize {
        self.places.len()
    }

    /// Puts what was kept into `ranked`. True if the caller is to [`give_back`](Self::give_back) what is left of it.
    pub(super) fn take(&self, ranked: &mut Ranked<'_>) -> bool {
        if self.places.is_empty() || self.busy.swap(true, Acquire) {
            return false;
        }
        let kept = self.places.iter().take(self.len.load(Relaxed) as usize);
        ranked.fill(kept.map(|[frame, page, rank]| Sample {
            frame: FrameId(frame.load(Relaxed) as u32),
            page: PageId::from_raw(page.load(Relaxed)),
            rank: Rank(rank.load(Relaxed)),
            fresh: false,
        }));
        true
    }

    /// Keeps the best of what is left; they stand in order already.
    pub(super) fn give_back(&self, ranked: &Ranked<'_>) {
        let samples = ranked.all();
        let best = &samples[samples.len().saturating_sub(self.places.len())..];
        for ([frame, page, rank], sample) in self.places.iter().zip(best) {
            frame.store(sample.frame.0.into(), Relaxed);
            page.store(sample.page.raw(), Relaxed);
            rank.store(sample.rank.0, Relaxed);
        }
        self.len.store(best.len() as u32, Relaxed);
        self.busy.store(false, Release);
    }
}

/// Whether the sample's page is still in its frame, and nobody holds it.
pub(super) fn is_there(frames: &dyn Frames, sample: &Sample) -> bool {
    sample.frame.0 < frames.count() && frames.evictable(sample.frame) == Some(sample.page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(number: u32, ticks: Tick) -> Sample {
        let page = PageId::from_raw(u64::from(number) + 1000);
        Sample { frame: FrameId(number), page, rank: Rank::wanted_in(ticks, 5), fresh: true }
    }

    fn frames(ranked: &mut Ranked<'_>) -> Vec<u32> {
        core::iter::from_fn(|| ranked.pop()).map(|sample| sample.frame.0).collect()
    }

    #[test]
    fn the_best_stay_and_of_equals_the_first_goes_first() {
        let mut places = [Sample::BLANK; 4];
        let mut ranked = Ranked::new(&mut places);
        for (number, ticks) in [(1, 10), (2, 30), (3, 20), (4, 30), (5, 5), (6, 25), (2, 30)] {
            ranked.put(sample(number, ticks));
        }
        assert_eq!((ranked.bar(4).ticks(5), ranked.bar(2).ticks(5), ranked.bar(5)), (20, 30, Rank::LOWEST));
        assert_eq!(frames(&mut ranked), [2, 4, 6, 3]);
        // What is not wanted goes before what is, the longest unused first.
        for last_use in [90, 20, 70] {
            let rank = Rank::unwanted_since(last_use);
            assert!(rank.is_unwanted() && rank > Rank::wanted_in(Tick::MAX, 100));
            ranked.put(Sample { rank, ..sample(last_use as u32, 0) });
        }
        assert_eq!(frames(&mut ranked), [20, 70, 90]);
    }

    #[test]
    fn what_is_kept_comes_back_once_and_in_order() {
        let kept = Kept::new(3);
        let mut places = [Sample::BLANK; 6];
        let mut ranked = Ranked::new(&mut places);
        assert!(kept.take(&mut ranked), "nobody has them");
        for number in 1..=5 {
            ranked.put(sample(number, u64::from(number)));
        }
        assert!(!kept.take(&mut Ranked::new(&mut [Sample::BLANK; 6])), "another eviction does without");
        kept.give_back(&ranked);
        let mut places = [Sample::BLANK; 6];
        let mut ranked = Ranked::new(&mut places);
        assert!(kept.take(&mut ranked));
        assert!(!ranked.has_fresh(FrameId(5)), "what was kept is to be looked at again");
        // Looked at again, 4 is wanted soon.
        ranked.put(sample(4, 1));
        assert_eq!(frames(&mut ranked), [5, 3, 4]);
    }
}
