//! `pbm-pq` against a second version with vectors and searches, among scans that begin, go on and
//! end.
#![allow(clippy::unwrap_used)]

#[expect(dead_code, reason = "the model pool does more than is needed here")]
mod policy_pool;
mod seeded;
#[path = "naive/time_queues.rs"]
mod time_queues;

use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::policy::PolicySpec;
use pagecast_core::{PageId, Tick};
use policy_pool::ModelPool;
use proptest::prelude::*;
use std::cell::Cell;
use time_queues::TimeQueues;

/// Removes `page` from a list; whether it was on it.
fn remove(list: &mut Vec<u64>, page: u64) -> bool {
    let place = list.iter().position(|&other| other == page);
    place.map(|place| list.remove(place)).is_some()
}

/// Scans at a steady pace over blocks of the one relation: from, to, ticks a block.
#[derive(Default)]
struct Scans {
    running: Vec<(u64, u64, u64)>,
    changes: u64,
}

impl Oracle for Scans {
    fn next_access(&self, Question { page, .. }: Question) -> Option<Tick> {
        let ahead = self.running.iter().filter(|(from, to, _)| (*from..*to).contains(&page.raw()));
        ahead.map(|(from, _, pace)| (page.raw() - from) * pace).min()
    }

    fn scan_changes(&self) -> u64 {
        self.changes
    }
}

#[derive(Clone, Debug)]
enum Step {
    Point(u64),
    Begin {
        from: u64,
        blocks: u64,
        pace: u64,
    },
    /// A scan reads its next blocks.
    Read {
        scan: usize,
        blocks: u64,
    },
    End(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..80u64).prop_map(Step::Point),
        2 => (0..60u64, 1..40u64, 1..9u64).prop_map(|(from, blocks, pace)| Step::Begin { from, blocks, pace }),
        9 => (0..6usize, 1..12u64).prop_map(|(scan, blocks)| Step::Read { scan, blocks }),
        1 => (0..6usize).prop_map(Step::End),
    ];
    prop::collection::vec(step, 1..150)
}

fn agree(policy: &str, mut naive: TimeQueues, frames: u32, steps: &[Step]) -> Result<u32, TestCaseError> {
    let mut pool = ModelPool::new(&PolicySpec::parse(policy).unwrap(), frames, 1);
    let (mut scans, mut evictions) = (Scans::default(), 0);
    for (at, step) in steps.iter().enumerate() {
        let mut request = |page: u64, scans: &Scans| {
            pool.request(PageId::from_raw(page), false, scans).unwrap();
            pool.check();
            let victim = pool.evicted.map(PageId::raw);
            evictions += u32::from(victim.is_some());
            prop_assert_eq!(victim, naive.request(page, scans), "{} of {} frames in step {}", policy, frames, at);
            Ok(())
        };
        match *step {
            Step::Point(page) => request(page, &scans)?,
            Step::Begin { from, blocks, pace } => {
                scans.running.push((from, from + blocks, pace));
                scans.changes += 1;
            }
            Step::Read { scan, blocks } if scan < scans.running.len() => {
                for _ in 0..blocks.min(scans.running[scan].1 - scans.running[scan].0) {
                    request(scans.running[scan].0, &scans)?;
                    scans.running[scan].0 += 1;
                }
            }
            Step::End(scan) if scan < scans.running.len() => {
                scans.running.remove(scan);
                scans.changes += 1;
            }
            Step::Read { .. } | Step::End(_) => {}
        }
    }
    Ok(evictions)
}

/// What a policy is called, and its twin for so many frames.
type Twin = (&'static str, fn(usize) -> TimeQueues);

const TWINS: &[Twin] = &[
    ("pbm-pq", |n| TimeQueues::new(n, Some(5), 50, (0, 16))),
    ("pbm-pq(bulk=1,slice=3)", |n| TimeQueues::new(n, Some(5), 50, (3, 1))),
    ("pbm-pq(tiers=3,queues=2,slice=2,bulk=4)", |n| TimeQueues::new(n, Some(2), 6, (2, 4))),
    ("pbm-pq(version=2011)", |n| TimeQueues::new(n, None, 50, (0, 16))),
    ("pbm-pq(version=2011,tiers=1,queues=4,slice=7,bulk=1)", |n| TimeQueues::new(n, None, 4, (7, 1))),
];

#[test]
fn victims_agree() {
    let evictions = Cell::new(0);
    seeded::check(60, &(1..24u32, steps()), |(frames, steps)| {
        for (policy, twin) in TWINS {
            evictions.set(evictions.get() + agree(policy, twin(frames as usize), frames, &steps)?);
        }
        Ok(())
    });
    println!("{} victims were compared", evictions.get());
    assert!(evictions.get() > 3_000);
}

/// Agreement means something only if the steps tell the versions, the bulks and the slices apart.
#[test]
fn the_steps_tell_versions_apart() {
    let others: [Twin; 3] = [
        ("pbm-pq(slice=3,bulk=1)", |n| TimeQueues::new(n, None, 50, (3, 1))),
        ("pbm-pq(slice=3,bulk=1)", |n| TimeQueues::new(n, Some(5), 50, (3, 8))),
        ("pbm-pq(slice=3,bulk=1)", |n| TimeQueues::new(n, Some(5), 50, (11, 1))),
    ];
    let differences = [const { Cell::new(0) }; 3];
    seeded::check(40, &(4..24u32, steps()), |(frames, steps)| {
        for ((policy, twin), count) in others.iter().zip(&differences) {
            count.set(count.get() + u32::from(agree(policy, twin(frames as usize), frames, &steps).is_err()));
        }
        Ok(())
    });
    println!("of 80 histories, those on which the relatives differ: {differences:?}");
    assert!(differences.iter().all(|count| count.get() >= 10), "{differences:?}");
}
