//! Pages that are brought before they are asked for: they come early, are counted right, and harm
//! nobody.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]
// A read of one range takes a list of one range.
#![allow(clippy::single_range_in_vec_init)]

use std::future::Future;
use std::io::{self, ErrorKind, IoSliceMut};
use std::ops::Range;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use pagecast::predictor::{Pages, Part, PredictorConfig, Run, ScanKind, ScanSpec};
use pagecast::storage::{
    DeclaredModel, Device, DirectIo, Fault, FaultStorage, Faults, Generation, MemoryFiles, Opener, Storage,
};
use pagecast::{PolicySpec, Pool, PoolError, PoolOptions, PoolStats, PrefetchOptions, Relation, Scan};
use proptest::prelude::*;

const PAGE: u64 = 4096;

struct Setup {
    policy: &'static str,
    frames: u64,
    share: f64,
    read_ahead: bool,
    device: Device,
}

fn memory(pages: u64) -> Device {
    let files = MemoryFiles::new();
    files.write("table", content(pages));
    Device::new(files, None)
}

/// Every byte of a page is its number.
fn content(pages: u64) -> Vec<u8> {
    (0..pages * PAGE).map(|at| (at / PAGE) as u8).collect()
}

fn open(setup: Setup) -> (Pool, Relation) {
    let options = |memory| {
        PoolOptions::default()
            .memory(memory)
            .page_size(PAGE as u32)
            .policy(PolicySpec::parse(setup.policy).unwrap())
            .device(setup.device.clone())
            .predictor(PredictorConfig { scans: 8, parts: 8, runs: 64, bitset_words: 16, ..PredictorConfig::EMPTY })
            .prefetch(PrefetchOptions::default().share(setup.share).read_ahead(setup.read_ahead))
    };
    // As much memory as gives exactly these frames.
    let Err(PoolError::TooSmall { minimum, .. }) = Pool::new(options(0)) else { panic!("no memory is too little") };
    let mut bytes = minimum;
    let pool = loop {
        let pool = Pool::new(options(bytes)).unwrap();
        match u64::from(pool.frames()) {
            frames if frames == setup.frames => break pool,
            frames => bytes += (setup.frames - frames) * PAGE,
        }
    };
    let table = pool.open(Path::new("table")).unwrap();
    (pool, table)
}

/// A scan of these blocks, in order, a position each.
fn scan(pool: &Pool, table: &Relation, blocks: Range<u32>) -> Scan {
    let count = blocks.end - blocks.start;
    let runs = [Run { first: blocks.start, blocks: count, position: 0, span: u64::from(count) }];
    let parts = [Part { relation: table.id(), pages: Pages::Runs(&runs) }];
    pool.register(&ScanSpec { kind: ScanKind(0), length: u64::from(count), parts: &parts }).unwrap()
}

fn wait_until(done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(20), "it does not come");
        std::thread::yield_now();
    }
}

