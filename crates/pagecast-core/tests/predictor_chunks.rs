//! Scans without order, one behaviour at a time. Against a naive model: predictor_model.rs;
//! concurrency: predictor_shuttle.rs.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

#[expect(dead_code, reason = "the model pool does more than is needed here")]
mod policy_pool;

use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::policy::PolicySpec;
use pagecast_core::predictor::{
    Pages, PagesFault, Part, Predictor, PredictorConfig, RegisterError, Registry, Run, ScanKind, ScanSpec,
};
use pagecast_core::random::Random;
use pagecast_core::steering::{Candidate, MAX_USAGE, Switches, Uses, choose};
use pagecast_core::{PageId, RelationId, ScanId, Tick, sync::atomic::AtomicU64};
use policy_pool::ModelPool;
use std::sync::Arc;

type Memory = Arc<[AtomicU64]>;

const TABLE: RelationId = RelationId(3);
const OTHER: RelationId = RelationId(4);
const ROOMY: PredictorConfig =
    PredictorConfig { scans: 20, parts: 20, runs: 2000, cells: 16, ..PredictorConfig::EMPTY };

fn new(config: PredictorConfig) -> (Registry<Memory>, Predictor<Memory>) {
    let memory: Memory = (0..config.words()).map(|_| AtomicU64::new(u64::MAX)).collect();
    let registry = Registry::format(memory, config).unwrap();
    let predictor = registry.predictor();
    (registry, predictor)
}

fn page(block: u32) -> PageId {
    PageId::new(TABLE, block)
}

fn chunk(first: u32, blocks: u32, position: u64) -> Run {
    Run { first, blocks, position, span: 0 }
}

/// A chunk for each of `chunks`, of `blocks` blocks of the table from `first` on.
fn register(registry: &mut Registry<Memory>, first: u32, blocks: u32, chunks: u32) -> ScanId {
    let runs: Vec<Run> = (0..chunks).map(|i| chunk(first + i * blocks, blocks, i.into())).collect();
    let parts = [Part { relation: TABLE, pages: Pages::Runs(&runs) }];
    registry.register_unordered(&ScanSpec { kind: ScanKind(0), length: chunks.into(), parts: &parts }, 0).unwrap()
}

#[test]
fn a_page_is_wanted_until_all_chunks_that_hold_it_are_done() {
    let (mut registry, predictor) = new(ROOMY);
    // Block 9 is in chunks 2 and 0; chunk 1 is in another relation, and chunk 3 in both.
    let table = [chunk(0, 10, 2), chunk(9, 5, 0), chunk(20, 1, 3)];
    let other = [chunk(0, 4, 1), chunk(4, 4, 3)];
    let parts =
        [Part { relation: TABLE, pages: Pages::Runs(&table) }, Part { relation: OTHER, pages: Pages::Runs(&other) }];
    let spec = ScanSpec { kind: ScanKind(0), length: 4, parts: &parts };
    let scan = registry.register_unordered(&spec, 1000).unwrap();
    let wanted = |relation, block, now| predictor.next_access(Question::new(PageId::new(relation, block), now));
    let all = |now| {
        [(TABLE, 8), (TABLE, 9), (TABLE, 10), (TABLE, 20), (OTHER, 3), (OTHER, 4)].map(|(r, b)| wanted(r, b, now))
    };
    assert_eq!(all(1000), [Some(2); 6], "the pace of a scan that has done nothing is 1");
    assert_eq!((wanted(TABLE, 15, 1000), wanted(OTHER, 8, 1000)), (None, None));

    // 400 ticks a chunk.
    predictor.complete(scan, 2, 1400);
    assert_eq!(all(1400), [None, Some(600), Some(600), Some(600), Some(600), Some(600)]);
    predictor.complete(scan, 3, 1800);
    assert_eq!(all(1800), [None, Some(400), Some(400), None, Some(400), None]);
    predictor.complete(scan, 0, 2200);
    assert_eq!(all(2200), [None, None, None, None, Some(200), None]);
    let view = predictor.scan(scan).unwrap();
    assert_eq!((view.position, view.length, view.unordered, view.pace), (3, 4, true, 400.0));
    predictor.complete(scan, 1, 2600);
    assert_eq!(all(2600), [None; 6]);
    assert!(registry.finish(scan, 2600));
    // The average of the scan is where the next of its kind starts.
    let next = register(&mut registry, 0, 1, 1);
    assert_eq!(predictor.scan(next).unwrap().pace, 400.0);
}

