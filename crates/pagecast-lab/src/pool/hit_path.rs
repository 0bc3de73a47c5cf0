//! The hit path: pin and unpin of a resident page against `get` of other caches on resident keys.
//!
//! Ours returns a pin, which keeps the page's bytes in place until it is dropped; theirs a clone of
//! an `Arc` or an entry that counts references, which do the same for a value. Both then read one
//! word of the page. Every key is resident in every cache. A thread of ours uses a session of its
//! own.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use pagecast::Batching;

use super::resident::{PAGES, Resident, Workload, first_word, page};
use crate::rounds::{Figure, pairs};

const OPERATIONS: usize = 500_000;

/// A cache with every page resident.
trait Cache: Sync {
    /// What one thread calls with its keys: looks the page up, holds it, reads its first word and
    /// lets it go.
    fn visitor(&self) -> Box<dyn FnMut(u32) -> u64 + '_>;
}

impl Cache for Resident {
    fn visitor(&self) -> Box<dyn FnMut(u32) -> u64 + '_> {
        let mut session = self.pool.session();
        Box::new(move |block| first_word(&session.pin(&self.relation, block, None).expect("the page is resident")))
    }
}

type Value = Arc<Vec<u8>>;

fn values() -> impl Iterator<Item = (u32, Value)> {
    (0..PAGES).map(|block| (block, Arc::new(page(block))))
}

const RESIDENT: &str = "every key is resident";

struct QuickCache(quick_cache::sync::Cache<u32, Value>);

impl QuickCache {
    fn new() -> Self {
        let cache = quick_cache::sync::Cache::new(2 * PAGES as usize);
        values().for_each(|(block, page)| cache.insert(block, page));
        Self(cache)
    }
}

impl Cache for QuickCache {
    fn visitor(&self) -> Box<dyn FnMut(u32) -> u64 + '_> {
        Box::new(|block| first_word(&self.0.get(&block).expect(RESIDENT)))
    }
}

struct Moka(moka::sync::Cache<u32, Value>);

impl Moka {
    fn new() -> Self {
        let cache = moka::sync::Cache::new(2 * u64::from(PAGES));
        values().for_each(|(block, page)| cache.insert(block, page));
        cache.run_pending_tasks();
        Self(cache)
    }
}

impl Cache for Moka {
    fn visitor(&self) -> Box<dyn FnMut(u32) -> u64 + '_> {
        Box::new(|block| first_word(&self.0.get(&block).expect(RESIDENT)))
    }
}

/// With foyer's defaults. Its entries count references themselves, so that the page need not be in
/// an `Arc`.
struct Foyer(foyer_memory::Cache<u32, Vec<u8>>);

impl Foyer {
    fn new() -> Self {
        let cache = foyer_memory::CacheBuilder::new(2 * PAGES as usize).build();
        for block in 0..PAGES {
            cache.insert(block, page(block));
        }
        Self(cache)
    }
}

impl Cache for Foyer {
    fn visitor(&self) -> Box<dyn FnMut(u32) -> u64 + '_> {
        Box::new(|block| first_word(self.0.get(&block).expect(RESIDENT).value()))
    }
}

/// Nanoseconds per operation and thread, with all threads at work.
fn nanoseconds(cache: &dyn Cache, keys: &[Vec<u32>]) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for keys in keys {
            scope.spawn(move || {
                let mut visit = cache.visitor();
                let sum = keys.iter().fold(0u64, |sum, &block| sum.wrapping_add(visit(block)));
                black_box(sum);
            });
        }
    });
    start.elapsed().as_nanos() as f64 / OPERATIONS as f64
}

/// One row of the table: our pool under `policy` against one peer.
pub(crate) struct Row {
    pub(crate) workload: &'static str,
    pub(crate) threads: u32,
    pub(crate) policy: &'static str,
    pub(crate) peer: &'static str,
    pub(crate) figure: Figure,
}

/// Every workload, number of threads, policy and peer.
pub(crate) fn measure(rounds: usize) -> Vec<Row> {
    let peers: [(&str, Box<dyn Cache>); 3] = [
        ("quick_cache", Box::new(QuickCache::new())),
        ("moka", Box::new(Moka::new())),
        ("foyer", Box::new(Foyer::new())),
    ];
    let mut rows = Vec::new();
    for policy in ["pbm", "clock", "lru", "2q"] {
        let ours = Resident::new(policy, Batching::default());
        for workload in Workload::ALL {
            for threads in [1, 2] {
                let keys = workload.keys(threads, OPERATIONS);
                for (peer, cache) in &peers {
                    let figure = pairs(rounds, || nanoseconds(&ours, &keys), || nanoseconds(cache.as_ref(), &keys));
                    rows.push(Row { workload: workload.name(), threads, policy, peer, figure });
                }
            }
        }
    }
    rows
}
