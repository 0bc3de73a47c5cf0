//! Items without their pages: a hit against a copy out of a resident page, and what it costs that a
//! page dissolves.

use std::cell::RefCell;
use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Instant;

use pagecast::storage::{Device, MemoryFiles};
use pagecast::{FixedRows, Pool, PoolOptions, Session, TupleId, TupleOptions, Tuples};
use pagecast_core::random::Random;

use crate::rounds::{Figure, median, pairs};

const PAGES: u32 = 4_096;
const PAGE_SIZE: u32 = 4_096;
const ROW: u32 = 128;
const ROWS: u32 = PAGE_SIZE / ROW;
const OPERATIONS: u32 = 1_000_000;
/// Items of a page that go on.
const VISITED: u32 = 4;

/// A pool with `frames` frames or a few more, over a file of [`PAGES`] pages.
fn pool(frames: u32, share: Option<f64>) -> Result<(Pool, Tuples), String> {
    let files = MemoryFiles::new();
    files.write("rows", vec![7; PAGES as usize * PAGE_SIZE as usize]);
    let options = PoolOptions::default()
        .memory(u64::from(frames) * u64::from(PAGE_SIZE + 256) + (1 << 20))
        .page_size(PAGE_SIZE)
        .policy("clock".parse().map_err(|e| format!("{e}"))?)
        .tuples(share.map(|share| TupleOptions::default().learn(false).max_share(share)))
        .device(Device::new(files, None));
    let pool = Pool::new(options).map_err(|e| e.to_string())?;
    let relation = pool.open("rows".as_ref()).map_err(|e| e.to_string())?;
    let tuples = pool.tuples(&relation, FixedRows { first: 0, row: ROW }).map_err(|e| e.to_string())?;
    Ok((pool, tuples))
}

/// The one item of a page that is read.
fn id(block: u32) -> TupleId {
    TupleId { block, item: block % ROWS }
}

fn read(session: &mut Session<'_>, tuples: &Tuples, id: TupleId) {
    let mut row = [0; ROW as usize];
    let found = session.read_tuple(tuples, id, &mut row).expect("the file is in memory");
    assert_eq!((found, row[0]), (Some(ROW as usize), 7));
    black_box(row);
}

/// Nanoseconds for an item of 128 bytes from a mini-page, against one that is copied out of a
/// resident page, without a pin and with one.
pub(crate) fn hits(rounds: usize) -> Result<[Figure; 2], String> {
    let (small, mini_pages) = pool(1_000, Some(0.9))?;
    let (large, whole) = pool(2 * PAGES, None)?;
    let mut random = Random::new(1);
    let blocks: Vec<u32> = (0..OPERATIONS).map(|_| random.below(PAGES)).collect();
    for block in (0..20).flat_map(|_| 0..PAGES) {
        read(&mut small.session(), &mini_pages, id(block));
        read(&mut large.session(), &whole, id(block));
    }
    let missing = |pool: &Pool| (pool.stats().loads, pool.stats().tuple_hits);
    let before = [missing(&small), missing(&large)];
    let mini_pages = || read_all(&small, &mini_pages, &blocks);
    let copied = pairs(rounds, mini_pages, || copy_all(&large, &whole, &blocks));
    let pinned = pairs(rounds, mini_pages, || pin_all(&large, &whole, &blocks));
    let after = [missing(&small), missing(&large)];
    let reads = 2 * u64::from(OPERATIONS) * (rounds as u64 + 1);
    // A few pages stay in the frames that are not lent.
    if after[0].1 - before[0].1 < reads / 100 * 95 || after[0].0 > before[0].0 || after[1].0 > before[1].0 {
        return Err(format!("not all were hits: {before:?} to {after:?}"));
    }
    Ok([copied, pinned])
}

fn read_all(pool: &Pool, tuples: &Tuples, blocks: &[u32]) -> f64 {
    let mut session = pool.session();
    let begun = Instant::now();
    blocks.iter().for_each(|&block| read(&mut session, tuples, id(block)));
    begun.elapsed().as_nanos() as f64 / blocks.len() as f64
}

fn copy_all(pool: &Pool, tuples: &Tuples, blocks: &[u32]) -> f64 {
    let mut session = pool.session();
    let begun = Instant::now();
    for &block in blocks {
        let mut row = [0; ROW as usize];
        let copied = session.try_copy(tuples.relation(), block, id(block).item * ROW, &mut row, None);
        assert_eq!((copied, row[0]), (Some(ROW as usize), 7));
        black_box(row);
    }
    begun.elapsed().as_nanos() as f64 / blocks.len() as f64
}

fn pin_all(pool: &Pool, tuples: &Tuples, blocks: &[u32]) -> f64 {
    let mut session = pool.session();
    let begun = Instant::now();
    for &block in blocks {
        let page = session.pin(tuples.relation(), block, None).expect("the file is in memory");
        let mut row = [0; ROW as usize];
        row.copy_from_slice(&page[(id(block).item * ROW) as usize..][..ROW as usize]);
        assert_eq!(row[0], 7);
        black_box(row);
    }
    begun.elapsed().as_nanos() as f64 / blocks.len() as f64
}

/// Nanoseconds that a miss takes of the thread that asks, until its page is on its way: with a
/// victim of which [`VISITED`] items go on, and with one that is dropped. What is between the two
/// is the dissolving.
pub(crate) fn dissolving(rounds: usize) -> Result<Figure, String> {
    let (pool, tuples) = pool(1_000, Some(0.5))?;
    let (other, dropped) = self::pool(1_000, Some(0.5))?;
    let mut turn = 0;
    // Each time other items: mini-pages that are there do not have them.
    let dissolving = RefCell::new(|| {
        turn += 1;
        misses(&pool, &tuples, (0..VISITED).map(|n| (turn * VISITED + n) % ROWS))
    });
    let dropping = || misses(&other, &dropped, 0..0);
    for _ in 0..4 {
        dissolving.borrow_mut()();
        dropping();
    }
    let before = pool.tuple_stats().unwrap_or_default().dissolved;
    let figure = pairs(rounds, || dissolving.borrow_mut()(), dropping);
    let dissolved = pool.tuple_stats().unwrap_or_default().dissolved - before;
    match dissolved >= u64::from(PAGES) * rounds as u64 {
        true => Ok(figure),
        false => Err(format!("only {dissolved} pages dissolved")),
    }
}

/// Pins each page once, and reads `items` of it. The median of the misses.
fn misses(pool: &Pool, tuples: &Tuples, items: impl Iterator<Item = u32> + Clone) -> f64 {
    let mut session = pool.session();
    let mut misses = Vec::new();
    for block in 0..PAGES {
        let mut page = pin!(tuples.relation().pin_async(block, None));
        let mut context = Context::from_waker(Waker::noop());
        let begun = Instant::now();
        let mut polled = page.as_mut().poll(&mut context);
        let nanos = begun.elapsed().as_nanos() as f64;
        if polled.is_pending() {
            misses.push(nanos);
        }
        while polled.is_pending() {
            std::thread::yield_now();
            polled = page.as_mut().poll(&mut context);
        }
        drop(polled);
        items.clone().for_each(|item| read(&mut session, tuples, TupleId { block, item }));
    }
    median(misses.into_iter())
}
