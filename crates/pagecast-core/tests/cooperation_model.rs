//! The manager of cooperation against a second version that keeps sets and computes everything
//! anew, over random histories: every answer, every load, every view after every step.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

mod cooperation_naive;
mod seeded;

use cooperation_naive::{Naive, State};
use pagecast_core::cooperation::{
    Chunk, Cooperation, CooperationConfig, Load, Loading, MemberId, MemberView, Refusal, Take, Unit,
};
use pagecast_core::{PageId, RelationId, sync::atomic::AtomicU64};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;

const SCANS: u32 = 6;
/// Little enough to refuse some.
const CONFIG: CooperationConfig = CooperationConfig { scans: SCANS, units: 12, words: 420 };

/// Units of three kinds: neighbours that share their border block, long ones that overlap by far,
/// one that lies across a border of 64 blocks, and one without blocks.
fn unit(number: u32) -> Unit {
    let (relation, first, blocks) = match number {
        0..8 => (1, 9 * number, 10),
        8..12 => (2, 100 * (number - 8), 130),
        12 => (1, 60, 8),
        _ => (3, 5, 0),
    };
    Unit { relation: RelationId(relation), first, blocks }
}

#[derive(Clone, Debug)]
enum Step {
    Register { workers: u32, chunks: Vec<(u32, u64, u64, bool)> },
    Take { scan: usize },
    StopWaiting { scan: usize },
    EndEarly { scan: usize },
    End { scan: usize, out: usize, consumed: bool },
    Remove { scan: usize, chunk: u32 },
    Finish { scan: usize },
    NextLoad,
    Bring { load: usize, pages: usize },
    Loaded { load: usize },
    Arrived { unit: u32, block: u32 },
    Left { unit: u32, block: u32 },
    LeftAny { page: usize },
    Wake,
    SetLoading { outstanding: u32 },
    SetEnough { workers: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    // Few different masks, so that needs are shared.
    let mask = prop_oneof![Just(u64::MAX), Just(0b11), Just(0b1_1110), Just(0b10_0000_0001), Just(0), any::<u64>()];
    // Many chunks of one part, and some of several.
    let joined = prop_oneof![2 => Just(false), 1 => Just(true)];
    let chunk = (0u32..14, mask.clone(), mask, joined);
    prop_oneof![
        3 => (0u32..4, vec(chunk, 0..14)).prop_map(|(workers, chunks)| Step::Register { workers, chunks }),
        8 => (0usize..8).prop_map(|scan| Step::Take { scan }),
        1 => (0usize..8).prop_map(|scan| Step::StopWaiting { scan }),
        1 => (0usize..8).prop_map(|scan| Step::EndEarly { scan }),
        6 => (0usize..8, 0usize..9, 0u32..4)
            .prop_map(|(scan, out, kind)| Step::End { scan, out, consumed: kind > 0 }),
        1 => (0usize..8, 0u32..15).prop_map(|(scan, chunk)| Step::Remove { scan, chunk }),
        1 => (0usize..8).prop_map(|scan| Step::Finish { scan }),
        6 => Just(Step::NextLoad),
        5 => (0usize..3, 1usize..60).prop_map(|(load, pages)| Step::Bring { load, pages }),
        4 => (0usize..3).prop_map(|load| Step::Loaded { load }),
        2 => (0u32..13, 0u32..130).prop_map(|(unit, block)| Step::Arrived { unit, block }),
        2 => (0u32..13, 0u32..130).prop_map(|(unit, block)| Step::Left { unit, block }),
        3 => (0usize..1000).prop_map(|page| Step::LeftAny { page }),
        3 => Just(Step::Wake),
        1 => (0u32..4).prop_map(|outstanding| Step::SetLoading { outstanding }),
        1 => (0u32..4).prop_map(|workers| Step::SetEnough { workers }),
    ]
}

struct Pair {
    manager: Cooperation<Vec<AtomicU64>>,
    naive: Naive,
    /// Registered and ended ones.
    ids: Vec<MemberId>,
    loads: Vec<Load>,
    now: u64,
    refused: u64,
}

impl Pair {
    fn new(config: CooperationConfig) -> Self {
        let memory: Vec<AtomicU64> = (0..config.words()).map(|_| AtomicU64::new(u64::MAX)).collect();
        let manager = Cooperation::format(memory, config).unwrap();
        Self { manager, naive: Naive::new(), ids: Vec::new(), loads: Vec::new(), now: 0, refused: 0 }
    }

    fn id(&self, scan: usize) -> Option<MemberId> {
        // The latest ones are the running ones, mostly.
        self.ids.len().checked_sub(1 + scan).map(|index| self.ids[index])
    }

