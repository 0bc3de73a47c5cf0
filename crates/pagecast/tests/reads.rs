//! Reads and pins against real files: the bytes are right, whoever asks, however small the pool.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]
// A read of one range takes a list of one range.
#![allow(clippy::single_range_in_vec_init)]

use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use pagecast::predictor::{Pages, Part, Run, ScanKind, ScanSpec};
use pagecast::storage::{Device, Fault, FaultStorage, Faults, MAX_REQUEST, MemoryFiles};
use pagecast::{PageId, PolicySpec, Pool, PoolError, PoolOptions, Recorder};
use proptest::prelude::*;

const PAGE: u32 = 4096;

/// Bytes that tell every offset from its neighbours and from the same offset of another page.
fn content(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0] ^ (i >> 12) as u8).collect()
}

fn options(policy: &str, memory: u64) -> PoolOptions {
    PoolOptions::default().memory(memory).page_size(PAGE).policy(PolicySpec::parse(policy).unwrap())
}

/// The least memory with which a pool of this page size and policy has `frames` frames.
fn memory_for(frames: u64) -> u64 {
    (1 << 16) + frames * 5000
}

fn file(len: usize) -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = (folder.path().join("table"), content(len));
    std::fs::write(&path, &bytes).unwrap();
    (folder, path, bytes)
}

#[test]
fn threads_read_the_right_bytes_through_every_policy() {
    let (_folder, path, bytes) = file(3_000_001);
    for policy in ["clock", "lru", "random", "pbm"] {
        let pool = Pool::new(options(policy, memory_for(40))).unwrap();
        let table = pool.open(&path).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                let (table, bytes) = (&table, &bytes);
                scope.spawn(move || {
                    for round in 0..30 {
                        let start = (thread * 77_777 + round * 131_071) % 2_500_000;
                        let ranges = [start..start + 100_000, start + 350_000..start + 350_010];
                        let read = table.read_blocking(&ranges, None).unwrap();
                        for (range, data) in ranges.iter().zip(&read.data) {
                            assert!(data == &bytes[range.start as usize..range.end as usize], "{policy} {range:?}");
                        }
                    }
                });
            }
        });
        let stats = pool.stats();
        assert_eq!(pool.pinned(), 0);
        assert!(stats.evictions > 0 && stats.hits + stats.waits + stats.loads <= stats.requests);
        assert_eq!(stats.bytes_read, pool.device().stats().bytes_read, "{policy}: what is counted is what was read");
    }
}

