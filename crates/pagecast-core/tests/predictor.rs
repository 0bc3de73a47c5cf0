//! The predictor one behaviour at a time. Against a naive model: predictor_model.rs; concurrency:
//! predictor_shuttle.rs.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::predictor::{
    Expectation, FormatError, MAX_LENGTH, Pages, PagesFault, Part, Predictor, PredictorConfig, RegisterError, Registry,
    Run, ScanKind, ScanSpec,
};
use pagecast_core::random::Random;
use pagecast_core::{PageId, RelationId, ScanId, sync::atomic::AtomicU64};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

type Memory = Arc<[AtomicU64]>;

const TABLE: RelationId = RelationId(3);
const SMALL: PredictorConfig =
    PredictorConfig { scans: 4, parts: 6, runs: 12, bitset_words: 8, cells: 4, scan_words: 0, marks: 0 };

fn memory(words: usize) -> Memory {
    (0..words).map(|_| AtomicU64::new(u64::MAX)).collect()
}

fn new(config: PredictorConfig) -> (Registry<Memory>, Predictor<Memory>) {
    let registry = Registry::format(memory(config.words()), config).unwrap();
    let predictor = registry.predictor();
    (registry, predictor)
}

fn register(registry: &mut Registry<Memory>, runs: &[Run], length: u64, now: u64) -> Result<ScanId, RegisterError> {
    let parts = [Part { relation: TABLE, pages: Pages::Runs(runs) }];
    registry.register(&ScanSpec { kind: ScanKind(0), length, parts: &parts }, now)
}

fn blocks(first: u32, blocks: u32) -> [Run; 1] {
    [Run { first, blocks, position: 0, span: u64::from(blocks) }]
}

fn page(block: u32) -> PageId {
    PageId::new(TABLE, block)
}

#[test]
fn the_memory_is_what_the_documentation_says() {
    let base =
        PredictorConfig { scans: 64, parts: 128, runs: 1000, bitset_words: 80, cells: 16, scan_words: 0, marks: 0 };
    let bytes = |change: fn(&mut PredictorConfig)| {
        let mut config = base;
        change(&mut config);
        config.bytes() - base.bytes()
    };
    assert_eq!(base.bytes(), 256 + 64 * 128 + 128 * (64 + 16) + 1000 * 24 + 10 * 72 + 16 * 64);
    assert_eq!(bytes(|c| c.scans += 1), 128);
    assert_eq!(bytes(|c| c.runs += 1), 24);
    assert_eq!(bytes(|c| c.bitset_words += 8), 72);
    // One part more than a power of two doubles the buckets; the next ones are without.
    assert_eq!(bytes(|c| c.parts += 1), 64 + 128 * 16);
    assert_eq!(bytes(|c| c.parts += 2), 2 * 64 + 128 * 16);
    assert!(PredictorConfig::default().bytes() <= 673_000, "{}", PredictorConfig::default().bytes());
}

#[test]
fn a_scan_costs_by_its_runs_and_not_by_its_blocks() {
    let (mut registry, predictor) =
        new(PredictorConfig { scans: 1, parts: 1, runs: 1, cells: 1, ..PredictorConfig::EMPTY });
    let whole = [Run { first: 0, blocks: u32::MAX, position: 0, span: MAX_LENGTH }];
    let scan = register(&mut registry, &whole, MAX_LENGTH, 0).unwrap();
    assert_eq!(predictor.next_access(Question::new(page(0), 0)), Some(0));
    let expected = (u128::from(MAX_LENGTH) * 4_000_000_000 / u128::from(u32::MAX)) as u64;
    assert_eq!(predictor.next_access(Question::new(page(4_000_000_000), 0)), Some(expected));
    assert_eq!(predictor.next_access(Question::new(page(u32::MAX), 0)), None);
    assert!(registry.finish(scan, 0));
}

