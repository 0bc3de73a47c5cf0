//! The adapter that puts a sequential policy behind a mutex, so that a pool needs to know one kind only.
//!
//! A hit that changes the order takes the lock; that is its price and BP-Wrapper's (Ding, Jiang, Zhang, ICDE 2009)
//! opening. A hit that only marks its frame does not, see [`SequentialPolicy::hit_need`]. Claims run under the lock, so that
//! a frame leaves the page table and the policy's order in one step as other callers see it.

use super::{Access, ConcurrentPolicy, Frames, HitNeed, SequentialPolicy};
use crate::sync::{Mutex, MutexGuard};
use crate::{FrameId, PageId, oracle::Oracle};

/// A sequential policy as a concurrent one.
///
/// ```
/// use pagecast_core::policy::{ConcurrentPolicy, HitNeed, Locked, Lru};
///
/// let shared = Locked::new(Lru::new(1024));
/// assert_eq!(shared.hit_need(), HitNeed::Order);
/// ```
#[derive(Debug)]
pub struct Locked<P> {
    policy: Mutex<P>,
    /// The policy's, so that a hit which its frame's word is enough for takes no lock.
    need: HitNeed,
}

impl<P: SequentialPolicy> Locked<P> {
    /// Puts `policy` behind a mutex of its own.
    pub fn new(policy: P) -> Self {
        Self { need: policy.hit_need(), policy: Mutex::new(policy) }
    }

    fn lock(&self) -> MutexGuard<'_, P> {
        self.policy.lock().expect("the lock is poisoned only by a panic inside a policy, which is a bug there")
    }

    /// [`SequentialPolicy::check`] of the policy inside.
    pub fn check(&self) {
        self.lock().check();
    }
}

impl<P: SequentialPolicy> ConcurrentPolicy for Locked<P> {
    fn hit_need(&self) -> HitNeed {
        self.need
    }

    fn hit(&self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        if !self.need.is_met_by(frames.word(frame)) {
            self.lock().hit(frame, access);
        }
    }

    fn evict(&self, frames: &dyn Frames, incoming: &Access, oracle: &dyn Oracle) -> Option<FrameId> {
        self.lock().evict(frames, incoming, oracle)
    }

    fn admit(&self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.lock().admit(frames, frame, access);
    }

    fn forget(&self, _frames: &dyn Frames, frame: FrameId, page: PageId) {
        self.lock().forget(frame, page);
    }
}
