//! Replacement policies: who leaves when a page must come in and no frame is free.
//!
//! Two traits, because the field has two kinds. A [`ConcurrentPolicy`] works through `&self`: its
//! hit is nothing or one atomic in the frame's own header line, and victims are chosen in parallel.
//! A [`SequentialPolicy`] keeps ordered lists and works through `&mut self`; [`BpWrapper`] makes it
//! concurrent. If its hit only marks its frame (CAR, CLOCK-Pro, LeanEvict, S3-FIFO, SIEVE), the
//! mark is in the frame's word, and the policy declares so: a hit then takes no lock.
//!
//! A policy proposes candidates, and the owner of the frames *claims* one for it, so that no victim
//! is looked at first and taken later. What a policy remembers of a resident page it keeps by frame
//! index; what it remembers of a page that left (a ghost) it keeps by page id.
//!
//! The order of calls, for one frame: `admit`, any number of `hit`, then either a claim inside
//! `evict` that was answered with a [`Claimed`], or `forget`. After a claim the policy has dropped
//! the frame: no `forget` follows.

mod adaptive;
pub mod belady;
#[cfg(feature = "std")]
mod bp_wrapper;
mod catalog;
mod clock;
mod coarse_clock;
mod flash;
mod frequency;
mod ghosts;
mod heap;
mod hit_queue;
mod hit_ring;
mod list;
mod mark;
mod page_index;
mod parameters;
mod pbm_pq;
mod predictive;
mod queues;
mod ranked;
mod recency;
mod sampling;
mod spec;

pub use adaptive::{Arc, Lirs, TwoQueue};
pub use belady::{Belady, NextUses};
#[cfg(feature = "std")]
pub use bp_wrapper::BpWrapper;
pub use catalog::names;
pub use clock::{Car, ClockPro, ClockSweep, SecondTouchClock};
pub use coarse_clock::CoarseClock;
pub use flash::{AdLru, CcfLru, Cfdc, Cflru};
pub use frequency::{Lfu, Lrfu, WTinyLfu};
pub use hit_queue::{Batching, Due, HitQueue, LockCounts, Metadata};
pub(crate) use page_index::PageIndex;
pub use parameters::PolicyError;
pub use pbm_pq::{PbmPq, PqOptions, PqVersion};
pub use predictive::Predictive;
pub(crate) use predictive::{Ghosts, History, WAYS};
pub use queues::{S3Fifo, Sieve};
pub use recency::{Fifo, Lru, LruK, MAX_K, TwoPriorityLru};
pub use sampling::{
    ALL, Frequency, Hyperbolic, LeanEvict, MAX_BULK, MAX_SAMPLES, PublishedOptions, PublishedSampling, RandomChoice,
    Watt,
};
pub use spec::PolicySpec;

use crate::oracle::{Oracle, Question};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::{FrameId, PageId, ScanId, Tick};
use alloc::boxed::Box;

/// The part `share` of `frames`, rounded down, but one at least.
fn part(frames: u32, share: f64) -> u32 {
    ((f64::from(frames) * share) as u32).max(1)
}

/// One request for a page, as a policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The page that is asked for.
    pub page: PageId,
    /// The registered scan that asks, if one does.
    pub scan: Option<ScanId>,
    /// Whether the page will be written.
    pub write: bool,
    /// When, in the owner's unit: nanoseconds in a pool, the request's index from 0 in a replay. A
    /// pool may hand in a hit with the time of the first hit of its session's batch, so that not
    /// every hit reads the clock.
    pub at: Tick,
}

/// A frame that was claimed: it belongs to whoever has this, and its page is gone from the page
/// table.
///
/// [`Frames::claim`] makes it, the policy returns it from `evict`, and the owner of the frames
/// takes it back. It is not copied, so that one claim gives one frame.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a claimed frame that is dropped is lost to its owner"]
pub struct Claimed(FrameId);

impl Claimed {
    /// For the owner of the frames, in [`Frames::claim`]: the frame is now nobody else's.
    #[inline]
    pub fn new(frame: FrameId) -> Self {
        Self(frame)
    }

    /// Which frame it is.
    #[inline]
    pub fn frame(&self) -> FrameId {
        self.0
    }
}

/// Why a claim was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Somebody uses the frame (a pin, a load in progress), or it holds another page than the one
    /// proposed.
    Pinned,
    /// The page must be written before it can leave. The owner has been told to see to it.
    Dirty,
}

/// The frames, as their owner (the pool, a replay) shows them to a policy.
pub trait Frames {
    /// How many frames there are to look at. It changes after the owner was resized
    /// ([`ConcurrentPolicy::resize`]), also later; a call that uses it twice asks once. Some of
    /// them may be out of use and hold nothing.
    fn count(&self) -> u32;

    /// How many of them may hold a page at this moment, 1 at least. The owner may use the others
    /// for something else: the more of them, the more frames are drawn to find so many pages.
    fn page_frames(&self) -> u32 {
        self.count().max(1)
    }

