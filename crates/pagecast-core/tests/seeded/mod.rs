//! Random tests that can be repeated: each runs once with a seed that never changes and once with one that nobody saw
//! before, which is printed; `PAGECAST_SEED` takes its place.

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

const KNOWN: u64 = 20_261_121;

/// Tries `test` on `cases` values of `strategy` for each seed; panics with the smallest value that fails.
pub(crate) fn check<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    for seed in [KNOWN, fresh()] {
        println!("{cases} cases with PAGECAST_SEED={seed}");
        let rng_seed = RngSeed::Fixed(seed);
        let config = ProptestConfig { cases, failure_persistence: None, rng_seed, ..ProptestConfig::default() };
        if let Err(error) = TestRunner::new(config).run(strategy, &test) {
            panic!("with PAGECAST_SEED={seed}: {error}");
        }
    }
}

fn fresh() -> u64 {
    match env::var("PAGECAST_SEED") {
        Ok(seed) => seed.parse().unwrap_or_else(|_| panic!("PAGECAST_SEED={seed} is no whole number")),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64,
    }
}
