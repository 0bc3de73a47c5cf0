//! Pages that change: who may change what, what reaches storage, and what is said when it cannot.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use pagecast::storage::{Device, Fault, FaultStorage, Faults, MemoryFiles, WriteFault};
use pagecast::{
    DoubleWriteOptions, Format, Log, Lsn, PolicySpec, Pool, PoolError, PoolOptions, Relation, SEAL_BYTES, WriteOptions,
    WriterOptions,
};

const PAGE: usize = 4096;

/// No rounds of the background writer, so that what is written is what the test says.
const BY_HAND: WriterOptions = WriterOptions { interval: Duration::from_secs(3600), rate: 64 << 20, dirty_share: 0.0 };

/// A log that keeps nothing but how far it is.
#[derive(Default)]
struct Counter {
    end: AtomicU64,
    durable: AtomicU64,
    broken: AtomicU64,
}

impl Counter {
    fn append(&self) -> Lsn {
        Lsn(self.end.fetch_add(1, SeqCst) + 1)
    }
}

impl Log for Counter {
    fn flush_to(&self, lsn: Lsn) -> io::Result<Lsn> {
        match self.broken.load(SeqCst) {
            0 => Ok(Lsn(self.durable.fetch_max(lsn.0, SeqCst).max(lsn.0))),
            1 => Err(io::Error::other("the log's disk is full")),
            _ => Ok(Lsn(lsn.0 - 1)),
        }
    }
}

struct Setup {
    files: MemoryFiles,
    faults: Faults,
    options: PoolOptions,
}

/// A pool of about `memory` bytes over a file `table` of 64 pages of fives, whose requests meet planned faults.
fn setup(memory: u64, policy: &str) -> Setup {
    let (files, faults) = (MemoryFiles::new(), Faults::default());
    files.write("table", vec![5; 64 * PAGE]);
    let device = Device::new(FaultStorage { files: files.clone(), faults: faults.clone() }, None);
    let policy = PolicySpec::parse(policy).unwrap();
    let options = PoolOptions { memory, page_size: PAGE as u32, policy, device, writer: BY_HAND, ..Default::default() };
    Setup { files, faults, options }
}

fn raw() -> WriteOptions {
    WriteOptions::default()
}

fn sealed() -> WriteOptions {
    WriteOptions { create: true, format: Format::Sealed, ..Default::default() }
}

fn fill(pool: &Pool, table: &Arc<Relation>, block: u32, byte: u8) {
    pool.pin_mut(table, block, None).unwrap().fill(byte);
}

fn stored(files: &MemoryFiles, name: &str, block: usize) -> Vec<u8> {
    files.read(Path::new(name)).unwrap()[block * PAGE..(block + 1) * PAGE].to_vec()
}

#[test]
fn a_change_is_seen_at_once_and_on_storage_after_a_flush() {
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    fill(&pool, &table, 3, 9);
    assert_eq!(pool.pin(&table, 3, None).unwrap()[..], [9; PAGE]);
    assert_eq!(stored(&setup.files, "table", 3), [5; PAGE], "nothing is written before it has to be");
    assert_eq!((pool.dirty(), pool.flush().unwrap().pages, pool.dirty()), (1, 1, 0));
    assert_eq!(stored(&setup.files, "table", 3), [9; PAGE]);
    assert_eq!(pool.flush().unwrap().pages, 0);
    table.verify().unwrap();
    assert_eq!(pool.open(Path::new("table")).unwrap().id(), table.id(), "our own writes leave it the same relation");
}

#[test]
fn neighbours_are_written_together_and_a_page_is_not_dirty_for_being_looked_at() {
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    for block in [7, 5, 6, 20, 4] {
        fill(&pool, &table, block, 1);
    }
    assert_eq!(pool.pin_mut(&table, 30, None).unwrap()[0], 5);
    let written = pool.flush().unwrap();
    assert_eq!((written.pages, written.requests), (5, 2));
    assert_eq!((pool.stats().pages_written, pool.stats().failed_writes, pool.device().stats().syncs), (5, 0, 1));
}