fn is_resident(table: &Relation, block: u32) -> bool {
    let pin = pin!(table.pin_async(block, None));
    pin.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Pages that were brought ahead and are neither used nor gone.
fn unused(stats: &PoolStats) -> u64 {
    stats.prefetched - stats.prefetch_useful - stats.prefetch_late - stats.prefetch_wasted
}

#[test]
fn what_will_be_needed_is_there_when_it_is_read() {
    let (pool, table) = open(Setup { policy: "lru", frames: 64, share: 0.5, read_ahead: false, device: memory(40) });
    let scan = scan(&pool, &table, 0..40);
    assert_eq!(scan.prefetch(&table, &[0..10 * PAGE, 8 * PAGE..12 * PAGE + 1]).unwrap(), 13);
    wait_until(|| pool.stats().loads == 13);
    assert_eq!(scan.prefetch(&table, &[0..12 * PAGE]).unwrap(), 0, "they are there");
    let read = table.read_blocking(&[0..13 * PAGE], Some(scan.id())).unwrap();
    assert_eq!((read.stats.hits, read.stats.bytes_read), (13, 0));
    assert_eq!(read.data[0], content(13));
    let stats = pool.stats();
    assert_eq!((stats.loads, stats.prefetched, stats.prefetch_useful), (13, 13, 13));
    assert_eq!(stats.bytes_read, 13 * PAGE);
}

#[test]
fn prefetch_checks_its_ranges() {
    let (pool, table) = open(Setup { policy: "lru", frames: 64, share: 0.5, read_ahead: false, device: memory(40) });
    let scan = scan(&pool, &table, 0..40);
    assert!(matches!(scan.prefetch(&table, &[0..41 * PAGE]), Err(PoolError::OutOfBounds { .. })));
    assert_eq!(scan.prefetch(&table, &[5..5]).unwrap(), 0);
    let (other, _) = open(Setup { policy: "lru", frames: 64, share: 0.5, read_ahead: false, device: memory(40) });
    let elsewhere = other.open(Path::new("table")).unwrap();
    assert_eq!(scan.prefetch(&elsewhere, &[0..PAGE]).unwrap(), 0, "it is not this scan's pool");
    assert_eq!((pool.stats().prefetched, other.stats().prefetched), (0, 0));
    for share in [-0.1, 0.51, f64::NAN, f64::INFINITY] {
        let prefetch = PrefetchOptions::default().share(share).read_ahead(false);
        let error = Pool::new(PoolOptions::default().prefetch(prefetch)).unwrap_err();
        assert!(matches!(error, PoolError::PrefetchShare { .. }), "{error}");
    }
}

#[test]
fn no_more_than_its_share_is_ahead() {
    let (pool, table) = open(Setup { policy: "lru", frames: 64, share: 0.25, read_ahead: false, device: memory(200) });
    let one = scan(&pool, &table, 0..100);
    assert_eq!(one.prefetch(&table, &[0..200 * PAGE]).unwrap(), 16, "alone, all of the share");
    let two = scan(&pool, &table, 100..200);
    assert_eq!(two.prefetch(&table, &[0..200 * PAGE]).unwrap(), 0, "nothing is left");
    table.read_blocking(&[0..16 * PAGE], Some(one.id())).unwrap();
    assert_eq!(two.prefetch(&table, &[100 * PAGE..200 * PAGE]).unwrap(), 8, "the half");
    assert_eq!(one.prefetch(&table, &[16 * PAGE..200 * PAGE]).unwrap(), 8, "the other");
}

#[test]
fn a_registered_scan_reads_ahead_and_reads_nothing_twice() {
    for policy in ["pbm", "lru", "clock"] {
        let (pool, table) = open(Setup { policy, frames: 64, share: 0.25, read_ahead: true, device: memory(200) });
        let scan = scan(&pool, &table, 0..200);
        for block in 0..200 {
            scan.report(u64::from(block));
            assert_eq!(table.pin(block, Some(scan.id())).unwrap()[0], block as u8);
        }
        let stats = pool.stats();
        assert_eq!((stats.requests, stats.loads), (200, 200), "{policy}");
        assert_eq!(stats.prefetched, 200, "{policy}: all of them, because the first report comes before the first pin");
        assert_eq!((stats.prefetch_wasted, unused(&stats)), (0, 0), "{policy}");
    }
}

#[test]
fn reading_ranges_reads_ahead_of_the_reported_position() {
    let (pool, table) = open(Setup { policy: "pbm", frames: 64, share: 0.25, read_ahead: true, device: memory(64) });
    let scan = scan(&pool, &table, 0..64);
    for group in 0..8 {
        // As a host does that lets pages go when it asks for them.
        scan.report((group + 1) * 8);
        let read = table.read_blocking(&[group * 8 * PAGE..(group + 1) * 8 * PAGE], Some(scan.id())).unwrap();
        assert_eq!(read.data[0], content(64)[(group * 8 * PAGE) as usize..((group + 1) * 8 * PAGE) as usize]);
    }
    let stats = pool.stats();
    assert_eq!((stats.loads, stats.prefetched), (64, 56), "all but the first group");
    assert_eq!(stats.prefetch_useful + stats.prefetch_late, 56);
}

#[test]
fn what_nobody_used_is_wasted() {
    let (pool, table) = open(Setup { policy: "lru", frames: 16, share: 0.5, read_ahead: false, device: memory(100) });
    let cancelled = scan(&pool, &table, 0..40);
    assert_eq!(cancelled.prefetch(&table, &[0..4 * PAGE]).unwrap(), 4);
    wait_until(|| pool.stats().loads == 4);
    drop(cancelled);
    assert_eq!(pool.stats().prefetch_wasted, 4, "its scan has ended");
    assert!(is_resident(&table, 3), "but it may stay");
    assert_eq!(pool.stats().prefetch_useful, 0);
    // Pages of which the predictor knows nothing are protected by nothing.
    let idle = scan(&pool, &table, 0..1);
    assert_eq!(idle.prefetch(&table, &[50 * PAGE..54 * PAGE]).unwrap(), 4);
    wait_until(|| pool.stats().loads == 8);
    table.read_blocking(&[60 * PAGE..100 * PAGE], None).unwrap();
    assert_eq!((pool.stats().prefetch_wasted, unused(&pool.stats())), (8, 0), "they left");
}

#[test]
fn a_page_ahead_displaces_nobody_who_is_wanted() {
    for policy in ["pbm", "lru", "clock", "random"] {
        let (pool, table) = open(Setup { policy, frames: 16, share: 0.5, read_ahead: false, device: memory(100) });
        let near = scan(&pool, &table, 0..16);
        let far = scan(&pool, &table, 20..100);
        table.read_blocking(&[0..16 * PAGE], None).unwrap();
        assert_eq!(far.prefetch(&table, &[90 * PAGE..99 * PAGE]).unwrap(), 0, "{policy}: 70 positions on");
        assert_eq!(far.prefetch(&table, &[20 * PAGE..21 * PAGE]).unwrap(), 0, "{policy}: at once");
        near.report(8);
        assert!(far.prefetch(&table, &[20 * PAGE..21 * PAGE]).unwrap() <= 1, "{policy}: if one of eight is found");
        near.report(16);
        assert!(far.prefetch(&table, &[90 * PAGE..95 * PAGE]).unwrap() >= 1, "{policy}: nobody wants those any more");
    }
}

#[test]
fn what_was_brought_and_is_still_wanted_outlasts_what_nobody_wants() {
    for policy in ["pbm", "pbm-paper", "lru", "clock", "random", "2q", "arc"] {
        let (pool, table) = open(Setup { policy, frames: 16, share: 0.5, read_ahead: false, device: memory(200) });
        let scan = scan(&pool, &table, 0..40);
        assert_eq!(scan.prefetch(&table, &[0..8 * PAGE]).unwrap(), 8);
        wait_until(|| pool.stats().loads == 8);
        // Twelve times the frames pass by.
        table.read_blocking(&[100 * PAGE..200 * PAGE], None).unwrap();
        table.read_blocking(&[100 * PAGE..200 * PAGE], None).unwrap();
        let read = table.read_blocking(&[0..8 * PAGE], Some(scan.id())).unwrap();
        assert_eq!((read.stats.hits, pool.stats().prefetch_useful), (8, 8), "{policy}");
    }
}

#[test]
fn what_was_brought_outlasts_what_is_wanted_sooner() {
    for policy in ["pbm", "pbm-paper", "lru", "clock", "random", "2q", "arc"] {
        let (pool, table) = open(Setup { policy, frames: 16, share: 0.5, read_ahead: false, device: memory(200) });
        let far = scan(&pool, &table, 20..200);
        assert_eq!(far.prefetch(&table, &[190 * PAGE..198 * PAGE]).unwrap(), 8);
        wait_until(|| pool.stats().loads == 8);
        // All of these are wanted sooner, and they have eight frames.
        let _near = scan(&pool, &table, 0..20);
        table.read_blocking(&[0..20 * PAGE], None).unwrap();
        table.read_blocking(&[0..20 * PAGE], None).unwrap();
        let read = table.read_blocking(&[190 * PAGE..198 * PAGE], Some(far.id())).unwrap();
        assert_eq!((read.stats.hits, pool.stats().prefetch_useful), (8, 8), "{policy}");
    }
}

#[test]
fn pages_ahead_never_keep_a_request_from_its_frame() {
    let (pool, table) = open(Setup { policy: "lru", frames: 16, share: 0.5, read_ahead: false, device: memory(100) });
    let scan = scan(&pool, &table, 0..40);
    assert_eq!(scan.prefetch(&table, &[0..8 * PAGE]).unwrap(), 8);
    wait_until(|| pool.stats().loads == 8);
    let pins: Vec<_> = (50..66).map(|block| table.pin(block, None).unwrap()).collect();
    assert_eq!(pins.len(), 16, "all frames, those of the pages ahead too");
    assert_eq!(pool.stats().prefetch_wasted, 8);
}

#[test]
fn a_failed_read_ahead_is_tried_again_by_who_needs_it() {
    let (files, faults) = (MemoryFiles::new(), Faults::default());
    files.write("table", content(40));
    let device = Device::new(FaultStorage { files, faults: faults.clone() }, None);
    let (pool, table) = open(Setup { policy: "lru", frames: 64, share: 0.5, read_ahead: false, device });
    let scan = scan(&pool, &table, 0..40);
    for fault in [Fault::Error(ErrorKind::Other), Fault::Panic] {
        let before = pool.stats();
        faults.plan([fault]);
        assert_eq!(scan.prefetch(&table, &[0..4 * PAGE]).unwrap(), 4);
        wait_until(|| pool.stats().prefetch_wasted == before.prefetch_wasted + 4);
    }
    assert_eq!((pool.stats().failed_loads, pool.stats().loads), (8, 0));
    assert_eq!(table.pin(2, Some(scan.id())).unwrap()[0], 2);
    assert_eq!(unused(&pool.stats()), 0);
}

/// Files in memory; notes which offsets are read, and holds the first read until it is let go.
#[derive(Clone)]
struct Gate {
    files: MemoryFiles,
    order: Arc<Mutex<Vec<u64>>>,
    closed: Arc<Mutex<()>>,
}

struct GateFile(Arc<dyn Storage>, Gate);

impl Opener for Gate {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(GateFile(self.files.open(path)?, self.clone())))
    }

    fn describe(&self) -> String {
        "a gate".to_owned()
    }
}

