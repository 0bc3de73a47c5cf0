//! A disk that is full: what is said, what is kept, and that all goes on when there is room again.
#![cfg(all(target_os = "linux", not(pagecast_shuttle)))]
#![allow(clippy::unwrap_used)]

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pagecast::warm::WarmError;
use pagecast::{DoubleWriteOptions, Format, Pool, PoolError, PoolOptions, Relation, WriteOptions, WriterOptions};

mod small_disk_unsafe;

const PAGE: usize = 4096;
/// Bytes of the small disk.
const DISK: u64 = 1 << 20;
const PAGES: u32 = 512;

/// Runs a test with a folder on a small disk, and one on an ordinary disk.
fn with_a_small_disk(test: impl FnOnce(&Path, &Path) + Send) {
    let (small, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::thread::scope(|scope| {
        let test = || match small_disk_unsafe::mount(small.path(), DISK) {
            Ok(()) => test(small.path(), other.path()),
            // Past the capture of a test's output, so that nobody takes it for passed.
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "skipped: no small disk can be mounted here: {error}");
            }
        };
        scope.spawn(test);
    });
}

fn options(double_write: Option<&Path>) -> PoolOptions {
    // No rounds of the background writer, so that what is written is what the test says.
    let writer = WriterOptions::default().interval(Duration::from_secs(3600));
    let double_write = double_write.map(|area| DoubleWriteOptions::new(area).folder("/"));
    PoolOptions::default().memory(8 << 20).page_size(PAGE as u32).double_write(double_write).writer(writer)
}

/// Files of a pool that has gone are free as soon as its threads have gone, too.
fn when_free<T>(mut open: impl FnMut() -> Result<T, PoolError>) -> T {
    for _ in 0..1_000 {
        match open() {
            Err(PoolError::Open { source, .. }) if source.kind() == ErrorKind::ResourceBusy => {}
            opened => return opened.unwrap(),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the files stay busy");
}

fn start(double_write: Option<&Path>) -> Pool {
    when_free(|| Pool::new(options(double_write)))
}

fn open(pool: &Pool, path: &Path) -> Relation {
    let sealed = WriteOptions::default().create(true).format(Format::Sealed);
    let table = when_free(|| pool.open_to_write(path, &sealed));
    if table.pages() < PAGES {
        table.grow(PAGES - table.pages()).unwrap();
    }
    table
}

fn fill(table: &Relation, pages: u32, byte: u8) {
    (0..pages).for_each(|block| table.pin_mut(block, None).unwrap()[..100].fill(byte));
}

fn check(table: &Relation, pages: u32, byte: u8) {
    (0..pages).for_each(|block| assert_eq!(table.pin(block, None).unwrap()[..100], [byte; 100], "page {block}"));
}

/// Leaves no room, until the file is removed.
fn ballast(folder: &Path) -> PathBuf {
    let path = folder.join("ballast");
    let written = std::fs::write(&path, vec![1; 2 * DISK as usize]).unwrap_err();
    assert_eq!(written.kind(), ErrorKind::StorageFull);
    path
}

fn is_full(error: &PoolError, named: &Path) -> bool {
    matches!(error, PoolError::Write { path, source, .. } if path == named && source.kind() == ErrorKind::StorageFull)
}

#[test]
fn a_list_of_hot_pages_is_written_whole_or_not_at_all() {
    with_a_small_disk(|small, other| {
        let pool = start(None);
        let table = open(&pool, &other.join("table"));
        fill(&table, PAGES, 1);
        pool.close().unwrap();
        let hot = small.join("hot");
        assert_eq!(pool.dump_hottest(&hot, 100).unwrap(), 100);
        let before = std::fs::read(&hot).unwrap();

        let ballast = ballast(small);
        let error = pool.dump_hottest(&hot, usize::MAX).unwrap_err();
        let WarmError::Io { path, source, .. } = &error else { panic!("{error}") };
        assert_eq!((path, source.kind()), (&hot, ErrorKind::StorageFull), "{error}");
        assert!(std::fs::read(&hot).unwrap() == before, "the old list is whole");
        let names: Vec<_> = std::fs::read_dir(small).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "half a file is left: {names:?}");
        check(&table, PAGES, 1);

        std::fs::remove_file(ballast).unwrap();
        assert_eq!(pool.dump_hottest(&hot, usize::MAX).unwrap(), u64::from(PAGES));
        drop((table, pool));
        let pool = start(None);
        let _table = pool.open(&other.join("table")).unwrap();
        assert_eq!(pool.reload(&hot).unwrap().wait().loaded, u64::from(PAGES));
    });
}

#[test]
fn pages_that_do_not_fit_on_the_disk_stay_dirty_in_the_pool() {
    with_a_small_disk(|small, _| {
        let pool = start(None);
        let path = small.join("table");
        let table = open(&pool, &path);
        let ballast = ballast(small);
        fill(&table, 100, 1);
        let error = pool.flush().unwrap_err();
        assert!(is_full(&error, &path), "{error}");
        assert_eq!(pool.dirty(), 100);
        check(&table, 100, 1);
        fill(&table, 100, 2);

        std::fs::remove_file(ballast).unwrap();
        assert_eq!(pool.flush().unwrap().pages, 100);
        drop((table, pool));
        let pool = start(None);
        check(&open(&pool, &path), 100, 2);
    });
}

#[test]
fn nothing_is_written_in_place_whose_copy_found_no_room() {
    with_a_small_disk(|small, other| {
        let (area, path) = (small.join("area"), other.join("table"));
        let pool = start(Some(&area));
        let table = open(&pool, &path);
        fill(&table, 100, 1);
        pool.flush().unwrap();
        let before = std::fs::read(&path).unwrap();

        // Twice as many bytes of copies as the disk has room for, at once: however the area begins,
        // they do not fit.
        fill(&table, PAGES, 2);
        let error = pool.flush().unwrap_err();
        assert!(is_full(&error, &area), "{error}");
        assert_eq!(pool.dirty(), PAGES);
        assert!(std::fs::read(&path).unwrap() == before, "a page was written without its copy");
        check(&table, PAGES, 2);
        // A crash now finds nothing torn, and whole copies at most of what the log has anyway.
        drop((table, pool));
        std::fs::remove_file(&area).unwrap();
        let pool = start(Some(&area));
        check(&open(&pool, &path), 100, 1);
    });
}

#[test]
fn a_disk_that_is_smaller_than_the_area_lets_it_begin_anew_early() {
    with_a_small_disk(|small, other| {
        let (area, path) = (small.join("area"), other.join("table"));
        let pool = start(Some(&area));
        let table = open(&pool, &path);
        for byte in 1..=9 {
            fill(&table, 100, byte);
            assert_eq!(pool.flush().unwrap().pages, 100, "{byte}");
        }
        assert!(std::fs::metadata(&area).unwrap().len() <= DISK);
        drop((table, pool));
        let pool = start(Some(&area));
        check(&open(&pool, &path), 100, 9);
    });
}