#[test]
fn dirty_pages_are_written_when_they_have_to_leave_under_every_policy() {
    for name in ["clock", "lru", "pbm", "random", "2q", "lirs", "arc", "w-tinylfu", "s3-fifo", "watt", "cflru", "cfdc"]
    {
        let setup = setup(160_000, name);
        let pool = Pool::new(setup.options).unwrap();
        assert!(pool.frames() < 32, "{name}: there are evictions");
        let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
        for round in 1..4u8 {
            for block in 0..64 {
                let mut page = pool.pin_mut(&table, block, None).unwrap();
                assert_eq!(page[0], if round == 1 { 5 } else { round - 1 }, "{name}: block {block} in round {round}");
                page.fill(round);
            }
        }
        pool.flush().unwrap();
        assert!(setup.files.read(Path::new("table")).unwrap().iter().all(|&byte| byte == 3), "{name}");
        assert_eq!((pool.pinned(), pool.dirty()), (0, 0));
    }
}

#[test]
fn no_page_is_written_before_its_log() {
    let mut setup = setup(1 << 20, "lru");
    let log = Arc::new(Counter::default());
    setup.options.log = Some(log.clone());
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    for block in 0..5 {
        let mut page = pool.pin_mut(&table, block, None).unwrap();
        page.fill(1);
        page.logged(log.append());
        assert_eq!(page.lsn(), Lsn(u64::from(block) + 1));
    }
    assert_eq!(log.durable.load(SeqCst), 0);
    assert_eq!(pool.checkpoint(Lsn(3)).unwrap().pages, 2, "those whose first change is before record 3");
    assert_eq!(log.durable.load(SeqCst), 2);
    for (broken, word) in [(1, "disk is full"), (2, "durable up to log record 4 only")] {
        log.broken.store(broken, SeqCst);
        let error = pool.flush().unwrap_err();
        assert!(matches!(error, PoolError::Log { lsn: Lsn(5), .. }), "{error}");
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(stored(&setup.files, "table", 4), [5; PAGE]);
        assert_eq!(pool.dirty(), 3, "they wait in the pool");
    }
    log.broken.store(0, SeqCst);
    assert_eq!(pool.flush().unwrap().pages, 3);
}

#[test]
fn a_checkpoint_goes_by_the_first_unwritten_change() {
    let mut setup = setup(1 << 20, "lru");
    let log = Arc::new(Counter::default());
    setup.options.log = Some(log.clone());
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    for block in [0, 1, 0] {
        let mut page = pool.pin_mut(&table, block, None).unwrap();
        page.fill(1);
        page.logged(log.append());
    }
    assert_eq!(pool.checkpoint(Lsn(1)).unwrap().pages, 0);
    assert_eq!(pool.checkpoint(Lsn(2)).unwrap().pages, 1, "block 0, although its last change is record 3");
    assert_eq!(pool.dirty(), 1);
}

#[test]
fn a_change_without_a_record_is_never_written() {
    for panics in [false, true] {
        let mut setup = setup(1 << 20, "lru");
        let log = Arc::new(Counter::default());
        setup.options.log = Some(log.clone());
        let pool = Pool::new(setup.options).unwrap();
        let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
        let forget = std::panic::AssertUnwindSafe(|| {
            let mut page = pool.pin_mut(&table, 7, None).unwrap();
            page[0] = 1;
            page.logged(log.append());
            page[1] = 2;
            assert!(!panics, "in the middle of a change");
        });
        assert_eq!(std::panic::catch_unwind(forget).is_err(), panics);
        let error = pool.flush().unwrap_err();
        assert!(
            matches!(&error, PoolError::ReadOnly { cause } if matches!(**cause, PoolError::Unlogged { block: 7, .. }))
        );
        assert!(error.to_string().contains("table: page 7"), "{error}");
        assert!(matches!(pool.pin_mut(&table, 8, None), Err(PoolError::ReadOnly { .. })));
        assert_eq!(pool.pin(&table, 8, None).unwrap()[0], 5, "pages can still be read");
        assert_eq!(stored(&setup.files, "table", 7), [5; PAGE]);
    }
}

