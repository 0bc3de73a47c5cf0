//! PBM-sampling's extensions: all off it is `pbm-paper`; looking at every frame it is a naive second version, victim for
//! victim; and each switch does what it says.
#![allow(clippy::unwrap_used)]

#[expect(dead_code, reason = "the model pool does more than is needed here")]
mod policy_pool;
mod seeded;

use pagecast_core::oracle::{NoScans, Oracle, Question};
use pagecast_core::policy::{
    ALL, Access, ConcurrentPolicy, ExtendedSampling, Frequency, PolicySpec, Replacement, SamplingOptions,
};
use pagecast_core::{FrameId, PageId, Tick};
use policy_pool::{ModelPool, Slots};
use proptest::prelude::*;
use std::cell::Cell;

/// Wants the pages of every fourth block of eight, each at its own time, which comes nearer and begins anew.
struct Fourths;

impl Oracle for Fourths {
    fn next_access(&self, Question { page, now, .. }: Question) -> Option<Tick> {
        (page.raw() % 32 < 8).then(|| (page.raw() * 37).wrapping_sub(now) % 100)
    }
}

/// Hot pages, noise and short runs.
fn traces() -> impl Strategy<Value = Vec<u64>> {
    let piece = prop_oneof![
        prop::collection::vec(0..10u64, 1..30),
        prop::collection::vec(0..80u64, 1..30),
        (0..60u64, 1..20u64).prop_map(|(start, len)| (start..start + len).collect()),
    ];
    prop::collection::vec(piece, 1..14).prop_map(|pieces| pieces.concat())
}

#[test]
fn with_all_switches_off_it_is_the_papers() {
    seeded::check(60, &(1..24u32, 1..20u32, traces()), |(frames, samples, trace)| {
        let pool = |text: &str| ModelPool::new(&PolicySpec::parse(text).unwrap(), frames, 5);
        let mut paper = pool(&format!("pbm-paper(samples={samples})"));
        let off = "keep=0,replacement=yes,frequency=off,fallback=off";
        let mut ours = pool(&format!("pbm(samples={samples},{off})"));
        for &page in &trace {
            for pool in [&mut paper, &mut ours] {
                pool.request(PageId::from_raw(page), false, &Fourths).unwrap();
            }
            prop_assert_eq!(paper.evicted, ours.evicted);
        }
        Ok(())
    });
}

/// All frames, looked at in one round; of pages that nobody wants the least recently used goes, and of equals any.
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

    /// Requests a page; which pages may leave for it, if one must. Times in whole ticks, so that a mean may be off by one.
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
            let text = format!("pbm(samples=all,keep=0,frequency={reading},fallback=lru)");
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
    seeded::check(60, &(1..24u32, traces()), |(frames, trace)| {
        let pool = |text: &str| ModelPool::new(&PolicySpec::parse(text).unwrap(), frames, 1);
        let (mut lru, mut pbm) = (pool("lru"), pool("pbm(samples=all,keep=0,frequency=off,fallback=lru)"));
        for &page in &trace {
            for pool in [&mut lru, &mut pbm] {
                pool.request(PageId::from_raw(page), false, &NoScans).unwrap();
            }
            prop_assert_eq!(lru.evicted, pbm.evicted);
        }
        Ok(())
    });
}

const OFF: SamplingOptions = SamplingOptions {
    samples: 1,
    bulk: 1,
    keep: 0,
    replacement: Replacement::No,
    frequency: Frequency::Off,
    lru_fallback: false,
    group: 1,
};

/// The later the page, the later it is wanted.
struct ByNumber;

impl Oracle for ByNumber {
    fn next_access(&self, Question { page, .. }: Question) -> Option<Tick> {
        Some(page.raw())
    }
}

fn full(frames: u32) -> Slots {
    let slots = Slots::new(frames);
    (0..frames).for_each(|frame| slots.fill(FrameId(frame), PageId::from_raw(frame.into())));
    slots
}

const INCOMING: Access = Access { page: PageId::from_raw(1 << 40), scan: None, write: false, at: 7 };

