//! Reads that fail, workers that stop, waits that are given up: nobody else is kept.

use std::thread::available_parallelism;
use std::time::Duration;

use pagecast::storage::DeclaredModel;
use pagecast_core::cooperation::ENOUGH_AT_WORK;

use super::*;

#[test]
fn a_failed_read_is_met_by_who_reads_the_chunk() {
    let faults = Faults::default();
    let storage = FaultStorage { files: files(8 * UNIT), faults: faults.clone() };
    let pool = pool_of(4 * UNIT, Device::new(storage, None), "pbm");
    let table = pool.open("table".as_ref()).unwrap();
    // The first load fails, and so does the scan's own read.
    faults.plan(vec![Fault::Error(ErrorKind::TimedOut); 64]);
    let scan = whole(&pool, &table, 0..8 * UNIT, UNIT, 1);
    let lease = scan.take_blocking().unwrap();
    let error = read(&table, &scan, &lease, UNIT).unwrap_err();
    assert!(matches!(error, PoolError::Io { .. }), "{error}");
    let failed = lease.chunk();
    drop(lease);
    faults.clear();
    // The chunk has gone back: it comes once more, and all others once.
    assert_eq!(drain(&table, &scan, UNIT), (0..8).collect::<Vec<_>>(), "chunk {failed} is handed out again");
    assert_eq!(pool.stats().chunks_returned, 1);
    assert!(pool.stats().failed_loads > 0);
    drop(scan);
    nothing_stays(&pool);
}

#[test]
fn a_storage_that_panics_keeps_nobody_waiting() {
    let faults = Faults::default();
    let storage = FaultStorage { files: files(8 * UNIT), faults: faults.clone() };
    let pool = pool_of(4 * UNIT, Device::new(storage, None), "pbm");
    let table = pool.open("table".as_ref()).unwrap();
    faults.plan([Fault::Panic]);
    let scan = whole(&pool, &table, 0..8 * UNIT, UNIT, 1);
    assert_eq!(drain(&table, &scan, UNIT), (0..8).collect::<Vec<_>>());
    drop(scan);
    nothing_stays(&pool);
}

#[test]
fn who_holds_a_lease_for_long_keeps_nobody() {
    let (pool, table) = open(4 * UNIT, 16 * UNIT);
    let (idle, busy) = (whole(&pool, &table, 0..16 * UNIT, UNIT, 1), whole(&pool, &table, 0..16 * UNIT, UNIT, 1));
    let held = idle.take_blocking().unwrap();
    assert_eq!(drain(&table, &busy, UNIT), (0..16).collect::<Vec<_>>());
    assert_eq!(idle.left(), 15);
    // What was held for so long has left, and is an ordinary miss.
    let chunk = read(&table, &idle, &held, UNIT).unwrap();
    held.consumed();
    assert_eq!(drain(&table, &idle, UNIT), (0..16).filter(|&other| other != chunk).collect::<Vec<_>>());
    drop((idle, busy));
    nothing_stays(&pool);
}

/// Loads wait while the processors have enough to do. Those who rest with a chunk do nothing.
#[test]
fn many_who_rest_hold_nobody_up() {
    let model = DeclaredModel { bandwidth: u64::MAX, latency: Duration::from_millis(1), outstanding: 16 };
    let pool = pool_of(4 * UNIT, Device::new(files(48 * UNIT), Some(model)), "pbm");
    let table = pool.open("table".as_ref()).unwrap();
    let enough = ENOUGH_AT_WORK * available_parallelism().map_or(1, |count| count.get() as u32);
    let rests = whole(&pool, &table, 0..48 * UNIT, UNIT, 48);
    let held: Vec<_> = (0..(enough + 2).min(40)).map(|_| rests.take_blocking().unwrap()).collect();
    let goes_on = whole(&pool, &table, 0..48 * UNIT, UNIT, 1);
    assert_eq!(drain(&table, &goes_on, UNIT), (0..48).collect::<Vec<_>>());
    drop(held);
    assert_eq!(drain(&table, &rests, UNIT), (0..48).collect::<Vec<_>>());
    drop((rests, goes_on));
    nothing_stays(&pool);
}