/// A chunk counts once, and nothing but a chunk moves the scan.
#[test]
fn what_is_no_chunk_of_a_running_scan_changes_nothing() {
    let (mut registry, predictor) = new(ROOMY);
    let scan = register(&mut registry, 0, 10, 40);
    predictor.complete(scan, 33, 100);
    let stands = |scan| predictor.scan(scan).map(|view| (view.position, view.pace));
    for position in [33, 40, 63, 64, u64::MAX] {
        predictor.complete(scan, position, 900);
    }
    // A report, a page that it has come to, and one that it has missed.
    predictor.report(scan, 20, 900);
    assert!(predictor.reach(scan, page(250), 900));
    predictor.missed(scan, page(250), 900);
    assert_eq!(stands(scan), Some((1, 100.0)));

    let run = [Run { first: 0, blocks: 100, position: 0, span: 100 }];
    let parts = [Part { relation: OTHER, pages: Pages::Runs(&run) }];
    let ordered = registry.register(&ScanSpec { kind: ScanKind(1), length: 100, parts: &parts }, 0).unwrap();
    assert!(!predictor.scan(ordered).unwrap().unordered);
    predictor.complete(ordered, 1, 900);
    assert_eq!(stands(ordered), Some((0, 1.0)), "a scan in order reports");

    registry.finish(scan, 1000);
    let later = register(&mut registry, 0, 10, 40);
    assert_eq!(scan.slot(), later.slot(), "slots are used again, or this test says nothing");
    predictor.complete(scan, 7, 2000);
    assert_eq!(predictor.scan(later).unwrap().position, 0);
    assert!(predictor.next_access(Question::new(page(70), 2000)).is_some());
}

/// Time alone brings nothing nearer: who is next is not known, and what was used may be of another.
#[test]
fn what_is_not_done_is_not_taken_for_read() {
    let (mut registry, predictor) = new(ROOMY);
    let scan = register(&mut registry, 0, 10, 10);
    predictor.complete(scan, 9, 100);
    for now in [100, 150, 200] {
        let used_now = Question { last_use: Some(now), ..Question::new(page(5), now) };
        assert_eq!(predictor.next_access(used_now), Some(450));
        assert_eq!(predictor.next_access(Question::new(page(5), now)), Some(450));
    }
    // A scan that stands still wants its pages later and later, or it would hold them for ever.
    let stands = |now| predictor.next_access(Question::new(page(5), now)).unwrap();
    assert!(stands(300) > 450 && stands(1000) > 2 * stands(300) && stands(100_000) > 50 * stands(1000));
    // Not even by a scan of pages one by one whose blocks and length would be the same.
    let single = register(&mut registry, 500, 1, 1);
    predictor.missed(single, page(500), 200);
    assert_eq!(predictor.scan(single).unwrap().position, 0);
}

#[test]
fn of_scans_with_order_and_without_the_nearest_counts() {
    let (mut registry, predictor) = new(ROOMY);
    let run = [Run { first: 0, blocks: 100, position: 0, span: 100 }];
    let parts = [Part { relation: TABLE, pages: Pages::Runs(&run) }];
    let ordered = registry.register(&ScanSpec { kind: ScanKind(1), length: 100, parts: &parts }, 0).unwrap();
    let (long, short) = (register(&mut registry, 0, 5, 20), register(&mut registry, 40, 10, 4));
    predictor.report(ordered, 10, 100); // 10 ticks a block
    predictor.complete(long, 19, 50); // 19 / 2 of 50 ticks
    predictor.complete(short, 1, 50); // 3 / 2 of 50 ticks
    let at = |block| predictor.next_access(Question::new(page(block), 100));
    // Behind the ordered one, near it, far from it, of the short one, of one that it has done.
    assert_eq!([5, 20, 90, 49, 55].map(at), [Some(475), Some(100), Some(475), Some(75), Some(450)]);
    assert_eq!(at(99), Some(890), "the last chunk of the long one is done");
    registry.finish(ordered, 100);
    assert_eq!([5, 20, 90, 49, 55, 99].map(at), [Some(475), Some(475), Some(475), Some(75), Some(475), None]);
}

