//! Who makes a request: where its hits wait for the policy, and where it counts.

use std::sync::Arc;

use pagecast_core::policy::HitQueue;

use super::Cache;
use crate::stats::{Counter, Counts, STRIPES, stripe};
use crate::sync::Mutex;

/// Someone who makes requests, one at a time.
pub(crate) trait Client: Send {
    /// Hands its queue of hits to `work`.
    fn with_queue(&mut self, cache: &Cache, work: impl FnOnce(&mut HitQueue));

    /// Counts.
    fn count(&mut self, cache: &Cache, counter: Counter, by: u64);
}

impl<C: Client> Client for &mut C {
    #[inline]
    fn with_queue(&mut self, cache: &Cache, work: impl FnOnce(&mut HitQueue)) {
        (**self).with_queue(cache, work);
    }

    #[inline]
    fn count(&mut self, cache: &Cache, counter: Counter, by: u64) {
        (**self).count(cache, counter, by);
    }
}

/// A client that has a queue and counts of its own: nobody else writes to either.
pub(crate) struct SessionState {
    queue: HitQueue,
    pub(crate) counts: Arc<Counts>,
}

impl SessionState {
    pub(crate) fn enter(cache: &Cache) -> Self {
        Self { queue: HitQueue::new(), counts: cache.statistics.enter() }
    }

    /// Leaves nothing behind. To be called once, at the end.
    pub(crate) fn leave(&mut self, cache: &Cache) {
        cache.settle(self);
        cache.statistics.leave(&self.counts);
    }
}

impl Client for SessionState {
    #[inline]
    fn with_queue(&mut self, _cache: &Cache, work: impl FnOnce(&mut HitQueue)) {
        work(&mut self.queue);
    }

    #[inline]
    fn count(&mut self, _cache: &Cache, counter: Counter, by: u64) {
        self.counts.add_alone(counter, by);
    }
}

/// Any caller without a session. Threads share a few queues and counts, each thread the same ones every time.
#[derive(Clone, Copy)]
pub(crate) struct Anyone;

impl Client for Anyone {
    fn with_queue(&mut self, cache: &Cache, work: impl FnOnce(&mut HitQueue)) {
        work(&mut cache.queues.0[stripe()].0.lock());
    }

    #[inline]
    fn count(&mut self, cache: &Cache, counter: Counter, by: u64) {
        cache.statistics.add(counter, by);
    }
}

/// The queues of those without a session.
pub(super) struct SharedQueues(Box<[SharedQueue]>);

/// Two cache lines, as for the counts.
#[repr(align(128))]
struct SharedQueue(Mutex<HitQueue>);

impl SharedQueues {
    /// Bytes of all, for hits in queues of this length.
    pub(super) const fn bytes(length: u32) -> u64 {
        STRIPES as u64 * (size_of::<SharedQueue>() as u64 + HitQueue::bytes(length))
    }

    pub(super) fn new() -> Self {
        Self((0..STRIPES).map(|_| SharedQueue(Mutex::new(HitQueue::new()))).collect())
    }
}
