//! What a pool has done, counted without sharing a cache line between threads.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use pagecast_core::policy::LockCounts;
use parking_lot::Mutex;

/// What a pool has done since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PoolStats {
    /// Requests for a page.
    pub requests: u64,
    /// Requests that found the page resident.
    pub hits: u64,
    /// Requests that found the page on its way and waited for it.
    pub waits: u64,
    /// Bytes that reads asked for.
    pub bytes_requested: u64,
    /// Bytes read from storage, rounding and the reads past the pool included, and what came from
    /// flash in its place.
    pub bytes_read: u64,
    /// Bytes of those that were read past the pool, because no frame was free.
    pub bypassed_bytes: u64,
    /// Bytes that came along besides, between pages that were asked for, and were thrown away: for
    /// some storage that is better than a second request
    /// ([`RequestShape`](crate::storage::RequestShape)).
    pub gap_bytes: u64,
    /// Pages that came from their copy on flash ([`FlashOptions`](crate::FlashOptions)).
    pub flash_hits: u64,
    /// Bytes of those: a part of `bytes_read`, for which the store was not asked.
    pub flash_bytes_read: u64,
    /// Pages that were written to flash.
    pub flash_pages_written: u64,
    /// Bytes that were written there, what describes the pages and the index included.
    pub flash_bytes_written: u64,
    /// Pages that were loaded into a frame.
    pub loads: u64,
    /// Loads that failed.
    pub failed_loads: u64,
    /// Pages that left their frame for another.
    pub evictions: u64,
    /// Dirty pages that were written. One that was changed again and again counts once for each
    /// write.
    pub pages_written: u64,
    /// Writes of a page that failed.
    pub failed_writes: u64,
    /// Pages that were brought, or are being brought, before anybody asked for them. Each becomes
    /// one of the next three in time.
    pub prefetched: u64,
    /// Pages of those that were there when they were first asked for.
    pub prefetch_useful: u64,
    /// Pages of those that were still on their way then.
    pub prefetch_late: u64,
    /// Pages of those that left, whose scan ended or whose read failed before anybody asked for
    /// them.
    pub prefetch_wasted: u64,
    /// Requests for an item that were answered without its page; they are none of the requests for
    /// a page.
    pub tuple_hits: u64,
    /// Chunks that unordered scans were handed, those that came back and were handed out again
    /// counted again.
    pub chunks: u64,
    /// Chunks of those that a load or read for another unordered scan had brought.
    pub chunks_shared: u64,
    /// Chunks of those of which pages were missing, for their scan to read.
    pub chunks_incomplete: u64,
    /// Chunks of those that were consumed.
    pub chunks_consumed: u64,
    /// Chunks of those that were given back. What is neither consumed nor given back is held.
    pub chunks_returned: u64,
    /// Loads of chunks that were begun for unordered scans.
    pub chunk_loads: u64,
    /// What the lock of a policy that keeps an order has been through; nothing for the others,
    /// which have none.
    pub policy_lock: LockCounts,
}

impl PoolStats {
    /// The part of the requests that found their page in the pool because it had been asked for
    /// before, 0 to 1; 0 before the first. The first request for a page that was brought ahead
    /// finds it, too, but spares storage nothing.
    pub fn hit_rate(&self) -> f64 {
        let spared = self.hits.saturating_sub(self.prefetch_useful);
        if self.requests == 0 { 0.0 } else { spared as f64 / self.requests as f64 }
    }

    pub(crate) fn sum<'a>(counts: impl Iterator<Item = &'a Counts> + Clone) -> Self {
        let sum =
            |counter: Counter| -> u64 { counts.clone().map(|counts| counts.0[counter as usize].load(Relaxed)).sum() };
        let (hits, waits) = (sum(Counter::Hits), sum(Counter::Waits));
        Self {
            requests: hits + waits + sum(Counter::Misses),
            hits,
            waits,
            bytes_requested: sum(Counter::BytesRequested),
            bytes_read: sum(Counter::BytesRead),
            bypassed_bytes: sum(Counter::BypassedBytes),
            loads: sum(Counter::Loads),
            failed_loads: sum(Counter::FailedLoads),
            evictions: sum(Counter::Evictions),
            pages_written: sum(Counter::PagesWritten),
            failed_writes: sum(Counter::FailedWrites),
            prefetched: sum(Counter::Prefetched),
            prefetch_useful: sum(Counter::PrefetchUseful),
            prefetch_late: sum(Counter::PrefetchLate),
            prefetch_wasted: sum(Counter::PrefetchWasted),
            tuple_hits: sum(Counter::TupleHits),
            ..Self::default()
        }
    }
}

