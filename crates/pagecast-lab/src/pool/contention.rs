//! What BP-Wrapper does for the lock of an ordered policy: how often it is taken and found taken,
//! and what that leaves of the throughput, on hits only.
//!
//! An access pins a page, adds up its 4 KiB as a scan of its rows would, and unpins it; keys are
//! zipfian, every thread has a session. Clock-sweep, which takes no lock, runs beside.

use std::hint::black_box;
use std::time::Instant;

use pagecast::Batching;

use super::resident::{Resident, Workload};
use crate::rounds::{Figure, median, pairs};

/// Accesses of all threads in one round.
const ACCESSES: usize = 160_000;
const THREADS: [u32; 5] = [1, 2, 4, 8, 16];

const VARIANTS: [(&str, Batching); 4] = [
    ("plain", Batching::OFF),
    ("prefetching", Batching { queue: 1, prefetch: true }),
    ("batching", Batching { queue: 64, prefetch: false }),
    ("both", Batching { queue: 64, prefetch: true }),
];

/// One row of the table; counts are per million accesses.
pub(crate) struct Row {
    pub(crate) policy: &'static str,
    pub(crate) variant: &'static str,
    pub(crate) threads: u32,
    pub(crate) acquisitions: f64,
    pub(crate) blocked: f64,
    /// Tries of half full queues that found the lock taken and went on.
    pub(crate) failed_tries: f64,
    /// Million accesses per second.
    pub(crate) mops: f64,
}

/// Every policy, variant and number of threads, medians of `rounds`.
pub(crate) fn measure(rounds: usize) -> Vec<Row> {
    let keys = THREADS.map(|threads| Workload::Zipfian.keys(threads, ACCESSES / threads as usize));
    let mut rows = Vec::new();
    for policy in ["2q", "lirs", "arc", "lru", "clock"] {
        // What takes no lock has no variants.
        for (variant, batching) in &VARIANTS[..if policy == "clock" { 1 } else { VARIANTS.len() }] {
            let resident = Resident::new(policy, *batching);
            for keys in &keys {
                rows.push(row(&resident, (policy, variant), keys, rounds));
            }
        }
    }
    rows
}

fn row(resident: &Resident, (policy, variant): (&'static str, &'static str), keys: &[Vec<u32>], rounds: usize) -> Row {
    let before = resident.pool.stats();
    let seconds = median((0..rounds).map(|_| seconds(resident, keys)));
    let after = resident.pool.stats();
    assert_eq!(after.loads, before.loads, "every page is resident");
    let per_million = |after: u64, before: u64| (after - before) as f64 * 1e6 / (rounds * ACCESSES) as f64;
    let (before, after) = (before.policy_lock, after.policy_lock);
    Row {
        policy,
        variant,
        threads: keys.len() as u32,
        acquisitions: per_million(after.acquisitions, before.acquisitions),
        blocked: per_million(after.blocked, before.blocked),
        failed_tries: per_million(after.failed_tries, before.failed_tries),
        mops: ACCESSES as f64 / seconds / 1e6,
    }
}

/// 2Q with both techniques against clock-sweep in turns: seconds for a million accesses, and the
/// ratio of the times.
pub(crate) fn against_clock(rounds: usize) -> Vec<(u32, Figure)> {
    let two_queue = Resident::new("2q", Batching::default());
    let clock = Resident::new("clock", Batching::default());
    THREADS
        .iter()
        .map(|&threads| {
            let keys = Workload::Zipfian.keys(threads, ACCESSES / threads as usize);
            let per_million = |resident| seconds(resident, &keys) * 1e6 / ACCESSES as f64;
            (threads, pairs(rounds, || per_million(&two_queue), || per_million(&clock)))
        })
        .collect()
}

fn seconds(resident: &Resident, keys: &[Vec<u32>]) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for keys in keys {
            scope.spawn(move || {
                let mut session = resident.pool.session();
                for &block in keys {
                    let page = session.pin(&resident.relation, block, None).expect("the page is resident");
                    black_box(sum(&page));
                }
            });
        }
    });
    start.elapsed().as_secs_f64()
}

fn sum(page: &[u8]) -> u64 {
    let words = page.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    words.fold(0, u64::wrapping_add)
}
