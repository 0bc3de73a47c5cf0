//! Scans without order over a small pool: each reads each of its chunks once, whatever the others
//! do, and together they read less than in order.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]
// A read of one range takes a list of one range.
#![allow(clippy::single_range_in_vec_init)]

mod disturbed;

use std::future::Future;
use std::io::ErrorKind;
use std::ops::Range;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use pagecast::predictor::{Pages, Part, PredictorConfig, Run, ScanKind, ScanSpec};
use pagecast::storage::{Device, Fault, FaultStorage, Faults, MemoryFiles};
use pagecast::{
    Chunk, CooperationConfig, Lease, PolicySpec, Pool, PoolError, PoolOptions, Relation, Unit, UnorderedError,
    UnorderedScan, UnorderedSpec, WriteOptions,
};

const PAGE: u64 = 4096;
/// Pages of a chunk.
const UNIT: u32 = 8;

/// Every byte of a page is its number.
fn content(pages: u32) -> Vec<u8> {
    (0..u64::from(pages) * PAGE).map(|at| (at / PAGE) as u8).collect()
}

fn files(pages: u32) -> MemoryFiles {
    let files = MemoryFiles::new();
    files.write("table", content(pages));
    files
}

/// A pool of exactly so many frames.
fn pool_of(frames: u32, device: Device, policy: &str) -> Pool {
    let options = |memory| {
        PoolOptions::default()
            .memory(memory)
            .page_size(PAGE as u32)
            .policy(PolicySpec::parse(policy).unwrap())
            .device(device.clone())
            .predictor(PredictorConfig { scans: 16, parts: 16, runs: 1024, bitset_words: 64, ..PredictorConfig::EMPTY })
            .cooperation(CooperationConfig::of(16, 64, UNIT * 8, 4))
    };
    let Err(PoolError::TooSmall { minimum, .. }) = Pool::new(options(0)) else { panic!("no memory is too little") };
    let mut memory = minimum;
    loop {
        let pool = Pool::new(options(memory)).unwrap();
        match pool.frames() {
            found if found == frames => return pool,
            found => memory += u64::from(frames - found) * PAGE,
        }
    }
}

fn open(frames: u32, pages: u32) -> (Pool, Relation) {
    let pool = pool_of(frames, Device::new(files(pages), None), "pbm");
    let table = pool.open("table".as_ref()).unwrap();
    (pool, table)
}

/// All of these blocks, cut into chunks of `unit` blocks.
fn whole(pool: &Pool, table: &Relation, blocks: Range<u32>, unit: u32, workers: u32) -> UnorderedScan {
    let units: Vec<_> =
        blocks.clone().step_by(unit as usize).map(|first| unit_at(table, first, blocks.end, unit)).collect();
    let needs: Vec<_> = units.iter().map(|unit| [u64::MAX >> (64 - unit.blocks)]).collect();
    let chunks: Vec<_> = units.iter().zip(&needs).map(|(&unit, need)| Chunk { unit, need, joined: false }).collect();
    pool.register_unordered(&UnorderedSpec { kind: ScanKind(1), workers, chunks: &chunks }).unwrap()
}

/// At most 64 blocks.
fn unit_at(table: &Relation, first: u32, end: u32, unit: u32) -> Unit {
    Unit { relation: table.id(), first, blocks: unit.min(end - first) }
}

/// Reads a chunk of `unit` blocks, and checks its bytes.
fn read(table: &Relation, scan: &UnorderedScan, lease: &Lease, unit: u32) -> Result<u32, PoolError> {
    let first = u64::from(lease.chunk() * unit);
    let range = first * PAGE..((first + u64::from(unit)) * PAGE).min(table.len());
    let read = table.read_blocking(std::slice::from_ref(&range), Some(scan.id()))?;
    lease.asked();
    let right = read.data[0].iter().zip(range).all(|(&byte, at)| byte == (at / PAGE) as u8);
    assert!(right, "chunk {} has other bytes", lease.chunk());
    Ok(lease.chunk())
}

/// Takes and reads one chunk: its number, none at the end.
fn step(table: &Relation, scan: &UnorderedScan, unit: u32) -> Option<u32> {
    let lease = scan.take_blocking()?;
    let chunk = read(table, scan, &lease, unit).unwrap();
    lease.consumed();
    Some(chunk)
}