#[test]
fn a_worker_waits_for_what_another_may_give_back() {
    let (pool, table) = open(4 * UNIT, UNIT);
    let scan = whole(&pool, &table, 0..UNIT, UNIT, 2);
    let held = scan.take_blocking().unwrap();
    assert!(scan.try_take().is_pending(), "the only chunk may come back");
    std::thread::scope(|scope| {
        let other = scope.spawn(|| scan.take_blocking().map(|lease| lease.chunk()));
        drop(held);
        assert_eq!(other.join().unwrap(), Some(0), "it came back");
    });
    // The other dropped its lease, too.
    let held = scan.take_blocking().unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| scan.take_blocking().is_none());
        held.consumed();
        assert!(other.join().unwrap(), "there is nothing to wait for");
    });
    drop(scan);
    nothing_stays(&pool);
}

#[test]
fn cancelled_waits_and_dropped_scans_leave_nothing() {
    let (pool, table) = open(4 * UNIT, 16 * UNIT);
    let kept = whole(&pool, &table, 0..16 * UNIT, UNIT, 2);
    for round in 0..50 {
        let scan = whole(&pool, &table, 0..16 * UNIT, UNIT, 2);
        let mut lease = None;
        {
            let mut first = pin!(scan.take());
            let mut second = pin!(kept.take());
            for take in [&mut first, &mut second] {
                if let Poll::Ready(taken) = take.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    lease = taken;
                }
            }
        }
        // Some leases outlive the scan that they are of, and keep it registered.
        if round % 2 == 0 {
            drop(lease.take());
        }
        drop(scan);
        drop(lease);
    }
    assert_eq!(drain(&table, &kept, UNIT), (0..16).collect::<Vec<_>>());
    drop(kept);
    nothing_stays(&pool);
}

/// A scan whose only chunk is out: its other workers wait, and one after the other goes.
#[test]
fn a_scan_waits_until_the_last_who_waits_has_gone() {
    let (pool, table) = open(4 * UNIT, UNIT);
    let scan = whole(&pool, &table, 0..UNIT, UNIT, 3);
    let held = scan.take_blocking().unwrap();
    let is_waiting = || pool.unordered_scans()[0].1.waiting;
    let mut waits = Vec::new();
    for _ in 0..2 {
        let mut take = Box::pin(scan.take());
        assert!(take.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        waits.push(take);
    }
    waits.pop();
    assert!(is_waiting(), "one is left");
    waits.pop();
    assert!(!is_waiting());
    held.consumed();
    assert!(scan.take_blocking().is_none());
}

#[test]
fn a_file_that_has_changed_fails_by_its_name() {
    let memory = files(16 * UNIT);
    let pool = pool_of(4 * UNIT, Device::new(memory.clone(), None), "pbm");
    let table = pool.open("table".as_ref()).unwrap();
    let scan = whole(&pool, &table, 0..16 * UNIT, UNIT, 1);
    step(&table, &scan, UNIT).unwrap();
    memory.write("table", content(3));
    // Opened anew by somebody else, so that the old generation is none of the pool's any more.
    let _newer = pool.open("table".as_ref()).unwrap();
    let mut failed = 0;
    while let Some(lease) = scan.take_blocking() {
        let error = read(&table, &scan, &lease, UNIT).unwrap_err();
        assert!(matches!(&error, PoolError::Changed { path, .. } if path.ends_with("table")), "{error}");
        failed += 1;
        lease.consumed();
    }
    assert_eq!(failed, 15);
    drop(scan);
    nothing_stays(&pool);
}

/// Scans that stop in the middle of a pool that has room for everything: nothing is ever evicted,
/// and still others read ahead.
#[test]
fn scans_that_stop_leave_room_to_read_ahead() {
    let (pool, table) = open(40 * UNIT, 32 * UNIT);
    for first in (0..32 * UNIT).step_by(4 * UNIT as usize) {
        let scan = whole(&pool, &table, first..first + 4 * UNIT, UNIT, 1);
        drop(scan.take_blocking());
    }
    nothing_stays(&pool);
    assert_eq!(pool.stats().evictions, 0);
}