    /// The 8 bytes of the frame's header line that are the policy's own. 0 when a page is admitted.
    fn word(&self, frame: FrameId) -> &AtomicU64;

    /// The page in the frame if it is resident and nobody holds it at this moment; it may be gone
    /// right after.
    fn evictable(&self, frame: FrameId) -> Option<PageId>;

    /// The page in the frame, held or not, if it was admitted and has neither been claimed nor
    /// forgotten; it may be gone right after.
    fn page(&self, frame: FrameId) -> Option<PageId>;

    /// Brings what is at a virtual address into the processor's cache, if the owner knows how: a
    /// hint that may be wrong.
    fn prefetch(&self, _address: usize) {}

    /// Takes the frame if it still holds `page` and nobody holds it.
    ///
    /// # Errors
    ///
    /// Why it cannot be had.
    fn claim(&self, frame: FrameId, page: PageId) -> Result<Claimed, Refusal>;
}

/// Whether a page leaves after all others, whatever the policy: it was brought for a scan before
/// the scan asked for it, nobody has used it since (`unused`), and it is still wanted.
///
/// A scan that has no processor makes no progress, so that its next use looks far to a policy. With
/// 64 streams and a pool of 30 % two of three such pages left before anybody had read them. The
/// owner of the frames refuses their claims while there is another page that can leave.
///
/// Cost: an estimate for each candidate that is unused.
#[inline]
pub fn is_awaited(unused: bool, page: PageId, now: Tick, oracle: &dyn Oracle) -> bool {
    unused && oracle.next_access(Question::new(page, now)).is_some()
}

/// What a policy wants done at a hit, so that the pool can do it without a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HitNeed {
    /// Nothing at all: [`ConcurrentPolicy::hit`] need not be called.
    Nothing,
    /// The frame's word counts hits up to `max`; equal to what [`ConcurrentPolicy::hit`] does.
    Count {
        /// The largest value; at it, a hit writes nothing.
        max: u64,
    },
    /// The frame's word becomes the time of the hit; equal to what [`ConcurrentPolicy::hit`] does.
    Time,
    /// A call of [`ConcurrentPolicy::hit`], which touches little beside what belongs to the frame
    /// and takes no lock.
    Word,
    /// As [`Word`](Self::Word), with the time of a [`CoarseClock`]. Outside scans a hit that is not
    /// later than the time in the frame's word does nothing and need not be told: uses within a
    /// step of the clock are one.
    LaterThanWord,
    /// A call of [`SequentialPolicy::hit`], which keeps an order and has no other caller meanwhile.
    Order,
    /// A place in the session's [`HitQueue`] of this length, and a [`ConcurrentPolicy::commit`]
    /// when it is due. [`ConcurrentPolicy::hit`] works too, but takes a lock each time.
    Queue {
        /// Hits that the queue may hold.
        length: u32,
    },
}

impl HitNeed {
    /// Does in the frame's `word` what a hit needs, if that takes no time, and says whether that
    /// was all: if not, the policy must be called.
    ///
    /// Relaxed, and a load and a store apart: the count publishes no other memory, and what a race
    /// loses is one vote of two hits at the same moment, or of a hand that lowers the count at the
    /// moment of a hit.
    #[inline]
    pub fn is_met_by(self, word: &AtomicU64) -> bool {
        let HitNeed::Count { max } = self else { return self == HitNeed::Nothing };
        let count = word.load(Relaxed);
        if count < max {
            word.store(count + 1, Relaxed);
        }
        true
    }
}

/// A policy whose hits need no lock and whose victims are chosen in parallel.
pub trait ConcurrentPolicy: Send + Sync {
    /// What a hit costs. Constant.
    fn hit_need(&self) -> HitNeed;

    /// `access` found its page in `frame`.
    fn hit(&self, frames: &dyn Frames, frame: FrameId, access: &Access);

    /// Tells the policy of the hits in a session's queue and empties it. If that would have to wait
    /// and `wait` says not to, the queue stays as it is. A session commits before it lets a miss
    /// come in, and at its end. From its first commit on the policy may empty the queue by itself.
    fn commit(&self, _frames: &dyn Frames, _queue: &mut HitQueue, _wait: bool) {}

    /// What its lock has been through; nothing, if it has none.
    fn lock_counts(&self) -> LockCounts {
        LockCounts::default()
    }

    /// Claims a victim to make room for `incoming`. `None` after a bounded search in which nothing
    /// could be claimed.
    fn evict(&self, frames: &dyn Frames, incoming: &Access, oracle: &dyn Oracle) -> Option<Claimed>;

    /// `frame`, claimed before or free, now holds the page of `access`.
    fn admit(&self, frames: &dyn Frames, frame: FrameId, access: &Access);

