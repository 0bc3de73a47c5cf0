//! The adapter that puts a sequential policy behind a mutex, so that a pool needs to know one kind only.
//!
//! Every hit takes the lock; that is its price and BP-Wrapper's (Ding, Jiang, Zhang, ICDE 2009) opening. Claims run
//! under the lock, so that a frame leaves the page table and the policy's order in one step as other callers see it.

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
pub struct Locked<P>(Mutex<P>);

impl<P: SequentialPolicy> Locked<P> {
    /// Puts `policy` behind a mutex of its own.
    pub fn new(policy: P) -> Self {
        Self(Mutex::new(policy))
    }

    fn lock(&self) -> MutexGuard<'_, P> {
        self.0.lock().expect("the lock is poisoned only by a panic inside a policy, which is a bug there")
    }

    /// [`SequentialPolicy::check`] of the policy inside.
    pub fn check(&self) {
        self.lock().check();
    }
}

impl<P: SequentialPolicy> ConcurrentPolicy for Locked<P> {
    fn hit_need(&self) -> HitNeed {
        HitNeed::Order
    }

    fn hit(&self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.lock().hit(frame, access);
    }

    fn evict(&self, frames: &dyn Frames, incoming: &Access, oracle: &dyn Oracle) -> Option<FrameId> {
        self.lock().evict(incoming, oracle, &mut |frame, page| frames.claim(frame, page))
    }

    fn admit(&self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.lock().admit(frame, access);
    }

    fn forget(&self, _frames: &dyn Frames, frame: FrameId, page: PageId) {
        self.lock().forget(frame, page);
    }
}
