//! A pool that is resized: the policies' shares follow, no frame is lost, and a policy that was
//! built for more frames than there are chooses as one that was built for these.
#![allow(clippy::unwrap_used)]

#[expect(dead_code, reason = "the model pool does more than is needed here")]
mod policy_pool;

use pagecast_core::PageId;
use pagecast_core::oracle::NoScans;
use pagecast_core::random::Random;
use policy_pool::{ModelPool, specs};

/// Mostly a hot set, sometimes anything, now and then a scan, so that every list and ghost list
/// comes into play.
fn trace(seed: u64, requests: u32) -> Vec<(PageId, bool)> {
    let mut random = Random::new(seed);
    let (mut scan, mut left) = (0, 0);
    let mut next = || {
        if left == 0 && random.below(50) == 0 {
            (scan, left) = (random.below(300), 40);
        }
        let block = match random.below(4) {
            0 if left > 0 => {
                left -= 1;
                scan += 1;
                scan
            }
            0 => random.below(300),
            _ => random.below(30),
        };
        (PageId::from_raw(block.into()), random.below(5) == 0)
    };
    (0..requests).map(|_| next()).collect()
}

#[test]
fn built_for_more_frames_it_chooses_as_if_built_for_these() {
    for spec in specs() {
        for (frames, most) in [(1, 7), (17, 18), (40, 200), (64, 64)] {
            let mut exact = ModelPool::new(&spec, frames, 3);
            let mut shrunk = ModelPool::resizable(&spec, frames, most, 3);
            for (at, (page, write)) in trace(9, 2_000).into_iter().enumerate() {
                exact.request(page, write, &NoScans).unwrap();
                shrunk.request(page, write, &NoScans).unwrap();
                assert_eq!(exact.evicted, shrunk.evicted, "{spec} with {frames} of {most} frames at request {at}");
            }
        }
    }
}

#[test]
fn resized_at_any_moment_it_keeps_its_invariants_and_its_frames() {
    const MOST: u32 = 96;
    for spec in specs() {
        for seed in 0..3 {
            let mut random = Random::new(seed);
            let mut pool = ModelPool::resizable(&spec, 32, MOST, seed);
            for (at, (page, write)) in trace(seed, 3_000).into_iter().enumerate() {
                if at % 97 == 0 {
                    pool.resize(random.below(MOST) + 1);
                    pool.check();
                }
                let frame = pool.request(page, write, &NoScans);
                assert!(frame.is_some(), "{spec}, seed {seed}: no victim at request {at}");
                if at % 31 == 0 {
                    pool.check();
                }
            }
        }
    }
}

#[test]
fn growing_evicts_nothing() {
    for spec in specs() {
        let mut pool = ModelPool::resizable(&spec, 20, 40, 5);
        for (page, write) in trace(5, 500) {
            pool.request(page, write, &NoScans).unwrap();
        }
        pool.resize(40);
        for block in 1_000..1_020 {
            pool.request(PageId::from_raw(block), false, &NoScans).unwrap();
            assert_eq!(pool.evicted, None, "{spec} evicts while frames are free");
        }
        pool.request(PageId::from_raw(2_000), false, &NoScans).unwrap();
        assert!(pool.evicted.is_some(), "{spec}: all 40 frames are in use");
        pool.check();
    }
}
