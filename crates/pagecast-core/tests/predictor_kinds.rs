//! The kinds of scans that are more than a row of blocks, and what a budget for their pages costs.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::predictor::{Pages, Part, Predictor, PredictorConfig, Registry, Run, ScanKind, ScanSpec, scatter};
use pagecast_core::random::Random;
use pagecast_core::{PageId, RelationId, ScanId, sync::atomic::AtomicU64};
use std::sync::Arc;

type Memory = Arc<[AtomicU64]>;

const TABLE: RelationId = RelationId(3);
const ROOMY: PredictorConfig =
    PredictorConfig { scans: 8, parts: 8, runs: 2000, bitset_words: 1000, cells: 16, scan_words: 0, marks: 0 };

fn new(config: PredictorConfig) -> (Registry<Memory>, Predictor<Memory>) {
    let memory: Memory = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
    let registry = Registry::format(memory, config).unwrap();
    let predictor = registry.predictor();
    (registry, predictor)
}

fn register(registry: &mut Registry<Memory>, pages: Pages<'_>, length: u64) -> ScanId {
    let parts = [Part { relation: TABLE, pages }];
    registry.register(&ScanSpec { kind: ScanKind(0), length, parts: &parts }, 0).unwrap()
}

fn page(block: u32) -> PageId {
    PageId::new(TABLE, block)
}

#[test]
fn a_scan_that_wraps_comes_to_the_front_last() {
    let (mut registry, predictor) = new(ROOMY);
    let scan = register(&mut registry, Pages::Runs(&Run::wrapping(600, 1000)), 1000);
    let at = |block| predictor.next_access(Question::new(page(block), 0));
    assert_eq!([600, 999, 0, 599].map(at), [Some(0), Some(399), Some(400), Some(999)]);
    predictor.report(scan, 500, 0);
    assert_eq!([600, 999, 99, 100].map(at), [None, None, None, Some(0)]);
    for start in [0, 5000] {
        assert_eq!(Run::wrapping(start, 10)[0], Run { first: 0, blocks: 10, position: 0, span: 10 });
    }
}

#[test]
fn an_almost_sequential_scan_keeps_a_window_around_its_place() {
    assert_eq!(scatter(1.0, 1000), Some(0));
    assert_eq!(
        (scatter(0.7, 1000), scatter(0.0, 1000), scatter(f64::NAN, 1000), scatter(1.5, 1000)),
        (None, None, None, None)
    );
    assert_eq!(scatter(-0.9, 1000), scatter(0.9, 1000));
    let (mut registry, predictor) = new(ROOMY);
    let run = Run { first: 100, blocks: 1000, position: 0, span: 1000 };
    let rising = register(&mut registry, Pages::Correlated { run, scatter: 50, descending: false }, 1000);
    predictor.report(rising, 400, 0);
    let at = |block| predictor.next_access(Question::new(page(block), 0));
    // Block 500 is the place of position 400.
    assert_eq!(
        [449, 450, 500, 550, 600, 1099, 1100].map(at),
        [None, Some(0), Some(0), Some(0), Some(50), Some(549), None]
    );
    registry.finish(rising, 0);
    let falling = register(&mut registry, Pages::Correlated { run, scatter: 50, descending: true }, 1000);
    predictor.report(falling, 400, 0);
    assert_eq!(
        [750, 749, 699, 649, 599, 100, 99].map(at),
        [None, Some(0), Some(0), Some(0), Some(50), Some(549), None]
    );
}

/// Accesses with the error that a correlation stands for: the window that is derived from it holds
/// nearly all of them.
#[test]
fn the_window_of_a_correlation_holds_the_accesses() {
    let mut random = Random::new(11);
    for correlation in [0.8_f64, 0.9, 0.99] {
        let deviation = ((1.0 / (correlation * correlation) - 1.0) / 12.0).sqrt();
        let window = scatter(correlation, 1_000_000).unwrap() as f64 / 1e6;
        let inside = (0..10_000).filter(|_| {
            // The sum of twelve is nearly normal, of variance 1.
            let error: f64 = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
            (error * deviation).abs() <= window
        });
        let inside = inside.count();
        assert!((9_400..9_650).contains(&inside), "{correlation}: {inside} of 10,000");
    }
}

/// Pages over their budget become one run: nothing that is wanted is forgotten, and how much is
/// wrongly wanted and how far off positions are is printed.
#[test]
fn one_run_leaves_out_nothing_and_is_nearly_right() {
    const BLOCKS: u32 = 40_000;
    for (budget, wrongly, off) in [(1000, 0.0, 0), (300, 4.2, 400)] {
        let (mut registry, predictor) = new(PredictorConfig { scan_words: budget, cells: 0, ..ROOMY });
        // Stretches of 1 to 100 blocks, gaps of 1 to 400: 160 runs, a bitset of 625 words.
        let mut random = Random::new(5);
        let mut bits = vec![0_u64; BLOCKS as usize / 64];
        let mut block = 0;
        while block < BLOCKS {
            for _ in 0..=random.below(100) {
                if block < BLOCKS {
                    bits[block as usize / 64] |= 1 << (block % 64);
                    block += 1;
                }
            }
            block += 1 + random.below(400);
        }
        register(&mut registry, Pages::Bitset { first: 0, words: &bits, position: 0 }, u64::from(BLOCKS));
        let (mut rank, mut extra, mut error) = (0_u64, 0, 0);
        for block in 0..BLOCKS {
            let found = predictor.next_access(Question::new(page(block), 0));
            if bits[block as usize / 64] >> (block % 64) & 1 == 1 {
                error = error.max(found.expect("a wanted block").abs_diff(rank));
                rank += 1;
            } else {
                extra += u64::from(found.is_some());
            }
        }
        let wrongly_wanted = extra as f64 / rank as f64;
        println!(
            "budget {budget} words: {wrongly_wanted:.2} of the set wrongly wanted, at most {error} of {rank} positions off"
        );
        assert!(wrongly_wanted <= wrongly && error <= off, "{budget}: {wrongly_wanted} {error}");
    }
}

