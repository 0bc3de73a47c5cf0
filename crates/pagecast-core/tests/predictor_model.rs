//! The predictor against a model that keeps a position for every block of every scan, over random
//! histories.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

#[expect(dead_code, reason = "the macro of proptest does the rest")]
mod seeded;

use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::predictor::{
    Expectation, Pages, Part, Predictor, PredictorConfig, Registry, Run, ScanKind, ScanSpec,
};
use pagecast_core::{PageId, RelationId, ScanId, sync::atomic::AtomicU64};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;

const RELATIONS: u32 = 5;
const BLOCKS: u32 = 700;
const CONFIG: PredictorConfig =
    PredictorConfig { scans: 6, parts: 12, runs: 40, bitset_words: 32, cells: 0, scan_words: 0, marks: 0 };

#[derive(Clone, Debug)]
enum Shape {
    /// Gap to the run in front (-1: they share a block), blocks, position and span in thousandths
    /// of the axis.
    Runs(Vec<(i8, u32, u64, u64)>),
    Bitset(u32, Vec<u64>),
}

#[derive(Clone, Debug)]
enum Step {
    Register {
        kind: u8,
        length: u64,
        parts: Vec<(u32, Shape)>,
    },
    /// Of these shapes only runs, each of them read at the chunk that lies where it begins.
    RegisterUnordered {
        kind: u8,
        chunks: u64,
        parts: Vec<(u32, Shape)>,
    },
    /// A scan without order has done that chunk.
    Report {
        scan: usize,
        thousandth: u64,
        ticks: u64,
    },
    Finish {
        scan: usize,
        ticks: u64,
    },
    /// A scan that runs ends, and is expected; one that is expected is moved.
    Expect {
        scan: usize,
        ticks: u64,
        ahead: u64,
        spread: u64,
        trust: f32,
    },
}

fn shape() -> impl Strategy<Value = Shape> {
    let runs = vec((-1i8..20, 1u32..60, 0u64..=500, 0u64..=500), 0..8);
    let bits = vec(prop_oneof![any::<u64>(), Just(0), Just(u64::MAX)], 0..11);
    prop_oneof![3 => runs.prop_map(Shape::Runs), 1 => (0u32..40, bits).prop_map(|(first, bits)| Shape::Bitset(first, bits))]
}

fn step() -> impl Strategy<Value = Step> {
    let parts = || vec((0..RELATIONS, shape()), 0..4);
    prop_oneof![
        2 => (0u8..3, 1000u64..50_000, parts())
            .prop_map(|(kind, length, parts)| Step::Register { kind, length, parts }),
        2 => (0u8..3, 1u64..80, parts())
            .prop_map(|(kind, chunks, parts)| Step::RegisterUnordered { kind, chunks, parts }),
        8 => (0usize..6, 0u64..1100, 0u64..3000)
            .prop_map(|(scan, thousandth, ticks)| Step::Report { scan, thousandth, ticks }),
        1 => (0usize..6, 0u64..3000).prop_map(|(scan, ticks)| Step::Finish { scan, ticks }),
        2 => (0usize..6, 0u64..3000, 0u64..9000, 0u64..500, 0.1f32..1.0).prop_map(
            |(scan, ticks, ahead, spread, trust)| Step::Expect { scan, ticks, ahead, spread, trust }
        ),
    ]
}

/// Pages as the predictor is told them, and block by block.
#[derive(Default)]
struct Written {
    runs: Vec<Run>,
    bits: Option<(u32, Vec<u64>)>,
    positions: Vec<(u32, u64)>,
}

fn write(shape: &Shape, length: u64, unordered: bool) -> Written {
    let mut written = Written::default();
    match shape {
        Shape::Bitset(..) if unordered => {}
        Shape::Runs(runs) => {
            let mut end: u32 = 1;
            for &(gap, blocks, position, span) in runs {
                let first = end.strict_add_signed(i32::from(gap));
                let (position, span) = (length * position / 1000, length * span / 1000);
                // Half of the axis would have no chunk.
                let (position, span) = if unordered { ((2 * position).min(length - 1), 0) } else { (position, span) };
                written.runs.push(Run { first, blocks, position, span });
                for i in 0..blocks {
                    written.positions.push((first + i, position + span * u64::from(i) / u64::from(blocks)));
                }
                end = first + blocks;
            }
        }
        Shape::Bitset(first, bits) => {
            for (rank, bit) in (0..64 * bits.len()).filter(|bit| bits[bit / 64] >> (bit % 64) & 1 == 1).enumerate() {
                written.positions.push((first + bit as u32, rank as u64));
            }
            written.bits = Some((*first, bits.clone()));
        }
    }
    written
}

