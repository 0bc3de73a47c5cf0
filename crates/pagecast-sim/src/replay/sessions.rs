//! The replay as a pool's sessions would make it: hits reach an ordered policy late, in the batches
//! of BP-Wrapper.
//!
//! Requests go to the sessions in turn, which is the worst that can happen to the order: no
//! session's batch has two requests that follow each other. It is the pool's adapter that runs
//! here, so that what batching costs in hits can be told without threads and to the miss.

use super::{Concurrent, Counts, Driver, MemoryFrames, Misses, Observer, PageIds, Replay};
use pagecast_core::FrameId;
use pagecast_core::oracle::{NoScans, Oracle};
use pagecast_core::policy::{
    Access, Batching, BpWrapper, Claimed, ConcurrentPolicy, Due, HitNeed, HitQueue, PolicyError, PolicySpec,
    SequentialPolicy, Visitor,
};

/// Replays `requests`, without scans, through the policy of `spec` in a pool of `frames` frames, as
/// `sessions` (at least one) sessions that take turns and note their hits as `batching` says.
///
/// # Errors
///
/// As [`replay`](super::replay).
pub fn replay_in_sessions(
    requests: impl IntoIterator<Item = Access>,
    ids: PageIds,
    spec: &PolicySpec,
    frames: u32,
    seed: u64,
    (sessions, batching): (u32, Batching),
) -> Result<Counts, PolicyError> {
    let replay = Replay { requests, ids, frames, oracle: &NoScans, observer: Misses(|_: &Access| ()) };
    spec.visit(frames, seed, InSessions { replay, sessions, batching })
}

/// A replay in sessions that waits to be told its policy.
struct InSessions<'a, I, F> {
    replay: Replay<'a, I, F>,
    sessions: u32,
    batching: Batching,
}

impl<I: IntoIterator<Item = Access>, F: Observer> Visitor for InSessions<'_, I, F> {
    type Output = Counts;

    /// It has no use for batches.
    fn concurrent<P: ConcurrentPolicy + 'static>(self, policy: P) -> Counts {
        let driver = Concurrent::new(policy, self.replay.frames);
        self.replay.run(driver)
    }

    fn sequential<P: SequentialPolicy + 'static>(self, policy: P) -> Counts {
        let queues = (0..self.sessions.max(1)).map(|_| HitQueue::new()).collect();
        self.replay.run(Wrapped { policy: BpWrapper::new(policy, self.batching), queues, turn: 0 })
    }
}

/// A policy behind the adapter, and the sessions' queues.
struct Wrapped<P> {
    policy: BpWrapper<P>,
    queues: Vec<HitQueue>,
    /// Whose request is next.
    turn: usize,
}

impl<P: SequentialPolicy> Wrapped<P> {
    fn next_turn(&mut self) {
        self.turn = (self.turn + 1) % self.queues.len();
    }

    /// What a session does before its miss.
    fn commit(&mut self, frames: &MemoryFrames) {
        self.policy.commit(frames, &mut self.queues[self.turn], true);
    }
}

impl<P: SequentialPolicy> Driver<MemoryFrames> for Wrapped<P> {
    fn hit(&mut self, frames: &MemoryFrames, frame: FrameId, access: &Access) {
        match self.policy.hit_need() {
            HitNeed::Queue { length } => {
                let queue = &mut self.queues[self.turn];
                match queue.note(length, frame, access) {
                    Due::NotYet => {}
                    due => self.policy.commit(frames, queue, due == Due::Now),
                }
            }
            _ => self.policy.hit(frames, frame, access),
        }
        self.next_turn();
    }

    fn evict(&mut self, frames: &MemoryFrames, incoming: &Access, oracle: &dyn Oracle) -> Option<Claimed> {
        self.commit(frames);
        self.policy.evict(frames, incoming, oracle)
    }

    fn admit(&mut self, frames: &MemoryFrames, frame: FrameId, access: &Access) {
        self.commit(frames);
        self.policy.admit(frames, frame, access);
        self.next_turn();
    }
}
