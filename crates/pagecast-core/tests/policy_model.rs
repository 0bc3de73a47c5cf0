//! Every policy of the catalog against a model of the pool that it serves: no frame is lost or
//! given twice, refused candidates cost a bounded search, and what is left is found.
#![allow(clippy::unwrap_used)]

mod policy_pool;
mod seeded;

use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::policy::PolicySpec;
use pagecast_core::{FrameId, PageId, Tick};
use policy_pool::{ModelPool, specs};
use proptest::prelude::*;

/// Knows something about every third page, so that estimates and "nobody" are mixed.
struct EveryThird;

impl Oracle for EveryThird {
    fn next_access(&self, Question { page, now, .. }: Question) -> Option<Tick> {
        page.raw().is_multiple_of(3).then(|| (page.raw() * 7 + now) % 100)
    }
}

fn page(number: u64) -> PageId {
    PageId::from_raw(number)
}

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Request {
        page: u64,
        write: bool,
    },
    /// Holds the page, if resident, until it is released: claims on it are refused.
    Hold(u64),
    ReleaseAll,
    /// The page leaves other than by eviction.
    Forget(u64),
    /// The page is written, if resident.
    Clean(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (0..60u64, any::<bool>()).prop_map(|(page, write)| Step::Request { page, write }),
        2 => (0..60u64).prop_map(Step::Hold),
        1 => Just(Step::ReleaseAll),
        1 => (0..60u64).prop_map(Step::Forget),
        3 => (0..60u64).prop_map(Step::Clean),
    ];
    prop::collection::vec(step, 1..300)
}

#[test]
fn no_frame_is_lost_or_doubled() {
    seeded::check(64, &(1..24u32, any::<u64>(), steps()), |(frames, seed, steps)| {
        for spec in specs() {
            let mut pool = ModelPool::new(&spec, frames, seed);
            for step in &steps {
                match *step {
                    Step::Request { page: number, write } => {
                        let held = pool.held();
                        let found = pool.request(page(number), write, &EveryThird);
                        prop_assert!(found.is_some() || held == frames, "{spec}: no victim though a frame is free");
                    }
                    Step::Hold(number) => pool.hold(page(number)),
                    Step::ReleaseAll => pool.release_all(),
                    Step::Forget(number) => pool.forget(page(number)),
                    Step::Clean(number) => pool.clean(page(number)),
                }
                pool.check();
            }
        }
        Ok(())
    });
}

#[test]
fn when_all_frames_are_held_the_search_ends() {
    for spec in specs() {
        let frames = 100;
        let mut pool = ModelPool::new(&spec, frames, 3);
        for number in 0..150 {
            pool.request(page(number), false, &EveryThird).unwrap();
        }
        for number in 0..150 {
            pool.hold(page(number));
        }
        assert_eq!(pool.held(), frames);
        assert_eq!(pool.request(page(1000), false, &EveryThird), None, "{spec}");
        assert!(pool.claims() <= 8 * frames, "{spec} tried {} claims on {frames} frames", pool.claims());
        pool.check();
        // Nothing was given up, and once the frames are free again the pool goes on.
        pool.release_all();
        assert!(pool.request(page(1000), false, &EveryThird).is_some(), "{spec}");
        pool.check();
    }
}

#[test]
fn the_one_free_frame_among_held_ones_is_found() {
    for spec in specs() {
        let mut pool = ModelPool::new(&spec, 64, 9);
        for number in 0..64 {
            pool.request(page(number), false, &EveryThird).unwrap();
        }
        for number in (0..64).filter(|&number| number != 41) {
            pool.hold(page(number));
        }
        let expected = pool.frame_of(page(41));
        assert_eq!(pool.request(page(64), false, &EveryThird), expected, "{spec}");
        pool.check();
    }
}

#[test]
fn a_page_that_must_be_written_first_stays_and_another_leaves() {
    for spec in specs() {
        let mut pool = ModelPool::new(&spec, 8, 5);
        pool.refuse_dirty();
        for number in 0..8 {
            pool.request(page(number), number != 6, &EveryThird).unwrap();
        }
        let clean = pool.frame_of(page(6));
        assert_eq!(pool.request(page(8), false, &EveryThird), clean, "{spec}");
        pool.check();
    }
}

/// What is refused is next in line as soon as it is free.
#[test]
fn a_refused_candidate_keeps_its_place() {
    for name in ["lru"] {
        let mut pool = ModelPool::new(&PolicySpec::parse(name).unwrap(), 4, 1);
        for number in 0..4 {
            pool.request(page(number), false, &EveryThird).unwrap();
        }
        pool.hold(page(0));
        assert_eq!(pool.request(page(4), false, &EveryThird), Some(FrameId(1)), "{name}");
        pool.release_all();
        assert_eq!(pool.request(page(5), false, &EveryThird), Some(FrameId(0)), "{name}");
    }
}

#[test]
fn a_page_that_was_cleaned_leaves_before_an_older_dirty_one() {
    for spec in ["ad-lru", "ccf-lru", "cflru(window=1)", "cfdc(working=0)"] {
        let spec = PolicySpec::parse(spec).unwrap();
        let mut pool = ModelPool::new(&spec, 8, 1);
        for number in 0..8 {
            pool.request(page(number), true, &EveryThird).unwrap();
        }
        [5, 3].into_iter().for_each(|number| pool.clean(page(number)));
        let mut evicted = Vec::new();
        for number in 8..10 {
            pool.request(page(number), true, &EveryThird).unwrap();
            evicted.extend(pool.evicted);
        }
        evicted.sort();
        assert_eq!(evicted, [page(3), page(5)], "{spec}");
    }
}