    /// The page `page` left `frame` other than by eviction (its relation was dropped, say).
    fn forget(&self, frames: &dyn Frames, frame: FrameId, page: PageId);

    /// The page `page`, in `frame` now, was dirty and has been written. It may have become dirty
    /// again meanwhile: a hint. Nothing to do for a policy that does not know dirty pages.
    fn cleaned(&self, _frame: FrameId, _page: PageId) {}

    /// The owner now has `frames` frames, at most as many as the policy was built for: what is a
    /// share of them follows. Called beside hits and evictions. Nothing to do for a policy without
    /// shares.
    fn resize(&self, _frames: u32) {}

    /// From now on a choice looks at `samples` frames, or as near to that as the policy can. False
    /// if it draws none by number. Called beside hits and evictions.
    fn set_samples(&self, _samples: u32) -> bool {
        false
    }
}

/// A policy that keeps an order and is used by one thread at a time.
pub trait SequentialPolicy: Send {
    /// What a hit costs. Constant. A policy that keeps its marks in the frames' words says so here
    /// and lets `hit` be; its marks then change at any time, also while it is called.
    fn hit_need(&self) -> HitNeed {
        HitNeed::Order
    }

    /// `access` found its page in `frame`. Called if [`SequentialPolicy::hit_need`] is not met by
    /// the frame's word.
    fn hit(&mut self, frame: FrameId, access: &Access) {
        let _ = (frame, access);
    }

    /// Claims a victim to make room for `incoming`. `None` after a bounded number of proposals. A
    /// page that is refused keeps its place in the order.
    fn evict(&mut self, frames: &dyn Frames, incoming: &Access, oracle: &dyn Oracle) -> Option<Claimed>;

    /// `frame`, claimed before or free, now holds the page of `access`.
    fn admit(&mut self, frames: &dyn Frames, frame: FrameId, access: &Access);

    /// The page `page` left `frame` other than by eviction.
    fn forget(&mut self, frame: FrameId, page: PageId);

    /// Where it keeps what a hit touches first, so that it can be prefetched; `None` if that is not
    /// by frame.
    fn metadata(&self) -> Option<Metadata> {
        None
    }

    /// The page `page`, in `frame` now, was dirty and has been written. It may have become dirty
    /// again meanwhile: a hint. Nothing to do for a policy that does not know dirty pages.
    fn cleaned(&mut self, _frame: FrameId, _page: PageId) {}

    /// The owner now has `frames` frames, at most as many as the policy was built for: what is a
    /// share of them follows, ghosts at once, resident pages as far as they can without leaving.
    /// Nothing to do for a policy without shares.
    fn resize(&mut self, _frames: u32) {}

    /// Panics if an invariant of the policy's own structures is broken. For tests; may cost
    /// O(frames).
    fn check(&self);
}

impl<P: SequentialPolicy + ?Sized> SequentialPolicy for Box<P> {
    fn hit_need(&self) -> HitNeed {
        (**self).hit_need()
    }

    fn hit(&mut self, frame: FrameId, access: &Access) {
        (**self).hit(frame, access);
    }

    fn evict(&mut self, frames: &dyn Frames, incoming: &Access, oracle: &dyn Oracle) -> Option<Claimed> {
        (**self).evict(frames, incoming, oracle)
    }

    fn admit(&mut self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        (**self).admit(frames, frame, access);
    }

    fn forget(&mut self, frame: FrameId, page: PageId) {
        (**self).forget(frame, page);
    }

    fn metadata(&self) -> Option<Metadata> {
        (**self).metadata()
    }

    fn cleaned(&mut self, frame: FrameId, page: PageId) {
        (**self).cleaned(frame, page);
    }

    fn resize(&mut self, frames: u32) {
        (**self).resize(frames);
    }

    fn check(&self) {
        (**self).check();
    }
}

/// Receives a policy with its own type, so that a replay is compiled for it and its hits cost no
/// virtual call.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// The policy is concurrent.
    fn concurrent<P: ConcurrentPolicy + 'static>(self, policy: P) -> Self::Output;

    /// The policy is sequential.
    fn sequential<P: SequentialPolicy + 'static>(self, policy: P) -> Self::Output;
}

/// A policy of either kind, as [`PolicySpec::build`] makes it.
pub enum Policy {
    /// Hits and victims in parallel.
    Concurrent(Box<dyn ConcurrentPolicy>),
    /// One caller at a time.
    Sequential(Box<dyn SequentialPolicy>),
}

#[cfg(feature = "std")]
impl Policy {
    /// The policy for use by many threads; a sequential one goes behind a lock, which hits reach as
    /// `batching` says.
    pub fn into_concurrent(self, batching: Batching) -> Box<dyn ConcurrentPolicy> {
        match self {
            Policy::Concurrent(policy) => policy,
            Policy::Sequential(policy) => Box::new(BpWrapper::new(policy, batching)),
        }
    }
}
