//! A policy whose hits are timed while the lock is held.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use pagecast_core::oracle::Oracle;
use pagecast_core::policy::{Access, Claimed, Frames, HitNeed, Metadata, SequentialPolicy};
use pagecast_core::{FrameId, PageId};

/// One hit of so many is timed, since looking at a clock costs as much as a hit.
const SAMPLE: u64 = 16;

/// The policy inside, and what its hits took.
pub(crate) struct Watched {
    policy: Box<dyn SequentialPolicy>,
    hits: u64,
    /// What two looks at a clock take, in nanoseconds.
    look: u64,
    /// Nanoseconds of all hits by those that were timed. Relaxed: it is read when the threads have
    /// ended.
    held: Arc<AtomicU64>,
}

impl Watched {
    pub(crate) fn new(policy: Box<dyn SequentialPolicy>, look: u64, held: Arc<AtomicU64>) -> Self {
        Self { policy, hits: 0, look, held }
    }
}

/// What two looks at a clock take here, in nanoseconds.
pub(crate) fn look() -> u64 {
    let mut looks: Vec<u64> = (0..1_001).map(|_| Instant::now().elapsed().as_nanos() as u64).collect();
    looks.sort_unstable();
    looks[looks.len() / 2]
}

impl SequentialPolicy for Watched {
    fn hit_need(&self) -> HitNeed {
        self.policy.hit_need()
    }

    fn hit(&mut self, frame: FrameId, access: &Access) {
        self.hits += 1;
        if !self.hits.is_multiple_of(SAMPLE) {
            return self.policy.hit(frame, access);
        }
        let start = Instant::now();
        self.policy.hit(frame, access);
        let took = (start.elapsed().as_nanos() as u64).saturating_sub(self.look);
        self.held.fetch_add(SAMPLE * took, Relaxed);
    }

    fn evict(&mut self, frames: &dyn Frames, incoming: &Access, oracle: &dyn Oracle) -> Option<Claimed> {
        self.policy.evict(frames, incoming, oracle)
    }

    fn admit(&mut self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.policy.admit(frames, frame, access);
    }

    fn forget(&mut self, frame: FrameId, page: PageId) {
        self.policy.forget(frame, page);
    }

    fn metadata(&self) -> Option<Metadata> {
        self.policy.metadata()
    }

    fn cleaned(&mut self, frame: FrameId, page: PageId) {
        self.policy.cleaned(frame, page);
    }

    fn resize(&mut self, frames: u32) {
        self.policy.resize(frames);
    }

    fn check(&self) {
        self.policy.check();
    }
}