impl Storage for GateFile {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn generation(&self) -> Generation {
        self.0.generation()
    }

    fn current(&self) -> io::Result<Generation> {
        self.0.current()
    }

    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.1.order.lock().unwrap().push(offset / PAGE);
        drop(self.1.closed.lock().unwrap());
        self.0.read_at(offset, bufs)
    }

    fn direct(&self) -> DirectIo {
        self.0.direct()
    }
}

/// A pool over a gate, of 100 pages in 64 frames, whose device takes `outstanding` requests at
/// once.
fn gated(outstanding: u32) -> (Pool, Relation, Gate) {
    let gate = Gate { files: MemoryFiles::new(), order: Arc::default(), closed: Arc::default() };
    gate.files.write("table", content(100));
    let model = DeclaredModel { bandwidth: u64::MAX, latency: Duration::ZERO, outstanding };
    let device = Device::new(gate.clone(), Some(model));
    let (pool, table) = open(Setup { policy: "lru", frames: 64, share: 0.5, read_ahead: false, device });
    (pool, table, gate)
}

#[test]
fn who_comes_while_a_page_is_on_its_way_waits_for_it_and_counts_as_late() {
    let (pool, table, gate) = gated(4);
    let scan = scan(&pool, &table, 0..40);
    let closed = gate.closed.lock().unwrap();
    assert_eq!(scan.prefetch(&table, &[0..4 * PAGE]).unwrap(), 4);
    assert!(!is_resident(&table, 2) && !is_resident(&table, 2));
    assert_eq!((pool.stats().prefetch_late, pool.stats().waits), (1, 2));
    drop(closed);
    wait_until(|| pool.stats().loads == 4);
    assert_eq!(table.pin(2, Some(scan.id())).unwrap()[0], 2);
    assert_eq!((pool.stats().prefetch_useful, unused(&pool.stats())), (0, 3));
}

