//! Items that go on without their pages: what is read is always what was written last, whatever
//! the pool does with the pages meanwhile.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

mod changes;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use pagecast::predictor::{Pages, Part, Run, ScanKind, ScanSpec};
use pagecast::storage::{Device, MemoryFiles};
use pagecast::{
    FixedRows, Format, Lsn, PageId, Pool, PoolError, PoolOptions, Recorder, Relation, Session, TupleId, TupleLayout,
    TupleOptions, Tuples, WriteOptions, policy,
};
use pagecast_core::random::Random;

const PAGE: usize = 4096;
const ROW: usize = 128;
const ROWS: u32 = 31;
const LAYOUT: FixedRows = FixedRows { first: 24, row: ROW as u32 };

/// A row says where it is, and of which generation.
fn row(block: u32, item: u32, generation: u8) -> [u8; ROW] {
    let mut row = [generation; ROW];
    row[..4].copy_from_slice(&block.to_le_bytes());
    row[4..8].copy_from_slice(&item.to_le_bytes());
    row
}

fn table(pages: u32, generation: u8) -> Vec<u8> {
    let mut bytes = vec![0; pages as usize * PAGE];
    for (block, page) in (0..).zip(bytes.chunks_mut(PAGE)) {
        for item in 0..ROWS {
            let at = 24 + item as usize * ROW;
            page[at..at + ROW].copy_from_slice(&row(block, item, generation));
        }
    }
    bytes
}

fn options(frames: usize, share: f64) -> PoolOptions {
    let tuples = TupleOptions::default().learn(false).max_share(share);
    PoolOptions::default().memory((frames * (PAGE + 300)) as u64 + (1 << 20)).page_size(PAGE as u32).tuples(tuples)
}

/// A pool of at least `frames` frames of which `share` may be lent, over one file of `pages` pages.
fn pool(frames: usize, share: f64, pages: u32) -> (Pool, MemoryFiles) {
    let files = MemoryFiles::new();
    files.write("table", table(pages, 1));
    let pool = Pool::new(options(frames, share).device(Device::new(files.clone(), None))).unwrap();
    (pool, files)
}

fn open(pool: &Pool) -> Tuples {
    pool.tuples(&pool.open("table".as_ref()).unwrap(), LAYOUT).unwrap()
}

fn read(session: &mut Session<'_>, tuples: &Tuples, block: u32, item: u32, generation: u8) {
    let mut bytes = [0; ROW];
    let found = session.read_tuple(tuples, TupleId { block, item }, &mut bytes).unwrap();
    assert_eq!(found, Some(ROW));
    assert_eq!(bytes, row(block, item, generation), "page {block}, item {item}");
}

/// Reads one row in each of many pages, again and again: none of these pages is worth its frame.
fn read_scattered(session: &mut Session<'_>, tuples: &Tuples, pages: u32, rounds: u32) {
    for block in (0..rounds).flat_map(|_| 0..pages) {
        read(session, tuples, block, block % ROWS, 1);
    }
}

#[test]
fn hot_items_of_many_pages_stay_where_their_pages_do_not() {
    for policy in policy::names().filter(|&name| name != "opt") {
        let files = MemoryFiles::new();
        files.write("table", table(2000, 1));
        let options = options(300, 0.7).policy(policy.parse().unwrap()).device(Device::new(files, None));
        let pool = Pool::new(options).unwrap();
        assert!(pool.frames() < 600, "{}", pool.frames());
        let tuples = open(&pool);
        let mut session = pool.session();
        read_scattered(&mut session, &tuples, 2000, 6);
        let before = (pool.stats().loads, pool.tuple_stats().unwrap().hits);
        read_scattered(&mut session, &tuples, 2000, 1);
        let stats = pool.tuple_stats().unwrap();
        let loads = pool.stats().loads - before.0;
        assert!(loads < 300 && stats.hits - before.1 > 1600, "{policy}: {loads} loads, {stats:?}");
        assert_eq!(stats.slabs, (f64::from(pool.frames()) * 0.7) as u32, "{policy}");
        drop(session);
        pool.check();
    }
}

/// Requests of items, by `pick`, in a pool that learns its share. The share at the end.
fn learned(pick: impl Fn(&mut Random) -> TupleId) -> f64 {
    learned_by(options(600, 0.0), pick)
}