#[test]
fn what_lies_behind_is_not_wanted_and_the_nearest_scan_counts() {
    let (mut registry, predictor) = new(SMALL);
    assert_eq!(predictor.next_access(Question::new(page(5), 0)), None);
    let behind = register(&mut registry, &blocks(0, 100), 100, 0).unwrap();
    let ahead = register(&mut registry, &blocks(0, 100), 100, 0).unwrap();
    predictor.report(ahead, 50, 500); // 10 ticks a block
    predictor.report(behind, 20, 500); // 25 ticks a block
    assert_eq!(predictor.next_access(Question::new(page(50), 500)), Some(0));
    assert_eq!(predictor.next_access(Question::new(page(60), 500)), Some(100));
    assert_eq!(predictor.next_access(Question::new(page(30), 500)), Some(250));
    assert_eq!(predictor.next_access(Question::new(page(19), 500)), None);
    assert_eq!(predictor.next_access(Question::new(page(100), 500)), None);
    assert_eq!(predictor.next_access(Question::new(PageId::new(RelationId(4), 60), 500)), None);
    registry.finish(ahead, 500);
    assert_eq!(predictor.next_access(Question::new(page(60), 500)), Some(1000));
}

#[test]
fn a_scan_goes_on_between_reports_but_no_further_than_its_last_step() {
    let (mut registry, predictor) = new(SMALL);
    let scan = register(&mut registry, &blocks(0, 1000), 1000, 0).unwrap();
    predictor.report(scan, 20, 200);
    assert_eq!(predictor.next_access(Question::new(page(100), 200)), Some(800));
    assert_eq!(predictor.next_access(Question::new(page(100), 300)), Some(700));
    assert_eq!(predictor.next_access(Question::new(page(100), 400)), Some(600));
    assert_eq!(predictor.next_access(Question::new(page(100), 9000)), Some(600));
    assert_eq!(
        predictor.next_access(Question::new(page(25), 9000)),
        Some(0),
        "not reported as read, so still wanted, at once"
    );
    assert_eq!(
        predictor.next_access(Question::new(page(100), 0)),
        Some(800),
        "an earlier moment is taken for that of the report"
    );
}

/// What a scan has read since its last report is not wanted at once, as far as its pace and the
/// page's last use bear it out.
#[test]
fn a_page_that_was_used_when_its_scan_was_due_waits_for_the_next_one() {
    let (mut registry, predictor) = new(SMALL);
    let first = register(&mut registry, &blocks(0, 1000), 1000, 0).unwrap();
    let second = register(&mut registry, &blocks(0, 1000), 1000, 0).unwrap();
    predictor.report(first, 120, 1200);
    predictor.report(second, 20, 1200); // 60 ticks each
    let after =
        |used, block, now| predictor.next_access(Question { last_use: Some(used), ..Question::new(page(block), now) });
    // By now the first one should be at 130.
    assert_eq!(after(1250, 125, 1300), Some(6200), "the second one comes to it");
    assert_eq!(after(1250, 130, 1300), Some(6500));
    assert_eq!(after(1250, 131, 1300), Some(10), "used, but the first one cannot be there yet");
    assert_eq!(after(1200, 125, 1300), Some(0), "not used since the first one's report");
    assert_eq!(after(0, 125, 1300), Some(0), "nothing is known of its use");
    // It may stand still: no further than its last step of 120.
    assert_eq!(after(9000, 239, 9000), Some(11_940));
    assert_eq!(after(9000, 240, 9000), Some(0));
    registry.finish(second, 9000);
    assert_eq!(after(9000, 239, 9000), None);
    predictor.report(first, 130, 9000);
    assert_eq!(after(9000, 239, 9000), predictor.next_access(Question::new(page(239), 9000)), "a report says better");
}

