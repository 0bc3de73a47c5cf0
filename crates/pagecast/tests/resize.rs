//! The size of a pool changes under its readers: nothing is lost, nothing wrong is read, memory
//! comes and goes.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]
// A read of one range takes a list of one range.
#![allow(clippy::single_range_in_vec_init)]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pagecast::policy::names;
use pagecast::storage::{Device, MemoryFiles};
use pagecast::{PolicySpec, Pool, PoolError, PoolOptions, Relation};

const PAGE: u32 = 4096;
const PAGES: u32 = 512;

/// Every page is filled with its number, so that a frame with another's bytes shows.
fn page(block: u32) -> [u8; PAGE as usize] {
    [(block % 251) as u8; PAGE as usize]
}

fn pool(policy: PolicySpec, memory: u64, max_memory: u64) -> (Pool, Relation) {
    let files = MemoryFiles::new();
    files.write("table", (0..PAGES).flat_map(page).collect::<Vec<_>>());
    files.write("other", vec![7; (PAGES * PAGE) as usize]);
    let device = Device::new(files, None);
    let (max_memory, page_size) = (Some(max_memory), PAGE);
    let pool = Pool::new(
        PoolOptions::default().memory(memory).max_memory(max_memory).page_size(page_size).policy(policy).device(device),
    )
    .unwrap();
    let table = pool.open(Path::new("table")).unwrap();
    (pool, table)
}

fn read_all(table: &Relation) {
    for block in 0..PAGES {
        assert!(*table.pin(block, None).unwrap() == page(block));
    }
}

fn lru() -> PolicySpec {
    PolicySpec::parse("lru").unwrap()
}

#[test]
fn a_grown_pool_holds_more_and_a_shrunk_one_less() {
    let (pool, table) = pool(lru(), 1 << 20, 4 << 20);
    let small = pool.frames();
    read_all(&table);
    let grown = pool.resize(4 << 20).unwrap();
    assert!(grown.frames > PAGES && grown.held == 0 && pool.frames() == grown.frames);
    read_all(&table);
    let loads = pool.stats().loads;
    read_all(&table);
    assert_eq!(pool.stats().loads, loads, "all pages are resident");

    let shrunk = pool.resize(1 << 20).unwrap();
    assert_eq!((shrunk.frames, shrunk.held), (small, 0));
    assert!(pool.memory().total <= 1 << 20);
    read_all(&table);
    assert!(pool.stats().loads > loads + u64::from(PAGES - small) - 1);
}

#[test]
fn what_the_policy_would_keep_stays() {
    let (pool, table) = pool(lru(), 4 << 20, 4 << 20);
    read_all(&table);
    // In frames all over the pool, those at its end included.
    let used = (0..PAGES).step_by(8);
    used.clone().for_each(|block| drop(table.pin(block, None).unwrap()));
    let shrunk = pool.resize(1 << 20).unwrap();
    assert!(shrunk.held == 0 && shrunk.frames < PAGES / 2);
    let loads = pool.stats().loads;
    used.for_each(|block| assert!(*table.pin(block, None).unwrap() == page(block)));
    assert_eq!(pool.stats().loads, loads, "a page that was used last has left");
    read_all(&table);
}

#[test]
fn what_is_pinned_stays_until_it_is_unpinned() {
    let (pool, table) = pool(lru(), 1 << 20, 4 << 20);
    pool.resize(4 << 20).unwrap();
    read_all(&table);
    let pins: Vec<_> = (0..PAGES).map(|block| table.pin(block, None).unwrap()).collect();
    let shrunk = pool.resize(1 << 20).unwrap();
    assert_eq!(shrunk.held + shrunk.frames.min(PAGES), PAGES, "every pinned page above is counted");
    assert!(pins.iter().zip(0..).all(|(pin, block)| **pin == page(block)));
    drop(pins);
    assert_eq!(pool.resize(1 << 20).unwrap().held, 0);
    read_all(&table);
}

#[test]
fn misses_empty_what_a_shrink_left_behind() {
    let (pool, table) = pool(lru(), 1 << 20, 4 << 20);
    pool.resize(4 << 20).unwrap();
    let pins: Vec<_> = (0..PAGES).map(|block| table.pin(block, None).unwrap()).collect();
    assert!(pool.resize(1 << 20).unwrap().held > 0);
    drop(pins);
    // Each of these misses.
    let other = pool.open(Path::new("other")).unwrap();
    for block in 0..PAGES {
        drop(other.pin(block, None).unwrap());
    }
    let before = pool.stats().loads;
    read_all(&table);
    assert_eq!(pool.stats().loads - before, u64::from(PAGES), "no page of the table is left above");
}