    fn apply(&mut self, step: &Step) {
        self.now += 7;
        match step {
            Step::Register { workers, chunks } => self.register(*workers, chunks),
            Step::Take { scan } => {
                let Some(id) = self.id(*scan) else { return };
                assert_eq!(self.manager.take(id, self.now), self.naive.take(id, self.now));
            }
            Step::StopWaiting { scan } => {
                let Some(id) = self.id(*scan) else { return };
                self.manager.stop_waiting(id);
                self.naive.stop_waiting(id);
            }
            Step::EndEarly { scan } => {
                let Some(id) = self.id(*scan) else { return };
                self.manager.end_early(id);
                self.naive.end_early(id);
            }
            Step::End { scan, out, consumed } => {
                let Some(id) = self.id(*scan) else { return };
                let Some(scan) = self.naive.scans.get(&id.slot()) else { return };
                let is_out = |number: &usize| matches!(scan.parts[*number].state, State::Out(_));
                let numbers: Vec<usize> = (0..scan.parts.len()).filter(is_out).collect();
                // Sometimes one that is not out, which changes nothing.
                let chunk = numbers.get(*out).copied().unwrap_or(*out) as u32;
                match consumed {
                    true => self.manager.consumed(id, chunk),
                    false => self.manager.give_back(id, chunk),
                }
                self.naive.end_chunk(id, chunk, *consumed);
            }
            Step::Remove { scan, chunk } => {
                let Some(id) = self.id(*scan) else { return };
                self.manager.remove(id, *chunk);
                self.naive.remove(id, *chunk);
            }
            Step::Finish { scan } => {
                let Some(id) = self.id(*scan) else { return };
                self.manager.finish(id);
                self.naive.finish(id);
            }
            Step::NextLoad => {
                let load = self.manager.next_load(self.now);
                assert_eq!(load.map(|load| (load.member, load.chunk)), self.naive.next_load(self.now));
                self.loads.extend(load);
            }
            Step::Bring { load, pages } => {
                for page in self.pages(*load).into_iter().take(*pages) {
                    self.manager.arrived(page);
                    self.naive.arrived(page);
                }
            }
            Step::Loaded { load } => {
                if *load < self.loads.len() {
                    let ended = self.loads.remove(*load);
                    self.manager.loaded(&ended, self.now);
                    self.naive.loaded(*load, self.now);
                    // A second time changes nothing.
                    self.manager.loaded(&ended, self.now);
                }
            }
            Step::Arrived { unit: number, block } => {
                let page = PageId::new(unit(*number).relation, unit(*number).first + block);
                self.manager.arrived(page);
                self.naive.arrived(page);
            }
            Step::Left { unit: number, block } => {
                let page = PageId::new(unit(*number).relation, unit(*number).first + block);
                self.manager.left(page);
                self.naive.left_pool(page);
            }
            Step::LeftAny { page } => {
                let count = self.naive.resident.len().max(1);
                if let Some(&page) = self.naive.resident.iter().nth(page % count) {
                    self.manager.left(page);
                    self.naive.left_pool(page);
                }
            }
            Step::Wake => {
                let mut woken = Vec::new();
                self.manager.wake(|id| woken.push(id));
                assert_eq!(woken, self.naive.wake());
            }
            Step::SetLoading { outstanding } => {
                let loading = match outstanding {
                    0 => Loading::Opportunistic,
                    &outstanding => Loading::Manager { outstanding },
                };
                self.manager.set_loading(loading);
                self.naive.loading = loading;
            }
            Step::SetEnough { workers } => {
                self.manager.set_enough_at_work(*workers);
                self.naive.enough_at_work = *workers;
            }
        }
        self.check();
    }

    fn register(&mut self, workers: u32, chunks: &[(u32, u64, u64, bool)]) {
        let cut = |blocks: u32, word: u64, from: u32| match blocks.saturating_sub(from) {
            0 => 0,
            rest if rest < 64 => word & ((1 << rest) - 1),
            _ => word,
        };
        let masks: Vec<[u64; 2]> = chunks
            .iter()
            .map(|&(number, low, high, _)| [cut(unit(number).blocks, low, 0), cut(unit(number).blocks, high, 64)])
            .collect();
        let chunks: Vec<Chunk<'_>> = chunks
            .iter()
            .zip(&masks)
            .map(|(&(number, .., joined), mask)| Chunk { unit: unit(number), need: mask, joined })
            .collect();
        let before = self.manager.usage();
        let resident = |page| self.naive.resident.contains(&page);
        // Both ways of naming the chunks.
        let registered = if workers.is_multiple_of(2) {
            self.manager.register(&chunks, workers, self.now, resident)
        } else {
            let chunk = |number| chunks[number as usize];
            self.manager.register_each(chunks.len() as u32, chunk, workers, self.now, resident)
        };
        match registered {
            Ok(id) => {
                self.naive.register(id, &chunks, workers, self.now);
                self.ids.push(id);
            }
            Err(refusal) => {
                self.refused += 1;
                let after = self.manager.usage();
                assert_eq!((before.scans, before.units), (after.scans, after.units));
                match refusal {
                    Refusal::TooManyScans { limit } => assert_eq!((before.scans, limit), (SCANS, SCANS)),
                    Refusal::TooManyUnits { free, .. } => assert_eq!(free, 0),
                    Refusal::NoSpace { wanted, .. } => assert!(wanted > 0),
                    other => panic!("{other}"),
                }
            }
        }
    }

