//! Who makes a request: where its hits wait for the policy, and where it counts.

use std::sync::Arc;

use pagecast_core::Tick;
use pagecast_core::policy::{Access, HitQueue};

use super::Cache;
use crate::stats::{Counter, Counts, STRIPES, stripe};
use crate::sync::Mutex;

/// Someone who makes requests, one at a time.
pub(crate) trait Client: Send {
    /// Hands its queue of hits to `work`.
    fn with_queue(&mut self, cache: &Cache, work: impl FnOnce(&mut HitQueue));

    /// Makes a hit of the client into an access, at a time that is given or else now, by the
    /// cache's clock for hits.
    fn hit_at(&mut self, cache: &Cache, access: impl FnOnce(Option<Tick>) -> Access) -> Access;

    /// The client waits for a page: what time it was before is of no use.
    fn pause(&mut self);

    /// Counts.
    fn count(&mut self, cache: &Cache, counter: Counter, by: u64);
}

impl<C: Client> Client for &mut C {
    #[inline]
    fn with_queue(&mut self, cache: &Cache, work: impl FnOnce(&mut HitQueue)) {
        (**self).with_queue(cache, work);
    }

    #[inline]
    fn hit_at(&mut self, cache: &Cache, access: impl FnOnce(Option<Tick>) -> Access) -> Access {
        (**self).hit_at(cache, access)
    }

    fn pause(&mut self) {
        (**self).pause();
    }

    #[inline]
    fn count(&mut self, cache: &Cache, counter: Counter, by: u64) {
        (**self).count(cache, counter, by);
    }
}

/// Hits between two looks at the clock, which cost as much as a hit does otherwise. Who comes back
/// after a long pause has as many old hits at most.
const HITS_PER_LOOK: u32 = 32;

/// The time of a client's last look at the clock.
#[derive(Default)]
struct LastLook {
    at: Tick,
    hits_left: u32,
}

impl LastLook {
    #[inline]
    fn hit_at(&mut self, access: impl FnOnce(Option<Tick>) -> Access, hit_time: impl FnOnce(Tick) -> Tick) -> Access {
        if let Some(left) = self.hits_left.checked_sub(1) {
            self.hits_left = left;
            return access(Some(self.at));
        }
        let access = access(None);
        let access = Access { at: hit_time(access.at), ..access };
        *self = Self { at: access.at, hits_left: HITS_PER_LOOK - 1 };
        access
    }
}

/// A client that has a queue and counts of its own: nobody else writes to either.
pub(crate) struct SessionState {
    queue: HitQueue,
    last_look: LastLook,
    pub(crate) counts: Arc<Counts>,
}

impl SessionState {
    pub(crate) fn enter(cache: &Cache) -> Self {
        Self { queue: HitQueue::new(), last_look: LastLook::default(), counts: cache.statistics.enter() }
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
    fn hit_at(&mut self, cache: &Cache, access: impl FnOnce(Option<Tick>) -> Access) -> Access {
        self.last_look.hit_at(access, |at| cache.hit_time(at))
    }

    fn pause(&mut self) {
        self.last_look = LastLook::default();
    }

    #[inline]
    fn count(&mut self, _cache: &Cache, counter: Counter, by: u64) {
        self.counts.add_alone(counter, by);
    }
}

/// Any caller without a session. Threads share a few queues and counts, each thread the same ones
/// every time.
#[derive(Clone, Copy)]
pub(crate) struct Anyone;

impl Client for Anyone {
    fn with_queue(&mut self, cache: &Cache, work: impl FnOnce(&mut HitQueue)) {
        work(&mut cache.queues.0[stripe()].0.lock());
    }

    #[inline]
    fn hit_at(&mut self, cache: &Cache, access: impl FnOnce(Option<Tick>) -> Access) -> Access {
        let access = access(None);
        Access { at: cache.hit_time(access.at), ..access }
    }

    fn pause(&mut self) {}

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

#[cfg(test)]
mod tests {
    use pagecast_core::PageId;

    use super::*;

    #[test]
    fn a_session_looks_at_the_clock_for_every_so_many_hits() {
        let (mut looks, mut last) = (0, LastLook::default());
        let mut hit = |last: &mut LastLook| {
            let exact = |at: Option<Tick>| {
                let at = at.unwrap_or_else(|| {
                    looks += 1;
                    1000 * looks
                });
                Access { page: PageId::from_raw(1), scan: None, write: false, at }
            };
            last.hit_at(exact, |at| at + 1).at
        };
        let times: Vec<Tick> = (0..2 * HITS_PER_LOOK).map(|_| hit(&mut last)).collect();
        let (first, second) = times.split_at(HITS_PER_LOOK as usize);
        assert!(first.iter().all(|&at| at == 1001) && second.iter().all(|&at| at == 2001), "{times:?}");
        assert_eq!(hit(&mut last), 3001);
    }
}
