//! The published sampling: its preset `pbm-paper` and, looking at every frame, all of its switches
//! are naive second versions, victim for victim; and each switch does what it says.
#![allow(clippy::unwrap_used)]

#[expect(dead_code, reason = "the model pool does more than is needed here")]
mod policy_pool;
mod sampled_pool;
mod seeded;

use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::policy::{ConcurrentPolicy, Frequency, PolicySpec, PublishedOptions, PublishedSampling};
use pagecast_core::random::RandomSource;
use pagecast_core::{PageId, Tick};
use policy_pool::ModelPool;
use proptest::prelude::*;
use sampled_pool::{ByNumber, Fourths, INCOMING, full, traces};
use std::cell::Cell;

/// Algorithm 1 as it is printed: random frames, the page that is wanted last goes, at once if
/// nobody wants it.
struct Algorithm1 {
    frames: Vec<u64>,
    samples: usize,
    random: RandomSource,
}

impl Algorithm1 {
    fn victim(&self, now: Tick) -> usize {
        let mut random = self.random.fork();
        let mut drawn = Vec::new();
        while drawn.len() < self.samples {
            let frame = random.below(self.frames.len() as u32) as usize;
            match Fourths.next_access(Question::new(PageId::from_raw(self.frames[frame]), now)) {
                Some(ticks) => drawn.push((ticks, frame)),
                None => return frame,
            }
        }
        drawn.into_iter().reduce(|last, other| if other.0 > last.0 { other } else { last }).unwrap().1
    }
}

/// The preset is frozen: whatever becomes of the switches, it chooses as the paper's Algorithm 1
/// does.
#[test]
fn the_preset_is_the_papers_algorithm_1() {
    const SEED: u64 = 5;
    let victims = Cell::new(0);
    seeded::check(60, &(1..24u32, 1..20u32, traces()), |(frames, samples, trace)| {
        let params = format!("samples={samples},bulk=1,frequency=off,fallback=off");
        for policy in ["pbm-paper", "pbm-published"] {
            let spec = PolicySpec::parse(&format!("{policy}({params})")).unwrap();
            let mut pool = ModelPool::new(&spec, frames, SEED);
            let random = RandomSource::new(SEED);
            let mut naive = Algorithm1 { frames: vec![], samples: samples as usize, random };
            for (now, &page) in (0..).zip(&trace) {
                pool.request(PageId::from_raw(page), false, &Fourths).unwrap();
                let left = pool.evicted.map(PageId::raw);
                if naive.frames.contains(&page) {
                    prop_assert_eq!(left, None);
                } else if naive.frames.len() < frames as usize {
                    naive.frames.push(page);
                } else {
                    let frame = naive.victim(now);
                    prop_assert_eq!(left, Some(std::mem::replace(&mut naive.frames[frame], page)));
                    victims.set(victims.get() + 1);
                }
            }
        }
        Ok(())
    });
    assert!(victims.get() > 3_000, "{} victims were compared", victims.get());
    let spec = PolicySpec::parse("pbm-paper").unwrap();
    assert_eq!(spec.params(), "samples=10,bulk=1,frequency=off,fallback=off");
}

/// All frames, looked at in one round; of pages that nobody wants the least recently used goes, and
/// of equals any.
struct Exhaustive {
    /// Page and the times of its uses since it came in.
    resident: Vec<(u64, Vec<Tick>)>,
    frames: usize,
    reading: &'static str,
    now: Tick,
}

impl Exhaustive {
    fn mean(uses: &[Tick]) -> Option<f32> {
        let intervals: Vec<f32> = uses.windows(2).map(|pair| (pair[1] - pair[0]) as f32).collect();
        let first = &intervals[..intervals.len().min(4)];
        let exact = first.iter().sum::<f32>() / first.len() as f32;
        let all = intervals.iter().skip(4).fold(exact, |mean, interval| 0.8 * mean + 0.2 * interval);
        (!intervals.is_empty()).then_some(all)
    }

    /// The estimate of a page, or how long it has been idle.
    fn estimate(&self, page: u64, uses: &[Tick]) -> Result<f32, Tick> {
        let idle = self.now - uses.last().unwrap();
        let by_uses = Self::mean(uses).map(|mean| match self.reading {
            "max" => mean.max(idle as f32),
            "min" => mean.min(idle as f32),
            _ if idle as f32 > mean => (mean + idle as f32) / 2.0,
            _ => mean,
        });
        let by_scans = Fourths.next_access(Question::new(PageId::from_raw(page), self.now)).map(|ticks| ticks as f32);
        by_scans.into_iter().chain(by_uses).min_by(f32::total_cmp).ok_or(idle)
    }