    fn pages(&self, load: usize) -> Vec<PageId> {
        let mut pages = Vec::new();
        if let Some(load) = self.loads.get(load) {
            self.manager.pages(load, |page| pages.push(page));
        }
        pages
    }

    /// What must be so after every step.
    fn check(&self) {
        let mut views: Vec<MemberView> = Vec::new();
        self.manager.members(|view| views.push(view));
        assert_eq!(views, self.naive.views());
        for &id in &self.ids {
            assert_eq!(self.manager.member(id), views.iter().copied().find(|view| view.id == id));
        }
        for load in 0..self.loads.len() {
            assert_eq!(self.pages(load), self.naive.pages(load));
        }
        let (usage, wanted) = (self.manager.usage(), self.naive.units());
        assert_eq!((usage.scans as usize, usage.units as usize), (self.naive.scans.len(), wanted.len()));
        self.check_units(&wanted);
        assert_eq!((usage.loads as usize, usage.refused), (self.loads.len(), self.refused));
        assert_eq!(self.manager.look_again(self.now), self.naive.look_again(self.now));
    }

    /// Each unit is shown once, as the naive version has it.
    fn check_units(&self, wanted: &HashMap<Unit, u32>) {
        let mut seen = HashMap::new();
        self.manager.units(|view| {
            let (resident, loading) = (self.naive.resident_of(view.unit), self.naive.is_loading(view.unit));
            assert_eq!(loading, view.loading);
            assert!(view.resident <= resident && (view.resident == resident || !self.naive.knows_all(view.unit)));
            assert_eq!(seen.insert(view.unit, view.wanted), None);
        });
        assert_eq!(&seen, wanted);
        for unit in (0..14).map(unit) {
            assert_eq!(self.manager.is_needed(unit), wanted.contains_key(&unit));
            assert_eq!(self.manager.is_out(unit), self.naive.is_out(unit));
        }
    }

    /// Everything ends; then all memory is free.
    fn end(&mut self) {
        while let Some(load) = self.loads.pop() {
            self.manager.loaded(&load, self.now);
            self.naive.loaded(self.loads.len(), self.now);
        }
        for index in 0..self.ids.len() {
            self.manager.finish(self.ids[index]);
            self.naive.finish(self.ids[index]);
        }
        self.check();
        let usage = self.manager.usage();
        assert_eq!((usage.scans, usage.units, usage.words, usage.loads), (0, 0, 0, 0));
        for _ in 0..SCANS {
            self.manager.register(&[], 1, 0, |_| false).unwrap();
        }
    }
}

fn run(mut pair: Pair, steps: &[Step]) -> Result<(), TestCaseError> {
    steps.iter().for_each(|step| pair.apply(step));
    pair.end();
    Ok(())
}

#[test]
fn every_answer_is_that_of_the_naive_version() {
    seeded::check(80, &vec(step(), 1..150), |steps| run(Pair::new(CONFIG), &steps));
}

/// With more room nobody is refused, and more needs meet.
#[test]
fn every_answer_with_room_for_all() {
    seeded::check(80, &vec(step(), 1..150), |steps| {
        let mut pair = Pair::new(CooperationConfig { words: 100_000, ..CONFIG });
        pair.manager.set_loading(Loading::Manager { outstanding: 3 });
        pair.naive.loading = pair.manager.loading();
        run(pair, &steps)
    });
}

#[test]
fn a_stale_name_and_a_number_too_high_change_nothing() {
    let mut pair = Pair::new(CONFIG);
    pair.register(1, &[(0, 1, 0, false)]);
    let old = pair.ids[0];
    pair.manager.finish(old);
    pair.naive.finish(old);
    pair.register(1, &[(1, 1, 0, false)]);
    assert_eq!(pair.ids[1].slot(), old.slot());
    assert_eq!(pair.manager.take(old, 0), Take::End);
    pair.manager.remove(old, 0);
    pair.manager.finish(old);
    pair.manager.finish(MemberId::NOBODY);
    pair.manager.consumed(pair.ids[1], 9);
    pair.manager.remove(pair.ids[1], u32::MAX);
    pair.check();
}
