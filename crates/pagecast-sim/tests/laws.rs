//! Laws that hold on every trace, tried on random ones.
#![allow(clippy::unwrap_used)]

use pagecast_core::PageId;
use pagecast_core::oracle::NoScans;
use pagecast_core::policy::{PolicySpec, names};
use pagecast_sim::replay::{PageIds, accesses, belady_misses, replay};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Traces with hot pages, scans and loops, not just noise.
fn traces() -> impl Strategy<Value = Vec<PageId>> {
    let piece = prop_oneof![
        prop::collection::vec(0..12u64, 1..40),
        prop::collection::vec(0..64u64, 1..40),
        (0..40u64, 1..30u64).prop_map(|(start, len)| (start..start + len).collect()),
        (0..40u64, 1..16u64, 1..4u64)
            .prop_map(|(start, len, rounds)| { (0..rounds * len).map(|i| start + i % len).collect() }),
    ];
    prop::collection::vec(piece, 1..12).prop_map(|pieces| pieces.into_iter().flatten().map(PageId::from_raw).collect())
}

/// The requests that miss.
fn misses(spec: &PolicySpec, trace: &[PageId], frames: u32, seed: u64) -> Vec<u64> {
    let mut at = Vec::new();
    replay(accesses(trace), PageIds::Dense(128), spec, frames, seed, &NoScans, |access| at.push(access.at)).unwrap();
    at
}

/// The fewest misses, by trying everything: the minimum over all victims at each miss.
fn fewest(trace: &[PageId], resident: &mut Vec<PageId>, frames: usize) -> u64 {
    let Some((page, rest)) = trace.split_first() else { return 0 };
    if resident.contains(page) {
        return fewest(rest, resident, frames);
    }
    if resident.len() < frames {
        resident.push(*page);
        let misses = 1 + fewest(rest, resident, frames);
        resident.pop();
        return misses;
    }
    let mut best = u64::MAX;
    for victim in 0..frames {
        let left = core::mem::replace(&mut resident[victim], *page);
        best = best.min(1 + fewest(rest, resident, frames));
        resident[victim] = left;
    }
    best
}

fn online() -> impl Iterator<Item = PolicySpec> {
    names().map(|name| PolicySpec::parse(name).unwrap()).filter(|spec| !spec.needs_trace())
}

/// The same in every run, with seed 1; PROPTEST_RNG_SEED and PROPTEST_CASES make others.
fn cases() -> ProptestConfig {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let rng_seed = if config.rng_seed == RngSeed::Random { RngSeed::Fixed(1) } else { config.rng_seed };
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { config.cases } else { 96 };
    ProptestConfig { rng_seed, cases, ..config }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn belady_misses_no_more_than_any_policy(trace in traces(), frames in 1..40u32, seed: u64) {
        let floor = belady_misses(&trace, frames, |_| ()).unwrap();
        for spec in online() {
            let misses = misses(&spec, &trace, frames, seed).len() as u64;
            prop_assert!(floor <= misses, "{spec} misses {misses}, Belady {floor}");
        }
    }

    #[test]
    fn belady_is_as_good_as_trying_everything(trace in prop::collection::vec(0..6u64, 1..14), frames in 1..4u32) {
        let trace: Vec<PageId> = trace.into_iter().map(PageId::from_raw).collect();
        let floor = belady_misses(&trace, frames, |_| ()).unwrap();
        prop_assert_eq!(floor, fewest(&trace, &mut Vec::new(), frames as usize));
    }

    /// What hits in a small pool hits in every larger one.
    #[test]
    fn lru_has_the_inclusion_property(trace in traces(), frames in 1..40u32) {
        let lru = PolicySpec::parse("lru").unwrap();
        let smaller = misses(&lru, &trace, frames, 1);
        let larger = misses(&lru, &trace, frames + 1, 1);
        prop_assert!(larger.iter().all(|at| smaller.binary_search(at).is_ok()));
    }

    /// The seed decides everything that is left to chance.
    #[test]
    fn a_replay_repeats(trace in traces(), frames in 1..40u32, seed: u64) {
        for spec in online() {
            prop_assert_eq!(misses(&spec, &trace, frames, seed), misses(&spec, &trace, frames, seed), "{}", spec);
        }
    }
}