struct ModelScan {
    id: ScanId,
    kind: u8,
    length: u64,
    started: u64,
    pages: HashMap<(u32, u32), Vec<u64>>,
    /// Of a scan without order which chunks are done.
    done: Option<Vec<bool>>,
    position: u64,
    anchor: (u64, u64),
    step: u64,
    pace: f64,
    weight: f64,
    expected: Option<Expectation>,
}

impl ModelScan {
    /// Nothing of it is done, and it begins as `expected` says.
    fn expect(&mut self, id: ScanId, expected: Expectation, now: u64) {
        if self.expected.is_none() && self.position > 0 && now > self.started {
            self.pace = (now - self.started) as f64 / self.position as f64;
        }
        if let Some(done) = &mut self.done {
            done.fill(false);
        }
        (self.id, self.expected) = (id, Some(expected));
        (self.position, self.anchor, self.step, self.weight) = (0, (0, 0), 0, 0.0);
    }

    /// Whether that was measured.
    fn report(&mut self, position: u64, now: u64) -> bool {
        if self.expected.is_some() {
            return false;
        }
        let position = match &mut self.done {
            None => position.min(self.length),
            Some(done) => match done.get_mut(position as usize) {
                Some(done) if !*done => {
                    *done = true;
                    self.position + 1
                }
                _ => return false,
            },
        };
        if position <= self.position {
            return false;
        }
        self.position = position;
        let (step, ticks) = (position - self.anchor.0, now - self.anchor.1);
        if ticks == 0 {
            return false;
        }
        let weight = self.weight * 7.0 / 8.0;
        self.pace = (weight * self.pace + ticks as f64) / (weight + step as f64);
        self.weight = weight + step as f64;
        self.step = step;
        self.anchor = (position, now);
        true
    }

    fn next_access(&self, page: (u32, u32), now: u64) -> Option<f64> {
        let positions = self.pages.get(&page)?;
        if let Some(Expectation { start, spread, trust }) = self.expected {
            let after = match self.done {
                Some(_) => self.length as f64 / 2.0,
                None => *positions.iter().min()? as f64,
            };
            return Some((start.abs_diff(now).max(spread) as f64 + after * self.pace) / f64::from(trust));
        }
        if let Some(done) = &self.done {
            let left = done.iter().filter(|done| !**done).count();
            let (weight, elapsed) = (self.weight * 7.0 / 8.0, (now - self.anchor.1) as f64);
            let pace = self.pace.max((weight * self.pace + elapsed) / (weight + 1.0));
            return positions.iter().any(|&chunk| !done[chunk as usize]).then_some(left as f64 * pace / 2.0);
        }
        let position = positions.iter().filter(|&&position| position >= self.position).min()?;
        let ahead = ((now - self.anchor.1) as f64 / self.pace).min(self.step as f64);
        let expected = (self.position as f64).max(self.anchor.0 as f64 + ahead);
        Some((*position as f64 - expected).max(0.0) * self.pace)
    }
}

/// The same with cells, few enough to push each other out.
struct WithCells {
    registry: Registry<Arc<[AtomicU64]>>,
    predictor: Predictor<Arc<[AtomicU64]>>,
}

impl WithCells {
    fn new() -> Self {
        let config = PredictorConfig { cells: 8, ..CONFIG };
        let memory: Arc<[AtomicU64]> = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
        let registry = Registry::format(memory, config).unwrap();
        let predictor = registry.predictor();
        Self { registry, predictor }
    }

