//! Frames that are worth looking at again: the best of what earlier evictions saw and did not
//! need, and the last to come in.
//!
//! What is kept remembers the moment at which scans want the page. So the next eviction asks the
//! oracle only about the one that would go.
//!
//! Concurrency: a slot is four words. An eviction takes the slots, so that two at once look at
//! different frames. What they store over each other is lost or mixed up, and found again by
//! sampling. Relaxed: a slot is a hint, the claim decides.

use super::order::Order;
use crate::policy::ranked::{self, Looked};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::{FrameId, PageId, Tick};

/// Candidates kept from one eviction to the next.
const KEPT: usize = 8;
/// Candidates that are ranked in one eviction: those that may be kept, and the victim.
pub(super) const RANKED: usize = KEPT + 1;
/// Frames that came in last.
const LATEST: usize = 4;
const NONE: u32 = u32::MAX;
/// As the moment at which a page is wanted: no scan wants it.
pub(super) const NEVER: Tick = Tick::MAX;

/// A frame, the page that was seen in it, and when it may go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) frame: FrameId,
    pub(super) page: PageId,
    pub(super) order: Order,
    /// When scans want it, or [`NEVER`], and when it was used last.
    pub(super) wanted_at: Tick,
    pub(super) last: Tick,
    /// Whether the oracle was asked in this eviction, and not in an earlier one that kept the page.
    pub(super) fresh: bool,
}

impl Candidate {
    pub(super) const BLANK: Self = Self {
        frame: FrameId(0),
        page: PageId::from_raw(0),
        order: Order::LAST,
        wanted_at: NEVER,
        last: 0,
        fresh: true,
    };
}

impl Looked for Candidate {
    type Rank = Order;

    const LOWEST: Order = Order::LAST;

    fn frame(&self) -> FrameId {
        self.frame
    }

    fn rank(&self) -> Order {
        self.order
    }

    fn is_fresh(&self) -> bool {
        self.fresh
    }
}

/// The candidates that go first, the first of them last.
pub(super) type Ranked<'a> = ranked::Ranked<'a, Candidate>;

#[derive(Debug)]
struct Slot {
    frame: AtomicU32,
    page: AtomicU64,
    wanted_at: AtomicU64,
    last: AtomicU64,
}

/// What one eviction leaves to the next.
#[derive(Debug)]
pub(super) struct Kept {
    seen: [Slot; KEPT],
    latest: [AtomicU32; LATEST],
    cursor: AtomicU32,
}

impl Kept {
    pub(super) fn new() -> Self {
        let none = || AtomicU32::new(NONE);
        let word = || AtomicU64::new(0);
        let slot = || Slot { frame: none(), page: word(), wanted_at: word(), last: word() };
        Self {
            seen: core::array::from_fn(|_| slot()),
            latest: core::array::from_fn(|_| none()),
            cursor: AtomicU32::new(0),
        }
    }

    /// Notes that a page came into `frame`.
    pub(super) fn came_in(&self, frame: FrameId) {
        let at = self.cursor.fetch_add(1, Relaxed) as usize % LATEST;
        self.latest[at].store(frame.0, Relaxed);
    }

    /// The frames that came in last.
    pub(super) fn latest(&self) -> impl Iterator<Item = FrameId> + '_ {
        self.latest.iter().map(|slot| slot.load(Relaxed)).filter(|&frame| frame != NONE).map(FrameId)
    }

    /// What was kept, the first to go first, as it was judged then but without its order. Each is
    /// handed out once.
    pub(super) fn take(&self) -> impl Iterator<Item = Candidate> + '_ {
        // Backwards: of equals the first put goes first, and so they stay as they were.
        self.seen.iter().rev().filter_map(|slot| {
            let frame = slot.frame.swap(NONE, Relaxed);
            (frame != NONE).then(|| Candidate {
                frame: FrameId(frame),
                page: PageId::from_raw(slot.page.load(Relaxed)),
                order: Order::LAST,
                wanted_at: slot.wanted_at.load(Relaxed),
                last: slot.last.load(Relaxed),
                fresh: false,
            })
        })
    }

    /// Keeps what is left of `ranked`, but for the victim.
    pub(super) fn keep(&self, ranked: &Ranked<'_>, victim: Option<FrameId>) {
        let left = ranked.all().iter().filter(|candidate| Some(candidate.frame) != victim);
        for (slot, candidate) in self.seen.iter().zip(left) {
            slot.page.store(candidate.page.raw(), Relaxed);
            slot.wanted_at.store(candidate.wanted_at, Relaxed);
            slot.last.store(candidate.last, Relaxed);
            slot.frame.store(candidate.frame.0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_first_to_go_are_kept_in_order() {
        let mut places = [Candidate::BLANK; RANKED];
        let mut ranked = Ranked::new(&mut places);
        let numbers: Vec<u32> = (0..100).map(|i| i * 37 % 100).collect();
        for &number in numbers.iter().chain(&numbers) {
            let page = PageId::from_raw(u64::from(number));
            let (frame, order) = (FrameId(number), Order::In((number / 2) as f32));
            ranked.put(Candidate { frame, page, order, wanted_at: 7, last: 3, fresh: true });
        }
        let kept = Kept::new();
        let first = ranked.pop().map(|candidate| candidate.order);
        assert_eq!(first, Some(Order::In(49.0)));
        kept.keep(&ranked, None);
        let frames: Vec<u32> = kept.take().map(|candidate| candidate.frame.0).collect();
        assert_eq!(frames.len(), KEPT);
        assert!(frames.iter().all(|&frame| frame >= 100 - KEPT as u32 - 2), "{frames:?}");
        assert_eq!(kept.take().count(), 0, "each is handed out once");
    }

    #[test]
    fn a_new_judgement_takes_the_place_of_an_older_one() {
        let mut places = [Candidate::BLANK; RANKED];
        let mut ranked = Ranked::new(&mut places);
        let judged = |frame, ticks, fresh| {
            let (frame, order) = (FrameId(frame), Order::In(ticks));
            Candidate { frame, order, fresh, ..Candidate::BLANK }
        };
        ranked.put(judged(1, 30.0, false));
        ranked.put(judged(2, 20.0, true));
        ranked.put(judged(1, 10.0, true));
        ranked.put(judged(2, 40.0, true));
        assert_eq!(ranked.bar(RANKED), Order::LAST, "there is room for all");
        let order: Vec<_> = core::iter::from_fn(|| ranked.pop()).map(|it| (it.frame.0, it.order)).collect();
        assert_eq!(order, [(2, Order::In(20.0)), (1, Order::In(10.0))]);
    }
}