#[test]
fn who_waits_is_served_before_pages_ahead() {
    // One request at a time: one thread.
    let (pool, table, gate) = gated(1);
    let scan = scan(&pool, &table, 0..100);
    let closed = gate.closed.lock().unwrap();
    let poll = |block| is_resident(&table, block);
    assert!(!poll(90));
    wait_until(|| gate.order.lock().unwrap().len() == 1);
    assert_eq!(scan.prefetch(&table, &[0..2 * PAGE]).unwrap(), 2);
    assert_eq!(scan.prefetch(&table, &[10 * PAGE..12 * PAGE]).unwrap(), 2);
    assert_eq!(scan.prefetch(&table, &[20 * PAGE..22 * PAGE]).unwrap(), 2);
    assert!(!poll(50));
    assert!(!poll(11), "the request of 10 and 11 is not to wait for that of 0 and 1 any more");
    drop(closed);
    wait_until(|| pool.stats().loads == 8);
    assert_eq!(*gate.order.lock().unwrap(), [90, 50, 10, 0, 20]);
    assert_eq!(pool.stats().prefetch_late, 1);
}

/// Two scans of the same pace wait for one thread: the read of the longer one, which needs seconds,
/// came first.
#[test]
fn the_scan_that_needs_less_is_served_first() {
    let (pool, table, gate) = gated(1);
    let teacher = scan(&pool, &table, 0..2);
    std::thread::sleep(Duration::from_millis(50));
    teacher.report(1);
    let (long, short) = (scan(&pool, &table, 0..100), scan(&pool, &table, 60..62));
    let closed = gate.closed.lock().unwrap();
    let poll = |block| is_resident(&table, block);
    assert!(!poll(99));
    wait_until(|| gate.order.lock().unwrap().len() == 1);
    for (scan, block) in [(&long, 30), (&short, 60)] {
        let pin = pin!(table.pin_async(block, Some(scan.id())));
        assert!(pin.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    drop(closed);
    wait_until(|| pool.stats().loads == 3);
    assert_eq!(*gate.order.lock().unwrap(), [99, 60, 30]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Scans that start, read, report, announce and end as they like get the file's bytes, and the
    /// counts add up.
    #[test]
    fn bytes_and_counts_are_right_whatever_scans_do(
        steps in prop::collection::vec((0usize..4, 0u8..4, 0u32..90, 1u32..10), 1..50),
        policy in prop::sample::select(vec!["pbm", "lru", "clock", "arc"]),
        frames in 4u64..40,
    ) {
        let (pool, table) = open(Setup { policy, frames, share: 0.5, read_ahead: true, device: memory(100) });
        let mut scans: [Option<Scan>; 4] = [const { None }; 4];
        for (slot, what, block, count) in steps {
            let range = u64::from(block) * PAGE..u64::from(block + count) * PAGE;
            match (&mut scans[slot], what) {
                (none @ None, _) => *none = Some(scan(&pool, &table, block..100)),
                (some @ Some(_), 0) => *some = None,
                (Some(scan), 1) => scan.report(u64::from(block)),
                (Some(scan), 2) => {
                    scan.prefetch(&table, &[range]).unwrap();
                }
                (Some(scan), _) => {
                    let read = table.read_blocking(std::slice::from_ref(&range), Some(scan.id())).unwrap();
                    prop_assert!(read.data[0] == content(100)[range.start as usize..range.end as usize]);
                }
            }
            prop_assert!(unused(&pool.stats()) <= frames / 2);
        }
        drop(scans);
        let stats = pool.stats();
        prop_assert_eq!(unused(&stats), 0, "all scans have ended: {:?}", stats);
        prop_assert_eq!(pool.pinned(), 0);
    }
}