    /// What was found out about a cell may be so old that a scan which would overtake is missed; an
    /// estimate is then too high, never too low, and never of a page that nobody wants. Longer ago
    /// than the estimate itself it is not, so that far enough from the last look it is exact. What
    /// is not beyond a bound need not be, either.
    fn check(&self, exact: &impl Oracle, page: PageId, now: u64) -> Result<(), TestCaseError> {
        let (found, wanted) =
            (self.predictor.next_access(Question::new(page, now)), exact.next_access(Question::new(page, now)));
        prop_assert_eq!(found.is_some(), wanted.is_some());
        prop_assert!(found >= wanted, "{:?} {:?} {:?}", page, found, wanted);
        if page.block().is_multiple_of(9) {
            let later = now + (1 << 50);
            let wanted = exact.next_access(Question::new(page, later));
            prop_assert_eq!(self.predictor.next_access(Question::new(page, later)), wanted);
            for bound in [wanted.unwrap_or(0), 1000] {
                let found = self.predictor.next_access(Question { above: Some(bound), ..Question::new(page, later) });
                prop_assert_eq!(found.map(|found| found.max(bound)), wanted.map(|wanted| wanted.max(bound)));
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(seeded::config(128, seeded::fresh()))]

    #[test]
    fn estimates_are_those_of_the_model(steps in vec(step(), 1..60)) {
        let memory: Arc<[AtomicU64]> = (0..CONFIG.words()).map(|_| AtomicU64::new(0)).collect();
        let mut registry = Registry::format(memory, CONFIG).unwrap();
        let predictor = registry.predictor();
        let mut with_cells = WithCells::new();
        let mut scans: Vec<ModelScan> = Vec::new();
        let mut kinds: HashMap<u8, f64> = HashMap::new();
        let mut now = 0;
        for step in &steps {
            match step {
                Step::Register { kind, length, parts } | Step::RegisterUnordered { kind, chunks: length, parts } => {
                    let unordered = matches!(step, Step::RegisterUnordered { .. });
                    let written: Vec<Written> =
                        parts.iter().map(|(_, shape)| write(shape, *length, unordered)).collect();
                    let given: Vec<Part<'_>> = parts.iter().zip(&written).map(|((relation, _), written)| Part {
                        relation: RelationId(*relation),
                        pages: match &written.bits {
                            Some((first, words)) => Pages::Bitset { first: *first, words, position: 0 },
                            None => Pages::Runs(&written.runs),
                        },
                    }).collect();
                    let spec = ScanSpec { kind: ScanKind(*kind), length: *length, parts: &given };
                    let [found, other] = [&mut registry, &mut with_cells.registry].map(|registry| match unordered {
                        true => registry.register_unordered(&spec, now),
                        false => registry.register(&spec, now),
                    });
                    prop_assert_eq!(found, other);
                    // Expected scans may have had to go, the latest of them.
                    let (gone, left): (Vec<_>, Vec<_>) =
                        scans.drain(..).partition(|scan| predictor.scan(scan.id).is_none());
                    scans = left;
                    let starts = |scans: &[ModelScan]| -> Vec<u64> {
                        scans.iter().filter_map(|scan| Some(scan.expected?.start)).collect()
                    };
                    prop_assert_eq!(starts(&gone).len(), gone.len(), "only expected ones go");
                    prop_assert!(starts(&gone).iter().min() >= starts(&scans).iter().max() || gone.is_empty());
                    prop_assert!(found.is_ok() || starts(&scans).is_empty() || parts.is_empty());
                    match found {
                        Ok(id) => {
                            let mut pages: HashMap<(u32, u32), Vec<u64>> = HashMap::new();
                            for ((relation, _), written) in parts.iter().zip(&written) {
                                for &(block, position) in &written.positions {
                                    pages.entry((*relation, block)).or_default().push(position);
                                }
                            }
                            let pace = kinds.get(kind).copied().unwrap_or(1.0);
                            scans.push(ModelScan {
                                id, kind: *kind, length: *length, started: now, pages,
                                done: unordered.then(|| vec![false; *length as usize]), position: 0, anchor: (0, now),
                                step: 0, pace, weight: 0.0, expected: None,
                            });
                        }
                        // Whether memory is in one piece is not the model's business; that it all
                        // comes back is, below.
                        Err(error) => prop_assert!(error.is_full(), "{error}"),
                    }
                }
                Step::Report { scan, thousandth, ticks } => if let Some(scan) = scans.get_mut(*scan) {
                    now += ticks;
                    let position = scan.length * thousandth / 1000;
                    for predictor in [&predictor, &with_cells.predictor] {
                        // What is meant for scans of the other sort changes nothing.
                        predictor.complete(scan.id, position, now);
                        predictor.report(scan.id, position, now);
                        let page = PageId::new(RelationId(1), 7);
                        let runs = scan.expected.is_none();
                        prop_assert!(scan.done.is_none() || predictor.reach(scan.id, page, now) == runs);
                    }
                    if scan.report(position, now) {
                        kinds.entry(scan.kind).or_insert(scan.pace);
                    }
                    let view = predictor.scan(scan.id).unwrap();
                    prop_assert_eq!((view.position, view.unordered), (scan.position, scan.done.is_some()));
                }
                Step::Expect { .. } => {}
                Step::Finish { scan, ticks } => if *scan < scans.len() {
                    now += ticks;
                    let scan = scans.remove(*scan);
                    prop_assert!(registry.finish(scan.id, now) && with_cells.registry.finish(scan.id, now));
                    prop_assert!(predictor.scan(scan.id).is_none());
                    if scan.expected.is_none() && scan.position > 0 && now > scan.started {
                        let pace = (now - scan.started) as f64 / scan.position as f64;
                        kinds.entry(scan.kind).and_modify(|old| *old = 0.85 * *old + 0.15 * pace).or_insert(pace);
                    }
                }
            }
            if let Step::Expect { scan, ticks, ahead, spread, trust } = *step
                && let Some(scan) = scans.get_mut(scan)
            {
                now += ticks;
                if scan.expected.is_none() && scan.position > 0 && now > scan.started {
                    let pace = (now - scan.started) as f64 / scan.position as f64;
                    kinds.entry(scan.kind).and_modify(|old| *old = 0.85 * *old + 0.15 * pace).or_insert(pace);
                }
                let expected = Expectation { start: now + ahead, spread, trust };
                let id = registry.expect(scan.id, expected, now);
                prop_assert_eq!(with_cells.registry.expect(scan.id, expected, now), id);
                prop_assert!(predictor.scan(scan.id).is_none(), "it has another name");
                scan.expect(id.unwrap(), expected, now);
                prop_assert_eq!(predictor.scan(scan.id).unwrap().expected, Some(expected));
            }
            for block in (0..BLOCKS).step_by(3).chain([1, 61, 64]) {
                for relation in 0..RELATIONS {
                    let found = predictor.next_access(Question::new(PageId::new(RelationId(relation), block), now));
                    let estimates = scans.iter().filter_map(|scan| scan.next_access((relation, block), now));
                    let wanted = estimates.min_by(f64::total_cmp);
                    with_cells.check(&predictor, PageId::new(RelationId(relation), block), now)?;
                    match (found, wanted) {
                        (None, None) => {}
                        // A pace is kept in 52 bits, and an estimate is a whole number of ticks; so
                        // is what a trust of a tenth or more divides.
                        (Some(found), Some(wanted)) => {
                            let error = (found as f64 - wanted).abs();
                            let slack = if scans.iter().any(|scan| scan.expected.is_some()) { 11.0 } else { 1.0 };
                            prop_assert!(error <= slack + 1e-8 * wanted.max(1e6), "{relation}:{block} {found} {wanted}");
                        }
                        _ => prop_assert!(false, "{relation}:{block} {found:?} {wanted:?}"),
                    }
                }
            }
            let mut seen = 0;
            predictor.scans(|_| seen += 1);
            let running = scans.iter().filter(|scan| scan.expected.is_none()).count();
            prop_assert_eq!(seen, running);
            predictor.expected(|_| seen += 1);
            prop_assert_eq!(seen, scans.len());
        }
        for scan in scans {
            prop_assert!(registry.finish(scan.id, now));
        }
        // All memory is there again, and in one piece.
        let runs: Vec<Run> =
            (0..(40 * 3 + 36) / 3).map(|first| Run { first, blocks: 1, position: 0, span: 0 }).collect();
        let part = Part { relation: RelationId(0), pages: Pages::Runs(&runs) };
        let all = registry.register(&ScanSpec { kind: ScanKind(0), length: 1, parts: &[part] }, now).unwrap();
        registry.finish(all, now);
        let one = Part { relation: RelationId(0), pages: Pages::Runs(&runs[..1]) };
        let twelve = registry.register(&ScanSpec { kind: ScanKind(0), length: 1, parts: &[one; 12] }, now);
        prop_assert!(twelve.is_ok(), "{twelve:?}");
    }
}