#[test]
fn pages_that_lie_at_no_chunk_are_refused_and_leave_nothing() {
    // Room for nine words.
    let config = PredictorConfig { scans: 2, parts: 2, runs: 3, ..PredictorConfig::EMPTY };
    let (mut registry, predictor) = new(config);
    let run = Run { first: 0, blocks: 4, position: 0, span: 4 };
    let of = |pages| [Part { relation: OTHER, pages: Pages::Runs(&[]) }, Part { relation: TABLE, pages }];
    let refused = |registry: &mut Registry<Memory>, pages, length| {
        let parts = of(pages);
        registry.register_unordered(&ScanSpec { kind: ScanKind(0), length, parts: &parts }, 0).unwrap_err()
    };
    let fault = |run, fault| RegisterError::BadPages { part: 1, run, fault };
    let (behind, last) = ([chunk(0, 4, 8)], [chunk(0, 4, 191)]);
    let two = [chunk(0, 4, 0), Run { first: 4, ..run }];
    assert_eq!(refused(&mut registry, Pages::Runs(&two), 8), fault(1, PagesFault::HasOrder));
    let error = refused(&mut registry, Pages::Bitset { first: 0, words: &[1], position: 0 }, 8);
    assert_eq!(error, fault(0, PagesFault::HasOrder));
    assert!(error.to_string().contains("each with span 0 at its chunk's position"), "{error}");
    let error = refused(&mut registry, Pages::Correlated { run, scatter: 1, descending: false }, 8);
    assert_eq!(error, fault(0, PagesFault::HasOrder));
    let error = refused(&mut registry, Pages::Runs(&behind), 8);
    assert_eq!(error, fault(0, PagesFault::NoChunk));
    assert_eq!(
        error.to_string(),
        "part 1, run 0 lies at no chunk: positions of a scan without order are below its length"
    );
    assert_eq!(predictor.refused(), 0, "faulty ones do not count");

    let error = refused(&mut registry, Pages::Runs(&[]), 32 * 9 + 1);
    assert_eq!(error, RegisterError::NoSpaceForChunks { chunks: 289, words: 10 });
    assert_eq!(error.to_string(), "289 chunks need 10 words, and no free stretch is that long");
    let error = refused(&mut registry, Pages::Runs(&[]), pagecast_core::predictor::MAX_LENGTH);
    assert!(error.is_full(), "{error}");
    // The chunks find room and the run does not.
    let error = refused(&mut registry, Pages::Runs(&behind), 32 * 7);
    assert_eq!(error, RegisterError::NoSpace { part: 1, words: 3 });
    assert_eq!(predictor.refused(), 3);

    // All is free again, each time.
    for _ in 0..3 {
        let parts = of(Pages::Runs(&last));
        let spec = ScanSpec { kind: ScanKind(0), length: 32 * 6, parts: &parts };
        let all = registry.register_unordered(&spec, 0).unwrap();
        predictor.complete(all, 190, 10);
        assert_eq!(predictor.next_access(Question::new(page(3), 10)), Some(955));
        predictor.complete(all, 191, 10);
        assert_eq!(predictor.next_access(Question::new(page(3), 10)), None);
        assert!(registry.finish(all, 10));
    }
    let none = registry.register_unordered(&ScanSpec { kind: ScanKind(0), length: 0, parts: &[] }, 0).unwrap();
    predictor.complete(none, 0, 1);
    assert!(registry.finish(none, 1), "a scan without chunks");
}

/// Runs over their budget become one: it is wanted until the last of its chunks is done.
#[test]
fn over_its_budget_a_scan_wants_all_until_its_last_chunk() {
    let (mut registry, predictor) = new(PredictorConfig { scan_words: 10, ..ROOMY });
    // Chunks 30 to 69 of 100: four words of chunks, and forty runs where there is room for two.
    let runs: Vec<Run> = (0..40).map(|i| chunk(10 * i, 4, (69 - i).into())).collect();
    let parts = [Part { relation: TABLE, pages: Pages::Runs(&runs) }];
    let scan = registry.register_unordered(&ScanSpec { kind: ScanKind(0), length: 100, parts: &parts }, 0).unwrap();
    let at = |block| predictor.next_access(Question::new(page(block), 0));
    for done in 30..70 {
        let left = Some((100 - (done - 30)) / 2);
        assert_eq!([0, 7, 393, 394].map(at), [left, left, left, None], "chunk {done} is not done");
        predictor.complete(scan, done, 0);
    }
    assert_eq!([0, 7, 393].map(at), [None; 3]);
}

