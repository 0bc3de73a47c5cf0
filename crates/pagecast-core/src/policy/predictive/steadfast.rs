//! The second estimate: what came first stays, and only a reuse at a shorter distance takes its place.
//!
//! Jiang, Zhang, "LIRS" (SIGMETRICS 2002), section 3, told by samples and without a stack. Hot pages (LIR there) hold all
//! frames but a hundredth; others pass through that hundredth first in, first out, and go. A page that is used again after
//! `bottom`, the time of the last use of the oldest hot page, becomes hot, and then the oldest hot page is one too many.
//!
//! Deviations: the oldest hot page is the oldest of an eviction's candidates. `bottom` is learned when one loses its rank,
//! and not lowered when the page at the bottom is used. Who becomes hot is counted nowhere: the queue of arrivals tells. If
//! the page at its front has become hot, an older one must go.
//!
//! When the pool comes back to this estimate from the other one, what it holds then is what came first: all pages there are hot, as
//! after the first filling. Without that, most frames would go to pages that pass through, and the rest would be what the other
//! estimate happened to leave.
//!
//! Suits what is over before reuse can be learned, and loops. Weak where pages die young or the working set moves.
//!
//! Cost: an arrival is two writes, a front up to 8 reads. Bytes: 16 for each hundred frames.
//!
//! Concurrency: an arrival is two words, read and written relaxed; a torn one names a page that is not in its frame and is
//! passed over, or gives a time a little off.

use crate::policy::Frames;
use crate::random::hash;
use crate::{FrameId, PageId, Tick};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// One frame in so many is for pages that are not hot; LIRS has 1 %.
const FRAMES_PER_ARRIVAL: u32 = 100;
/// Arrivals at the front that are looked at, in case their pages have left already.
const FRONT: u64 = 8;
const NOBODY: u64 = u64::MAX;

#[derive(Debug)]
struct Arrival {
    /// A page's hash in the upper half, its frame in the lower.
    who: AtomicU64,
    when: AtomicU64,
}

fn who(frame: FrameId, page: PageId) -> u64 {
    hash(page.raw()) << 32 | u64::from(frame.0)
}

/// The pages that came in last, in their order, and who is hot.
///
/// Invariant (I1): `in_use` is at least 1 and at most the number of arrivals.
#[derive(Debug)]
pub(super) struct Steadfast {
    arrivals: Vec<Arrival>,
    in_use: AtomicU32,
    came: AtomicU64,
    bottom: AtomicU64,
    /// Pages that were used before and not since became hot then, if they were above the bottom.
    settled: AtomicU64,
    /// An eviction has been made: new pages are not hot any more.
    full: AtomicBool,
}

/// The page that came in first of those in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front {
    /// Its frame, if it is not hot: the victim.
    pub(super) cold: Option<FrameId>,
    /// When it came in. Pages that are not hot and not used since are none of the queue's, and one too many.
    pub(super) since: Tick,
}

fn arrivals(frames: u32) -> u32 {
    (frames / FRAMES_PER_ARRIVAL).max(1)
}

impl Steadfast {
    pub(super) fn new(frames: u32) -> Self {
        let nobody = || Arrival { who: AtomicU64::new(NOBODY), when: AtomicU64::new(0) };
        Self {
            arrivals: (0..arrivals(frames)).map(|_| nobody()).collect(),
            in_use: AtomicU32::new(arrivals(frames)),
            came: AtomicU64::new(0),
            bottom: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            full: AtomicBool::new(false),
        }
    }

    pub(super) fn resize(&self, frames: u32) {
        self.in_use.store(arrivals(frames).min(self.arrivals.len() as u32), Relaxed);
    }

    /// Whether a page that is used now, and was at `last` before, becomes hot.
    #[inline]
    pub(super) fn is_hot_after(&self, last: Tick) -> bool {
        last >= self.bottom.load(Relaxed)
    }

    /// The pages that are there at `at` are what came first.
    pub(super) fn settle(&self, at: Tick) {
        self.bottom.store(0, Relaxed);
        self.settled.store(at, Relaxed);
    }

    /// Whether a resident page that was used at `last` is hot for having been there when the pool settled.
    #[inline]
    pub(super) fn was_there(&self, last: Tick) -> bool {
        last < self.settled.load(Relaxed) && last > self.bottom.load(Relaxed)
    }

    /// Whether a page is hot that nobody remembers.
    pub(super) fn has_room(&self) -> bool {
        !self.full.load(Relaxed)
    }

    pub(super) fn came_in(&self, frame: FrameId, page: PageId, at: Tick) {
        let at_slot = self.came.fetch_add(1, Relaxed) % u64::from(self.in_use.load(Relaxed));
        let slot = &self.arrivals[at_slot as usize];
        slot.who.store(who(frame, page), Relaxed);
        slot.when.store(at, Relaxed);
    }

    /// The front of the queue, now that a page must go.
    pub(super) fn front(&self, frames: &dyn Frames, is_hot: impl Fn(FrameId) -> bool) -> Front {
        self.full.store(true, Relaxed);
        let (came, in_use) = (self.came.load(Relaxed), u64::from(self.in_use.load(Relaxed)));
        let mut since = 0;
        for slot in (0..in_use.min(FRONT)).map(|i| &self.arrivals[((came + i) % in_use) as usize]) {
            let known = slot.who.load(Relaxed);
            let frame = FrameId(known as u32);
            if known == NOBODY || frame.0 >= frames.count() {
                continue;
            }
            since = slot.when.load(Relaxed);
            if frames.evictable(frame).is_some_and(|page| who(frame, page) == known) {
                return Front { cold: (!is_hot(frame)).then_some(frame), since };
            }
        }
        Front { cold: None, since }
    }

    /// What it costs to hold a page that no scan wants: for a hot one its age, for it may be used again in as much time.
    #[inline]
    pub(super) fn cost(front: &Front, frame: FrameId, is_hot: bool, last: Tick, at: Tick) -> f32 {
        let age = at.saturating_sub(last).max(1) as f32;
        match is_hot {
            _ if front.cold == Some(frame) => f32::MAX,
            true => age,
            // More than any hot page, and still finite.
            false if last < front.since => age * 1e18,
            false => 0.0,
        }
    }

    /// The oldest hot page that could be found, used at `last`, is not hot any more.
    pub(super) fn demoted(&self, last: Tick) {
        self.bottom.store(last, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_when_the_pool_settles_is_hot_until_the_bottom_passes_it() {
        let steadfast = Steadfast::new(100);
        steadfast.demoted(40);
        assert!(!steadfast.was_there(30) && !steadfast.was_there(50), "it has always been steadfast");
        steadfast.settle(60);
        assert!(steadfast.was_there(30) && steadfast.was_there(50));
        assert!(!steadfast.was_there(60), "came in later");
        steadfast.demoted(30);
        assert!(!steadfast.was_there(30) && steadfast.was_there(50), "the oldest is one too many");
    }
}