fn learned_by(options: PoolOptions, pick: impl Fn(&mut Random) -> TupleId) -> f64 {
    const PAGES: u32 = 8000;
    let files = MemoryFiles::new();
    files.write("table", table(PAGES, 1));
    let pool = Pool::new(options.tuples(TupleOptions::default()).device(Device::new(files, None))).unwrap();
    let tuples = open(&pool);
    let (mut session, mut random) = (pool.session(), Random::new(11));
    for _ in 0..300_000 {
        let TupleId { block, item } = pick(&mut random);
        read(&mut session, &tuples, block, item, 1);
    }
    drop(session);
    pool.check();
    let stats = pool.tuple_stats().unwrap();
    assert!(f64::from(stats.slabs) <= f64::from(pool.frames()) * 0.97);
    stats.share
}

#[test]
fn the_share_follows_what_serves_the_requests() {
    // One item in each of many pages, and the same number of items, all that some pages have.
    let scattered = learned(|random| {
        let block = random.below(8000);
        TupleId { block, item: block % ROWS }
    });
    let clustered = learned(|random| TupleId { block: random.below(500), item: random.below(ROWS) });
    assert!(scattered >= 0.5 && clustered == 0.0, "{scattered} {clustered}");
}

struct Nobody;

impl Recorder for Nobody {
    fn request(&self, _: PageId, _: u32) {}
}

/// Who looks on changes nothing: each request is learned from once.
#[test]
fn the_share_is_the_same_when_requests_are_recorded() {
    let pick = |random: &mut Random| {
        let most = random.below(8000) + 1;
        TupleId { block: random.below(most), item: 3 }
    };
    let alone = learned(pick);
    assert!(alone > 0.1, "{alone}");
    for options in [options(600, 0.0).recorder(Arc::new(Nobody)), options(600, 0.0).count_relations(true)] {
        assert_eq!(learned_by(options, pick), alone);
    }
}

#[test]
fn an_item_that_is_not_there_is_none() {
    let (pool, _) = pool(200, 0.5, 1000);
    let tuples = open(&pool);
    let mut session = pool.session();
    read_scattered(&mut session, &tuples, 1000, 3);
    let mut short = [0; 5];
    for block in 0..1000 {
        assert_eq!(session.read_tuple(&tuples, TupleId { block, item: ROWS }, &mut short).unwrap(), None);
        let id = TupleId { block, item: block % ROWS };
        assert_eq!(session.read_tuple(&tuples, id, &mut short).unwrap(), Some(ROW), "its whole length");
        assert_eq!(short, row(block, id.item, 1)[..5]);
        let first = session.with_tuple(&tuples, id, |bytes| bytes.to_vec()).unwrap();
        assert_eq!(first, Some(row(block, id.item, 1).to_vec()));
    }
    let beyond = session.read_tuple(&tuples, TupleId { block: 1000, item: 0 }, &mut short);
    assert!(matches!(beyond, Err(PoolError::NoPage { .. })), "{beyond:?}");
}

#[test]
fn pages_and_items_show_the_same_bytes_whoever_changes_them() {
    let (pool, files) = pool(200, 0.6, 1000);
    let relation = pool.open_to_write("table".as_ref(), &WriteOptions::default()).unwrap();
    let tuples = pool.tuples(&relation, LAYOUT).unwrap();
    let mut session = pool.session();
    let mut random = Random::new(3);
    let mut expected = vec![1u8; 1000 * ROWS as usize];
    for step in 0..60_000u32 {
        // A few rows are asked for again and again.
        let (block, item) = (random.below(1000), random.below(3) * 7);
        let at = (block * ROWS + item) as usize;
        match step % 20 {
            0 => {
                let generation = random.below(200) as u8;
                let bytes = row(block, item, generation);
                tuples.update(TupleId { block, item }, &bytes, || Lsn::NONE).unwrap();
                expected[at] = generation;
            }
            1 => {
                let generation = random.below(200) as u8;
                let mut page = relation.pin_mut(block, None).unwrap();
                let from = 24 + item as usize * ROW;
                page[from..from + ROW].copy_from_slice(&row(block, item, generation));
                expected[at] = generation;
            }
            2 => {
                let page = session.pin(&relation, block, None).unwrap();
                assert_eq!(page[24 + item as usize * ROW..][..ROW], row(block, item, expected[at]));
            }
            _ => read(&mut session, &tuples, block, item, expected[at]),
        }
    }
    let stats = pool.tuple_stats().unwrap();
    assert!(stats.hits > 10_000 && stats.dissolved > 5_000 && stats.merged > 1_000, "{stats:?}");
    let none = tuples.update(TupleId { block: 0, item: ROWS }, &[0; ROW], || unreachable!());
    assert!(matches!(none, Err(PoolError::NoItem { .. })), "{none:?}");
    let longer = tuples.update(TupleId { block: 0, item: 0 }, &[0; ROW + 1], || unreachable!());
    assert!(matches!(longer, Err(PoolError::NoItem { len, .. }) if len == ROW + 1));
    drop(session);
    pool.flush().unwrap();
    pool.check();
    let file = files.read("table".as_ref()).unwrap();
    for (at, &generation) in expected.iter().enumerate() {
        let (block, item) = (at as u32 / ROWS, at as u32 % ROWS);
        let from = block as usize * PAGE + 24 + item as usize * ROW;
        assert_eq!(file[from..from + ROW], row(block, item, generation));
    }
}

