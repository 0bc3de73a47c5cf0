//! A session's queue of hits that its policy has not been told of yet: the half of BP-Wrapper that
//! each session owns. The other half, the lock and the policy behind it, is [`super::BpWrapper`].

use super::Access;
use super::hit_ring::HitRing;
use crate::{FrameId, PageId};
use alloc::sync::Arc;

/// How the hits of sessions reach a policy that one caller at a time may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batching {
    /// Hits that a session may collect, from 1 (the policy is told of each hit at once) to
    /// [`MAX_QUEUE`](Self::MAX_QUEUE); a value outside is taken as the nearest inside. From half of
    /// them on the session tries to get rid of them, and waits for its turn when there is no room
    /// for more. Default: 64.
    pub queue: u32,
    /// Whether what the policy keeps of the frames is brought into the processor's cache before the
    /// lock is taken. Default: yes.
    pub prefetch: bool,
}

impl Batching {
    /// The longest queue. A session's last hits are unknown to the policy; a queue should be short
    /// beside the pool.
    pub const MAX_QUEUE: u32 = 4096;

    /// What the adapter keeps of each frame of a policy whose hits are queued: its page.
    pub const BYTES_PER_FRAME: u64 = size_of::<Option<PageId>>() as u64;

    /// Neither batching nor prefetching: a lock for each hit.
    pub const OFF: Self = Self { queue: 1, prefetch: false };

    /// The length of the queue, in its bounds.
    pub fn length(self) -> u32 {
        self.queue.clamp(1, Self::MAX_QUEUE)
    }

    /// The same for a pool of `frames` frames: a queue is no more than a 64th of them, so that in a
    /// small pool too the policy knows what was used lately.
    #[must_use]
    pub fn within(self, frames: u32) -> Self {
        Self { queue: self.length().min((frames / 64).max(1)), ..self }
    }
}

impl Default for Batching {
    fn default() -> Self {
        Self { queue: 64, prefetch: true }
    }
}

/// What is to be done about a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// There is room: nothing need be done.
    NotYet,
    /// At least half full: commit if that needs no waiting.
    Try,
    /// Full: commit.
    Now,
}

/// Hits in the order in which one session made them, for one policy. Made empty; it takes memory at
/// its first hit.
///
/// Only the session adds to it. From its first commit on, whoever looks for a victim may empty it,
/// so that a page does not leave because its last use is unknown.
///
/// ```
/// use pagecast_core::policy::{Access, Due, HitQueue};
/// use pagecast_core::{FrameId, PageId};
///
/// let mut queue = HitQueue::new();
/// let access = Access { page: PageId::from_raw(7), scan: None, write: false, at: 0 };
/// let due: Vec<Due> = (0..4).map(|_| queue.note(4, FrameId(0), &access)).collect();
/// assert_eq!(due, [Due::NotYet, Due::Try, Due::Try, Due::Now]);
/// ```
#[derive(Debug, Default)]
pub struct HitQueue {
    pub(super) ring: Option<Arc<HitRing>>,
    /// Whether the adapter knows the ring.
    pub(super) is_known: bool,
    /// Of how many hits, from the very first, the frames have been prefetched.
    pub(super) prefetched: u64,
    /// Commits that found the lock taken, since the last one that did not.
    pub(super) failed_tries: u64,
}

impl HitQueue {
    /// No hits.
    pub const fn new() -> Self {
        Self { ring: None, is_known: false, prefetched: 0, failed_tries: 0 }
    }

    /// Most bytes of a queue for `length` hits, beside itself, and of what the adapter needs to put
    /// them in order with others.
    pub const fn bytes(length: u32) -> u64 {
        HitRing::bytes(length) + length as u64 * size_of::<(FrameId, Access)>() as u64
    }

    /// Adds a hit to a queue whose length is to be `length`, always the same, and says what to do
    /// next. A queue that is not committed although it is due loses hits.
    #[inline]
    pub fn note(&mut self, length: u32, frame: FrameId, access: &Access) -> Due {
        let waiting = self.make_ring(length).note(frame, access);
        let length = length as usize;
        if waiting >= length {
            Due::Now
        } else if 2 * waiting >= length {
            Due::Try
        } else {
            Due::NotYet
        }
    }

    #[inline]
    pub(super) fn make_ring(&mut self, length: u32) -> &HitRing {
        self.ring.get_or_insert_with(|| Arc::new(HitRing::new(length)))
    }

    /// How many hits wait.
    pub fn len(&self) -> usize {
        self.ring.as_ref().map_or(0, |ring| ring.len())
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How often the lock around a sequential policy was taken, and what for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LockCounts {
    /// Times that it was taken, for whatever call.
    pub acquisitions: u64,
    /// Those of them that had to wait, because another thread had it.
    pub blocked: u64,
    /// Commits that would have had to wait and went on instead. Those of queues that have not been
    /// committed since are not in it.
    pub failed_tries: u64,
    /// Queued hits that were applied.
    pub applied: u64,
    /// Queued hits that were not, because their frame had another page by then.
    pub dropped: u64,
}

/// Where a policy keeps what it touches at a hit: an array with an element for each frame, which
/// never moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metadata {
    start: usize,
    stride: usize,
}

impl Metadata {
    /// Of the elements of `array`, the first of which is frame 0's.
    pub fn of<T>(array: &[T]) -> Self {
        Self { start: array.as_ptr().addr(), stride: size_of::<T>() }
    }

    /// The address of a frame's element.
    #[inline]
    pub fn address(self, frame: FrameId) -> usize {
        self.start.wrapping_add(frame.index() * self.stride)
    }
}