#[test]
fn a_bulk_leaves_in_order_and_each_page_once() {
    for replacement in [Replacement::Yes, Replacement::No] {
        let options = SamplingOptions { samples: 60, bulk: 20, replacement, ..OFF };
        let (policy, frames) = (ExtendedSampling::new(64, options, 1), full(64));
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

/// With what is kept a few samples find what only a look at all frames would: the pages that are wanted last leave, the last
/// first, though each eviction draws 8 of 256 frames. Without, more of them stay.
#[test]
fn what_is_kept_makes_few_samples_see_much() {
    let leaves = |keep, replacement| {
        let options = SamplingOptions { samples: 8, keep, replacement, ..OFF };
        let (policy, frames) = (ExtendedSampling::new(256, options, 1), full(256));
        // A round of the frames passes before anything leaves that counts.
        assert!((0..32).all(|_| policy.evict(&frames, &INCOMING, &ByNumber).is_some()));
        (0..32).filter(|_| policy.evict(&frames, &INCOMING, &ByNumber).unwrap().frame().0 >= 200).count()
    };
    let (with, without) = (leaves(16, Replacement::Round), leaves(0, Replacement::Yes));
    assert!(with > 20 && without < 20, "{with} {without}");
}

/// What was kept and is wanted sooner by now stays, and what nobody wants any more goes.
#[test]
fn what_is_kept_is_looked_at_again() {
    struct Turned(Cell<bool>);
    impl Oracle for Turned {
        fn next_access(&self, Question { page, .. }: Question) -> Option<Tick> {
            Some(if self.0.get() { 1000 - page.raw() } else { page.raw() })
        }
    }
    let options = SamplingOptions { samples: ALL, keep: 16, ..OFF };
    let (policy, frames) = (ExtendedSampling::new(64, options, 1), full(64));
    let oracle = Turned(Cell::new(false));
    assert_eq!(policy.evict(&frames, &INCOMING, &oracle).map(|victim| victim.frame()), Some(FrameId(63)));
    // Two samples a choice from now on, both of the middle at best: the order of those that were kept has turned.
    assert!(policy.set_samples(2));
    oracle.0.set(true);
    let victim = policy.evict(&frames, &INCOMING, &oracle).unwrap().frame().0;
    assert!(victim <= 47, "{victim} is wanted first of all that were kept");
}

/// In a round of as many draws as there are frames nearly all come, and in two rounds all.
#[test]
fn draws_in_rounds_leave_out_few_frames() {
    struct Seen(Vec<Cell<u32>>);
    impl Oracle for Seen {
        fn next_access(&self, Question { page, .. }: Question) -> Option<Tick> {
            self.0[page.raw() as usize].set(self.0[page.raw() as usize].get() + 1);
            Some(1)
        }
    }
    for frames in [7, 100, 1000, 4097] {
        let options = SamplingOptions { samples: 10, replacement: Replacement::Round, ..OFF };
        let (policy, slots) = (ExtendedSampling::new(frames, options, 3), full(frames));
        let seen = Seen(vec![Cell::new(0); frames as usize]);
        for _ in 0..(2 * frames).div_ceil(10) {
            let victim = policy.evict(&slots, &INCOMING, &seen).unwrap().frame();
            slots.fill(victim, PageId::from_raw(victim.0.into()));
        }
        assert!(seen.0.iter().all(|times| (1..=4).contains(&times.get())), "{frames} frames: {:?}", seen.0);
    }
}

#[test]
fn samples_change_while_it_works() {
    let (policy, frames) = (ExtendedSampling::new(200, OFF, 1), full(200));
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

/// Pages of a group share the time of the first or last, whichever is sooner.
#[test]
fn a_group_has_one_time() {
    struct OneScan;
    impl Oracle for OneScan {
        fn next_access(&self, Question { page, .. }: Question) -> Option<Tick> {
            (16..40).contains(&page.raw()).then(|| page.raw() - 16)
        }
    }
    // Groups of 16: 0..16 nobody wants, 16..32 is wanted at once, 32..48 in 16 ticks, though some of it never.
    let options = SamplingOptions { samples: 256, group: 16, bulk: 64, ..OFF };
    let (policy, frames) = (ExtendedSampling::new(64, options, 1), full(64));
    let left: Vec<u32> = (0..64).map(|_| policy.evict(&frames, &INCOMING, &OneScan).unwrap().frame().0 / 16).collect();
    assert!(left[..32].iter().all(|group| matches!(group, 0 | 3)), "{left:?}");
    assert!(left[32..48].iter().all(|group| *group == 2) && left[48..].iter().all(|group| *group == 1), "{left:?}");
}