/// A miss says where the scan is between two reports; its pace stays that of as many reports, and
/// it is not taken to go further than to the next.
#[test]
fn a_scan_has_come_to_the_page_that_it_misses() {
    let (mut registry, predictor) = new(SMALL);
    let scan = register(&mut registry, &blocks(0, 1000), 1000, 0).unwrap();
    predictor.report(scan, 20, 200);
    predictor.missed(scan, page(30), 600); // 20 ticks each, so far
    let after =
        |used, block, now| predictor.next_access(Question { last_use: Some(used), ..Question::new(page(block), now) });
    assert_eq!(after(0, 29, 600), None, "it is past what comes before");
    assert_eq!((after(0, 30, 600), after(0, 40, 600)), (Some(0), Some(200)), "600 ticks for 30 positions");
    assert_eq!(after(0, 140, 9000), Some(2000), "the next report is due at 40");
    predictor.missed(scan, page(25), 700);
    assert_eq!(predictor.scan(scan).unwrap().position, 30, "it does not go back");
    predictor.missed(scan, page(5000), 700);
    assert_eq!(predictor.scan(scan).unwrap().position, 30, "not its page");
    predictor.missed(ScanId::NOBODY, page(31), 700);
    predictor.report(scan, 40, 700);
    assert_eq!(
        after(0, 140, 9000),
        Some(1379),
        "reports forget an eighth: 625 ticks for 36.25 positions; the next one is due at 60"
    );
    registry.finish(scan, 9000);
    // Who may ask for pages of many positions together has not come to where it asks.
    for (span, length) in [(0, 1000), (2000, 2000), (1000, 3000)] {
        let scan = register(&mut registry, &[Run { first: 0, blocks: 1000, position: 0, span }], length, 0).unwrap();
        predictor.missed(scan, page(30), 600);
        assert_eq!(predictor.scan(scan).unwrap().position, 0, "{span} of {length}");
        registry.finish(scan, 600);
    }
    let bits = [Part { relation: TABLE, pages: Pages::Bitset { first: 64, words: &[u64::MAX], position: 0 } }];
    let scan = registry.register(&ScanSpec { kind: ScanKind(0), length: 64, parts: &bits }, 0).unwrap();
    predictor.missed(scan, page(70), 600);
    assert_eq!(predictor.scan(scan).unwrap().position, 6);
}

/// Row groups: a scan asks for all pages of one together and reports that it is past it; nothing of
/// the next has been read then.
#[test]
fn who_reads_at_chunks_has_read_nothing_that_it_has_not_reported() {
    let (mut registry, predictor) = new(SMALL);
    let groups: Vec<Run> =
        (0..10).map(|i| Run { first: 10 * i, blocks: 10, position: u64::from(i) * 100, span: 0 }).collect();
    let scan = register(&mut registry, &groups, 1000, 0).unwrap();
    predictor.report(scan, 100, 1000); // 10 ticks each
    let after =
        |used, block, now| predictor.next_access(Question { last_use: Some(used), ..Question::new(page(block), now) });
    assert_eq!(after(1100, 15, 1200), Some(0), "another scan has used it; this one comes to it at its next chunk");
    assert_eq!(after(1100, 25, 1200), Some(800));
    assert_eq!(after(9000, 15, 9000), Some(0), "however late it is");
    predictor.report(scan, 200, 9000);
    assert_eq!(after(9000, 15, 9000), None);
    registry.finish(scan, 9000);
    // One run of many positions is enough to be a scan that goes on between two reports.
    let mut mixed = groups;
    mixed[9].span = 100;
    let scan = register(&mut registry, &mixed, 1000, 0).unwrap();
    predictor.report(scan, 100, 1000);
    assert_eq!(after(1100, 15, 1200), None);
}

#[test]
fn the_pace_follows_recent_reports_whatever_their_rhythm() {
    let (mut registry, predictor) = new(SMALL);
    let scan = register(&mut registry, &blocks(0, 100_000), 100_000, 1000).unwrap();
    let pace = |predictor: &Predictor<Memory>| predictor.scan(scan).unwrap().pace;
    assert_eq!(pace(&predictor), 1.0);
    // Steady: 7 ticks a block.
    let (mut position, mut now) = (0, 1000);
    for _ in 0..50 {
        (position, now) = (position + 10, now + 70);
        predictor.report(scan, position, now);
    }
    assert!((pace(&predictor) - 7.0).abs() < 1e-6);
    // In bursts of three reports at one moment, and reports that arrive out of order: still 7.
    for _ in 0..50 {
        for step in [10, 30, 20] {
            predictor.report(scan, position + step, now + 210);
        }
        (position, now) = (position + 30, now + 210);
    }
    assert!((pace(&predictor) - 7.0).abs() < 0.2, "{}", pace(&predictor));
    // Ten times slower: within 16 reports nearly all of the old is forgotten.
    for _ in 0..16 {
        (position, now) = (position + 30, now + 2100);
        predictor.report(scan, position, now);
    }
    assert!(pace(&predictor) > 60.0 && pace(&predictor) < 70.5, "{}", pace(&predictor));
    let before = pace(&predictor);
    predictor.report(scan, position + 1000, now);
    assert_eq!(pace(&predictor), before, "a clock that stands still measures nothing");
    assert_eq!(predictor.scan(scan).unwrap().position, position + 1000);
}

