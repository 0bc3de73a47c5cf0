//! The predictor's readers and reporters against registration, finish and the reuse of slots, parts
//! and runs, under many schedules. Run with `make explore`.
//!
//! The explorer interleaves at each atomic operation and is sequentially consistent: it shows that
//! the protocol is right, and the comments at the atomics argue that their orderings keep it so on
//! weaker machines. Each check that the protocol rests on is left out once ([`Mistake`]), and the
//! exploration must then find the fault.
#![cfg(pagecast_shuttle)]
#![allow(clippy::unwrap_used)]

mod exploration;

use pagecast_core::mistake::Mistake;
use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::predictor::{
    Expectation, Pages, Part, Predictor, PredictorConfig, Registry, Run, ScanKind, ScanSpec,
};
use pagecast_core::{PageId, RelationId, ScanId, sync::atomic::AtomicU64};
use shuttle::thread;
use std::sync::Arc;

type Memory = Arc<[AtomicU64]>;

/// Two relations whose parts are chained in different buckets when there are four.
const TABLE: RelationId = RelationId(1);
const OTHER: RelationId = RelationId(2);

const LENGTH: u64 = 100_000;
/// The faults need a thread that sleeps through dozens of steps of another. Schedules with few
/// switches, each at a random place, hit them after 10 to 300 tries, evenly mixed ones after about
/// 10,000.
const FEW_SWITCHES: usize = 4000;
const EVENLY_MIXED: usize = 500;
/// Of a protocol with all its checks that takes many steps a try.
const OF_A_LONG_ONE: usize = 1000;

fn new(scans: u32, parts: u32) -> (Registry<Memory>, Predictor<Memory>) {
    let config = PredictorConfig { scans, parts, runs: parts, cells: 2, ..PredictorConfig::EMPTY };
    let memory: Memory = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
    let registry = Registry::format(memory, config).unwrap();
    let predictor = registry.predictor();
    (registry, predictor)
}

/// Registers blocks 0 to 7 of each of `relations`, from `position` on and `stride` apart.
fn register(registry: &mut Registry<Memory>, kind: u8, relations: &[RelationId], position: u64, stride: u64) -> ScanId {
    let runs = [Run { first: 0, blocks: 8, position, span: 8 * stride }];
    let parts: Vec<Part<'_>> = relations.iter().map(|&relation| Part { relation, pages: Pages::Runs(&runs) }).collect();
    registry.register(&ScanSpec { kind: ScanKind(kind), length: LENGTH, parts: &parts }, 0).unwrap()
}

/// A scan ends and another takes its slot, its part and its run: an estimate is of one or of the
/// other.
fn never_a_mixture_of_two_scans() {
    let (mut registry, predictor) = new(1, 1);
    let first = register(&mut registry, 0, &[TABLE], 0, 1);
    predictor.report(first, 2, 0);
    let writer = thread::spawn(move || {
        registry.finish(first, 0);
        register(&mut registry, 0, &[TABLE], 1000, 10_000)
    });
    let page = PageId::new(TABLE, 4);
    let estimate = predictor.next_access(Question::new(page, 0));
    assert!([None, Some(4 - 2), Some(41_000)].contains(&estimate), "{estimate:?}");
    if let Some(view) = predictor.scan(first) {
        assert_eq!((view.id, view.position, view.pace), (first, 2, 1.0));
    }
    let second = writer.join().unwrap();
    assert_eq!(predictor.next_access(Question::new(page, 0)), Some(41_000));
    assert!(predictor.scan(first).is_none() && predictor.scan(second).is_some());
}

/// The same while the cell has the first one's part, which becomes another's.
fn never_the_part_of_another_scan() {
    let (mut registry, predictor) = new(1, 1);
    let page = PageId::new(TABLE, 4);
    let first = register(&mut registry, 0, &[TABLE], 0, 1);
    predictor.report(first, 2, 0);
    assert_eq!(predictor.next_access(Question::new(page, 0)), Some(4 - 2));
    let writer = thread::spawn(move || {
        registry.finish(first, 0);
        let second = register(&mut registry, 0, &[TABLE], 1000, 10_000);
        (registry, second)
    });
    let estimate = predictor.next_access(Question::new(page, 0));
    assert!([None, Some(4 - 2), Some(41_000)].contains(&estimate), "{estimate:?}");
    let (mut registry, second) = writer.join().unwrap();
    assert_eq!(predictor.next_access(Question::new(page, 0)), Some(41_000));
    // Nobody counts it where it comes to another chain.
    registry.finish(second, 0);
    register(&mut registry, 0, &[OTHER], 0, 1);
    assert_eq!(predictor.next_access(Question::new(page, 0)), None);
}