#[test]
fn a_failed_sync_ends_all_writing() {
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    fill(&pool, &table, 1, 1);
    setup.faults.plan_syncs([WriteFault::Error(ErrorKind::StorageFull)]);
    let error = pool.flush().unwrap_err();
    assert!(matches!(&error, PoolError::ReadOnly { cause } if matches!(**cause, PoolError::Sync { .. })), "{error}");
    assert!(error.to_string().contains("table"), "{error}");
    for again in [pool.flush().err(), pool.close().err(), pool.pin_mut(&table, 1, None).err()] {
        assert!(matches!(again, Some(PoolError::ReadOnly { .. })), "a later sync that works does not hide it");
    }
    assert_eq!(pool.pin(&table, 1, None).unwrap()[0], 1);
}

#[test]
fn a_failed_write_leaves_its_pages_dirty_and_names_the_file() {
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    [1, 2, 9].into_iter().for_each(|block| fill(&pool, &table, block, 1));
    setup.faults.plan_writes([WriteFault::Torn(5000)]);
    let error = pool.flush().unwrap_err();
    assert!(matches!(&error, PoolError::Write { offset: 4096, len: 8192, .. }), "{error}");
    assert!(error.to_string().contains("table"), "{error}");
    assert_eq!((pool.dirty(), pool.snapshot().frames.unwritten), (2, 2), "the other request was made");
    assert_eq!((pool.stats().pages_written, pool.stats().failed_writes), (1, 2));
    setup.faults.plan_writes([
        WriteFault::Short(1),
        WriteFault::Error(ErrorKind::Interrupted),
        WriteFault::Short(5000),
    ]);
    assert_eq!(pool.flush().unwrap().pages, 2);
    assert_eq!(stored(&setup.files, "table", 2), [1; PAGE]);
    setup.faults.plan_writes([WriteFault::Panic]);
    fill(&pool, &table, 1, 2);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pool.flush())).is_err());
    assert_eq!((pool.dirty(), pool.flush().unwrap().pages), (1, 1));
}

#[test]
fn when_nothing_can_be_written_a_pin_says_why_and_a_read_goes_past() {
    let setup = setup(160_000, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    (0..pool.frames()).for_each(|block| fill(&pool, &table, block, 1));
    setup.faults.plan_writes([WriteFault::Error(ErrorKind::StorageFull); 200]);
    let error = pool.pin(&table, 63, None).unwrap_err();
    assert!(matches!(&error, PoolError::Write { .. }), "{error}");
    let last = 63 * PAGE as u64..64 * PAGE as u64;
    let read = pool.read_blocking(&table, std::slice::from_ref(&last), None).unwrap();
    assert_eq!((read.data[0][0], read.stats.bypassed_bytes), (5, PAGE as u64));
    setup.faults.clear();
    assert_eq!(pool.pin(&table, 63, None).unwrap()[0], 5);
}

#[test]
fn a_writer_waits_for_readers_and_they_for_him() {
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    let reader = pool.pin(&table, 0, None).unwrap();
    std::thread::scope(|scope| {
        let (asked, wait) = mpsc::channel();
        let writer = scope.spawn({
            let (pool, table) = (&pool, &table);
            move || {
                asked.send(()).unwrap();
                fill(pool, table, 0, 8);
            }
        });
        wait.recv().unwrap();
        assert_eq!(reader[..], [5; PAGE]);
        drop(reader);
        writer.join().unwrap();
    });
    let page = pool.pin_mut(&table, 0, None).unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| pool.pin(&table, 0, None).unwrap()[0]);
        let mut page = page;
        page.fill(9);
        let kept = page.downgrade().unwrap();
        assert_eq!(other.join().unwrap(), 9, "a pin to read is shared with others");
        assert_eq!(kept[0], 9);
    });
    assert_eq!(pool.pinned(), 0);
}