/// Takes and reads all that is left: the chunks in their order.
fn drain(table: &Relation, scan: &UnorderedScan, unit: u32) -> Vec<u32> {
    let mut chunks: Vec<_> = std::iter::from_fn(|| step(table, scan, unit)).collect();
    chunks.sort_unstable();
    chunks
}

/// Waits until loads that nobody waits for have ended, and checks that nothing is left of anybody.
fn nothing_stays(pool: &Pool) {
    while pool.snapshot().frames.loading > 0 {
        std::thread::yield_now();
    }
    assert!(pool.scans().is_empty() && pool.unordered_scans().is_empty(), "a registration is left");
    let stats = pool.stats();
    assert_eq!(stats.chunks, stats.chunks_consumed + stats.chunks_returned, "a lease is left");
    assert_eq!(pool.pinned(), 0, "a pin is left");
    assert_eq!(pool.snapshot().frames.ahead, 0, "a page counts as brought ahead, and nobody is left to use it");
    pool.check();
}

/// Four scans over a table of four times the pool, each a quarter behind the one in front; how many
/// bytes the device read.
fn staggered(policy: &str, is_ordered: bool) -> u64 {
    let pages = 32 * UNIT;
    let pool = pool_of(pages / 4, Device::new(files(pages), None), policy);
    let table = pool.open("table".as_ref()).unwrap();
    let mut ordered = Vec::new();
    let mut unordered = Vec::new();
    let mut done = vec![Vec::new(); 4];
    // Scan `i` begins in round 8 i.
    for round in 0..32 + 24 {
        for scan in 0..4 {
            if round == 8 * scan {
                if is_ordered {
                    let runs = [Run { first: 0, blocks: pages, position: 0, span: pages.into() }];
                    let parts = [Part { relation: table.id(), pages: Pages::Runs(&runs) }];
                    let spec = ScanSpec { kind: ScanKind(0), length: pages.into(), parts: &parts };
                    ordered.push(pool.register(&spec).unwrap());
                } else {
                    unordered.push(whole(&pool, &table, 0..pages, UNIT, 1));
                }
            }
            if (8 * scan..8 * scan + 32).contains(&round) {
                if is_ordered {
                    let first = (round - 8 * scan) as u64 * u64::from(UNIT);
                    let range = first * PAGE..(first + u64::from(UNIT)) * PAGE;
                    table.read_blocking(&[range], Some(ordered[scan].id())).unwrap();
                    ordered[scan].report(first + u64::from(UNIT));
                } else {
                    done[scan].extend(step(&table, &unordered[scan], UNIT));
                }
            }
        }
    }
    for (scan, done) in unordered.iter().zip(&mut done) {
        assert_eq!(scan.left(), 0);
        assert!(scan.take_blocking().is_none(), "{scan:?} has had all its chunks");
        done.sort_unstable();
        assert_eq!(*done, (0..32).collect::<Vec<_>>(), "each chunk once");
    }
    drop((ordered, unordered));
    nothing_stays(&pool);
    assert_eq!(pool.stats().bytes_read, pool.device().stats().bytes_read, "what is counted is what was read");
    pool.device().stats().bytes_read
}

#[test]
fn scans_read_each_chunk_once_and_less_than_in_order() {
    for policy in ["pbm", "lru", "clock"] {
        let (ordered, unordered) = (staggered(policy, true), staggered(policy, false));
        println!("{policy}: {unordered} of {ordered} bytes");
        assert!(unordered * 10 <= ordered * 8, "{policy}: {unordered} of {ordered} bytes");
    }
}

#[test]
fn what_is_in_memory_comes_first() {
    // Three chunks are wanted at a time, at most: any sample of frames has one that nobody wants.
    let (pool, table) = open(8 * UNIT, 16 * UNIT);
    table.read_blocking(&[12 * u64::from(UNIT) * PAGE..15 * u64::from(UNIT) * PAGE], None).unwrap();
    let scan = whole(&pool, &table, 0..16 * UNIT, UNIT, 1);
    // The first load begins when one of the three is left.
    let first: Vec<_> = (0..2).map(|_| step(&table, &scan, UNIT).unwrap()).collect();
    assert_eq!(first, [12, 13]);
    assert_eq!(scan.shared(), 0, "no scan without order brought them");
    assert_eq!(drain(&table, &scan, UNIT), (0..16).filter(|chunk| ![12, 13].contains(chunk)).collect::<Vec<_>>());
    drop(scan);
    let stats = pool.stats();
    assert_eq!(stats.bytes_read, 16 * u64::from(UNIT) * PAGE, "nothing is read twice");
    assert_eq!((stats.chunks, stats.chunks_consumed), (16, 16));
    nothing_stays(&pool);
}

