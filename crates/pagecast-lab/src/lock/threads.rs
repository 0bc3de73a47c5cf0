//! Hits of threads through one policy: throughput, and the shares of the threads' time that the
//! policy's lock is held and waited for.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pagecast_core::policy::{Batching, ConcurrentPolicy, Due, Frames, HitNeed, HitQueue, Policy, PolicySpec, names};

use super::frames::{FRAMES, Table, access};
use super::loads::Load;
use super::watched::{Watched, look};
use crate::rounds::median;

/// Accesses of all threads in one round.
const ACCESSES: usize = 200_000;
/// What an access does with its page is to add up so many words.
const WORDS: usize = 512;

/// One load, policy, way and number of threads.
pub(crate) struct Row {
    pub(crate) load: &'static str,
    pub(crate) policy: &'static str,
    /// `bare`, `wrapped`, or `no lock`.
    pub(crate) way: &'static str,
    pub(crate) threads: u32,
    /// Million accesses a second.
    pub(crate) mops: f64,
    /// How often a million accesses found the lock taken and waited.
    pub(crate) blocked: f64,
    /// Parts of the threads' time: in the policy under the lock, and on the way to it.
    pub(crate) holding: f64,
    pub(crate) waiting: f64,
}

/// Every policy that keeps an order, bare and wrapped, and clock-sweep, which takes no lock.
pub(crate) fn measure(threads: &[u32], policies: &[String], rounds: usize) -> Vec<Row> {
    let loads =
        Load::ALL.map(|load| (load, threads.iter().map(|&n| load.pages(n, ACCESSES / n as usize)).collect::<Vec<_>>()));
    let mut rows = Vec::new();
    for name in names().filter(|name| policies.is_empty() || policies.iter().any(|wanted| wanted == name)) {
        for (way, batching) in [("bare", Batching::OFF), ("wrapped", Batching::default())] {
            let Some((watched, way)) = build(name, way, batching) else { continue };
            let table = Table::filled(&*watched.policy);
            for (load, pages) in &loads {
                for pages in pages {
                    rows.push(watched.row(&table, pages, rounds, (load.name(), name, way)));
                }
            }
            if way == NO_LOCK {
                break;
            }
        }
    }
    rows
}

const NO_LOCK: &str = "no lock";

struct Measured {
    policy: Box<dyn ConcurrentPolicy>,
    held: Arc<AtomicU64>,
}

/// `None` of a policy that is neither ordered nor clock-sweep.
fn build(name: &str, way: &'static str, batching: Batching) -> Option<(Measured, &'static str)> {
    let held = Arc::new(AtomicU64::new(0));
    let policy = PolicySpec::parse(name).ok()?.build(FRAMES, 1).ok()?;
    let (policy, way) = match policy {
        Policy::Sequential(policy) if policy.hit_need() == HitNeed::Order => {
            (Policy::Sequential(Box::new(Watched::new(policy, look(), held.clone()))), way)
        }
        policy if name == "clock" => (policy, NO_LOCK),
        _ => return None,
    };
    Some((Measured { policy: policy.into_concurrent(batching), held }, way))
}

impl Measured {
    fn row(
        &self,
        table: &Table,
        pages: &[Vec<u32>],
        rounds: usize,
        (load, policy, way): (&'static str, &'static str, &'static str),
    ) -> Row {
        let before = self.policy.lock_counts().blocked;
        let mut runs = Vec::new();
        for _ in 0..rounds {
            let held = self.held.load(Relaxed);
            let (wall, busy, locking) = self.run(table, pages);
            let held = Duration::from_nanos(self.held.load(Relaxed) - held).as_secs_f64();
            runs.push((wall, held / busy, (locking - held).max(0.0) / busy));
        }
        Row {
            load,
            policy,
            way,
            threads: pages.len() as u32,
            mops: ACCESSES as f64 / median(runs.iter().map(|run| run.0)) / 1e6,
            blocked: (self.policy.lock_counts().blocked - before) as f64 * 1e6 / (rounds * ACCESSES) as f64,
            holding: median(runs.iter().map(|run| run.1)),
            waiting: median(runs.iter().map(|run| run.2)),
        }
    }

    /// Seconds by the wall, of all threads together, and of these in calls of the policy.
    fn run(&self, table: &Table, pages: &[Vec<u32>]) -> (f64, f64, f64) {
        let start = Instant::now();
        let each: Vec<(f64, f64)> = std::thread::scope(|scope| {
            let threads: Vec<_> = pages.iter().map(|pages| scope.spawn(move || self.session(table, pages))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a thread ends")).collect()
        });
        let sum = |part: fn(&(f64, f64)) -> f64| each.iter().map(part).sum();
        (start.elapsed().as_secs_f64(), sum(|thread| thread.0), sum(|thread| thread.1))
    }

    /// One thread's accesses: its seconds, and of these in calls of the policy.
    fn session(&self, table: &Table, pages: &[u32]) -> (f64, f64) {
        let (start, look) = (Instant::now(), Duration::from_nanos(look()));
        let (need, content) = (self.policy.hit_need(), vec![1; WORDS]);
        let mut queue = HitQueue::new();
        let mut locking = Duration::ZERO;
        for (at, &block) in pages.iter().enumerate() {
            let (frame, access) = (table.frame(block), access(block, at as u64));
            let due = match need {
                HitNeed::Queue { length } => queue.note(length, frame, &access),
                need if need.is_met_by(table.word(frame)) => Due::NotYet,
                _ => unreachable!("clock-sweep counts, and the others keep an order"),
            };
            if due != Due::NotYet {
                let begun = Instant::now();
                self.policy.commit(table, &mut queue, due == Due::Now);
                locking += begun.elapsed().saturating_sub(look);
            }
            black_box(content.iter().fold(0_u64, |sum, word| sum.wrapping_add(black_box(*word))));
        }
        self.policy.commit(table, &mut queue, true);
        (start.elapsed().as_secs_f64(), locking.as_secs_f64())
    }
}
