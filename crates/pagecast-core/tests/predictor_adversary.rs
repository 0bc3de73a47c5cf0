//! Scans that misbehave: predictions may get worse, nothing else may.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::predictor::{
    Pages, Part, Predictor, PredictorConfig, RegisterError, Registry, Run, ScanKind, ScanSpec,
};
use pagecast_core::random::Random;
use pagecast_core::{PageId, RelationId, ScanId, sync::atomic::AtomicU64};
use std::sync::Arc;

type Memory = Arc<[AtomicU64]>;

const TABLE: RelationId = RelationId(3);
const BLOCKS: u32 = 1000;

fn new(scans: u32) -> (Registry<Memory>, Predictor<Memory>) {
    let config = PredictorConfig { scans, parts: scans, runs: 2 * scans, cells: 64, ..PredictorConfig::EMPTY };
    let memory: Memory = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
    let registry = Registry::format(memory, config).unwrap();
    let predictor = registry.predictor();
    (registry, predictor)
}

fn register(registry: &mut Registry<Memory>, first: u32, blocks: u32, now: u64) -> Result<ScanId, RegisterError> {
    let runs = [Run { first, blocks, position: 0, span: u64::from(blocks) }];
    let parts = [Part { relation: TABLE, pages: Pages::Runs(&runs) }];
    registry.register(&ScanSpec { kind: ScanKind(0), length: u64::from(blocks), parts: &parts }, now)
}

fn page(block: u32) -> PageId {
    PageId::new(TABLE, block)
}

#[test]
fn a_scan_that_stalls_for_ever_hides_no_other() {
    let (mut registry, predictor) = new(4);
    let stalled = register(&mut registry, 0, BLOCKS, 0).unwrap();
    let moving = register(&mut registry, 0, BLOCKS, 0).unwrap();
    predictor.report(stalled, 100, 1_000);
    for position in 1..=900 {
        let now = position * 1_000_000;
        predictor.report(moving, position, now);
        // The stalled one is always about to go on; it never wants less than all that is left to
        // it.
        assert!(predictor.next_access(Question::new(page(999), now)).is_some());
        if position > 100 {
            assert_eq!(predictor.next_access(Question::new(page(50), now)), None, "behind both");
        }
    }
    registry.finish(stalled, 900_000_000);
    assert_eq!(predictor.next_access(Question::new(page(899), 900_000_000)), None);
    assert!(predictor.next_access(Question::new(page(999), 900_000_000)).unwrap() > 90_000_000);
}

#[test]
fn one_that_registers_everything_and_reads_nothing_does_not_drown_the_others() {
    let (mut registry, predictor) = new(4);
    register(&mut registry, 0, u32::MAX, 0).unwrap();
    let reader = register(&mut registry, 0, BLOCKS, 0).unwrap();
    predictor.report(reader, 500, 500);
    for block in 500..BLOCKS {
        assert!(
            predictor.next_access(Question::new(page(block), 500)).unwrap() <= u64::from(block - 500),
            "the nearer one counts"
        );
    }
    assert_eq!(predictor.next_access(Question::new(page(BLOCKS + 7), 500)), Some(u64::from(BLOCKS) + 7));
}

#[test]
fn a_scan_that_jumps_backwards_stays_where_it_was() {
    let (mut registry, predictor) = new(1);
    let scan = register(&mut registry, 0, BLOCKS, 0).unwrap();
    predictor.report(scan, 500, 500);
    let pace = predictor.scan(scan).unwrap().pace;
    for position in [499, 0, 250] {
        predictor.report(scan, position, 600);
    }
    let view = predictor.scan(scan).unwrap();
    assert_eq!((view.position, view.pace), (500, pace));
    predictor.report(scan, u64::MAX, 700);
    assert_eq!(predictor.scan(scan).unwrap().position, u64::from(BLOCKS), "past the end is the end");
}

#[test]
fn ten_thousand_register_at_once_and_the_ones_without_room_leave_no_trace() {
    const ROOM: u32 = 4_000;
    let (mut registry, predictor) = new(ROOM);
    let mut random = Random::new(3);
    let mut running = Vec::new();
    let mut refused = 0;
    for _ in 0..10_000 {
        let first = random.below(BLOCKS - 1);
        match register(&mut registry, first, 1 + random.below(BLOCKS - first), 0) {
            Ok(scan) => running.push(scan),
            Err(error) => {
                assert_eq!(error, RegisterError::TooManyScans { limit: ROOM });
                refused += 1;
            }
        }
    }
    assert_eq!((running.len() as u32, refused), (ROOM, 10_000 - ROOM));
    assert_eq!(predictor.refused(), 10_000 - u64::from(ROOM));
    assert!(predictor.next_access(Question::new(page(500), 0)).is_some());
    // In any order all comes back, and there is room for as many again.
    while !running.is_empty() {
        let scan = running.swap_remove(random.below(running.len() as u32) as usize);
        assert!(registry.finish(scan, 0));
    }
    assert_eq!(predictor.next_access(Question::new(page(500), 0)), None);
    assert!((0..ROOM).all(|_| register(&mut registry, 0, BLOCKS, 0).is_ok()));
}

#[test]
fn clocks_that_stand_still_or_jump_change_no_order() {
    for clock in [|_: u64| 0, |_| u64::MAX, |i| if i % 2 == 0 { u64::MAX } else { 0 }, |i| u64::MAX - i] {
        let (mut registry, predictor) = new(4);
        let scan = register(&mut registry, 0, BLOCKS, clock(0)).unwrap();
        for i in 1..100 {
            predictor.report(scan, i, clock(i));
            let at = |block| predictor.next_access(Question::new(page(block), clock(i)));
            let (near, far) = (at(200).unwrap(), at(900).unwrap());
            assert!(near <= far, "{near} {far}");
            assert_eq!(at(i as u32 - 1), None);
        }
        assert!(predictor.scan(scan).unwrap().pace.is_finite());
        assert!(registry.finish(scan, clock(100)));
    }
}

#[test]
fn a_thousand_range_scans_over_ten_tebibytes_take_less_than_64_mib() {
    // 10 TiB of 8 KiB blocks in one relation; each scan reads 30 ranges.
    let config = PredictorConfig { scans: 1000, parts: 1000, runs: 31_000, cells: 1 << 16, ..PredictorConfig::EMPTY };
    assert!(config.bytes() < 64 << 20, "{}", config.bytes());
    let memory: Memory = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
    let mut registry = Registry::format(memory, config).unwrap();
    let predictor = registry.predictor();
    let blocks = ((10_u64 << 40) / 8192) as u32;
    let mut random = Random::new(9);
    for _ in 0..1000 {
        let first = random.below(blocks / 2);
        let run = |i: u32| Run {
            first: first + i * 20_000_000,
            blocks: 10_000_000,
            position: u64::from(i) * 10_000_000,
            span: 10_000_000,
        };
        let runs: Vec<Run> = (0..30).map(run).collect();
        let parts = [Part { relation: TABLE, pages: Pages::Runs(&runs) }];
        registry.register(&ScanSpec { kind: ScanKind(0), length: 300_000_000, parts: &parts }, 0).unwrap();
    }
    let wanted =
        (0..1000).filter(|_| predictor.next_access(Question::new(page(random.below(blocks)), 0)).is_some()).count();
    assert!(wanted > 500, "{wanted}");
}
