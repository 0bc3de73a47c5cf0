//! A second version of each list policy, written from its paper with vectors and searches and no
//! care for speed, chooses the same victims on random traces.
#![allow(clippy::unwrap_used)]

mod naive;
#[expect(dead_code, reason = "the model pool does more than is needed here")]
mod policy_pool;
mod seeded;

use naive::Naive;
use pagecast_core::PageId;
use pagecast_core::oracle::NoScans;
use pagecast_core::policy::PolicySpec;
use policy_pool::ModelPool;
use proptest::prelude::*;
use std::cell::Cell;

/// Of what the policies leave to chance.
const SEED: u64 = 1;

/// Hot pages, noise and scans; a write now and then.
fn traces() -> impl Strategy<Value = Vec<(u64, bool)>> {
    let piece = prop_oneof![
        prop::collection::vec(0..8u64, 1..30),
        prop::collection::vec(0..40u64, 1..30),
        (0..40u64, 1..30u64).prop_map(|(start, len)| (start..start + len).collect()),
    ];
    let pages = prop::collection::vec(piece, 1..14).prop_map(|pieces| pieces.concat());
    pages.prop_flat_map(|pages: Vec<u64>| {
        let writes = prop::collection::vec(prop::bool::weighted(0.3), pages.len());
        writes.prop_map(move |writes| pages.iter().copied().zip(writes).collect())
    })
}

/// The same trace over relations of 3, 6, 9 and 22 pages.
fn of_relations(trace: &[(u64, bool)]) -> Vec<(u64, bool)> {
    let page = |number: u64| {
        let relation = [0, 3, 9, 18].into_iter().rposition(|first| number >= first).unwrap();
        (relation as u64) << 32 | (number - [0, 3, 9, 18][relation])
    };
    trace.iter().map(|&(number, write)| (page(number), write)).collect()
}

fn agree(policy: &str, mut naive: impl Naive, frames: u32, trace: &[(u64, bool)]) -> Result<(), TestCaseError> {
    let mut pool = ModelPool::new(&PolicySpec::parse(policy).unwrap(), frames, SEED);
    for (at, &(page, write)) in trace.iter().enumerate() {
        pool.request(PageId::from_raw(page), write, &NoScans).unwrap();
        let victim = pool.evicted.map(PageId::raw);
        prop_assert_eq!(victim, naive.request(page, write), "{} of {} frames at request {}", policy, frames, at);
    }
    Ok(())
}

#[test]
fn victims_agree() {
    seeded::check(200, &(1..20u32, traces()), |(frames, trace)| {
        let n = frames as usize;
        agree("fifo", naive::Fifo::new(n), frames, &trace)?;
        agree("lru", naive::Lru::new(n), frames, &trace)?;
        agree("clock", naive::Clock::new(n, 5, 1), frames, &trace)?;
        agree("clock(max=1,init=0)", naive::Clock::new(n, 1, 0), frames, &trace)?;
        agree("clock2t", naive::SecondTouch::new(n), frames, &trace)?;
        agree("sieve", naive::Sieve::new(n), frames, &trace)?;
        agree("s3-fifo", naive::S3Fifo::new(n, 2), frames, &trace)?;
        agree("s3-fifo(threshold=1)", naive::S3Fifo::new(n, 1), frames, &trace)?;
        agree("lfu", naive::Lfu::new(n), frames, &trace)?;
        agree("lfu-aged(mean=2)", naive::LfuAged::new(n, 2.0), frames, &trace)?;
        agree("2q", naive::TwoQueue::new(n), frames, &trace)?;
        agree("arc", naive::Arc::new(n), frames, &trace)?;
        agree("car", naive::Car::new(n), frames, &trace)?;
        agree("lru-k", naive::LruK::new(n, 2, 0.15, 1.0), frames, &trace)?;
        agree("lru-k(correlated=0,history=0%)", naive::LruK::new(n, 2, 0.0, 0.0), frames, &trace)?;
        agree("lru-k(k=3,correlated=50%,history=50%)", naive::LruK::new(n, 3, 0.5, 0.5), frames, &trace)?;
        agree("lru-2prio(small=50%)", naive::TwoPriorityLru::new(n), frames, &of_relations(&trace))?;
        agree("cflru", naive::Cflru::new(n), frames, &trace)?;
        agree("cfdc(cluster=8)", naive::Cfdc::new(n), frames, &trace)?;
        agree("ad-lru", naive::AdLru::new(n), frames, &trace)?;
        agree("ccf-lru", naive::CcfLru::new(n), frames, &trace)?;
        agree("lirs(ghosts=10000%)", naive::Lirs::new(n), frames, &trace)?;
        agree("clock-pro", naive::ClockPro::new(n, 0.01, 2.0), frames, &trace)?;
        agree("clock-pro(cold=20%,ghosts=100%)", naive::ClockPro::new(n, 0.2, 1.0), frames, &trace)?;
        agree("lrfu(lambda=0.1)", naive::Lrfu::new(n, 0.1), frames, &trace)?;
        agree("leanevict", naive::LeanEvict::new(n, SEED), frames, &trace)?;
        agree("watt", naive::Watt::new(n, 4, 1.0, SEED), frames, &trace)?;
        agree("watt(write=0)", naive::Watt::new(n, 4, 0.0, SEED), frames, &trace)?;
        agree("watt(epochs=8,write=2.5)", naive::Watt::new(n, 8, 2.5, SEED), frames, &trace)?;
        Ok(())
    });
}

/// Agreement means something only if the traces show what sets near relatives apart.
#[test]
fn the_traces_tell_policies_apart() {
    let differences = [const { Cell::new(0) }; 13];
    seeded::check(200, &(10..20u32, traces()), |(frames, trace)| {
        let n = frames as usize;
        let agreements = [
            agree("ad-lru", naive::CcfLru::new(n), frames, &trace),
            agree("car", naive::Arc::new(n), frames, &trace),
            agree("ccf-lru", naive::Cflru::new(n), frames, &trace),
            agree("cfdc(cluster=8)", naive::Cflru::new(n), frames, &trace),
            agree("clock-pro", naive::ClockPro::new(n, 0.01, 0.5), frames, &trace),
            agree("clock2t", naive::Clock::new(n, 2, 0), frames, &trace),
            agree("leanevict", naive::LeanEvict::new(n, SEED + 1), frames, &trace),
            agree("lfu-aged(mean=2)", naive::Lfu::new(n), frames, &trace),
            agree("lirs(ghosts=10000%)", naive::ClockPro::new(n, 0.01, 2.0), frames, &trace),
            agree("lru-2prio(small=50%)", naive::Lru::new(n), frames, &of_relations(&trace)),
            agree("lru-k", naive::LruK::new(n, 2, 0.0, 1.0), frames, &trace),
            agree("s3-fifo", naive::S3Fifo::new(n, 1), frames, &trace),
            agree("watt", naive::Watt::new(n, 4, 0.0, SEED), frames, &trace),
        ];
        for (count, agreed) in differences.iter().zip(agreements) {
            count.set(count.get() + u32::from(agreed.is_err()));
        }
        Ok(())
    });
    println!("of 400 traces, those on which the relatives differ: {differences:?}");
    assert!(differences.iter().all(|count| count.get() >= 20), "{differences:?}");
}
