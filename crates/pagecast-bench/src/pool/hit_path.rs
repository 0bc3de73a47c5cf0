//! The hit path: pin and unpin of a resident page against `get` of other caches on resident keys.
//!
//! Ours returns a pin, which keeps the page's bytes in place until it is dropped; theirs a clone of an `Arc`, which does
//! the same for a value. Both then read one word of the page. Every key is resident in every cache.

use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use pagecast::{Pool, PoolOptions, Relation};
use pagecast_core::policy::PolicySpec;
use pagecast_core::random::Random;

use crate::rounds::{Figure, pairs};

const PAGES: u32 = 4_096;
const PAGE_SIZE: u32 = 4_096;
const OPERATIONS: usize = 1_000_000;

/// How keys are drawn.
#[derive(Clone, Copy)]
pub(crate) enum Workload {
    /// Every page alike.
    Uniform,
    /// Zipfian with exponent 0.99 over all pages, the ranks scattered over the blocks.
    Zipfian,
    /// Uniform, each thread in a half of its own: no two threads use one page.
    Disjoint,
}

impl Workload {
    pub(crate) const ALL: [Self; 3] = [Self::Uniform, Self::Zipfian, Self::Disjoint];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipfian => "zipfian-0.99",
            Self::Disjoint => "disjoint",
        }
    }

    /// The keys of each thread.
    fn keys(self, threads: u32) -> Vec<Vec<u32>> {
        let cumulated: Vec<f64> = (1..=PAGES)
            .scan(0.0, |sum, rank| {
                *sum += f64::from(rank).powf(-0.99);
                Some(*sum)
            })
            .collect();
        (0..threads)
            .map(|thread| {
                let mut random = Random::new(u64::from(thread) + 1);
                let share = PAGES / threads;
                let mut draw = || match self {
                    Self::Uniform => random.below(PAGES),
                    Self::Disjoint => thread * share + random.below(share),
                    Self::Zipfian => {
                        let target = random.unit() * cumulated[PAGES as usize - 1];
                        let rank = cumulated.partition_point(|&sum| sum < target) as u32;
                        // An odd factor permutes the blocks, whose number is a power of two.
                        rank.wrapping_mul(2_654_435_761) % PAGES
                    }
                };
                (0..OPERATIONS).map(|_| draw()).collect()
            })
            .collect()
    }
}

/// A cache with every page resident.
trait Cache: Sync {
    /// Looks the page up, holds it, reads its first word and lets it go.
    fn touch(&self, block: u32) -> u64;
}

struct Ours {
    pool: Pool,
    relation: Arc<Relation>,
}

impl Ours {
    fn new(policy: &str) -> Self {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        for block in 0..PAGES {
            let mut page = vec![0; PAGE_SIZE as usize];
            page[..8].copy_from_slice(&u64::from(block).to_le_bytes());
            file.write_all(&page).expect("room for 16 MiB");
        }
        let options = PoolOptions {
            memory: 2 * u64::from(PAGES) * u64::from(PAGE_SIZE),
            page_size: PAGE_SIZE,
            policy: PolicySpec::parse(policy).expect("the name of a policy"),
            ..PoolOptions::default()
        };
        let pool = Pool::new(options).expect("room for the pool");
        let relation = pool.open(file.path()).expect("the file was just written");
        let ours = Self { pool, relation };
        for block in 0..PAGES {
            assert_eq!(ours.touch(block), u64::from(block));
        }
        ours
    }
}

impl Cache for Ours {
    fn touch(&self, block: u32) -> u64 {
        let pin = self.pool.pin(&self.relation, block, None).expect("the page is resident");
        first_word(&pin)
    }
}

type Value = Arc<Vec<u8>>;

fn values() -> impl Iterator<Item = (u32, Value)> {
    (0..PAGES).map(|block| {
        let mut page = vec![0; PAGE_SIZE as usize];
        page[..8].copy_from_slice(&u64::from(block).to_le_bytes());
        (block, Arc::new(page))
    })
}

struct QuickCache(quick_cache::sync::Cache<u32, Value>);

impl QuickCache {
    fn new() -> Self {
        let cache = quick_cache::sync::Cache::new(2 * PAGES as usize);
        values().for_each(|(block, page)| cache.insert(block, page));
        Self(cache)
    }
}

impl Cache for QuickCache {
    fn touch(&self, block: u32) -> u64 {
        first_word(&self.0.get(&block).expect("every key is resident"))
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
    fn touch(&self, block: u32) -> u64 {
        first_word(&self.0.get(&block).expect("every key is resident"))
    }
}

fn first_word(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[..8].try_into().expect("eight bytes"))
}

/// Nanoseconds per operation and thread, with all threads at work.
fn nanoseconds(cache: &dyn Cache, keys: &[Vec<u32>]) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for keys in keys {
            scope.spawn(move || {
                let sum = keys.iter().fold(0u64, |sum, &block| sum.wrapping_add(cache.touch(block)));
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
    let peers: [(&str, Box<dyn Cache>); 2] =
        [("quick_cache", Box::new(QuickCache::new())), ("moka", Box::new(Moka::new()))];
    let mut rows = Vec::new();
    for policy in ["pbm", "clock", "lru"] {
        let ours = Ours::new(policy);
        for workload in Workload::ALL {
            for threads in [1, 2] {
                let keys = workload.keys(threads);
                for (peer, cache) in &peers {
                    let figure = pairs(rounds, || nanoseconds(&ours, &keys), || nanoseconds(cache.as_ref(), &keys));
                    rows.push(Row { workload: workload.name(), threads, policy, peer, figure });
                }
            }
        }
    }
    rows
}
