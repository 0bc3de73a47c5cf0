//! The page table: a fixed array of chains through the frame headers, and the loads that are under
//! way.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pagecast_core::PageId;

use super::frame::{Header, NIL};
use super::load::Load;
use crate::sync::Mutex;
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Locks of the table; a power of two.
const SHARDS: u32 = 64;

/// How many links a reader follows without a lock. Chains hold one or two frames; a reader that
/// strays into others because frames move under it gives up here and asks again under the lock.
const MAX_STEPS: u32 = 32;

/// The loads under way of one shard's pages.
pub(super) type InFlight = HashMap<PageId, Arc<Load>, FixedState>;

/// Chains are changed under their shard's lock, with which the caller proves that it has it, and
/// read without.
pub(super) struct Table {
    heads: Box<[AtomicU32]>,
    /// What is left of a hash after it is the number of a chain.
    shift: u32,
    shards: Box<[Mutex<InFlight>]>,
}

impl Table {
    /// A table for `frames` frames, at most half of one on average in a chain.
    pub(super) fn new(frames: u32) -> Self {
        let shards = || Mutex::new(InFlight::with_hasher(FixedState::default()));
        Self {
            heads: (0..Self::buckets(frames)).map(|_| AtomicU32::new(NIL)).collect(),
            shift: u64::BITS - Self::buckets(frames).trailing_zeros(),
            shards: (0..Self::shards_for(frames)).map(|_| shards()).collect(),
        }
    }

    fn buckets(frames: u32) -> u32 {
        frames.saturating_mul(2).max(2).checked_next_power_of_two().unwrap_or(1 << 31)
    }

    /// Bytes of a table for `frames` frames.
    pub(super) fn bytes(frames: u32) -> u64 {
        let shard = size_of::<Mutex<InFlight>>() as u64;
        u64::from(Self::buckets(frames)) * 4 + u64::from(SHARDS) * shard
    }

    /// Fibonacci hashing: the golden ratio spreads neighbouring blocks over the table.
    #[inline]
    fn bucket(&self, page: PageId) -> usize {
        (page.raw().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// The lock of `page`'s chain and of its load.
    pub(super) fn shard(&self, page: PageId) -> &Mutex<InFlight> {
        &self.shards[self.shard_number(page) as usize]
    }

    /// Which lock that is.
    #[inline]
    pub(super) fn shard_number(&self, page: PageId) -> u32 {
        (self.bucket(page) & (self.shards.len() - 1)) as u32
    }

    /// How many locks a table for `frames` frames has: a power of two.
    pub(super) fn shards_for(frames: u32) -> u32 {
        SHARDS.min(Self::buckets(frames))
    }

    /// All locks.
    pub(super) fn shards(&self) -> impl Iterator<Item = &Mutex<InFlight>> {
        self.shards.iter()
    }

    /// A frame that had `page` when it was looked at. Without the shard's lock, none does not mean
    /// that there is none.
    #[inline]
    pub(super) fn find(&self, headers: &[Header], page: PageId) -> Option<u32> {
        count_look_up();
        // Acquire here and below: pairs with the Release of `link`. The tag itself is checked again
        // after the pin.
        let mut frame = self.heads[self.bucket(page)].load(Acquire);
        for _ in 0..MAX_STEPS {
            let header = headers.get(frame as usize)?;
            if header.is_tagged(page) {
                return Some(frame);
            }
            frame = header.next.load(Acquire);
        }
        None
    }

    /// The frame of `page`'s chain that has it. The caller holds the shard's lock, so that the
    /// chain stands still: it ends after at most as many steps as there are frames.
    pub(super) fn find_locked(&self, headers: &[Header], page: PageId, _shard: &InFlight) -> Option<u32> {
        count_look_up();
        let mut frame = self.heads[self.bucket(page)].load(Relaxed);
        for _ in 0..headers.len() {
            let header = headers.get(frame as usize)?;
            if header.is_tagged(page) {
                return Some(frame);
            }
            frame = header.next.load(Relaxed);
        }
        None
    }

    /// How many frames are in the chains. Nobody changes them meanwhile.
    pub(super) fn linked(&self, headers: &[Header]) -> usize {
        let next = |&frame: &u32| headers.get(frame as usize).map(|header| header.next.load(Relaxed));
        let chain = |head: &AtomicU32| {
            let first = head.load(Relaxed);
            std::iter::successors(Some(first), next).take_while(|&frame| frame != NIL).take(headers.len()).count()
        };
        self.heads.iter().map(chain).sum()
    }

    /// Puts `frame` at the front of `page`'s chain.
    pub(super) fn link(&self, headers: &[Header], page: PageId, frame: u32, _shard: &InFlight) {
        let head = &self.heads[self.bucket(page)];
        headers[frame as usize].next.store(head.load(Relaxed), Release);
        head.store(frame, Release);
    }

    /// Takes `frame` out of `page`'s chain. Its own link stays, so that a reader who stands on it
    /// finds the chain's end.
    pub(super) fn unlink(&self, headers: &[Header], page: PageId, frame: u32, _shard: &InFlight) {
        let mut link = &self.heads[self.bucket(page)];
        for _ in 0..headers.len() {
            let at = link.load(Relaxed);
            if at == frame {
                link.store(headers[frame as usize].next.load(Relaxed), Release);
                return;
            }
            match headers.get(at as usize) {
                Some(header) => link = &header.next,
                None => break,
            }
        }
        debug_assert!(false, "frame {frame} is not in the chain of {page:?}");
    }
}

#[cfg(test)]
thread_local!(static LOOK_UPS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });

/// Counts a look-up of this thread, for the tests of what a request costs.
#[inline]
fn count_look_up() {
    #[cfg(test)]
    LOOK_UPS.set(LOOK_UPS.get() + 1);
}

/// How many look-ups this thread has made since this was asked last.
#[cfg(all(test, not(pagecast_shuttle)))]
pub(crate) fn look_ups() -> u32 {
    LOOK_UPS.take()
}