/// A reader stands on a part that moves to another chain: the scan behind it, which runs all the
/// time, is not missed.
fn a_running_scan_is_never_missed() {
    let (mut registry, predictor) = new(2, 4);
    register(&mut registry, 0, &[TABLE], 500, 1);
    let in_front = register(&mut registry, 0, &[TABLE], 0, 1);
    let writer = thread::spawn(move || {
        registry.finish(in_front, 0);
        register(&mut registry, 0, &[OTHER], 0, 1);
    });
    let estimate = predictor.next_access(Question::new(PageId::new(TABLE, 4), 0));
    assert!([Some(4), Some(504)].contains(&estimate), "{estimate:?}");
    writer.join().unwrap();
    assert_eq!(predictor.next_access(Question::new(PageId::new(TABLE, 4), 0)), Some(504));
    assert_eq!(predictor.next_access(Question::new(PageId::new(OTHER, 4), 0)), Some(4));
}

/// A worker reports for a scan that ends meanwhile: the scan that takes its slot stands at its
/// start, at its own pace.
fn a_late_report_is_lost() {
    let (mut registry, predictor) = new(1, 1);
    let first = register(&mut registry, 0, &[TABLE], 0, 1);
    let worker = {
        let predictor = predictor.clone();
        thread::spawn(move || predictor.report(first, 50, 10))
    };
    registry.finish(first, 20);
    let second = register(&mut registry, 1, &[TABLE], 0, 10);
    worker.join().unwrap();
    let view = predictor.scan(second).unwrap();
    assert_eq!((view.position, view.pace), (0, 1.0));
    assert_eq!(predictor.next_access(Question::new(PageId::new(TABLE, 4), 100)), Some(40));
    predictor.report(second, 10, 30);
    assert_eq!(predictor.scan(second).unwrap().pace, 3.0, "measuring goes on in the slot");
}

/// A reader knows who comes first to a cell, and a nearer scan registers, also while another reader
/// writes about a second cell to the same place: who was registered before is not missed.
fn a_new_scan_is_never_missed() {
    let config = PredictorConfig { scans: 3, parts: 5, runs: 5, cells: 1, ..PredictorConfig::EMPTY };
    let memory: Memory = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
    let mut registry = Registry::format(memory, config).unwrap();
    let predictor = registry.predictor();
    register(&mut registry, 0, &[TABLE, OTHER], 5000, 1);
    let page = PageId::new(TABLE, 4);
    assert_eq!(predictor.next_access(Question::new(page, 0)), Some(5004));
    let writer = thread::spawn(move || {
        let nearer = register(&mut registry, 0, &[TABLE], 500, 1);
        let estimate = registry.predictor().next_access(Question::new(page, 0));
        assert_eq!(estimate, Some(504), "it was registered before");
        register(&mut registry, 0, &[OTHER, TABLE], 1000, 1);
        registry.finish(nearer, 0);
    });
    let other = {
        let predictor = predictor.clone();
        thread::spawn(move || predictor.next_access(Question::new(PageId::new(OTHER, 4), 0)))
    };
    let estimate = predictor.next_access(Question::new(page, 0));
    assert!([Some(5004), Some(504), Some(1004)].contains(&estimate), "{estimate:?}");
    let estimate = other.join().unwrap();
    assert!([Some(5004), Some(1004)].contains(&estimate), "{estimate:?}");
    writer.join().unwrap();
    assert_eq!(predictor.next_access(Question::new(page, 0)), Some(1004));
    assert_eq!(predictor.next_access(Question::new(PageId::new(OTHER, 4), 0)), Some(1004));
}