#[test]
fn what_one_has_loaded_serves_another() {
    let (pool, table) = open(16 * UNIT, 8 * UNIT);
    let (one, other) = (whole(&pool, &table, 0..8 * UNIT, UNIT, 1), whole(&pool, &table, 0..8 * UNIT, UNIT, 1));
    drain(&table, &one, UNIT);
    assert_eq!((drain(&table, &other, UNIT).len(), other.shared()), (8, 8 - one.shared()));
    let stats = pool.stats();
    assert_eq!((stats.chunks, stats.chunks_shared, stats.chunks_incomplete), (16, 8, 0));
    assert_eq!((stats.chunk_loads, stats.bytes_read), (8, 8 * u64::from(UNIT) * PAGE));
    assert_eq!(stats.hits, stats.requests, "all that they asked for was there");
    drop((one, other));
    nothing_stays(&pool);
}

/// Three scans of different needs side by side, in a pool that holds a quarter of the table.
#[test]
fn what_is_brought_for_a_scan_is_on_its_account() {
    let (pool, table) = open(8 * UNIT, 32 * UNIT);
    let scans = [0..32, 8..32, 16..24].map(|units| whole(&pool, &table, units.start * UNIT..units.end * UNIT, UNIT, 1));
    let own = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for (scan, first) in scans.iter().zip([0, 8, 16]) {
            let (own, table) = (&own, &table);
            scope.spawn(move || {
                while let Some(lease) = scan.take_blocking() {
                    let start = u64::from((first + lease.chunk()) * UNIT) * PAGE;
                    let read = table.read_blocking(&[start..start + u64::from(UNIT) * PAGE], Some(scan.id())).unwrap();
                    own.fetch_add(read.stats.bytes_read, std::sync::atomic::Ordering::Relaxed);
                    lease.consumed();
                }
            });
        }
    });
    let brought = scans.each_ref().map(UnorderedScan::brought_bytes);
    assert!(brought.iter().all(|&bytes| bytes > 0), "{brought:?}");
    drop(scans);
    nothing_stays(&pool);
    assert_eq!(brought.iter().sum::<u64>() + own.into_inner(), pool.stats().bytes_read);
}

/// One who stops in the middle, with fewer chunks left than the other: it is not brought the same
/// chunks again and again while the other reads the table over and over.
#[test]
fn a_scan_that_stops_costs_nobody_and_goes_on_later() {
    let (pool, table) = open(4 * UNIT, 64 * UNIT);
    let stopped = whole(&pool, &table, 0..8 * UNIT, UNIT, 1);
    let first = step(&table, &stopped, UNIT).unwrap();
    let brought = stopped.brought_bytes();
    for _ in 0..20 {
        let busy = whole(&pool, &table, 0..64 * UNIT, UNIT, 1);
        assert_eq!(drain(&table, &busy, UNIT), (0..64).collect::<Vec<_>>());
    }
    let again = (stopped.brought_bytes() - brought) / (u64::from(UNIT) * PAGE);
    assert!(again <= 2, "{again} chunks were loaded for a scan that stands still");
    assert_eq!(drain(&table, &stopped, UNIT), (0..8).filter(|&other| other != first).collect::<Vec<_>>());
    drop(stopped);
    nothing_stays(&pool);
}

/// Two workers, one of whom stops with a chunk in hand: the other waits for it, or ends early.
#[test]
fn a_worker_that_stops_keeps_no_other_from_the_end() {
    let (pool, table) = open(4 * UNIT, 2 * UNIT);
    let scan = whole(&pool, &table, 0..2 * UNIT, UNIT, 2);
    let held = scan.take_blocking().unwrap();
    let other = scan.take_blocking().unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| scan.take_blocking().is_none());
        while !pool.unordered_scans()[0].1.waiting {
            std::thread::yield_now();
        }
        scan.end_early();
        assert!(waits.join().unwrap());
    });
    drop(other);
    let back = scan.take_blocking().unwrap();
    assert_ne!(back.chunk(), held.chunk());
    back.consumed();
    assert!(scan.take_blocking().is_none(), "one is out");
    drop((held, scan));
    nothing_stays(&pool);
}