#[test]
fn memory_stays_what_was_given_while_the_pool_shrinks_and_grows() {
    let files = MemoryFiles::new();
    files.write("table", table(3000, 1));
    let options = options(400, 0.8).max_memory(8 << 20).device(Device::new(files, None));
    let (least, most) = (options.memory, 8 << 20);
    let pool = Pool::new(options).unwrap();
    let tuples = open(&pool);
    let mut session = pool.session();
    let mut random = Random::new(9);
    for size in [least, most, least + (1 << 20), most, least - (1 << 20), 3 << 20, most, least] {
        pool.resize(size).unwrap();
        for _ in 0..20_000 {
            let (block, item) = (random.below(3000), random.below(2));
            read(&mut session, &tuples, block, item, 1);
        }
        assert!(pool.memory().total <= size, "{} of {size}", pool.memory().total);
        let counts = pool.snapshot().frames;
        assert_eq!(counts.resident + counts.slabs + counts.free, counts.in_use, "{counts:?}");
        assert!(counts.slabs > counts.in_use / 8, "{counts:?}");
        pool.check();
    }
    assert!(pool.tuple_stats().unwrap().hits > 20_000);
}

#[test]
fn items_go_with_their_relation() {
    let (pool, files) = pool(200, 0.5, 1000);
    let tuples = open(&pool);
    let mut session = pool.session();
    read_scattered(&mut session, &tuples, 1000, 3);
    assert!(pool.tuple_stats().unwrap().mini_pages > 100);
    files.write("table", table(1000, 2));
    let relation = pool.open("table".as_ref()).unwrap();
    assert_eq!(pool.tuple_stats().unwrap().mini_pages, 0);
    let mut bytes = [0; ROW];
    let old = session.read_tuple(&tuples, TupleId { block: 1, item: 1 }, &mut bytes);
    assert!(matches!(old, Err(PoolError::Changed { .. })), "{old:?}");
    let tuples = pool.tuples(&relation, LAYOUT).unwrap();
    for block in (0..3).flat_map(|_| 0..1000) {
        read(&mut session, &tuples, block, 5, 2);
    }
    assert!(pool.tuple_stats().unwrap().hits > 0);
    drop(session);
    pool.check();
}

#[test]
fn a_relation_has_one_layout() {
    let (pool, files) = pool(100, 0.5, 10);
    let tuples = open(&pool);
    let again = pool.tuples(tuples.relation(), LAYOUT);
    assert!(matches!(again, Err(PoolError::LayoutKnown { .. })), "{again:?}");
    let other = Pool::new(PoolOptions::default().memory(2 << 20).device(Device::new(files, None))).unwrap();
    // A relation knows its pool, whatever the session is of.
    let mut bytes = [0; ROW];
    other.session().read_tuple(&tuples, TupleId { block: 1, item: 2 }, &mut bytes).unwrap();
    assert_eq!((bytes, other.stats().requests), (row(1, 2, 1), 0));
    assert!(other.tuple_stats().is_none());
}

#[test]
fn without_tuples_items_are_read_from_their_pages() {
    let files = MemoryFiles::new();
    files.write("table", table(1000, 1));
    let options = PoolOptions::default().memory(2 << 20).page_size(PAGE as u32).device(Device::new(files, None));
    assert!(options.tuples.is_none());
    let pool = Pool::new(options).unwrap();
    assert_eq!(pool.memory().tuples, 0);
    let tuples = open(&pool);
    read_scattered(&mut pool.session(), &tuples, 1000, 2);
    assert_eq!((pool.stats().tuple_hits, pool.snapshot().frames.slabs), (0, 0));
    pool.check();
}

/// Answers anything, panics now and then, and names items as a hash would.
struct Hostile(AtomicU32);

impl TupleLayout for Hostile {
    fn items(&self, _: u32) -> u32 {
        u32::MAX
    }

    fn locate(&self, _: &[u8], item: u32) -> Option<Range<u32>> {
        let wide = item.wrapping_mul(0x9e37_79b9);
        Some(match item % 5 {
            0 => wide..wide.wrapping_add(16),
            1 => u32::MAX - 3..u32::MAX,
            2 => 4000..4097,
            3 => Range { start: 9, end: 3 },
            _ => item % 4000..item % 4000 + 64,
        })
    }