#[test]
fn pages_are_pinned_by_many_threads_in_a_tiny_pool() {
    let (_folder, path, bytes) = file(50 * PAGE as usize + 17);
    let pool = Pool::new(options("clock", memory_for(4))).unwrap();
    let table = pool.open(&path).unwrap();
    let refused = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..6u32 {
            let (table, bytes, refused) = (&table, &bytes, &refused);
            scope.spawn(move || {
                for round in 0..400 {
                    let block = (thread * 13 + round * 7) % table.pages();
                    match table.pin(block, None) {
                        Ok(page) => {
                            let start = (block * PAGE) as usize;
                            assert!(*page == bytes[start..(start + PAGE as usize).min(bytes.len())], "block {block}");
                        }
                        Err(PoolError::NoFrame { .. }) => _ = refused.fetch_add(1, Relaxed),
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    assert!(refused.into_inner() < 6 * 400, "some pins succeed");
    assert_eq!(pool.pinned(), 0);
}

#[test]
fn with_all_frames_pinned_reads_go_past_the_pool_and_pins_are_refused() {
    let (_folder, path, bytes) = file(100 * PAGE as usize);
    let pool = Pool::new(options("lru", memory_for(5))).unwrap();
    let table = pool.open(&path).unwrap();
    let pins: Vec<_> = (0..pool.frames()).map(|block| table.pin(block, None).unwrap()).collect();
    assert!(matches!(table.pin(90, None), Err(PoolError::NoFrame { frames }) if frames == pool.frames()));
    let read = table.read_blocking(&[0..table.len()], None).unwrap();
    assert!(read.data[0] == bytes);
    let past = u64::from(table.pages() - pool.frames()) * u64::from(PAGE);
    assert_eq!((read.stats.bypassed_bytes, read.stats.bytes_read), (past, past));
    assert_eq!(read.stats.hits, u64::from(pool.frames()));
    assert_eq!(pool.stats().bypassed_bytes, past);
    drop(pins);
    drop(table.pin(90, None).unwrap());
}

#[test]
fn neighbouring_misses_are_one_request_of_at_most_four_mebibytes() {
    let len = 2 * MAX_REQUEST + 5;
    let (_folder, path, bytes) = file(len);
    let pool = Pool::new(PoolOptions::default().page_size(64 << 10).memory(1100 << 20)).unwrap();
    let table = pool.open(&path).unwrap();
    assert!(table.read_blocking(&[0..table.len()], None).unwrap().data[0] == bytes);
    assert_eq!(pool.device().stats().requests, 3);
    assert_eq!(pool.device().stats().bytes_read, len as u64);
    let again = table.read_blocking(&[0..table.len()], None).unwrap();
    assert_eq!((again.stats.hits, again.stats.bytes_read), (again.stats.pages, 0));
    assert_eq!(pool.device().stats().requests, 3);
}

#[test]
fn one_load_however_many_ask() {
    let model = pagecast::storage::DeclaredModel {
        bandwidth: u64::MAX,
        latency: std::time::Duration::from_millis(100),
        outstanding: 16,
    };
    let files = MemoryFiles::new();
    files.write("table", content(PAGE as usize));
    let device = Device::new(files, Some(model));
    let pool = Pool::new(options("clock", memory_for(8)).device(device)).unwrap();
    let table = pool.open("table".as_ref()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(table.pin(0, None).unwrap().len(), PAGE as usize));
        }
    });
    assert_eq!(pool.device().stats().requests, 1);
    let stats = pool.stats();
    assert_eq!((stats.requests, stats.loads, stats.hits + stats.waits), (8, 1, 7));
}

#[test]
fn everything_fits_into_the_memory_that_was_given() {
    for (memory, page_size) in [(200_000, 4096), (1 << 20, 65_536), (64 << 20, 65_536), (64 << 20, 1 << 20)] {
        let pool = Pool::new(PoolOptions::default().memory(memory).page_size(page_size)).unwrap();
        let used = pool.memory();
        assert!(used.total <= memory && u64::from(pool.frames()) * u64::from(page_size) == used.frames);
        let scans = [used.predictor, used.cooperation, used.prefetch];
        let parts = [used.headers, used.table, used.policy, used.inflight, used.statistics].into_iter().chain(scans);
        assert_eq!(used.frames + parts.sum::<u64>(), used.total);
    }
}

#[test]
fn requests_are_recorded_in_order_once_a_page() {
    #[derive(Default)]
    struct Log(Mutex<Vec<(u32, u32)>>);
    impl Recorder for Log {
        fn request(&self, page: PageId, bytes: u32) {
            self.0.lock().unwrap().push((page.block(), bytes));
        }
    }
    let (_folder, path, _) = file(3 * PAGE as usize + 100);
    let log = Arc::new(Log::default());
    let pool = Pool::new(options("lru", memory_for(8)).recorder(log.clone())).unwrap();
    let table = pool.open(&path).unwrap();
    table.read_blocking(&[10..20, 30..5000, 12_288..12_388], None).unwrap();
    // In a read of its own: a page that comes while others are on their way is answered before
    // them.
    table.read_blocking(&[0..1], None).unwrap();
    assert_eq!(*log.0.lock().unwrap(), [(0, PAGE), (1, PAGE), (3, 100), (0, PAGE)]);
}

#[test]
fn the_pages_that_a_scan_wants_soonest_stay() {
    let (_folder, path, _) = file(400 * PAGE as usize);
    let pool = Pool::new(options("pbm(samples=100)", memory_for(100))).unwrap();
    let table = pool.open(&path).unwrap();
    let read = |blocks: std::ops::Range<u64>| {
        table.read_blocking(&[blocks.start * u64::from(PAGE)..blocks.end * u64::from(PAGE)], None).unwrap().stats
    };
    let runs = [Run { first: 0, blocks: 40, position: 0, span: 40 }];
    let parts = [Part { relation: table.id(), pages: Pages::Runs(&runs) }];
    let scan = pool.register(&ScanSpec { kind: ScanKind(0), length: 40, parts: &parts }).unwrap();
    assert_eq!(pool.scans().len(), 1);
    read(0..40);
    read(40..400);
    assert_eq!(read(0..40).hits, 40, "announced, and so kept");
    scan.report(40);
    drop(scan);
    assert!(pool.scans().is_empty());
    read(40..400);
    assert!(read(0..40).hits < 40, "nobody wants them any more");
}

#[test]
fn bounds_are_checked() {
    let (_folder, path, _) = file(10_000);
    let pool = Pool::new(options("lru", memory_for(8))).unwrap();
    let table = pool.open(&path).unwrap();
    assert_eq!((table.pages(), table.pin(2, None).unwrap().len()), (3, 10_000 - 8192));
    let error = table.pin(3, None).unwrap_err().to_string();
    assert!(error.contains("table: page 3 is asked for, but the file has 3"), "{error}");
    assert!(matches!(table.pin(u32::MAX, None), Err(PoolError::NoPage { block: u32::MAX, pages: 3, .. })));
    #[allow(clippy::reversed_empty_ranges)]
    for range in [0..10_001, 5..4, u64::MAX - 1..u64::MAX] {
        assert!(matches!(table.read_blocking(&[range], None), Err(PoolError::OutOfBounds { .. })));
    }
    assert_eq!(table.read_blocking(&[], None).unwrap().data.len(), 0);
    assert_eq!(table.read_blocking(&[10_000..10_000], None).unwrap().data, [b""]);
}

#[test]
fn a_relation_reads_through_its_own_pool_and_keeps_it() {
    let (_folder, path, bytes) = file(10_000);
    let pools = [4096, 8192].map(|page_size| Pool::new(PoolOptions::default().page_size(page_size)).unwrap());
    let tables = pools.each_ref().map(|pool| pool.open(&path).unwrap());
    for (table, page_size) in tables.iter().zip([4096, 8192]) {
        assert_eq!(table.pin(0, None).unwrap().len(), page_size);
    }
    assert!(pools[0].owns(&tables[0]) && !pools[0].owns(&tables[1]));
    assert_eq!(pools.each_ref().map(|pool| pool.stats().requests), [1, 1]);
    drop(pools);
    assert!(tables[0].read_blocking(&[0..10_000], None).unwrap().data[0] == bytes, "the pool has gone before");
}

#[test]
fn an_empty_file_has_no_pages() {
    let (_folder, path, _) = file(0);
    let pool = Pool::new(options("lru", memory_for(8))).unwrap();
    let table = pool.open(&path).unwrap();
    assert_eq!(table.pages(), 0);
    assert!(table.pin(0, None).is_err());
    assert_eq!(table.read_blocking(&[0..0], None).unwrap().data, [b""]);
}

#[test]
fn opt_needs_a_trace_and_is_refused() {
    let error = Pool::new(options("opt", 1 << 20)).unwrap_err().to_string();
    assert!(error.contains("opt"), "{error}");
}

#[test]
fn a_pool_that_goes_while_it_reads_leaves_its_reads_to_end() {
    let (_folder, path, _) = file(300 * PAGE as usize);
    let pool = Pool::new(options("lru", memory_for(64))).unwrap();
    let table = pool.open(&path).unwrap();
    let read = table.read(&[0..table.len()], None);
    drop(pool);
    let waker = std::task::Waker::noop();
    let mut read = std::pin::pin!(read);
    let begin = std::time::Instant::now();
    let result = loop {
        if let std::task::Poll::Ready(result) = read.as_mut().poll(&mut std::task::Context::from_waker(waker)) {
            break result;
        }
        assert!(begin.elapsed().as_secs() < 20, "the read hangs");
        std::thread::yield_now();
    };
    assert_eq!(result.unwrap().data[0].len(), 300 * PAGE as usize);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Any ranges in any order, through a pool of a few frames or many, are the file's bytes.
    #[test]
    fn any_ranges_are_the_files_bytes(
        len in 1u64..200_000,
        cuts in prop::collection::vec((0f64..1.0, 0f64..1.0), 0..12),
        frames in 1u64..60,
    ) {
        let (files, bytes) = (MemoryFiles::new(), content(len as usize));
        files.write("table", bytes.clone());
        let device = Device::new(files, None);
        let pool = Pool::new(options("pbm", memory_for(frames)).device(device)).unwrap();
        let table = pool.open("table".as_ref()).unwrap();
        let at = |part: f64| (part * len as f64) as u64;
        let ranges: Vec<_> = cuts.iter().map(|&(a, b)| at(a.min(b))..at(a.max(b))).collect();
        let read = table.read_blocking(&ranges, None).unwrap();
        for (range, data) in ranges.iter().zip(&read.data) {
            prop_assert!(data == &bytes[range.start as usize..range.end as usize]);
        }
        prop_assert_eq!(read.stats.bytes_requested, ranges.iter().map(|range| range.end - range.start).sum::<u64>());
        prop_assert_eq!(pool.pinned(), 0);
    }

    /// Whatever happens on the way - no frame for most pages, failing storage, a reader that goes
    /// away - a read that succeeds has given the file's bytes, in memory of its own or the
    /// caller's.
    #[test]
    fn reads_that_are_disturbed_are_right_or_fail(
        len in 1u64..200_000,
        cuts in prop::collection::vec((0f64..1.0, 0f64..1.0), 1..6),
        (frames, pins) in (1u64..60, 0u32..60),
        faults in prop::collection::vec(0u32..6, 0..20),
        polls in 0u32..4,
    ) {
        let (files, planned, bytes) = (MemoryFiles::new(), Faults::default(), content(len as usize));
        files.write("table", bytes.clone());
        let device = Device::new(FaultStorage { files, faults: planned.clone() }, None);
        let pool = Pool::new(options("lru", memory_for(frames)).device(device)).unwrap();
        let table = pool.open("table".as_ref()).unwrap();
        let pins: Vec<_> = (0..pins.min(table.pages())).filter_map(|block| table.pin(block, None).ok()).collect();
        let at = |part: f64| (part * len as f64) as u64;
        let ranges: Vec<_> = cuts.iter().map(|&(a, b)| at(a.min(b))..at(a.max(b))).collect();
        let fault = |&number: &u32| match number {
            0 => Fault::Error(std::io::ErrorKind::Other),
            1 => Fault::Panic,
            2 => Fault::Short(1000),
            _ => Fault::None,
        };
        planned.plan(faults.iter().map(fault));
        {
            let mut dropped = pin!(table.read(&ranges, None));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            // A future that has ended is not polled again.
            (0..polls).all(|_| dropped.as_mut().poll(&mut context).is_pending());
        }
        let may_fail = !faults.is_empty();
        match table.read_blocking(&ranges, None) {
            Ok(read) => for (range, data) in ranges.iter().zip(&read.data) {
                prop_assert!(data == &bytes[range.start as usize..range.end as usize]);
            }
            Err(error) => prop_assert!(may_fail, "{}", error),
        }
        let wanted = |range: &std::ops::Range<u64>| &bytes[range.start as usize..range.end as usize];
        let into_memory = |range: &std::ops::Range<u64>| {
            let mut memory = Box::<[u8]>::new_uninit_slice(wanted(range).len());
            table.read_into_blocking(range.start, &mut memory, None).map(|(read, _)| read.to_vec())
        };
        for range in &ranges {
            match into_memory(range) {
                Ok(read) => prop_assert!(read == wanted(range)),
                Err(error) => prop_assert!(may_fail, "{}", error),
            }
        }
        planned.clear();
        for range in &ranges {
            // A load that somebody began before may still be about to fail.
            let read = (0..1000).find_map(|_| into_memory(range).ok());
            prop_assert!(read.is_some_and(|read| read == wanted(range)));
        }
        drop(pins);
    }
}
