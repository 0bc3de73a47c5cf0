//! BP-Wrapper: any sequential policy for many sessions, with one hold of the lock for many hits.
//!
//! Source: Ding, Jiang, Zhang, "BP-Wrapper: A system framework making any replacement algorithms
//! (almost) lock contention free" (ICDE 2009). A session queues its hits and applies a whole queue
//! in one hold of the lock. From half a queue on it tries the lock without waiting. What the policy
//! keeps of the queued frames is prefetched before.
//!
//! Deviations: a queued hit counts only if its frame still has the page. A miss applies the queue
//! in a hold before its eviction's, for it may need no eviction. Whoever has the lock applies up to
//! 16 queues of other sessions too, by the times of the hits, unless nothing but hits came for
//! long. Claims run under the lock: a frame leaves the page table and the order in one step. The
//! owner of the frames prefetches ([`Frames::prefetch`]), by an instruction that is unsafe to use.
//!
//! Cost: a hit is 32 bytes in the session's own memory, and 1/32 to 1/64 of a lock hold. 16 bytes
//! per frame, 2 KiB per session with a queue of 64.

use super::hit_ring::HitRing;
use super::{
    Access, Batching, Claimed, ConcurrentPolicy, Frames, HitNeed, HitQueue, LockCounts, Metadata, SequentialPolicy,
};
use crate::sync::{Mutex, MutexGuard, TryLockError};
use crate::{FrameId, PageId, oracle::Oracle};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Queues that are emptied in one hold of the lock, beside the session's own.
const QUEUES_PER_HOLD: usize = 16;

/// Hits without an admission between them after which the order between sessions is let go.
const HITS_ONLY: u64 = 1 << 16;

/// A sequential policy as a concurrent one.
///
/// Invariants:
/// * (I1) Under the lock, `pages` has the page of each frame that the policy holds, and of no
///   other, if hits are queued.
/// * (I2) Whoever waits for the lock holds no other lock that a claim may want.
///
/// ```
/// use pagecast_core::policy::{Batching, BpWrapper, ConcurrentPolicy, HitNeed, Lru};
///
/// let shared = BpWrapper::new(Lru::new(1024), Batching::default());
/// assert_eq!(shared.hit_need(), HitNeed::Queue { length: 64 });
/// ```
#[derive(Debug)]
pub struct BpWrapper<P> {
    guarded: Mutex<Guarded<P>>,
    batching: Batching,
    /// The policy's, so that nobody takes the lock to ask, or for a hit that its frame's word is
    /// enough for.
    need: HitNeed,
    metadata: Option<Metadata>,
}

/// What the lock guards. The counts are in it because whoever has it may write them without another
/// cache line.
#[derive(Debug)]
struct Guarded<P> {
    policy: P,
    counts: LockCounts,
    queues: Queues,
    /// By frame (I1).
    pages: Vec<Option<PageId>>,
    /// Hits that were applied since a page came in.
    hits_since_admission: u64,
}

/// The sessions' rings. One that nobody else holds is a session's that ended.
#[derive(Debug, Default)]
struct Queues {
    rings: Vec<Arc<HitRing>>,
    /// Whose turn it is to be emptied first.
    next: usize,
    /// Hits of several rings while they are put in order; empty between two calls.
    gathered: Vec<(FrameId, Access)>,
}

impl Queues {
    /// Adds a session's. Before there is a need for more memory those that ended go.
    fn enter(&mut self, ring: &Arc<HitRing>) {
        if self.rings.len() == self.rings.capacity() {
            self.rings.retain(|ring| Arc::strong_count(ring) > 1 || ring.len() > 0);
        }
        self.rings.push(ring.clone());
    }
}

const NOT_POISONED: &str = "the lock is poisoned only by a panic inside a policy, which is a bug there";

impl<P: SequentialPolicy> BpWrapper<P> {
    /// Puts `policy` behind a lock of its own.
    pub fn new(policy: P, batching: Batching) -> Self {
        let metadata = policy.metadata().filter(|_| batching.prefetch);
        let need = policy.hit_need();
        let guarded = Guarded {
            policy,
            counts: LockCounts::default(),
            queues: Queues::default(),
            pages: Vec::new(),
            hits_since_admission: 0,
        };
        Self { guarded: Mutex::new(guarded), batching, need, metadata }
    }

    /// [`SequentialPolicy::check`] of the policy inside.
    pub fn check(&self) {
        self.lock().policy.check();
    }

    fn lock(&self) -> MutexGuard<'_, Guarded<P>> {
        if let Some(guarded) = self.try_lock() {
            return guarded;
        }
        let mut guarded = self.guarded.lock().expect(NOT_POISONED);
        guarded.counts.acquisitions += 1;
        guarded.counts.blocked += 1;
        guarded
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Guarded<P>>> {
        match self.guarded.try_lock() {
            Ok(mut guarded) => {
                guarded.counts.acquisitions += 1;
                Some(guarded)
            }
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => panic!("{NOT_POISONED}"),
        }
    }