/// A reader takes the latest arrivals into what it knows of a cell while others register: they do
/// not hide the one that it came for.
fn a_new_scan_is_not_hidden_by_newer_ones() {
    let config = PredictorConfig { scans: 4, parts: 4, runs: 4, cells: 1, ..PredictorConfig::EMPTY };
    let memory: Memory = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
    let mut registry = Registry::format(memory, config).unwrap();
    let predictor = registry.predictor();
    let page = PageId::new(TABLE, 4);
    register(&mut registry, 0, &[TABLE], 5000, 1);
    assert_eq!(predictor.next_access(Question::new(page, 0)), Some(5004));
    register(&mut registry, 0, &[TABLE], 500, 1);
    let writer = thread::spawn(move || {
        for _ in 0..2 {
            register(&mut registry, 0, &[TABLE], 8000, 1);
        }
    });
    assert_eq!(predictor.next_access(Question::new(page, 0)), Some(504));
    writer.join().unwrap();
    assert_eq!(predictor.next_access(Question::new(page, 0)), Some(504));
}

/// A scan ends and is expected, in its own slot and with its own parts: an estimate is of one or of
/// the other, reports of the one that ran are lost, and a scan behind its part is not missed.
fn a_scan_that_is_expected_is_never_half_of_it() {
    let (mut registry, predictor) = new(2, 4);
    register(&mut registry, 0, &[TABLE], 50_000, 1);
    let running = register(&mut registry, 0, &[TABLE, OTHER], 0, 1);
    predictor.report(running, 2, 0);
    let page = PageId::new(TABLE, 4);
    let worker = {
        let predictor = predictor.clone();
        thread::spawn(move || predictor.report(running, 3, 0))
    };
    let writer = thread::spawn(move || {
        let expected = Expectation { start: 9000, spread: 0, trust: 0.5 };
        (registry.expect(running, expected, 0).unwrap(), registry)
    });
    let estimate = predictor.next_access(Question::new(page, 0));
    assert!([Some(1), Some(2), Some(50_004), Some(18_008)].contains(&estimate), "{estimate:?}");
    worker.join().unwrap();
    let (expected, mut registry) = writer.join().unwrap();
    assert_eq!(predictor.next_access(Question::new(page, 0)), Some(18_008));
    assert_eq!(predictor.next_access(Question::new(PageId::new(OTHER, 4), 0)), Some(18_008));
    let view = predictor.scan(expected).unwrap();
    assert!(view.position == 0 && view.expected.is_some() && predictor.scan(running).is_none());
    registry.finish(expected, 0);
    assert_eq!(predictor.next_access(Question::new(page, 0)), Some(50_004));
}

/// The parts of a scan come and go together.
fn parts_come_and_go_at_once() {
    let (mut registry, predictor) = new(1, 4);
    let wanted = |relation| predictor.next_access(Question::new(PageId::new(relation, 4), 0)).is_some();
    let (first, second) = (wanted(TABLE), wanted(OTHER));
    assert!(!first && !second);
    let writer = thread::spawn(move || {
        let scan = register(&mut registry, 0, &[TABLE, OTHER], 0, 1);
        (registry, scan)
    });
    let (first, second) = (wanted(OTHER), wanted(TABLE));
    assert!(second || !first, "half of a scan was there");
    let (mut registry, scan) = writer.join().unwrap();
    let writer = thread::spawn(move || registry.finish(scan, 0));
    let (first, second) = (wanted(TABLE), wanted(OTHER));
    assert!(first || !second, "half of a scan was left");
    writer.join().unwrap();
}

/// Several workers of one scan report at once: the furthest position counts, and the pace is one
/// that their reports can give: 3 or 6 positions in 30 or 60 ticks.
fn workers_report_side_by_side() {
    let (mut registry, predictor) = new(1, 1);
    let scan = register(&mut registry, 0, &[TABLE], 0, 100);
    let workers = [(3, 30), (6, 60)].map(|(position, now)| {
        let predictor = predictor.clone();
        thread::spawn(move || predictor.report(scan, position, now))
    });
    let mut before = 0;
    for _ in 0..2 {
        let view = predictor.scan(scan).unwrap();
        assert!(view.position >= before && [0, 3, 6].contains(&view.position), "{view:?}");
        before = view.position;
        let pace = view.pace;
        assert!([1.0, 5.0, 10.0, 20.0].iter().any(|known| (pace / known - 1.0).abs() < 1e-9), "{view:?}");
        let estimate = predictor.next_access(Question::new(PageId::new(TABLE, 1), 60)).unwrap();
        assert!(estimate <= 2000, "{estimate}");
    }
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(predictor.scan(scan).unwrap().position, 6);
    predictor.report(scan, 12, 120);
    assert_eq!(predictor.scan(scan).unwrap().position, 12);
}