#[test]
fn a_scan_starts_at_the_running_pace_of_its_kind() {
    let (mut registry, predictor) = new(SMALL);
    let spec = |kind| ScanSpec { kind: ScanKind(kind), length: 100, parts: &[] };
    let pace_of_new = |registry: &mut Registry<Memory>, kind| {
        let scan = registry.register(&spec(kind), 0).unwrap();
        let pace = predictor.scan(scan).unwrap().pace;
        registry.finish(scan, 0);
        pace
    };
    let first = registry.register(&spec(1), 0).unwrap();
    predictor.report(first, 10, 40);
    assert_eq!(pace_of_new(&mut registry, 1), 4.0, "the first measurement of a kind serves at once");
    registry.finish(first, 60); // 6 ticks a position on average
    assert!((pace_of_new(&mut registry, 1) - (0.85 * 4.0 + 0.15 * 6.0)).abs() < 1e-9);
    assert_eq!(pace_of_new(&mut registry, 2), 1.0, "other kinds learn nothing from it");
}

#[test]
fn positions_come_from_runs_that_overlap_and_from_ranks() {
    let (mut registry, predictor) = new(SMALL);
    // Two columns of 1000 rows whose chunks meet in block 4, and a set of blocks on the same axis.
    let runs =
        [Run { first: 0, blocks: 5, position: 0, span: 1000 }, Run { first: 4, blocks: 10, position: 0, span: 1000 }];
    let set: [u64; 9] = [0b1011, 0, 0, 0, 0, 0, 0, 0, 1 << 63];
    let other = RelationId(9);
    let parts = [
        Part { relation: TABLE, pages: Pages::Runs(&runs) },
        Part { relation: other, pages: Pages::Bitset { first: 7, words: &set, position: 500 } },
    ];
    let scan = registry.register(&ScanSpec { kind: ScanKind(0), length: 1000, parts: &parts }, 0).unwrap();
    let at = |page| predictor.next_access(Question::new(page, 0));
    assert_eq!((at(page(3)), at(page(4)), at(page(5))), (Some(600), Some(0), Some(100)));
    let ranks = [7, 8, 9, 10, 7 + 8 * 64 + 63, 6, 7 + 9 * 64].map(|block| at(PageId::new(other, block)));
    assert_eq!(ranks, [Some(500), Some(501), None, Some(502), Some(503), None, None]);
    predictor.report(scan, 300, 0);
    assert_eq!(at(page(4)), Some(500), "its second use is over, its first is to come");
    let view = predictor.scan(scan).unwrap();
    assert_eq!((view.parts, view.relation, view.position, view.length), (2, Some(TABLE), 300, 1000));
}

#[test]
fn a_name_that_is_out_of_date_does_nothing() {
    let (mut registry, predictor) = new(SMALL);
    let old = register(&mut registry, &blocks(0, 10), 10, 0).unwrap();
    assert!(registry.finish(old, 5));
    let new = register(&mut registry, &blocks(0, 10), 10, 5).unwrap();
    assert_eq!(old.slot(), new.slot(), "slots are used again, or this test says nothing");
    predictor.report(old, 8, 50);
    assert!(!registry.finish(old, 60));
    assert_eq!(predictor.scan(old), None);
    assert_eq!(predictor.scan(new).unwrap().position, 0);
    assert_eq!(predictor.next_access(Question::new(page(4), 60)), Some(4));
}

#[test]
fn what_is_full_is_said_and_nothing_is_left_behind() {
    let (mut registry, predictor) = new(SMALL);
    let space = 12 * 3 + 9;
    let many: Vec<Run> = (0..16).map(|i| Run { first: i, blocks: 1, position: 0, span: 0 }).collect();
    let fits = &many[..space / 3];
    for _ in 0..3 {
        assert_eq!(register(&mut registry, &many, 1, 0), Err(RegisterError::NoSpace { part: 0, words: 48 }));
        let part = Part { relation: TABLE, pages: Pages::Runs(&many[..1]) };
        let spec = |parts| ScanSpec { kind: ScanKind(0), length: 1, parts };
        let wanted = [part; 7];
        let error = RegisterError::TooManyParts { wanted: 7, limit: 6 };
        assert_eq!(registry.register(&spec(&wanted), 0), Err(error));
        // Six parts, and then all of the space in one, can still be had.
        let six = registry.register(&spec(&wanted[..6]), 0).unwrap();
        registry.finish(six, 0);
        let all = register(&mut registry, fits, 1, 0).unwrap();
        registry.finish(all, 0);
    }
    let empty = ScanSpec { kind: ScanKind(0), length: 0, parts: &[] };
    let scans: Vec<ScanId> = (0..4).map(|_| registry.register(&empty, 0).unwrap()).collect();
    assert_eq!(registry.register(&empty, 0), Err(RegisterError::TooManyScans { limit: 4 }));
    let mut seen = 0;
    predictor.scans(|view| seen += u32::from(scans.contains(&view.id)));
    assert_eq!(seen, 4);
}