#[test]
fn a_cancelled_wish_lets_readers_go_on() {
    use std::future::Future;
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    let reader = pool.pin(&table, 0, None).unwrap();
    let mut wish = Box::pin(pool.pin_mut_async(&table, 0, None));
    assert!(wish.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending());
    drop(wish);
    assert_eq!(pool.pin(&table, 0, None).unwrap()[0], 5);
    drop(reader);
    fill(&pool, &table, 0, 1);
    assert_eq!(pool.pinned(), 0);
}

#[test]
fn many_threads_add_up() {
    for name in ["clock", "lru", "pbm"] {
        let setup = setup(160_000, name);
        let pool = Pool::new(PoolOptions {
            writer: WriterOptions { interval: Duration::from_millis(1), rate: 1 << 30, dirty_share: 0.1 },
            ..setup.options
        })
        .unwrap();
        let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..6u64 {
                let (pool, table) = (&pool, &table);
                scope.spawn(move || {
                    for step in 0..400u64 {
                        let block = ((thread * 7919 + step * 31) % 64) as u32;
                        if step % 3 == 0 {
                            let page = pool.pin(table, block, None).unwrap();
                            assert_eq!(page[..8], page[PAGE - 8..], "a page is read while it is changed");
                        }
                        let mut page = pool.pin_mut(table, block, None).unwrap();
                        let count = u64::from_le_bytes(page[..8].try_into().unwrap()) + 1;
                        page[..8].copy_from_slice(&count.to_le_bytes());
                        page[PAGE - 8..].copy_from_slice(&count.to_le_bytes());
                        if step % 100 == 7 {
                            drop(page);
                            pool.flush().unwrap();
                        }
                    }
                });
            }
        });
        pool.close().unwrap();
        let bytes = setup.files.read(Path::new("table")).unwrap();
        let fives = u64::from_le_bytes([5; 8]);
        let sum: u64 =
            bytes.chunks(PAGE).map(|page| u64::from_le_bytes(page[..8].try_into().unwrap()).wrapping_sub(fives)).sum();
        assert_eq!(sum, 2400, "{name}: an update was lost");
        assert_eq!((pool.pinned(), pool.dirty()), (0, 0), "{name}");
        pool.check();
    }
}

#[test]
fn the_background_writer_keeps_to_its_share_and_its_rate() {
    let mut setup = setup(1 << 20, "lru");
    setup.options.writer.dirty_share = 0.1;
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    (0..64).for_each(|block| fill(&pool, &table, block, 1));
    let allowed = pool.frames() / 10;
    assert!(allowed < 60, "there is something to do");
    assert_eq!(pool.write_back(0).unwrap().pages, 0);
    assert_eq!(pool.write_back(1 << 30).unwrap().pages, 64, "neighbours come along");
    (0..64).step_by(2).for_each(|block| fill(&pool, &table, block, 2));
    assert_eq!(pool.write_back(3 * PAGE as u64).unwrap().pages, 3);
    assert_eq!(pool.write_back(1 << 30).unwrap().pages, 29 - u64::from(allowed));
    assert_eq!(pool.write_back(1 << 30).unwrap().pages, 0);
    assert_eq!(pool.dirty(), allowed);
}

#[test]
fn a_closed_pool_is_read_only_and_all_on_storage() {
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    fill(&pool, &table, 1, 1);
    pool.close().unwrap();
    assert_eq!(stored(&setup.files, "table", 1), [1; PAGE]);
    assert!(matches!(pool.pin_mut(&table, 1, None), Err(PoolError::Closed)));
    assert!(matches!(pool.grow(&table, 1), Err(PoolError::Closed)));
    assert!(matches!(pool.open_to_write(Path::new("table"), &raw()), Err(PoolError::Closed)));
    assert_eq!(pool.pin(&table, 1, None).unwrap()[0], 1);
    pool.close().unwrap();
}