/// Two index scans leave marks in one set while a reader looks: it finds an entry for a page only
/// if that was left there.
fn marks_are_whole() {
    let config = PredictorConfig { scans: 1, parts: 1, marks: 4, ..PredictorConfig::EMPTY };
    let memory: Memory = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
    let predictor = Registry::format(memory, config).unwrap().predictor();
    let left = |block: u32| [block, block + 10];
    let scans = [1, 2].map(|block| {
        let predictor = predictor.clone();
        thread::spawn(move || {
            left(block).map(|entry| predictor.mark(PageId::new(TABLE, block), PageId::new(OTHER, entry)))
        })
    });
    for block in [1, 2] {
        let found: Vec<u32> = predictor.marked(PageId::new(TABLE, block), OTHER).collect();
        assert!(found.iter().all(|entry| left(block).contains(entry)), "{block}: {found:?}");
    }
    for scan in scans {
        scan.join().unwrap();
    }
}

/// Room for one scan of one run with `runs` words of chunks and more.
fn for_one(runs: u32) -> (Registry<Memory>, Predictor<Memory>) {
    let config = PredictorConfig { scans: 1, parts: 1, runs, cells: 2, ..PredictorConfig::EMPTY };
    let memory: Memory = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
    let registry = Registry::format(memory, config).unwrap();
    let predictor = registry.predictor();
    (registry, predictor)
}

/// Registers a scan without order of `length` chunks, of which the first `blocks` have one block
/// each.
fn register_unordered(registry: &mut Registry<Memory>, kind: u8, blocks: u32, length: u64) -> ScanId {
    let runs: Vec<Run> =
        (0..blocks).map(|block| Run { first: block, blocks: 1, position: block.into(), span: 0 }).collect();
    let parts = [Part { relation: TABLE, pages: Pages::Runs(&runs) }];
    registry.register_unordered(&ScanSpec { kind: ScanKind(kind), length, parts: &parts }, 0).unwrap()
}

/// A worker has done a chunk while a scan without order ends and another takes its slot, its part
/// and its chunks: an estimate is of one or of the other.
fn never_a_mixture_of_chunks() {
    let (mut registry, predictor) = for_one(2);
    let first = register_unordered(&mut registry, 0, 1, 60);
    (10..14).for_each(|chunk| predictor.complete(first, chunk, 0));
    let worker = {
        let predictor = predictor.clone();
        thread::spawn(move || predictor.complete(first, 40, 0))
    };
    let writer = thread::spawn(move || {
        registry.finish(first, 0);
        register_unordered(&mut registry, 0, 1, 90)
    });
    let page = PageId::new(TABLE, 0);
    let estimate = predictor.next_access(Question::new(page, 0));
    assert!([None, Some(56 / 2), Some(55 / 2), Some(90 / 2)].contains(&estimate), "{estimate:?}");
    worker.join().unwrap();
    let second = writer.join().unwrap();
    assert_eq!(predictor.next_access(Question::new(page, 0)), Some(90 / 2));
    predictor.complete(second, 0, 0);
    assert_eq!(predictor.next_access(Question::new(page, 0)), None);
}

/// A worker says late that a chunk is done: of the scan that has its word now none is.
fn a_late_chunk_is_lost() {
    let (mut registry, predictor) = for_one(2);
    let first = register_unordered(&mut registry, 0, 1, 8);
    let worker = {
        let predictor = predictor.clone();
        thread::spawn(move || predictor.complete(first, 0, 10))
    };
    registry.finish(first, 20);
    let second = register_unordered(&mut registry, 1, 1, 8);
    worker.join().unwrap();
    let view = predictor.scan(second).unwrap();
    assert_eq!((view.position, view.pace), (0, 1.0));
    assert_eq!(predictor.next_access(Question::new(PageId::new(TABLE, 0), 0)), Some(4));
    predictor.complete(second, 3, 30);
    assert_eq!(predictor.scan(second).unwrap().pace, 30.0, "measuring goes on in the slot");
}