    /// Requests a page; which pages may leave for it, if one must. Times in whole ticks, so that a
    /// mean may be off by one.
    fn request(&mut self, page: u64, left: Option<PageId>) -> Result<(), TestCaseError> {
        if let Some(place) = self.resident.iter().position(|(other, _)| *other == page) {
            prop_assert_eq!(left, None);
            self.resident[place].1.push(self.now);
        } else {
            prop_assert_eq!(left.is_some(), self.resident.len() == self.frames);
            if let Some(left) = left {
                let place = self.resident.iter().position(|(other, _)| *other == left.raw()).unwrap();
                let key = |(page, uses): &(u64, Vec<Tick>)| match self.estimate(*page, uses) {
                    Ok(ticks) => (0, ticks),
                    Err(idle) => (1, idle as f32),
                };
                let (victim, best) = (key(&self.resident[place]), self.resident.iter().map(key));
                let best = best.max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))).unwrap();
                prop_assert!(
                    victim.0 == best.0 && victim.1 > best.1 - 2.0,
                    "{:?} leaves, {:?} is wanted later",
                    victim,
                    best
                );
                self.resident.remove(place);
            }
            self.resident.push((page, vec![self.now]));
        }
        self.now += 1;
        Ok(())
    }
}

#[test]
fn looking_at_all_frames_it_chooses_as_the_naive_version() {
    let victims = Cell::new(0);
    seeded::check(60, &(1..24u32, traces()), |(frames, trace)| {
        for reading in ["max", "min", "mean"] {
            let text = format!("pbm-published(samples=256,replacement=no,frequency={reading},fallback=lru)");
            let mut pool = ModelPool::new(&PolicySpec::parse(&text).unwrap(), frames, 1);
            let mut naive = Exhaustive { resident: vec![], frames: frames as usize, reading, now: 0 };
            for &page in &trace {
                pool.request(PageId::from_raw(page), false, &Fourths).unwrap();
                victims.set(victims.get() + u32::from(pool.evicted.is_some()));
                naive.request(page, pool.evicted)?;
            }
        }
        Ok(())
    });
    println!("{} victims were compared", victims.get());
    assert!(victims.get() > 3_000);
}

#[test]
fn the_fallback_alone_is_lru() {
    sampled_pool::check_is_lru("pbm-published(samples=256,replacement=no,fallback=lru)");
}

const OFF: PublishedOptions =
    PublishedOptions { samples: 1, bulk: 1, replacement: false, frequency: Frequency::Off, lru_fallback: false };

#[test]
fn a_bulk_leaves_in_order_and_each_page_once() {
    for replacement in [true, false] {
        let options = PublishedOptions { samples: 60, bulk: 20, replacement, ..OFF };
        let (policy, frames) = (PublishedSampling::new(64, options, 1), full(64));
        let mut left: Vec<u32> =
            (0..20).map(|_| policy.evict(&frames, &INCOMING, &ByNumber).unwrap().frame().0).collect();
        assert!(left.is_sorted_by(|a, b| a > b), "{left:?}");
        assert!(left[0] >= 60, "60 of 64 draws miss the last pages: {left:?}");
        // A new choice among the rest.
        left.push(policy.evict(&frames, &INCOMING, &ByNumber).unwrap().frame().0);
        left.sort_unstable();
        left.dedup();
        assert_eq!(left.len(), 21);
    }
}

#[test]
fn samples_change_while_it_works() {
    let (policy, frames) = (PublishedSampling::new(200, OFF, 1), full(200));
    let mean = |samples| {
        assert!(policy.set_samples(samples));
        let left: u32 = (0..30).map(|_| policy.evict(&frames, &INCOMING, &ByNumber).unwrap().frame().0).sum();
        f64::from(left) / 30.0
    };
    let (one, many) = (mean(1), mean(256));
    assert!(one < 150.0 && many > 160.0, "{one} {many}");
    let clock = PolicySpec::parse("clock").unwrap().build(8, 1).unwrap();
    let pagecast_core::policy::Policy::Concurrent(clock) = clock else { panic!("clock works through &self") };
    assert!(!clock.set_samples(10), "clock draws no samples");
}