#[test]
fn sizes_that_cannot_be_are_refused_and_change_nothing() {
    let (pool, _) = pool(lru(), 1 << 20, 4 << 20);
    let frames = pool.frames();
    assert!(matches!(pool.resize((4 << 20) + 1), Err(PoolError::AboveMaximum { maximum, .. }) if maximum == 4 << 20));
    assert!(matches!(pool.resize(4096), Err(PoolError::TooSmall { .. })));
    assert_eq!(pool.frames(), frames);
}

#[test]
fn every_policy_is_resized_under_readers() {
    for name in names().filter(|name| *name != "opt") {
        let (pool, table) = pool(PolicySpec::parse(name).unwrap(), 600 << 10, 2 << 20);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..4u64)
                .map(|reader| {
                    let table = &table;
                    scope.spawn(move || {
                        for round in 0..30 {
                            let first = (reader * 97 + round * 31) % u64::from(PAGES - 8);
                            let range = first * u64::from(PAGE)..(first + 8) * u64::from(PAGE);
                            let read = table.read_blocking(&[range], None).unwrap();
                            for (bytes, block) in read.data[0].chunks(PAGE as usize).zip(first as u32..) {
                                assert!(*bytes == page(block), "{name}: block {block}");
                            }
                        }
                    })
                })
                .collect();
            let (pool, done) = (&pool, &done);
            let resizer = scope.spawn(move || {
                for kilobytes in [600, 2048, 500, 1024].into_iter().cycle() {
                    pool.resize(kilobytes << 10).unwrap();
                    std::thread::sleep(Duration::from_millis(1));
                    if done.load(Relaxed) {
                        break;
                    }
                }
            });
            readers.into_iter().for_each(|reader| reader.join().unwrap());
            done.store(true, Relaxed);
            resizer.join().unwrap();
        });
        assert_eq!(pool.pinned(), 0, "{name}");
        let last = pool.resize(500 << 10).unwrap();
        assert_eq!(last.held, 0, "{name}");
        read_all(&table);
    }
}

/// Bytes of this process that are in memory, in all its mappings.
#[cfg(target_os = "linux")]
fn resident_bytes() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<i64>().unwrap() << 10
}

#[test]
#[cfg(target_os = "linux")]
fn memory_goes_back_to_the_system() {
    const MEBIBYTE: i64 = 1 << 20;
    let files = MemoryFiles::new();
    files.write("table", vec![1; 96 << 20]);
    let memory = 128 << 20;
    let pool = Pool::new(PoolOptions::default().memory(memory).device(Device::new(files.clone(), None))).unwrap();
    let table = pool.open(Path::new("table")).unwrap();
    let fill = |table: &Relation| table.read_blocking(&[0..96 << 20], None).map(drop).unwrap();
    fill(&table);
    let full = resident_bytes();
    let (before, begin) = (pool.frames(), Instant::now());
    let after = pool.resize(16 << 20).unwrap().frames;
    println!("{} frames emptied and given back in {:?}", before - after, begin.elapsed());
    let shrunk = resident_bytes();
    assert!(full - shrunk > 60 * MEBIBYTE, "{full} bytes before, {shrunk} after the shrink");

    // A relation that is replaced leaves its frames free, and their memory waits for the next pages
    // unless it is asked for.
    let begin = Instant::now();
    pool.resize(memory).unwrap();
    println!("grown by {} frames in {:?}", before - after, begin.elapsed());
    fill(&table);
    let begin = Instant::now();
    let resident = pool.snapshot().frames.resident;
    println!("snapshot of {resident} pages in {:?}", begin.elapsed());
    drop(table);
    let before = resident_bytes();
    files.write("table", vec![2; 4096]);
    pool.open(Path::new("table")).unwrap();
    assert!(pool.give_back_idle() > 90 << 20);
    let after = resident_bytes();
    assert!(before - after > 60 * MEBIBYTE, "{before} bytes before, {after} after giving back");
}
