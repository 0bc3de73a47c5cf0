//! What a pool has done, counted without sharing a cache line between threads.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

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
    /// Bytes read from storage, rounding and the reads past the pool included.
    pub bytes_read: u64,
    /// Bytes of those that were read past the pool, because no frame was free.
    pub bypassed_bytes: u64,
    /// Pages that were loaded into a frame.
    pub loads: u64,
    /// Loads that failed.
    pub failed_loads: u64,
    /// Pages that left their frame for another.
    pub evictions: u64,
    /// Pages that were brought, or are being brought, before anybody asked for them. Each becomes one of the next three
    /// in time.
    pub prefetched: u64,
    /// Pages of those that were there when they were first asked for.
    pub prefetch_useful: u64,
    /// Pages of those that were still on their way then.
    pub prefetch_late: u64,
    /// Pages of those that left, whose scan ended or whose read failed before anybody asked for them.
    pub prefetch_wasted: u64,
}

impl PoolStats {
    /// The part of the requests that found their page resident, 0 to 1; 0 before the first.
    pub fn hit_rate(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.hits as f64 / self.requests as f64 }
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
    Prefetched,
    PrefetchUseful,
    PrefetchLate,
    PrefetchWasted,
}

const COUNTERS: usize = Counter::PrefetchWasted as usize + 1;
const STRIPES: u32 = 16;

/// Two cache lines, because processors fetch them in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Stripe([AtomicU64; COUNTERS]);

/// The counts of all threads, each of which writes to one stripe.
pub(crate) struct Statistics(Box<[Stripe]>);

impl Statistics {
    /// Bytes that the counters take.
    pub(crate) const BYTES: u64 = STRIPES as u64 * size_of::<Stripe>() as u64;

    pub(crate) fn new() -> Self {
        Self((0..STRIPES).map(|_| Stripe::default()).collect())
    }

    /// Relaxed: the counts order nothing.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, by: u64) {
        self.0[stripe()].0[counter as usize].fetch_add(by, Relaxed);
    }

    /// The sums. Each is exact at some moment during the call, all together at none.
    pub(crate) fn snapshot(&self) -> PoolStats {
        let sum =
            |counter: Counter| -> u64 { self.0.iter().map(|stripe| stripe.0[counter as usize].load(Relaxed)).sum() };
        let (hits, waits) = (sum(Counter::Hits), sum(Counter::Waits));
        PoolStats {
            requests: hits + waits + sum(Counter::Misses),
            hits,
            waits,
            bytes_requested: sum(Counter::BytesRequested),
            bytes_read: sum(Counter::BytesRead),
            bypassed_bytes: sum(Counter::BypassedBytes),
            loads: sum(Counter::Loads),
            failed_loads: sum(Counter::FailedLoads),
            evictions: sum(Counter::Evictions),
            prefetched: sum(Counter::Prefetched),
            prefetch_useful: sum(Counter::PrefetchUseful),
            prefetch_late: sum(Counter::PrefetchLate),
            prefetch_wasted: sum(Counter::PrefetchWasted),
        }
    }
}

/// The stripe of the calling thread: threads take turns as they first come.
#[inline]
fn stripe() -> usize {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    thread_local!(static MINE: Cell<u32> = const { Cell::new(u32::MAX) });
    MINE.with(|mine| {
        if mine.get() == u32::MAX {
            mine.set(NEXT.fetch_add(1, Relaxed) % STRIPES);
        }
        mine.get() as usize
    })
}
