//! Storage that fails, files that change, futures that are dropped: errors name what and where, and
//! nothing is left.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]
// A read of one range takes a list of one range.
#![allow(clippy::single_range_in_vec_init)]

use std::fs::{OpenOptions, write};
use std::future::Future;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pagecast::storage::{DeclaredModel, Device, Fault, FaultStorage, Faults, MemoryFiles};
use pagecast::{PolicySpec, Pool, PoolError, PoolOptions};

const PAGE: u32 = 4096;

fn pool(device: Device, memory: u64) -> Pool {
    let policy = PolicySpec::parse("lru").unwrap();
    Pool::new(PoolOptions::default().memory(memory).page_size(PAGE).policy(policy).device(device)).unwrap()
}

fn faulty() -> (Pool, Faults) {
    faulty_with(1 << 20)
}

/// A pool over a file of 64 pages in memory whose requests meet planned faults.
fn faulty_with(memory: u64) -> (Pool, Faults) {
    let (files, faults) = (MemoryFiles::new(), Faults::default());
    files.write("table", vec![5; 64 * PAGE as usize]);
    let device = Device::new(FaultStorage { files, faults: faults.clone() }, None);
    (pool(device, memory), faults)
}

fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// File systems count time in ticks, and a change may come in the tick of the file's making.
fn touch(path: &Path) {
    let later = std::time::SystemTime::now() + Duration::from_secs(10);
    std::fs::File::options().write(true).open(path).unwrap().set_modified(later).unwrap();
}

#[test]
fn a_failed_read_names_file_and_offset_and_can_be_tried_again() {
    let (pool, faults) = faulty();
    let table = pool.open(Path::new("table")).unwrap();
    faults.plan([Fault::Error(ErrorKind::PermissionDenied)]);
    let error = table.pin(3, None).unwrap_err();
    assert!(matches!(&error, PoolError::Io { offset: 12_288, .. }), "{error}");
    assert!(error.to_string().contains("table"), "{error}");
    assert_eq!((pool.stats().failed_loads, pool.stats().loads, pool.pinned()), (1, 0, 0));
    assert_eq!(table.pin(3, None).unwrap()[0], 5);
}

#[test]
fn every_waiter_of_a_failed_request_gets_the_error() {
    let files = MemoryFiles::new();
    files.write("table", vec![5; 100 * PAGE as usize]);
    let faults = Faults::default();
    let model = DeclaredModel { bandwidth: u64::MAX, latency: Duration::from_millis(100), outstanding: 16 };
    let device = Device::new(FaultStorage { files, faults: faults.clone() }, Some(model));
    let pool = pool(device, 1 << 20);
    let table = pool.open(Path::new("table")).unwrap();
    // Until all four have asked before the storage answers: only then is it one request that they
    // wait for.
    for block in 0..100 {
        let before = pool.stats();
        faults.plan([Fault::Error(ErrorKind::Other)]);
        let mut waiters: Vec<_> = (0..4).map(|_| Box::pin(table.pin_async(block, None))).collect();
        let mut answers: Vec<_> = waiters.iter_mut().map(|waiter| poll_once(waiter.as_mut())).collect();
        let asked = pool.stats();
        let together = (asked.requests - before.requests, asked.waits - before.waits) == (4, 3);
        for (waiter, answer) in waiters.iter_mut().zip(&mut answers) {
            while answer.is_pending() {
                std::thread::yield_now();
                *answer = poll_once(waiter.as_mut());
            }
        }
        if together {
            let failed = |answer: &Poll<_>| matches!(answer, Poll::Ready(Err(PoolError::Io { .. })));
            assert!(answers.iter().all(failed));
            assert_eq!(pool.stats().failed_loads - before.failed_loads, 1);
            return;
        }
    }
    panic!("four requests never came before one answer");
}

#[test]
fn short_and_interrupted_answers_are_continued() {
    let (pool, faults) = faulty();
    let table = pool.open(Path::new("table")).unwrap();
    faults.plan([Fault::Short(4096), Fault::Error(ErrorKind::Interrupted), Fault::Short(5000), Fault::Short(1)]);
    let read = table.read_blocking(&[0..table.len()], None).unwrap();
    assert!(read.data[0].iter().all(|&byte| byte == 5));
}

#[test]
fn an_early_end_is_an_error() {
    let (pool, faults) = faulty();
    let table = pool.open(Path::new("table")).unwrap();
    faults.plan([Fault::Short(0)]);
    let error = table.pin(0, None).unwrap_err().to_string();
    assert!(error.contains("the file ended after 0"), "{error}");
}

#[test]
fn a_storage_that_panics_fails_the_read_and_not_the_pool() {
    let (pool, faults) = faulty();
    let table = pool.open(Path::new("table")).unwrap();
    faults.plan([Fault::Panic; 20]);
    for block in 0..20 {
        assert!(table.pin(block, None).is_err());
    }
    assert_eq!(table.pin(0, None).unwrap()[0], 5, "the threads are all still there");
}

#[test]
fn failing_reads_by_many_threads_leave_no_pin_and_lose_no_frame() {
    let (pool, faults) = faulty_with(200_000);
    assert!(pool.frames() < 40, "there are evictions");
    let table = pool.open(Path::new("table")).unwrap();
    faults.plan((0..300).map(|i| if i % 3 == 0 { Fault::Error(ErrorKind::Other) } else { Fault::None }));
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let table = &table;
            scope.spawn(move || {
                for round in 0..100u64 {
                    let start = (thread * 7919 + round * 4099) % (table.len() - 20_000);
                    if let Ok(read) = table.read_blocking(&[start..start + 20_000], None) {
                        assert!(read.data[0].iter().all(|&byte| byte == 5));
                    }
                }
            });
        }
    });
    assert_eq!(pool.pinned(), 0);
    faults.clear();
    let pins: Vec<_> = (0..pool.frames()).map(|block| table.pin(block, None)).collect();
    assert!(pins.iter().all(Result::is_ok), "every frame can still be had");
}