    fn each(&self, _: &[u8], found: &mut dyn FnMut(u32, Range<u32>)) {
        assert!(!self.0.fetch_add(1, Relaxed).is_multiple_of(7), "now and then it panics");
        for item in (0..1000u32).rev() {
            found(item % 900, self.locate(&[], item % 900).unwrap());
            found(item.wrapping_mul(0x9e37_79b9), 0..4096);
        }
    }
}

#[test]
fn a_layout_that_lies_costs_its_items_and_nothing_else() {
    let (pool, files) = pool(200, 0.6, 600);
    let bytes = files.read("table".as_ref()).unwrap();
    let relation = pool.open("table".as_ref()).unwrap();
    let tuples = pool.tuples(&relation, Hostile(AtomicU32::new(0))).unwrap();
    let mut session = pool.session();
    let mut random = Random::new(1);
    std::panic::set_hook(Box::new(|_| {}));
    for _ in 0..10_000 {
        let (block, item) = (random.below(600), random.below(900));
        let found = session.with_tuple(&tuples, TupleId { block, item }, |item| item.to_vec()).unwrap();
        let start = block as usize * PAGE + item as usize % 4000;
        if item % 5 == 4 {
            assert_eq!(found.unwrap(), bytes[start..start + 64]);
        } else {
            assert!(found.is_none_or(|found| found.len() <= PAGE));
        }
    }
    let _ = std::panic::take_hook();
    drop(session);
    let stats = pool.tuple_stats().unwrap();
    assert!(stats.dissolved > 100 && stats.hits > 0, "{stats:?}");
    pool.check();
}

#[test]
fn a_page_that_a_scan_wants_soon_does_not_dissolve() {
    let dissolved = |is_scanned: bool| {
        let (pool, _) = pool(200, 0.5, 1000);
        let tuples = open(&pool);
        let mut session = pool.session();
        let pages = tuples.relation();
        let runs = [Run { first: 0, blocks: pages.pages(), position: 0, span: pages.len() }];
        let parts = [Part { relation: pages.id(), pages: Pages::Runs(&runs) }];
        let spec = ScanSpec { kind: ScanKind(0), length: pages.len(), parts: &parts };
        let scan = is_scanned.then(|| pool.register(&spec).unwrap());
        read_scattered(&mut session, &tuples, 1000, 4);
        drop(scan);
        pool.tuple_stats().unwrap().dissolved
    };
    assert!(dissolved(false) > 500);
    assert_eq!(dissolved(true), 0);
}

#[test]
fn sealed_pages_dissolve_without_their_seals() {
    let files = MemoryFiles::new();
    let pool = Pool::new(options(200, 0.6).device(Device::new(files, None))).unwrap();
    let sealed = WriteOptions::default().create(true).format(Format::Sealed);
    let relation: Relation = pool.open_to_write("table".as_ref(), &sealed).unwrap();
    relation.grow(800).unwrap();
    let layout = FixedRows { first: 0, row: ROW as u32 };
    let tuples = pool.tuples(&relation, layout).unwrap();
    let mut session = pool.session();
    for block in 0..800 {
        tuples.update(TupleId { block, item: 3 }, &row(block, 3, 9), || Lsn(7)).unwrap();
    }
    pool.flush().unwrap();
    for block in (0..4).flat_map(|_| 0..800) {
        read(&mut session, &tuples, block, 3, 9);
    }
    assert!(pool.tuple_stats().unwrap().hits > 500);
    // The 32nd row would end in the seal.
    assert_eq!(session.read_tuple(&tuples, TupleId { block: 0, item: 31 }, &mut [0; ROW]).unwrap(), None);
    assert_eq!(relation.pin(17, None).unwrap().lsn(), Lsn(7));
}

/// A sealed relation of `pages` pages with rows of generation 1.
fn sealed(pool: &Pool, pages: u32) -> Tuples {
    let sealed = WriteOptions::default().create(true).format(Format::Sealed);
    let relation: Relation = pool.open_to_write("table".as_ref(), &sealed).unwrap();
    relation.grow(pages).unwrap();
    for block in 0..pages {
        let mut page = relation.pin_mut(block, None).unwrap();
        for item in 0..ROWS {
            let at = item as usize * ROW;
            page[at..at + ROW].copy_from_slice(&row(block, item, 1));
        }
        page.logged(Lsn(1));
    }
    pool.flush().unwrap();
    pool.tuples(&relation, FixedRows { first: 0, row: ROW as u32 }).unwrap()
}