#[test]
fn a_file_grows_by_pages_of_zeros() {
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("new"), &sealed()).unwrap();
    assert!(matches!(pool.pin_mut(&table, 0, None), Err(PoolError::OutOfBounds { .. })));
    assert_eq!((pool.grow(&table, 3).unwrap(), pool.grow(&table, 2).unwrap(), table.pages()), (0, 3, 5));
    let mut page = pool.pin_mut(&table, 4, None).unwrap();
    assert_eq!(page[..], [0; PAGE - SEAL_BYTES as usize]);
    assert_eq!(page.lsn(), Lsn::NONE);
    page.fill(3);
    page.logged(Lsn(12));
    drop(page);
    pool.flush().unwrap();
    let again = Pool::new(PoolOptions { device: pool.device().clone(), ..setup_like(&pool) }).unwrap();
    let table = again.open_to_write(Path::new("new"), &sealed()).unwrap();
    let page = again.pin(&table, 4, None).unwrap();
    assert_eq!((page[0], page.lsn(), page.len()), (3, Lsn(12), PAGE - SEAL_BYTES as usize));
    let ranges = std::slice::from_ref(&(0..10));
    assert!(matches!(again.read_blocking(&table, ranges, None), Err(PoolError::Sealed { .. })));
}

fn setup_like(pool: &Pool) -> PoolOptions {
    PoolOptions { memory: 1 << 20, page_size: pool.page_size(), writer: BY_HAND, ..Default::default() }
}

#[test]
fn damaged_misplaced_and_lost_pages_are_named() {
    let setup = setup(1 << 20, "lru");
    let pool = Pool::new(setup.options.clone()).unwrap();
    let table = pool.open_to_write(Path::new("new"), &sealed()).unwrap();
    pool.grow(&table, 4).unwrap();
    (0..4).for_each(|block| fill(&pool, &table, block, block as u8));
    pool.close().unwrap();
    let mut bytes = setup.files.read(Path::new("new")).unwrap().to_vec();
    bytes[PAGE + 100] ^= 4;
    bytes.copy_within(3 * PAGE.., 2 * PAGE);
    setup.files.write("new", bytes);
    let pool = Pool::new(setup.options).unwrap();
    let table = pool.open_to_write(Path::new("new"), &sealed()).unwrap();
    assert_eq!(pool.pin(&table, 0, None).unwrap()[0], 0);
    let error = pool.pin(&table, 1, None).unwrap_err();
    assert!(matches!(error, PoolError::Checksum { block: 1, .. }), "{error}");
    assert!(error.to_string().starts_with("new: page 1"), "{error}");
    let error = pool.pin(&table, 2, None).unwrap_err();
    assert!(matches!(error, PoolError::Misplaced { block: 2, found: 3, .. }), "{error}");
    setup.faults.plan([Fault::Error(ErrorKind::Other)]);
    assert!(matches!(pool.pin_mut(&table, 3, None), Err(PoolError::Io { .. })));
    assert_eq!(pool.pin_mut(&table, 3, None).unwrap()[0], 3);
}

#[test]
fn files_that_are_not_what_is_said_are_refused() {
    let setup = setup(1 << 20, "lru");
    setup.files.write("odd", vec![0; PAGE + 1]);
    let pool = Pool::new(setup.options.clone()).unwrap();
    let refused = |name: &str, options: WriteOptions| {
        let error = pool.open_to_write(Path::new(name), &options).unwrap_err();
        assert!(error.to_string().starts_with(name), "{error}");
        error
    };
    assert!(matches!(refused("odd", raw()), PoolError::PartialPage { len: 4097, .. }));
    let more = WriteOptions { pages: 65, ..raw() };
    assert!(matches!(refused("table", more), PoolError::Shorter { pages: 64, declared: 65, .. }));
    assert!(matches!(refused("none", raw()), PoolError::Open { .. }));
    let readable = pool.open(Path::new("table")).unwrap();
    assert!(matches!(pool.pin_mut(&readable, 0, None), Err(PoolError::NotWritable { .. })));
    assert!(matches!(pool.grow(&readable, 1), Err(PoolError::NotWritable { .. })));
    let table = pool.open_to_write(Path::new("table"), &raw()).unwrap();
    assert!(matches!(pool.pin(&readable, 0, None), Err(PoolError::Changed { .. })), "it is another relation now");
    drop(table);

    for (ours, theirs) in [(8192, 4096), (4096, 16384)] {
        let options = |page_size| PoolOptions { page_size, ..setup.options.clone() };
        let pool = Pool::new(options(ours)).unwrap();
        let name = format!("of {ours}");
        let table = pool.open_to_write(Path::new(&name), &sealed()).unwrap();
        pool.grow(&table, 8).unwrap();
        (0..8).for_each(|block| fill(&pool, &table, block, 1));
        pool.close().unwrap();
        let error = Pool::new(options(theirs)).unwrap().open_to_write(Path::new(&name), &sealed()).unwrap_err();
        assert!(matches!(error, PoolError::OtherPageSize { given, found, .. } if (given, found) == (theirs, ours)));
    }
}