/// Who has done all its chunks in a cell leaves its queue, and who was left out of it is not
/// missed: at paces that do not change the answers are those of a predictor without cells.
#[test]
fn what_is_known_of_a_cell_is_right_for_scans_without_order() {
    let [(mut registry, predictor), (mut other, without)] =
        [16, 0].map(|cells| new(PredictorConfig { cells, ..ROOMY }));
    // Eight chunks in each of the cells, and three times as many scans as a queue has places.
    let (chunks, scans) = (32, 15_u32);
    let ids: Vec<ScanId> = (0..scans).map(|_| register(&mut registry, 0, 32, chunks)).collect();
    assert!(ids.iter().all(|&id| register(&mut other, 0, 32, chunks) == id));
    let mut random = Random::new(16);
    let mut orders: Vec<Vec<u64>> = (0..scans).map(|_| (0..chunks.into()).collect()).collect();
    // A scan of pace `p` does its chunk number `n` at `n * p`.
    let paces: Vec<Tick> = (0..scans).map(|scan| 300 + 70 * Tick::from(scan)).collect();
    let mut events: Vec<(Tick, usize)> = paces
        .iter()
        .enumerate()
        .flat_map(|(scan, &pace)| (1..=Tick::from(chunks)).map(move |n| (n * pace, scan)))
        .collect();
    events.sort_unstable();
    let mut seen = 0;
    for (now, scan) in events {
        let left = &mut orders[scan];
        let chunk = left.swap_remove(random.below(left.len() as u32) as usize);
        predictor.complete(ids[scan], chunk, now);
        without.complete(ids[scan], chunk, now);
        for block in (0..1024).step_by(16) {
            let question = Question::new(page(block), now);
            let exact = without.next_access(question);
            assert_eq!(predictor.next_access(question), exact, "block {block} at {now}");
            seen += u32::from(exact.is_none());
        }
    }
    assert!(seen > 1000, "pages that nobody wants any more: {seen}");
}

/// Figure 4.3: what nobody wants goes first, longest unused first, and then what is wanted last, be
/// it by a scan in order or by one without.
#[test]
fn policies_compare_scans_with_order_and_without() {
    let policies = [
        "pbm(samples=all,history=off)",
        "pbm-published(samples=100,replacement=no,fallback=lru)",
        "pbm-pq(bulk=1,slice=20)",
        "pbm-pq(version=2011,bulk=1,slice=20)",
    ];
    for policy in policies {
        let (mut registry, predictor) = new(ROOMY);
        let (long, short) = (register(&mut registry, 0, 1, 10), register(&mut registry, 20, 1, 3));
        let run = [Run { first: 30, blocks: 10, position: 0, span: 10 }];
        let ordered = [Part { relation: TABLE, pages: Pages::Runs(&run) }];
        let ordered = registry.register(&ScanSpec { kind: ScanKind(1), length: 10, parts: &ordered }, 0).unwrap();
        let near = [chunk(0, 100, 0)];
        let near = [Part { relation: OTHER, pages: Pages::Runs(&near) }];
        registry.register(&ScanSpec { kind: ScanKind(2), length: 1, parts: &near }, 0).unwrap();

        let mut pool = ModelPool::new(&PolicySpec::parse(policy).unwrap(), 8, 1);
        for block in [9, 22, 39, 0, 33, 20, 21, 30] {
            pool.request(page(block), false, &predictor).unwrap();
        }
        predictor.complete(long, 9, 100); // 450 ticks for each of the others
        predictor.complete(short, 2, 100); // 100
        predictor.report(ordered, 1, 100); // 200 to block 33, 800 to block 39, never to block 30
        let mut next = 0;
        let mut bring = |pool: &mut ModelPool| {
            next += 1;
            pool.request(PageId::new(OTHER, next), false, &predictor).unwrap();
            pool.evicted.unwrap().block()
        };
        let order: [u32; 5] = std::array::from_fn(|_| bring(&mut pool));
        assert_eq!(order, [9, 22, 30, 39, 0], "{policy}");
        // The short scan comes to a page that is there: of its own it is the first to go.
        pool.request(page(21), false, &predictor).unwrap();
        predictor.complete(short, 1, 200);
        let order: [u32; 3] = std::array::from_fn(|_| bring(&mut pool));
        assert_eq!(order, [21, 33, 20], "{policy}");
    }
}

/// The same ahead of PostgreSQL's hand.
#[test]
fn steering_gives_up_what_is_done_and_then_what_is_wanted_last() {
    let (mut registry, predictor) = new(ROOMY);
    let (long, short) = (register(&mut registry, 0, 1, 10), register(&mut registry, 20, 1, 3));
    predictor.complete(long, 9, 100);
    predictor.complete(short, 2, 100);
    let of = |block| {
        let uses = Uses::default().read_by_scan(page(block), 1, true, 0).0;
        Candidate { page: page(block), uses, wanted_in: 0, frame: block, usage: 1, predicted: false }
    };
    let mut buffers = [20, 9, 0, 21, 5].map(of);
    let choice = choose(&mut buffers, 2, Switches::default(), &predictor, 200);
    let given: Vec<u32> = buffers.iter().filter(|buffer| buffer.usage == 0).map(|buffer| buffer.frame).collect();
    assert_eq!(choice.given as usize, given.len());
    assert!(given.len() == 2 && given.contains(&9) && (given.contains(&0) || given.contains(&5)), "{given:?}");
    assert!(buffers.iter().all(|buffer| buffer.usage <= MAX_USAGE));
}