#[test]
fn expected_scans_give_way_to_running_ones_the_latest_first() {
    let (mut registry, predictor) = new(SMALL);
    let expected = |start| Expectation { start, spread: 0, trust: 1.0 };
    let run = blocks(0, 10);
    let waiting = [300, 100, 400, 200].map(|start| {
        let scan = register(&mut registry, &run, 10, 0).unwrap();
        registry.expect(scan, expected(start), 0).unwrap()
    });
    let left = || waiting.map(|id| predictor.scan(id).is_some());
    let mut running = vec![register(&mut registry, &run, 10, 0).unwrap()];
    assert_eq!(left(), [true, true, false, true]);
    running.extend((0..3).map(|_| register(&mut registry, &run, 10, 0).unwrap()));
    assert_eq!((left(), predictor.refused()), ([false; 4], 0));
    assert_eq!(register(&mut registry, &run, 10, 0), Err(RegisterError::TooManyScans { limit: 4 }));
    assert!(running.iter().all(|&id| predictor.scan(id).is_some_and(|view| view.expected.is_none())));
    // What can never fit withdraws nobody.
    let waiting = registry.expect(running[0], expected(900), 5).unwrap();
    registry.finish(running[1], 5);
    let many: Vec<Run> = (0..99).map(|first| Run { first, blocks: 1, position: 0, span: 0 }).collect();
    assert!(register(&mut registry, &many, 1, 0).is_err() && predictor.scan(waiting).is_some());
}

#[test]
fn what_is_expected_has_no_progress_and_teaches_no_pace() {
    let (mut registry, predictor) = new(SMALL);
    let scan = register(&mut registry, &blocks(0, 10), 10, 0).unwrap();
    predictor.report(scan, 10, 50);
    let next = Expectation { start: 1000, spread: 40, trust: 0.5 };
    let waiting = registry.expect(scan, next, 50).unwrap();
    predictor.report(waiting, 9, 1500);
    assert!(!predictor.reach(waiting, page(3), 1500));
    let wanted = |now| predictor.next_access(Question::new(page(4), now));
    assert_eq!((wanted(500), wanted(990), wanted(1100)), (Some(2 * 520), Some(2 * 60), Some(2 * 120)));
    let later = registry.postpone(waiting, Expectation { start: 2000, ..next }).unwrap();
    assert_eq!((predictor.scan(waiting), wanted(1500)), (None, Some(2 * 520)));
    assert!(registry.postpone(waiting, next).is_none() && registry.expect(scan, next, 9).is_none());
    assert!(registry.finish(later, 9999) && !registry.finish(later, 9999));
    let again = register(&mut registry, &blocks(0, 10), 10, 9999).unwrap();
    assert_eq!(predictor.scan(again).unwrap().pace, 5.0, "as its kind had it");
    assert!(registry.postpone(again, next).is_none(), "it runs");
}

#[test]
fn chunks_of_an_expected_scan_are_to_be_done_again() {
    let (mut registry, predictor) = new(SMALL);
    let runs: Vec<Run> = (0..4).map(|i| Run { first: i, blocks: 1, position: i.into(), span: 0 }).collect();
    let parts = [Part { relation: TABLE, pages: Pages::Runs(&runs) }];
    let spec = ScanSpec { kind: ScanKind(0), length: 4, parts: &parts };
    let scan = registry.register_unordered(&spec, 0).unwrap();
    (0..4).for_each(|chunk| predictor.complete(scan, chunk, 10 * (chunk + 1)));
    assert_eq!(predictor.next_access(Question::new(page(2), 40)), None);
    let next = Expectation { start: 140, spread: 0, trust: 1.0 };
    let waiting = registry.expect(scan, next, 40).unwrap();
    predictor.complete(waiting, 2, 60);
    predictor.complete(scan, 1, 60);
    // Half of four chunks of ten ticks each, also when it is overdue.
    let wanted = |now| [0, 1, 2, 3].map(|block| predictor.next_access(Question::new(page(block), now)));
    assert_eq!((wanted(60), wanted(200)), ([Some(80 + 20); 4], [Some(60 + 20); 4]));
}