/// One of the counts. A request is a hit, a wait or a miss, so that a hit counts once.
#[derive(Clone, Copy)]
pub(crate) enum Counter {
    Hits,
    Waits,
    Misses,
    BytesRequested,
    BytesRead,
    BypassedBytes,
    Loads,
    FailedLoads,
    Evictions,
    PagesWritten,
    FailedWrites,
    Prefetched,
    PrefetchUseful,
    PrefetchLate,
    PrefetchWasted,
    TupleHits,
}

const COUNTERS: usize = Counter::TupleHits as usize + 1;
/// Sets of counts, and queues of hits, that callers without a session share.
pub(crate) const STRIPES: u32 = 16;

/// One set of counts. Two cache lines, because processors fetch them in pairs.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Counts([AtomicU64; COUNTERS]);

impl Counts {
    /// One set for each stripe.
    pub(crate) fn stripes() -> Box<[Self]> {
        (0..STRIPES).map(|_| Self::default()).collect()
    }

    /// By many. Relaxed: the counts order nothing.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, by: u64) {
        self.0[counter as usize].fetch_add(by, Relaxed);
    }

    /// By the only one who ever adds, so that a load and a store do.
    #[inline]
    pub(crate) fn add_alone(&self, counter: Counter, by: u64) {
        let count = &self.0[counter as usize];
        count.store(count.load(Relaxed) + by, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> PoolStats {
        PoolStats::sum(std::iter::once(self))
    }
}

/// The counts of a pool: those of its sessions, each of which writes to its own, and of everyone
/// else, in stripes.
pub(crate) struct Statistics {
    stripes: Box<[Counts]>,
    sessions: Mutex<Vec<Arc<Counts>>>,
}

impl Statistics {
    /// Bytes that the counters take. A session's are the session's.
    pub(crate) const BYTES: u64 = STRIPES as u64 * size_of::<Counts>() as u64;

    pub(crate) fn new() -> Self {
        Self { stripes: Counts::stripes(), sessions: Mutex::new(Vec::new()) }
    }

    #[inline]
    pub(crate) fn add(&self, counter: Counter, by: u64) {
        self.stripes[stripe()].add(counter, by);
    }

    /// The counts of a new session.
    pub(crate) fn enter(&self) -> Arc<Counts> {
        let counts = Arc::new(Counts::default());
        self.sessions.lock().push(counts.clone());
        counts
    }

    /// What a session has counted belongs to everyone's from now on. Under the lock, so that no sum
    /// has it twice.
    pub(crate) fn leave(&self, counts: &Arc<Counts>) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|other| !Arc::ptr_eq(other, counts));
        for (all, own) in self.stripes[stripe()].0.iter().zip(&counts.0) {
            all.fetch_add(own.load(Relaxed), Relaxed);
        }
    }

    /// The sums. Each is exact at some moment during the call, all together at none.
    pub(crate) fn snapshot(&self) -> PoolStats {
        let sessions = self.sessions.lock();
        PoolStats::sum(self.stripes.iter().chain(sessions.iter().map(|counts| &**counts)))
    }
}

/// The stripe of the calling thread: threads take turns as they first come.
#[inline]
pub(crate) fn stripe() -> usize {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    thread_local!(static MINE: Cell<u32> = const { Cell::new(u32::MAX) });
    MINE.with(|mine| {
        if mine.get() == u32::MAX {
            mine.set(NEXT.fetch_add(1, Relaxed) % STRIPES);
        }
        mine.get() as usize
    })
}