    #[inline]
    fn prefetch(&self, frames: &dyn Frames, frame: FrameId) {
        if let Some(metadata) = self.metadata {
            frames.prefetch(metadata.address(frame));
        }
    }
}

impl<P: SequentialPolicy> Guarded<P> {
    /// Tells the policy of a hit that waited.
    fn apply(&mut self, frame: FrameId, access: &Access) {
        // The session has given its pin back since: the frame may be free, or another page's (I1).
        if self.pages.get(frame.index()) == Some(&Some(access.page)) {
            self.policy.hit(frame, access);
            self.counts.applied += 1;
            self.hits_since_admission += 1;
        } else {
            self.counts.dropped += 1;
        }
    }

    /// Notes which page, if any, the policy now holds in a frame (I1); takes memory for no more
    /// than there are.
    fn set_page(&mut self, frames: &dyn Frames, frame: FrameId, page: Option<PageId>) {
        if self.policy.hit_need() != HitNeed::Order {
            return;
        }
        if self.pages.len() <= frame.index() {
            let places = (frames.count() as usize).max(frame.index() + 1);
            self.pages.reserve_exact(places - self.pages.len());
            self.pages.resize(places, None);
        }
        self.pages[frame.index()] = page;
    }

    /// Applies what waits in `own` and in some of the other queues, by the hits' times, and in all
    /// of them after a few calls.
    fn apply_queues(&mut self, own: Option<&HitRing>) {
        let Queues { rings, next, gathered } = &mut self.queues;
        if let Some(ring) = own {
            ring.tell(|frame, access| gathered.push((frame, *access)));
        }
        for _ in 0..rings.len().min(QUEUES_PER_HOLD) {
            *next = (*next + 1) % rings.len();
            rings[*next].tell(|frame, access| gathered.push((frame, *access)));
        }
        // Stable: of hits with one time each session's keep their order.
        gathered.sort_by_key(|(_, access)| access.at);
        let mut gathered = core::mem::take(gathered);
        gathered.drain(..).for_each(|(frame, access)| self.apply(frame, &access));
        self.queues.gathered = gathered;
    }
}

impl<P: SequentialPolicy> ConcurrentPolicy for BpWrapper<P> {
    fn hit_need(&self) -> HitNeed {
        match self.need {
            HitNeed::Order => HitNeed::Queue { length: self.batching.length() },
            need => need,
        }
    }

    /// At once, past all queues. The caller holds the page, so that it is still in the frame.
    fn hit(&self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        if !self.need.is_met_by(frames.word(frame)) {
            self.prefetch(frames, frame);
            self.lock().policy.hit(frame, access);
        }
    }

    fn commit(&self, frames: &dyn Frames, queue: &mut HitQueue, wait: bool) {
        if queue.is_known && queue.is_empty() {
            return;
        }
        queue.make_ring(self.batching.length());
        let HitQueue { ring: Some(ring), is_known, prefetched, failed_tries, .. } = queue else { return };
        // What earlier tries have fetched is there still, or somebody has written to it since and
        // will again.
        ring.frames_after(*prefetched).for_each(|frame| self.prefetch(frames, frame));
        *prefetched = ring.noted();
        let guarded = if wait { Some(self.lock()) } else { self.try_lock() };
        let Some(mut guarded) = guarded else {
            *failed_tries += 1;
            return;
        };
        guarded.counts.failed_tries += core::mem::take(failed_tries);
        if !core::mem::replace(is_known, true) {
            guarded.queues.enter(ring);
        }
        if guarded.hits_since_admission > HITS_ONLY {
            ring.tell(|frame, access| guarded.apply(frame, access));
        } else {
            guarded.apply_queues(Some(ring));
        }
    }

    fn lock_counts(&self) -> LockCounts {
        // Not through `lock`: to look is no use of the policy.
        self.guarded.lock().expect(NOT_POISONED).counts
    }

    fn evict(&self, frames: &dyn Frames, incoming: &Access, oracle: &dyn Oracle) -> Option<Claimed> {
        let mut guarded = self.lock();
        guarded.apply_queues(None);
        let victim = guarded.policy.evict(frames, incoming, oracle)?;
        guarded.set_page(frames, victim.frame(), None);
        Some(victim)
    }

    fn admit(&self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.prefetch(frames, frame);
        let mut guarded = self.lock();
        guarded.apply_queues(None);
        guarded.policy.admit(frames, frame, access);
        guarded.set_page(frames, frame, Some(access.page));
        guarded.hits_since_admission = 0;
    }

    fn forget(&self, frames: &dyn Frames, frame: FrameId, page: PageId) {
        let mut guarded = self.lock();
        guarded.policy.forget(frame, page);
        guarded.set_page(frames, frame, None);
    }

    fn cleaned(&self, frame: FrameId, page: PageId) {
        self.lock().policy.cleaned(frame, page);
    }

    fn resize(&self, frames: u32) {
        self.lock().policy.resize(frames);
    }
}