#[test]
fn a_cancelled_pin_or_read_leaves_its_loads_to_the_pool() {
    let files = MemoryFiles::new();
    files.write("table", vec![5; 64 * PAGE as usize]);
    let model = DeclaredModel { bandwidth: u64::MAX, latency: Duration::from_millis(30), outstanding: 16 };
    let pool = pool(Device::new(files, Some(model)), 4 << 20);
    let table = pool.open(Path::new("table")).unwrap();
    {
        let pin = pin!(table.pin_async(0, None));
        assert!(poll_once(pin).is_pending());
        let read = pin!(table.read(&[4096..20_000], None));
        assert!(poll_once(read).is_pending());
    }
    let begin = Instant::now();
    while pool.stats().loads < 5 && begin.elapsed() < Duration::from_secs(20) {
        std::thread::yield_now();
    }
    assert_eq!((pool.stats().loads, pool.pinned()), (5, 0));
    assert!(poll_once(pin!(table.pin_async(4, None))).is_ready(), "it was loaded for nobody, and is there");
}

#[test]
fn a_changed_file_is_another_relation_and_readers_of_the_old_one_fail_even_on_hits() {
    let folder = tempfile::tempdir().unwrap();
    for (name, new) in [("longer", vec![2; 50_000]), ("same-size", vec![2; 40_000])] {
        let path = folder.path().join(name);
        write(&path, vec![1; 40_000]).unwrap();
        let pool = pool(Device::local(), 1 << 20);
        let old = pool.open(&path).unwrap();
        assert_eq!(pool.open(&path).unwrap().id(), old.id(), "the same generation is the same relation");
        assert_eq!(old.pin(0, None).unwrap()[0], 1);
        write(&path, &new).unwrap();
        touch(&path);
        assert_eq!(old.pin(0, None).unwrap()[0], 1, "nobody has looked yet");
        let error = old.pin(1, None).unwrap_err();
        assert!(matches!(&error, PoolError::Changed { path: named, .. } if *named == path), "{error}");
        assert!(error.to_string().contains(name), "{error}");
        assert!(matches!(old.pin(0, None), Err(PoolError::Changed { .. })), "now it is known");
        assert!(matches!(old.read_blocking(&[0..10], None), Err(PoolError::Changed { .. })));
        let now = pool.open(&path).unwrap();
        assert_ne!(now.id(), old.id());
        assert_eq!(now.read_blocking(&[0..now.len()], None).unwrap().data, [new]);
    }
}

#[test]
fn opening_a_changed_file_is_noticed_by_readers_of_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    write(&path, vec![1; 40_000]).unwrap();
    let pool = pool(Device::local(), 1 << 20);
    let old = pool.open(&path).unwrap();
    old.read_blocking(&[0..40_000], None).unwrap();
    // Replaced by another file of that name, as most writers of data files do.
    let other = folder.path().join("other");
    write(&other, vec![2; 40_000]).unwrap();
    std::fs::rename(&other, &path).unwrap();
    let now = pool.open(&path).unwrap();
    assert!(matches!(old.pin(0, None), Err(PoolError::Changed { .. })));
    assert_eq!(now.pin(0, None).unwrap()[0], 2);
}

#[test]
fn a_file_that_shrinks_grows_or_goes_while_it_is_read_fails_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    type Change = fn(&Path);
    let changes: [(&str, Change); 3] = [
        ("shrinks", |path| OpenOptions::new().write(true).open(path).unwrap().set_len(9000).unwrap()),
        ("grows", |path| OpenOptions::new().append(true).open(path).unwrap().write_all(b"more").unwrap()),
        ("goes", |path| std::fs::remove_file(path).unwrap()),
    ];
    for (name, change) in changes {
        let path = folder.path().join(name);
        write(&path, vec![1; 1_000_000]).unwrap();
        let pool = pool(Device::local(), 300_000);
        let table = pool.open(&path).unwrap();
        table.read_blocking(&[0..100_000], None).unwrap();
        change(&path);
        if path.exists() {
            touch(&path);
        }
        let error = table.read_blocking(&[0..table.len()], None).unwrap_err();
        assert!(matches!(error, PoolError::Changed { .. }) && error.to_string().contains(name), "{error}");
        assert_eq!(pool.pinned(), 0);
    }
}

#[test]
fn a_device_says_its_model_and_why_it_reads_buffered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    write(&path, vec![1; 5000]).unwrap();
    let model = DeclaredModel { bandwidth: 40_000_000, latency: Duration::from_millis(5), outstanding: 16 };
    let device = Device::declared(model);
    assert!(device.describe().starts_with("declared: 40 MB/s, 5 ms per request, 16 outstanding"), "{device:?}");
    // A read that is not aligned is one that a direct file refuses.
    let storage = device.open(&path).unwrap();
    storage.read_at(3, &mut [std::io::IoSliceMut::new(&mut [0; 10])]).unwrap();
    let buffered = matches!(storage.direct(), pagecast::storage::DirectIo::Buffered { .. });
    assert_eq!(device.describe().contains("buffered"), buffered, "{device:?}");
}

#[test]
fn a_missing_file_is_named() {
    let error = pool(Device::local(), 1 << 20).open(Path::new("/no/such/file")).unwrap_err().to_string();
    assert!(error.contains("/no/such/file"), "{error}");
}