#[test]
fn workers_share_the_chunks_of_a_scan() {
    let (pool, table) = open(6 * UNIT, 40 * UNIT);
    let scans: Vec<_> = (0..3).map(|_| whole(&pool, &table, 0..40 * UNIT, UNIT, 3)).collect();
    let done: Vec<Vec<u32>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..9)
            .map(|worker| {
                let (scan, table) = (scans[worker % 3].clone(), &table);
                (worker % 3, scope.spawn(move || drain(table, &scan, UNIT)))
            })
            .collect();
        let mut done = vec![Vec::new(); 3];
        workers.into_iter().for_each(|(scan, worker)| done[scan].extend(worker.join().unwrap()));
        done
    });
    for mut chunks in done {
        chunks.sort_unstable();
        assert_eq!(chunks, (0..40).collect::<Vec<_>>());
    }
    drop(scans);
    nothing_stays(&pool);
}

#[test]
fn a_pool_smaller_than_a_chunk_finishes() {
    for frames in [1, 2, 5] {
        let unit = 32;
        let (pool, table) = open(frames, 4 * unit);
        let scans = [whole(&pool, &table, 0..4 * unit, unit, 1), whole(&pool, &table, 0..4 * unit, unit, 1)];
        std::thread::scope(|scope| {
            for scan in &scans {
                scope.spawn(|| assert_eq!(drain(&table, scan, unit), [0, 1, 2, 3], "{frames} frames"));
            }
        });
        assert!(pool.stats().chunks_incomplete > 0, "no chunk fits");
        drop(scans);
        nothing_stays(&pool);
    }
}

#[test]
fn a_relation_that_grows_is_read_as_far_as_each_scan_knows_it() {
    let pool = pool_of(8 * UNIT, Device::new(files(4 * UNIT), None), "pbm");
    let table = pool.open_to_write("table".as_ref(), &WriteOptions::default()).unwrap();
    let early = whole(&pool, &table, 0..4 * UNIT, UNIT, 1);
    step(&table, &early, UNIT).unwrap();
    for block in 4 * UNIT..8 * UNIT {
        assert_eq!(table.grow(1).unwrap(), block);
        let mut page = table.pin_mut(block, None).unwrap();
        page.fill(block as u8);
    }
    let late = whole(&pool, &table, 0..8 * UNIT, UNIT, 1);
    assert_eq!(drain(&table, &late, UNIT), (0..8).collect::<Vec<_>>());
    assert_eq!(drain(&table, &early, UNIT).len(), 3);
    // One that knows of more than there is reads what there is, and fails behind it.
    let beyond = whole(&pool, &table, 0..9 * UNIT, UNIT, 1);
    let mut ends = Vec::new();
    while let Some(lease) = beyond.take_blocking() {
        let start = u64::from(lease.chunk() * UNIT) * PAGE;
        ends.push((lease.chunk(), table.read_blocking(&[start..start + PAGE], Some(beyond.id())).is_ok()));
        lease.consumed();
    }
    ends.sort_unstable();
    assert_eq!(ends, (0..9).map(|chunk| (chunk, chunk < 8)).collect::<Vec<_>>());
    drop((early, late, beyond));
    pool.flush().unwrap();
    nothing_stays(&pool);
}

#[test]
fn a_superfluous_chunk_is_not_handed_out() {
    let (pool, table) = open(4 * UNIT, 8 * UNIT);
    let scan = whole(&pool, &table, 0..8 * UNIT, UNIT, 1);
    let held = scan.take_blocking().unwrap();
    let kept = held.chunk();
    for chunk in (0..8).filter(|&chunk| chunk != kept) {
        scan.remove(chunk);
    }
    assert_eq!(scan.left(), 0);
    // The held one is the only one that could come back, and does.
    drop(held);
    assert_eq!(drain(&table, &scan, UNIT), [kept]);
    drop(scan);
    nothing_stays(&pool);
}

