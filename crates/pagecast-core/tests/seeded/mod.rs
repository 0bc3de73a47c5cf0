//! Random tests that can be repeated. A run takes a seed that nobody saw before and prints it;
//! `PAGECAST_SEED` takes its place.

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

const KNOWN: u64 = 20_261_121;

/// Tries `test` on `cases` values of `strategy` for a seed that never changes and for a fresh one;
/// panics with the smallest value that fails.
pub(crate) fn check<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    for seed in [KNOWN, fresh()] {
        if let Err(error) = TestRunner::new(config(cases, seed)).run(strategy, &test) {
            panic!("with PAGECAST_SEED={seed}: {error}");
        }
    }
}

/// For [`proptest!`] with this seed, which is printed.
pub(crate) fn config(cases: u32, seed: u64) -> ProptestConfig {
    println!("{cases} cases with PAGECAST_SEED={seed}");
    let rng_seed = RngSeed::Fixed(seed);
    ProptestConfig { cases, failure_persistence: None, rng_seed, ..ProptestConfig::default() }
}

/// That of the environment, or one of the clock's.
pub(crate) fn fresh() -> u64 {
    match env::var("PAGECAST_SEED") {
        Ok(seed) => seed.parse().unwrap_or_else(|_| panic!("PAGECAST_SEED={seed} is no whole number")),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64,
    }
}
