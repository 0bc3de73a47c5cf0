//! A pool that holds every page of a file, and keys to ask it for.

use std::sync::LazyLock;

use pagecast::storage::{Device, MemoryFiles};
use pagecast::{Batching, Pool, PoolOptions, Relation};
use pagecast_core::policy::PolicySpec;
use pagecast_core::random::Random;

use crate::warm;

pub(crate) const PAGES: u32 = 4_096;
pub(crate) const PAGE_SIZE: u32 = 4_096;

/// How keys are drawn.
#[derive(Clone, Copy)]
pub(crate) enum Workload {
    /// Every page alike.
    Uniform,
    /// Zipfian with exponent 0.99 over all pages, the ranks scattered over the blocks.
    Zipfian,
    /// Uniform, each thread in a part of its own: no two threads use one page.
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
    pub(crate) fn keys(self, threads: u32, each: usize) -> Vec<Vec<u32>> {
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
                (0..each).map(|_| draw()).collect()
            })
            .collect()
    }
}

/// A page whose first word is its block's number.
pub(crate) fn page(block: u32) -> Vec<u8> {
    let mut page = vec![0; PAGE_SIZE as usize];
    page[..8].copy_from_slice(&u64::from(block).to_le_bytes());
    page
}

pub(crate) fn first_word(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[..8].try_into().expect("eight bytes"))
}

/// The file, in memory: hits read nothing, and the pool is warmed sooner.
static FILES: LazyLock<MemoryFiles> = LazyLock::new(|| {
    let files = MemoryFiles::new();
    files.write("pages", (0..PAGES + warm::filler(PAGES)).flat_map(page).collect::<Vec<u8>>());
    files
});

/// The pool.
pub(crate) struct Resident {
    pub(crate) pool: Pool,
    pub(crate) relation: Relation,
}

impl Resident {
    /// All pages are resident, as [`warm::all`] says.
    pub(crate) fn new(policy: &str, batching: Batching) -> Self {
        let options = PoolOptions::default()
            .memory(2 * u64::from(PAGES) * u64::from(PAGE_SIZE))
            .page_size(PAGE_SIZE)
            .policy(PolicySpec::parse(policy).expect("the name of a policy"))
            .batching(batching)
            .device(Device::new(FILES.clone(), None));
        let pool = Pool::new(options).expect("room for the pool");
        let relation = pool.open("pages".as_ref()).expect("the file is in memory");
        let resident = Self { pool, relation };
        resident.warm();
        resident
    }

    fn warm(&self) {
        warm::all(PAGES, self.pool.frames(), |block| {
            let before = self.pool.stats().loads;
            let pin = self.relation.pin(block, None).expect("there is a frame");
            assert_eq!(first_word(&pin), u64::from(block));
            self.pool.stats().loads != before
        });
    }
}