/// The same where the word is one of a bitset now.
fn a_late_chunk_changes_no_bitset() {
    let (mut registry, predictor) = for_one(2);
    let first = register_unordered(&mut registry, 0, 1, 8);
    let worker = {
        let predictor = predictor.clone();
        thread::spawn(move || predictor.complete(first, 0, 10))
    };
    registry.finish(first, 20);
    // Five words, and behind them one with the number of bits in front, which is 0.
    let bits = [0b10, 0, 0, 0, 1];
    let parts = [Part { relation: TABLE, pages: Pages::Bitset { first: 0, words: &bits, position: 0 } }];
    registry.register(&ScanSpec { kind: ScanKind(1), length: 8, parts: &parts }, 0).unwrap();
    worker.join().unwrap();
    let wanted = |block| predictor.next_access(Question::new(PageId::new(TABLE, block), 0));
    assert_eq!([0, 1, 256].map(wanted), [None, Some(0), Some(1)]);
}

/// Two workers say what they have done, and of one chunk both do: each counts once, in whatever
/// order, and is done from then on.
fn each_chunk_counts_once() {
    let (mut registry, predictor) = for_one(5);
    let scan = register_unordered(&mut registry, 0, 4, 8);
    let wanted = |block| predictor.next_access(Question::new(PageId::new(TABLE, block), 0));
    let workers = [[0, 1], [1, 2]].map(|chunks| {
        let predictor = predictor.clone();
        thread::spawn(move || chunks.map(|chunk| predictor.complete(scan, chunk, 0)))
    });
    let (before, first, then) = (wanted(0), wanted(3), predictor.scan(scan).unwrap().position);
    assert!(before.is_none() || before >= first, "{before:?} {first:?}");
    assert!(then <= 3 && first.is_some_and(|ticks| (5 / 2..=8 / 2).contains(&ticks)), "{then} {first:?}");
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(predictor.scan(scan).unwrap().position, 3);
    assert_eq!([0, 1, 2, 3].map(wanted), [None, None, None, Some(5 / 2)]);
}

fn explore(protocol: fn(), left_out: Option<Mistake>) {
    explore_times(FEW_SWITCHES, protocol, left_out);
}

fn explore_times(few_switches: usize, protocol: fn(), left_out: Option<Mistake>) {
    exploration::explore((few_switches, EVENLY_MIXED), protocol, left_out);
}

#[test]
fn an_estimate_is_of_one_registration() {
    explore(never_a_mixture_of_two_scans, None);
    explore(never_a_mixture_of_two_scans, Some(Mistake::NoVersionCheck));
    explore(never_the_part_of_another_scan, None);
}

#[test]
fn a_chain_that_changes_is_followed_again() {
    explore(a_running_scan_is_never_missed, None);
    explore(a_running_scan_is_never_missed, Some(Mistake::NoChainCheck));
}

#[test]
fn what_is_known_of_a_cell_is_of_all_scans() {
    explore_times(OF_A_LONG_ONE, a_new_scan_is_never_missed, None);
    explore(a_new_scan_is_never_missed, Some(Mistake::StaleCell));
    explore(a_new_scan_is_never_missed, Some(Mistake::TornCell));
    explore_times(OF_A_LONG_ONE, a_new_scan_is_not_hidden_by_newer_ones, None);
    explore(a_new_scan_is_not_hidden_by_newer_ones, Some(Mistake::NoArrivalCheck));
}

#[test]
fn reports_do_not_outlive_their_scan() {
    explore(a_late_report_is_lost, None);
    explore(a_late_report_is_lost, Some(Mistake::UntaggedReport));
}

#[test]
fn a_scan_is_there_as_a_whole() {
    explore(parts_come_and_go_at_once, None);
}

#[test]
fn an_expected_scan_is_another_one() {
    explore(a_scan_that_is_expected_is_never_half_of_it, None);
    explore(a_scan_that_is_expected_is_never_half_of_it, Some(Mistake::ExpectedUnseen));
}

#[test]
fn workers_need_no_lock() {
    explore(workers_report_side_by_side, None);
}

#[test]
fn chunks_do_not_outlive_their_scan() {
    explore_times(OF_A_LONG_ONE, never_a_mixture_of_chunks, None);
    explore(never_a_mixture_of_chunks, Some(Mistake::NoVersionCheck));
    for protocol in [a_late_chunk_is_lost, a_late_chunk_changes_no_bitset] {
        explore(protocol, None);
        explore(protocol, Some(Mistake::UntaggedChunk));
    }
}

#[test]
fn chunks_need_no_lock() {
    explore(each_chunk_counts_once, None);
    explore(each_chunk_counts_once, Some(Mistake::ChunksStored));
}

#[test]
fn marks_need_no_version() {
    explore(marks_are_whole, None);
    explore(marks_are_whole, Some(Mistake::UnmixedMark));
}
