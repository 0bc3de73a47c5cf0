//! A second version of each list policy, written from its paper with vectors and searches and no care for speed, chooses
//! the same victims on random traces.
#![allow(clippy::unwrap_used)]

mod naive;
#[expect(dead_code, reason = "the model pool does more than is needed here")]
mod policy_pool;

use naive::Naive;
use pagecast_core::PageId;
use pagecast_core::oracle::NoScans;
use pagecast_core::policy::PolicySpec;
use policy_pool::ModelPool;
use proptest::prelude::*;

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

fn agree(policy: &str, mut naive: impl Naive, frames: u32, trace: &[(u64, bool)]) -> Result<(), TestCaseError> {
    let mut pool = ModelPool::new(&PolicySpec::parse(policy).unwrap(), frames, 1);
    for (at, &(page, write)) in trace.iter().enumerate() {
        pool.request(PageId::from_raw(page), write, &NoScans).unwrap();
        let victim = pool.evicted.map(PageId::raw);
        prop_assert_eq!(victim, naive.request(page, write), "{} of {} frames at request {}", policy, frames, at);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn victims_agree(frames in 1..20u32, trace in traces()) {
        let n = frames as usize;
        agree("fifo", naive::Fifo::new(n), frames, &trace)?;
        agree("lru", naive::Lru::new(n), frames, &trace)?;
        agree("clock", naive::Clock::new(n, 5, 1), frames, &trace)?;
        agree("clock(max=1,init=0)", naive::Clock::new(n, 1, 0), frames, &trace)?;
        agree("sieve", naive::Sieve::new(n), frames, &trace)?;
        agree("lfu", naive::Lfu::new(n), frames, &trace)?;
        agree("2q", naive::TwoQueue::new(n), frames, &trace)?;
        agree("arc", naive::Arc::new(n), frames, &trace)?;
        agree("lru-k(correlated=0,history=0%)", naive::LruTwo::new(n), frames, &trace)?;
        agree("cflru", naive::Cflru::new(n), frames, &trace)?;
        agree("lirs(ghosts=10000%)", naive::Lirs::new(n), frames, &trace)?;
        agree("lrfu(lambda=0.1)", naive::Lrfu::new(n, 0.1), frames, &trace)?;
    }
}