#[test]
fn a_scan_that_finds_no_room_is_refused_and_leaves_nothing() {
    let (pool, table) = open(4 * UNIT, 128 * UNIT);
    let units: Vec<_> = (0..128).map(|unit| unit_at(&table, unit * UNIT, 128 * UNIT, UNIT)).collect();
    let chunks: Vec<_> = units.iter().map(|&unit| Chunk { unit, need: &[0xff], joined: false }).collect();
    let spec = UnorderedSpec { kind: ScanKind(1), workers: 1, chunks: &chunks };
    let refusal = pool.register_unordered(&spec).unwrap_err();
    assert!(matches!(refusal, UnorderedError::Cooperation(_)), "{refusal}");
    let spec = UnorderedSpec { kind: ScanKind(200), ..spec };
    let refusal = pool.register_unordered(&spec).unwrap_err();
    assert!(matches!(refusal, UnorderedError::Predictor(_)), "{refusal}");
    nothing_stays(&pool);
    // A pool without room for any has none.
    let options = PoolOptions::default().memory(1 << 20).page_size(PAGE as u32).cooperation(CooperationConfig::EMPTY);
    let pool = Pool::new(options.device(Device::new(files(UNIT), None))).unwrap();
    let table = pool.open("table".as_ref()).unwrap();
    let chunks = [Chunk { unit: unit_at(&table, 0, UNIT, UNIT), need: &[0xff], joined: false }];
    assert!(pool.register_unordered(&UnorderedSpec { kind: ScanKind(1), workers: 1, chunks: &chunks }).is_err());
    nothing_stays(&pool);
}

/// A chunk may need pages in the middle of what another reads: the keys of a border, say.
#[test]
fn a_chunk_inside_another_is_read_as_well() {
    let (pool, table) = open(4 * UNIT, 8 * UNIT);
    let unit = unit_at(&table, 0, 8 * UNIT, 64);
    let needs: [&[u64]; 4] = [&[0xffff], &[0b0110], &[0xff00], &[0x10_0ff0]];
    let chunks: Vec<_> = needs.iter().map(|need| Chunk { unit, need, joined: false }).collect();
    let scan = pool.register_unordered(&UnorderedSpec { kind: ScanKind(1), workers: 1, chunks: &chunks }).unwrap();
    let mut taken: Vec<u32> = std::iter::from_fn(|| {
        let lease = scan.take_blocking()?;
        let chunk = lease.chunk();
        lease.consumed();
        Some(chunk)
    })
    .collect();
    taken.sort_unstable();
    assert_eq!(taken, [0, 1, 2, 3]);
    drop(scan);
    nothing_stays(&pool);
}

/// Chunks with pages of two tables: each is read once, and a table's own scan beside them takes
/// what they bring.
#[test]
fn chunks_of_two_tables_are_one_scan() {
    let files = MemoryFiles::new();
    files.write("child", content(16 * UNIT));
    files.write("parent", content(16));
    let pool = pool_of(6 * UNIT, Device::new(files, None), "pbm");
    let (child, parent) = (pool.open("child".as_ref()).unwrap(), pool.open("parent".as_ref()).unwrap());
    let part = |table: &Relation, first, blocks, joined| {
        let need: &[u64] = if joined { &[1] } else { &[0xff] };
        Chunk { unit: Unit { relation: table.id(), first, blocks }, need, joined }
    };
    let chunks: Vec<_> =
        (0..16).flat_map(|pair| [part(&child, pair * UNIT, UNIT, false), part(&parent, pair, 1, true)]).collect();
    let joined = pool.register_unordered(&UnorderedSpec { kind: ScanKind(1), workers: 1, chunks: &chunks }).unwrap();
    assert_eq!(pool.scans()[0].length, 16, "a position for each pair");
    let alone = whole(&pool, &child, 0..16 * UNIT, UNIT, 1);
    let mut pairs = Vec::new();
    while let Some(lease) = joined.take_blocking() {
        let pair = lease.chunk() / 2;
        for (table, first, blocks) in [(&child, pair * UNIT, UNIT), (&parent, pair, 1)] {
            let range = u64::from(first) * PAGE..u64::from(first + blocks) * PAGE;
            let read = table.read_blocking(std::slice::from_ref(&range), Some(joined.id())).unwrap();
            assert!(read.data[0].iter().zip(range).all(|(&byte, at)| byte == (at / PAGE) as u8));
        }
        lease.asked();
        pairs.push(lease.chunk());
        lease.consumed();
        step(&child, &alone, UNIT);
    }
    pairs.sort_unstable();
    assert_eq!(pairs, (0..32).step_by(2).collect::<Vec<_>>(), "each pair once, by its first part");
    drain(&child, &alone, UNIT);
    assert!(joined.shared() + alone.shared() > 0, "nothing was shared");
    drop((joined, alone));
    nothing_stays(&pool);
    // Had each read for itself, it would be twice the child.
    assert!(pool.stats().bytes_read < 2 * u64::from(16 * UNIT) * PAGE, "{:?}", pool.stats().bytes_read);
}
