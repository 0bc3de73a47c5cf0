//! The first requests of a pool, in which no reuse can have been learned: what came first stays.
//!
//! Source: Jiang, Zhang, "LIRS" (SIGMETRICS 2002), section 3, told by samples and without a stack.
//! Hot pages (LIR there) hold all frames but a hundredth, through which the others pass first in,
//! first out. A page becomes hot if it is used again and its last use was not before `bottom`, the
//! last use of the oldest hot page. Then the oldest hot page is one too many.
//!
//! Deviations: the oldest hot page is the oldest of an eviction's candidates. `bottom` moves only
//! when a page loses its rank. If the page at the queue's front has become hot, an older one must
//! go. It ends after [`REQUESTS`] requests a frame, for good.
//!
//! Cost: an arrival is two writes, a front up to 8 reads. Bytes: 16 for each hundred frames.
//! Concurrency: an arrival is two relaxed words. A torn one is passed over, or a time is a little
//! off.

use super::order::Order;
use crate::policy::Frames;
use crate::random::hash;
use crate::{FrameId, PageId, Tick};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Requests for each frame until the warm-up is over.
const REQUESTS: u64 = 8;
/// One frame in so many is for pages that are not hot; LIRS has 1 %.
const FRAMES_PER_ARRIVAL: u32 = 100;
/// Arrivals at the front that are looked at, in case their pages have left already.
const FRONT: u64 = 8;
const NOBODY: u64 = u64::MAX;

#[derive(Debug)]
struct Arrival {
    /// A page's hash in the upper half, its frame in the lower.
    what: AtomicU64,
    when: AtomicU64,
}

fn what(frame: FrameId, page: PageId) -> u64 {
    hash(page.raw()) << 32 | u64::from(frame.0)
}

/// The pages that came in last, in their order, and from when on a used page is hot.
///
/// Invariant (I1): `in_use` is at least 1 and at most the number of arrivals.
#[derive(Debug)]
pub(super) struct WarmUp {
    arrivals: Vec<Arrival>,
    in_use: AtomicU32,
    came: AtomicU64,
    bottom: AtomicU64,
    /// An eviction has been made: new pages are not hot any more.
    full: AtomicBool,
    over: AtomicBool,
}

/// The page that came in first of those in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front {
    /// Its frame, if it is not hot: the victim.
    pub(super) cold: Option<FrameId>,
    /// When it came in. A page that is not hot and not used since has left the queue.
    since: Tick,
}

fn arrivals(frames: u32) -> u32 {
    (frames / FRAMES_PER_ARRIVAL).max(1)
}

impl WarmUp {
    pub(super) fn new(frames: u32) -> Self {
        let nobody = || Arrival { what: AtomicU64::new(NOBODY), when: AtomicU64::new(0) };
        Self {
            arrivals: (0..arrivals(frames)).map(|_| nobody()).collect(),
            in_use: AtomicU32::new(arrivals(frames)),
            came: AtomicU64::new(0),
            bottom: AtomicU64::new(0),
            full: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    pub(super) fn resize(&self, frames: u32) {
        self.in_use.store(arrivals(frames).min(self.arrivals.len() as u32), Relaxed);
    }

    /// A pool of `frames` frames has had so many requests.
    #[inline]
    pub(super) fn had(&self, requests: u64, frames: u32) {
        if requests >= REQUESTS * u64::from(frames) {
            self.over.store(true, Relaxed);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Whether a page that is used now, and was at `last` before, becomes hot.
    #[inline]
    pub(super) fn is_hot_after(&self, last: Tick) -> bool {
        last >= self.bottom.load(Relaxed)
    }

    /// Whether a page is hot that is used for the first time.
    pub(super) fn has_room(&self) -> bool {
        !self.full.load(Relaxed)
    }

    pub(super) fn came_in(&self, frame: FrameId, page: PageId, at: Tick) {
        let slot = self.came.fetch_add(1, Relaxed) % u64::from(self.in_use.load(Relaxed));
        let slot = &self.arrivals[slot as usize];
        slot.what.store(what(frame, page), Relaxed);
        slot.when.store(at, Relaxed);
    }

    /// The front of the queue, now that a page must go.
    pub(super) fn front(&self, frames: &dyn Frames, is_hot: impl Fn(FrameId) -> bool) -> Front {
        self.full.store(true, Relaxed);
        let (came, in_use) = (self.came.load(Relaxed), u64::from(self.in_use.load(Relaxed)));
        let mut since = 0;
        for slot in (0..in_use.min(FRONT)).map(|i| &self.arrivals[((came + i) % in_use) as usize]) {
            let known = slot.what.load(Relaxed);
            let frame = FrameId(known as u32);
            if known == NOBODY || frame.0 >= frames.count() {
                continue;
            }
            since = slot.when.load(Relaxed);
            if frames.evictable(frame).is_some_and(|page| what(frame, page) == known) {
                return Front { cold: (!is_hot(frame)).then_some(frame), since };
            }
        }
        Front { cold: None, since }
    }

    /// The oldest hot page that was found, used at `last`, is not hot any more.
    pub(super) fn demoted(&self, last: Tick) {
        self.bottom.store(last, Relaxed);
    }
}

impl Front {
    /// The order of a page that was used outside scans, last at `last`, and that no scan wants. A
    /// hot page is worth its age, for it may be used again in as much time.
    #[inline]
    pub(super) fn order(&self, frame: FrameId, is_hot: bool, last: Tick, unused: f32) -> Order {
        match is_hot {
            _ if self.cold == Some(frame) => Order::Tried { unused: f32::MAX },
            true => Order::In(unused),
            false if last < self.since => Order::Tried { unused },
            false => Order::LAST,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_for_good_and_by_requests_alone() {
        let warm_up = WarmUp::new(100);
        warm_up.had(799, 100);
        assert!(!warm_up.is_over());
        warm_up.had(800, 100);
        warm_up.had(801, 1000);
        assert!(warm_up.is_over(), "a pool that grows does not forget what it learned");
    }

    #[test]
    fn a_page_is_hot_after_a_use_that_is_younger_than_the_oldest_hot_page() {
        let warm_up = WarmUp::new(100);
        assert!(warm_up.is_hot_after(0), "at first everything is");
        warm_up.demoted(40);
        assert!(!warm_up.is_hot_after(39) && warm_up.is_hot_after(40));
    }

    #[test]
    fn what_left_the_queue_goes_first_and_what_is_in_it_last() {
        let front = Front { cold: Some(FrameId(3)), since: 50 };
        let order = |frame, is_hot, last: Tick| front.order(FrameId(frame), is_hot, last, (100 - last) as f32);
        let orders = [order(1, false, 60), order(4, true, 40), order(5, true, 10), order(2, false, 45)];
        assert!(orders.is_sorted_by(|a, b| a < b), "{orders:?}");
        assert!(order(3, false, 50) > orders[3], "the front itself before all");
    }
}