#[test]
fn a_torn_page_is_whole_again_after_a_double_write() {
    let setup = setup(1 << 20, "lru");
    let options = PoolOptions { double_write: Some(DoubleWriteOptions::new("area")), ..setup.options.clone() };
    let pool = Pool::new(options.clone()).unwrap();
    let table = pool.open_to_write(Path::new("new"), &sealed()).unwrap();
    pool.grow(&table, 4).unwrap();
    (0..4).for_each(|block| fill(&pool, &table, block, 1));
    pool.flush().unwrap();
    (1..3).for_each(|block| fill(&pool, &table, block, 2));
    setup.faults.plan_writes([WriteFault::None, WriteFault::Torn(PAGE + 512)]);
    pool.flush().unwrap_err();
    drop(pool);
    let without = Pool::new(setup.options.clone()).unwrap();
    let table = without.open_to_write(Path::new("new"), &sealed()).unwrap();
    assert!(matches!(without.pin(&table, 2, None), Err(PoolError::Checksum { block: 2, .. })));
    drop(without);
    let pool = Pool::new(options).unwrap();
    let table = pool.open_to_write(Path::new("new"), &sealed()).unwrap();
    let firsts: Vec<_> = (0..4).map(|block| pool.pin(&table, block, None).unwrap()[0]).collect();
    assert_eq!(firsts, [1, 2, 2, 1]);
}

#[test]
fn local_files_are_written_past_the_cache_and_by_one_pool_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    for device in [Device::local(), Device::uring()] {
        let options = PoolOptions {
            double_write: Some(DoubleWriteOptions::new(folder.path().join("area"))),
            device,
            ..setup(1 << 20, "lru").options
        };
        let pool = Pool::new(options.clone()).unwrap();
        println!("{}", pool.device().describe());
        let table = pool.open_to_write(&path, &sealed()).unwrap();
        let first = pool.grow(&table, 100).unwrap();
        for block in first..first + 100 {
            let mut page = pool.pin_mut(&table, block, None).unwrap();
            page.fill(block as u8);
            page.logged(Lsn(u64::from(block) + 1));
        }
        let written = pool.flush().unwrap();
        assert_eq!(written.requests, 1, "neighbours are one request");
        fill(&pool, &table, first, 77);
        pool.close().unwrap();
        table.verify().unwrap();

        let other = Pool::new(PoolOptions { double_write: None, device: Device::local(), ..options }).unwrap();
        let refused = other.open_to_write(&path, &sealed()).unwrap_err();
        assert!(refused.to_string().contains("somebody else has it open to write"), "{refused}");
        drop((table, pool));
        // The threads of the first pool let go of the file when they end.
        let table = loop {
            match other.open_to_write(&path, &sealed()) {
                Ok(table) => break table,
                Err(_) => std::thread::yield_now(),
            }
        };
        assert_eq!(table.pages(), first + 100);
        for block in first + 1..first + 100 {
            let page = other.pin(&table, block, None).unwrap();
            assert_eq!((page[0], page.lsn()), (block as u8, Lsn(u64::from(block) + 1)));
        }
        assert_eq!(other.pin(&table, first, None).unwrap()[100], 77);
    }
}