#[test]
fn a_scan_that_makes_no_sense_is_refused_with_the_place() {
    let (mut registry, _) = new(SMALL);
    let good = Run { first: 10, blocks: 5, position: 0, span: 5 };
    let cases = [
        (vec![good, Run { blocks: 0, ..good }], 1, PagesFault::Empty),
        (vec![Run { first: u32::MAX, blocks: 2, ..good }], 0, PagesFault::PastLastBlock),
        (vec![Run { position: 6, ..good }], 0, PagesFault::PastLength),
        (vec![Run { position: u64::MAX, ..good }], 0, PagesFault::PastLength),
        (vec![good, Run { first: 9, ..good }], 1, PagesFault::OutOfOrder),
        (vec![good, Run { first: 11, blocks: 3, ..good }], 1, PagesFault::OutOfOrder),
    ];
    for (runs, run, fault) in cases {
        let error = register(&mut registry, &runs, 10, 0).unwrap_err();
        assert_eq!(error, RegisterError::BadPages { part: 0, run, fault });
        assert!(error.to_string().starts_with(&format!("part 0, run {run} ")), "{error}");
    }
    let mut bitset = |first, words, position| {
        let parts = [Part { relation: TABLE, pages: Pages::Bitset { first, words, position } }];
        registry.register(&ScanSpec { kind: ScanKind(0), length: 10, parts: &parts }, 0).unwrap_err()
    };
    let bad = |fault| RegisterError::BadPages { part: 0, run: 0, fault };
    assert_eq!(bitset(u32::MAX - 1, &[0b101], 0), bad(PagesFault::PastLastBlock));
    assert_eq!(bitset(0, &[0b111], 8), bad(PagesFault::PastLength));
    let spec = ScanSpec { kind: ScanKind(16), length: 1, parts: &[] };
    assert_eq!(registry.register(&spec, 0), Err(RegisterError::BadKind { kind: 16 }));
    let spec = ScanSpec { kind: ScanKind(0), length: MAX_LENGTH + 1, parts: &[] };
    assert_eq!(registry.register(&spec, 0), Err(RegisterError::TooLong { length: MAX_LENGTH + 1 }));
}

#[test]
fn another_process_finds_what_one_has_registered() {
    let words = memory(SMALL.words());
    assert!(matches!(Predictor::attach(words.clone()), Err(FormatError::NotFormatted { .. })));
    let mut registry = Registry::format(words.clone(), SMALL).unwrap();
    register(&mut registry, &blocks(0, 10), 10, 0).unwrap();
    drop(registry);
    let predictor = Predictor::attach(words.clone()).unwrap();
    assert_eq!(predictor.config(), SMALL);
    assert_eq!(predictor.next_access(Question::new(page(4), 0)), Some(4));
    let mut registry = Registry::attach(words.clone()).unwrap();
    register(&mut registry, &blocks(20, 10), 10, 0).unwrap();
    assert_eq!(predictor.next_access(Question::new(page(24), 0)), Some(4));

    let needed = SMALL.words();
    let short = memory(needed - 1);
    assert_eq!(
        Registry::format(short.clone(), SMALL).unwrap_err(),
        FormatError::TooSmall { given: needed - 1, needed }
    );
    for (to, from) in short.iter().zip(words.iter()) {
        to.store(from.load(Relaxed), Relaxed);
    }
    assert_eq!(Predictor::attach(short).unwrap_err(), FormatError::TooSmall { given: needed - 1, needed });
    let none = PredictorConfig { scans: 0, ..SMALL };
    assert_eq!(Registry::format(memory(1000), none).unwrap_err(), FormatError::BadConfig);
    let huge = PredictorConfig { runs: u32::MAX, bitset_words: u32::MAX, ..SMALL };
    assert_eq!(Registry::format(memory(1000), huge).unwrap_err(), FormatError::BadConfig);
}

