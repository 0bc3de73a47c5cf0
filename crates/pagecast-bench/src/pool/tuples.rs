//! Items without their pages: a hit against a copy out of a resident page, and what it costs that a
//! page dissolves.

use std::hint::black_box;
use std::time::Instant;

use pagecast::storage::{Device, MemoryFiles};
use pagecast::{FixedRows, Pool, PoolOptions, Session, TupleId, TupleOptions, Tuples};
use pagecast_core::random::Random;

use crate::rounds::{Figure, pairs};

const PAGES: u32 = 4_096;
const PAGE_SIZE: u32 = 4_096;
const ROW: u32 = 128;
const ROWS: u32 = PAGE_SIZE / ROW;
const OPERATIONS: u32 = 1_000_000;

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

/// Nanoseconds for an item of 128 bytes: from a mini-page, and copied out of a resident page.
pub(crate) fn hits(rounds: usize) -> Result<Figure, String> {
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
    let figure = pairs(rounds, || read_all(&small, &mini_pages, &blocks), || copy_all(&large, &whole, &blocks));
    let after = [missing(&small), missing(&large)];
    let reads = u64::from(OPERATIONS) * (rounds as u64 + 1);
    // A few pages stay in the frames that are not lent.
    if after[0].1 - before[0].1 < reads / 100 * 95 || after[0].0 > before[0].0 || after[1].0 > before[1].0 {
        return Err(format!("not all were hits: {before:?} to {after:?}"));
    }
    Ok(figure)
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

/// Nanoseconds of a miss whose victim dissolves and whose page merges, and of one whose pages have
/// no items of interest. What is between them is the dissolving and the merging.
pub(crate) fn misses(rounds: usize) -> Result<Figure, String> {
    let (pool, tuples) = pool(1_000, Some(0.5))?;
    let (other, _) = self::pool(1_000, Some(0.5))?;
    let whole = other.open("rows".as_ref()).map_err(|e| e.to_string())?;
    let mut session = pool.session();
    let mut other_session = other.session();
    let (mut round, mut nothing) = (0, 0);
    // Each time another item: its mini-page, if there is one, does not have it.
    let mut dissolving = || {
        round += 1;
        let begun = Instant::now();
        for block in 0..PAGES {
            read(&mut session, &tuples, TupleId { block, item: round % ROWS });
        }
        begun.elapsed().as_nanos() as f64 / f64::from(PAGES)
    };
    let mut dropping = || {
        let begun = Instant::now();
        for block in 0..PAGES {
            nothing += other_session.pin(&whole, block, None).expect("the file is in memory")[0] as u32;
        }
        begun.elapsed().as_nanos() as f64 / f64::from(PAGES)
    };
    for _ in 0..4 {
        dissolving();
        dropping();
    }
    let cells = [
        std::cell::RefCell::new(Box::new(dissolving) as Box<dyn FnMut() -> f64>),
        std::cell::RefCell::new(Box::new(dropping)),
    ];
    let before = pool.tuple_stats().unwrap_or_default().dissolved;
    let figure = pairs(rounds, || cells[0].borrow_mut()(), || cells[1].borrow_mut()());
    let dissolved = pool.tuple_stats().unwrap_or_default().dissolved - before;
    if dissolved < u64::from(PAGES) * rounds as u64 {
        return Err(format!("only {dissolved} pages dissolved"));
    }
    Ok(figure)
}