const INDEX: RelationId = RelationId(9);

/// An index scan of `entries`, at its beginning.
fn index_scan(registry: &mut Registry<Memory>, entries: std::ops::Range<u32>, now: u64) -> ScanId {
    let blocks = entries.end - entries.start;
    let run = [Run { first: entries.start, blocks, position: 0, span: u64::from(blocks) }];
    let parts = [Part { relation: INDEX, pages: Pages::Runs(&run) }];
    registry.register(&ScanSpec { kind: ScanKind(1), length: u64::from(blocks), parts: &parts }, now).unwrap()
}

/// The estimate for each page that a leader has marked is the follower's real time to it, at the
/// follower's own pace, also for pages that were marked before it began and when the leader has
/// ended.
#[test]
fn a_trailing_scan_is_expected_where_its_leader_was() {
    let (mut registry, predictor) = new(PredictorConfig { marks: 1024, ..ROOMY });
    // Entry i lies in block 7 i mod 101, and every page is met again after 101 entries.
    let heap = |entry: u32| page(entry * 7 % 101);
    let leader = index_scan(&mut registry, 0..200, 0);
    for entry in 0..100 {
        predictor.mark(heap(entry), PageId::new(INDEX, entry));
        predictor.report(leader, u64::from(entry) + 1, 10 * (u64::from(entry) + 1));
    }
    assert_eq!(predictor.next_access(Question::new(heap(40), 1000)), None, "nobody follows");
    let follower = index_scan(&mut registry, 20..150, 1000);
    predictor.report(follower, 10, 1300); // at entry 30, 30 ticks each
    let expected = |entry: u32| predictor.next_access(Question::new(heap(entry), 1300));
    assert_eq!([29, 30, 31, 99].map(expected), [None, Some(0), Some(30), Some(2070)]);
    assert_eq!(expected(100), None, "not marked yet");
    registry.finish(leader, 1300);
    assert_eq!(expected(99), Some(2070));
    // A page with several entries is wanted at the first of them that is still to come.
    predictor.mark(heap(99), PageId::new(INDEX, 50));
    assert_eq!((expected(99), expected(50)), (Some(600), Some(600)));
    predictor.report(follower, 31, 1930);
    assert_eq!(predictor.next_access(Question::new(heap(99), 1930)), Some(30 * 48));
    registry.finish(follower, 1930);
    assert_eq!(predictor.next_access(Question::new(heap(99), 1930)), None);
}

/// A scan that does not know which entries it reads finds its place in the marks of two
/// neighbouring pages.
#[test]
fn a_scan_finds_whom_it_follows() {
    let (_, predictor) = new(PredictorConfig { marks: 1024, ..ROOMY });
    let mut random = Random::new(4);
    let heap: Vec<u32> = (0..200).map(|_| random.below(80)).collect();
    for (entry, &block) in heap.iter().enumerate() {
        predictor.mark(page(block), PageId::new(INDEX, entry as u32));
        predictor.mark(page(block), PageId::new(RelationId(8), 5));
    }
    let place = |one: u32, next: u32| {
        predictor.marked(page(one), INDEX).find(|&entry| predictor.marked(page(next), INDEX).any(|n| n == entry + 1))
    };
    let known = heap.iter().zip(&heap[1..]).enumerate().filter(|&(entry, (&one, &next))| {
        let found = place(one, next);
        if let Some(found) = found {
            assert_eq!((heap[found as usize], heap[found as usize + 1]), (one, next), "entry {entry}");
        }
        found.is_some()
    });
    // A page of 80 has 2.5 entries, and some more than its set holds.
    assert!(known.count() >= 120);
    assert_eq!(predictor.marked(page(heap[7]), RelationId(8)).collect::<Vec<_>>(), [5]);
}

/// Of the marks of a set the one that was left longest ago goes; one that is left again counts as
/// new.
#[test]
fn a_full_set_of_marks_forgets_the_oldest() {
    let (_, predictor) = new(PredictorConfig { marks: 1, ..ROOMY });
    for entry in [1, 2, 3, 4, 1, 5] {
        predictor.mark(page(7), PageId::new(INDEX, entry));
    }
    assert_eq!(predictor.marked(page(7), INDEX).collect::<Vec<_>>(), [5, 1, 4, 3]);
    assert_eq!(predictor.marked(page(8), INDEX).count(), 0);
    let (_, unmarked) = new(ROOMY);
    unmarked.mark(page(7), PageId::new(INDEX, 1));
    assert_eq!(unmarked.marked(page(7), INDEX).count(), 0);
}