/// Whatever stands in the memory: nothing panics, nothing runs on for ever.
#[test]
fn memory_that_others_have_scribbled_on_does_no_harm() {
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let words = memory(SMALL.words());
        let mut registry = Registry::format(words.clone(), SMALL).unwrap();
        let predictor = registry.predictor();
        let set = [u64::MAX; 3];
        let mut scans: Vec<ScanId> = Vec::new();
        for round in 0..60u64 {
            for _ in 0..random.below(4) {
                let at = random.below(words.len() as u32) as usize;
                // Small numbers are likely to be taken for indices, the others for anything.
                let (small, any) = (u64::from(random.below(words.len() as u32)), random.next());
                let junk = [small, any, small << 32 | small, u64::MAX, words[at].load(Relaxed) ^ (1 << (any % 64))];
                words[at].store(junk[random.below(5) as usize], Relaxed);
            }
            let runs = blocks(random.below(50), 1 + random.below(50));
            let parts = [
                Part { relation: TABLE, pages: Pages::Runs(&runs) },
                Part { relation: RelationId(4), pages: Pages::Bitset { first: 5, words: &set, position: 0 } },
            ];
            scans.extend(registry.register(&ScanSpec { kind: ScanKind(3), length: 1000, parts: &parts }, round));
            let runs: [Run; 2] = [0, 1].map(|i| Run { first: 40 * i, blocks: 40, position: i.into(), span: 0 });
            let parts = [Part { relation: TABLE, pages: Pages::Runs(&runs) }];
            let spec = ScanSpec { kind: ScanKind(4), length: u64::from(random.below(100)), parts: &parts };
            scans.extend(registry.register_unordered(&spec, round));
            for &scan in &scans {
                predictor.report(scan, u64::from(random.below(300)), round * 10);
                predictor.complete(scan, u64::from(random.below(100)), round * 10);
            }
            for relation in [TABLE, RelationId(4)] {
                predictor.next_access(Question::new(PageId::new(relation, random.below(100)), round * 10));
            }
            predictor.scans(|view| assert!(view.position <= MAX_LENGTH));
            if scans.len() > 2 {
                registry.finish(scans.swap_remove(random.below(3) as usize), round * 10);
            }
        }
        let _ = Predictor::attach(words);
    }
}

#[test]
fn a_scan_that_begins_or_ends_is_a_change_and_a_report_is_none() {
    let (mut registry, predictor) = new(SMALL);
    let none = predictor.scan_changes();
    let scan = register(&mut registry, &blocks(0, 10), 10, 0).unwrap();
    let begun = predictor.scan_changes();
    predictor.report(scan, 5, 10);
    assert_eq!(predictor.scan_changes(), begun);
    assert!(registry.finish(scan, 20));
    let ended = predictor.scan_changes();
    assert!(none != begun && begun != ended && none != ended, "{none} {begun} {ended}");
    assert!(!registry.finish(scan, 30));
    assert_eq!(predictor.scan_changes(), ended);
}

#[test]
fn a_scan_is_where_the_block_is_that_it_has_come_to() {
    let (mut registry, predictor) = new(SMALL);
    // Every second block from 10 on, by rank; and behind them a relation of its own.
    let parts = [
        Part { relation: TABLE, pages: Pages::Bitset { first: 10, words: &[0x5555], position: 0 } },
        Part { relation: RelationId(4), pages: Pages::Runs(&[Run { first: 0, blocks: 4, position: 8, span: 40 }]) },
    ];
    let scan = registry.register(&ScanSpec { kind: ScanKind(0), length: 48, parts: &parts }, 0).unwrap();
    let position = |page, now| (predictor.reach(scan, page, now), predictor.scan(scan).map(|view| view.position));
    assert_eq!(position(page(16), 30), (true, Some(3)));
    assert_eq!(predictor.next_access(Question::new(page(18), 30)), Some(10));
    // Behind it, and never registered: nothing moves.
    assert_eq!(position(page(12), 40), (true, Some(3)));
    assert_eq!(position(page(17), 40), (true, Some(3)));
    assert_eq!(position(PageId::new(RelationId(9), 1), 40), (true, Some(3)));
    assert_eq!(position(PageId::new(RelationId(4), 2), 50), (true, Some(28)));
    registry.finish(scan, 60);
    assert_eq!(position(page(18), 70), (false, None));
    assert_eq!(ScanId::from_raw(scan.raw()), scan);
}
