//! What a user sees on an ordinary day.
#![allow(clippy::unwrap_used)]

use pagecast::storage::{Device, MemoryFiles};
use pagecast_core::random::Random;
use pagecast_kv::{Batch, Error, Options, Store};

fn in_memory(files: &MemoryFiles) -> Options {
    Options::default().memory(1 << 20).log_size(256 << 10).device(Device::new(files.clone(), None))
}

fn key(number: u32) -> Vec<u8> {
    format!("{number:010}").into_bytes()
}

#[test]
fn a_thousand_entries_come_back_in_order_and_after_reopening() {
    let files = MemoryFiles::new();
    let store = Store::open("s", in_memory(&files)).unwrap();
    let mut random = Random::new(1);
    let mut numbers: Vec<u32> = (0..5_000).map(|_| random.below(1 << 30)).collect();
    for &number in &numbers {
        store.put(&key(number), &number.to_le_bytes().repeat(60)).unwrap();
    }
    numbers.sort_unstable();
    numbers.dedup();
    let check = |store: &Store| {
        let found = store.check().unwrap();
        assert_eq!((found.entries, found.height), (numbers.len() as u64, 3), "{found}");
        let forward: Vec<_> = store.iter().map(|entry| entry.unwrap().0).collect();
        assert!(forward.iter().eq(numbers.iter().map(|&number| key(number)).collect::<Vec<_>>().iter()));
        let mut backward: Vec<_> = store.iter().rev().map(|entry| entry.unwrap().0).collect();
        backward.reverse();
        assert!(forward == backward);
        assert_eq!(store.get(&key(numbers[7])).unwrap().unwrap(), numbers[7].to_le_bytes().repeat(60));
        assert_eq!(store.get(b"absent").unwrap(), None);
    };
    check(&store);
    drop(store);
    let store = Store::open("s", in_memory(&files)).unwrap();
    check(&store);
    store.close().unwrap();
    let store = Store::open("s", in_memory(&files)).unwrap();
    check(&store);
    for &number in &numbers {
        assert!(store.delete(&key(number)).unwrap());
    }
    let found = store.check().unwrap();
    assert_eq!((found.entries, found.height, found.leaves, found.inner), (0, 1, 1, 0), "{found}");
    let used = found.free;
    numbers.iter().for_each(|&number| store.put(&key(number), b"again").unwrap());
    let found = store.check().unwrap();
    assert!(found.leaves + found.inner + found.free == used + 1, "free pages are used again: {found}");
}

#[test]
fn keys_that_come_in_order_fill_their_pages() {
    let store = Store::open("s", in_memory(&MemoryFiles::new()).sync_commits(false)).unwrap();
    (0..3_000).for_each(|number| store.put(&key(number), &[7; 100]).unwrap());
    let found = store.check().unwrap();
    // 4,060 bytes of a page, 116 an entry.
    assert_eq!(found.leaves, 3_000u32.div_ceil(4_060 / 116), "{found}");
}

/// What the pool knows of a range while it is read, in both directions.
#[test]
fn a_long_range_is_a_scan_that_reads_ahead() {
    let files = MemoryFiles::new();
    let store = Store::open("s", in_memory(&files).sync_commits(false)).unwrap();
    (0..4_000).for_each(|number| store.put(&key(number), &[7; 100]).unwrap());
    store.close().unwrap();
    for backward in [false, true] {
        let store = Store::open("s", in_memory(&files)).unwrap();
        let mut range = store.iter();
        let mut read = |count: usize| {
            let next = |_| if backward { range.next_back() } else { range.next() };
            (0..count).map_while(next).map(Result::unwrap).count()
        };
        assert_eq!(read(100), 100);
        assert!(store.pool().scans().is_empty(), "a short one is not registered");
        assert_eq!(read(200), 200);
        let scans = store.pool().scans();
        assert!(scans.len() == 1 && scans[0].position < scans[0].length, "{scans:?}");
        assert_eq!(read(10_000), 4_000 - 300);
        drop(range);
        assert!(store.pool().scans().is_empty());
        let stats = store.pool().stats();
        assert!(stats.prefetched > 40 && stats.prefetch_wasted < 10, "{stats:?}");
    }
}

#[test]
fn what_is_too_large_is_refused_with_the_limit() {
    let store = Store::open("s", in_memory(&MemoryFiles::new())).unwrap();
    assert!(matches!(store.put(&[1; 600], b""), Err(Error::KeyTooLong { length: 600, limit: 509 })));
    assert!(matches!(store.put(b"k", &[1; 3000]), Err(Error::EntryTooLarge { length: 3001, limit: 2024 })));
    // The largest ones, in every order.
    for number in [3, 1, 2, 0, 5, 4] {
        store.put(&[number], &vec![number; 2023]).unwrap();
        store.put(&[number, 1], b"small").unwrap();
    }
    assert_eq!(store.check().unwrap().entries, 12);
    assert_eq!(store.get(&[2]).unwrap().unwrap(), vec![2; 2023]);

    let mut batch = Batch::new();
    for number in 0..200u32 {
        batch.put(&number.to_be_bytes(), &[1; 2000]);
    }
    let error = store.write(&batch).unwrap_err();
    assert!(matches!(error, Error::BatchTooLarge { unit: "bytes of the log", .. }), "{error}");
    assert_eq!(store.check().unwrap().entries, 12, "nothing of it was done");
}

#[test]
fn a_batch_is_made_whole() {
    let store = Store::open("s", in_memory(&MemoryFiles::new())).unwrap();
    store.put(b"a", b"1").unwrap();
    let mut batch = Batch::new();
    batch.put(b"b", b"2").delete(b"a").put(b"c", b"3").delete(b"c");
    store.write(&batch).unwrap();
    let entries: Vec<_> = store.iter().collect::<Result<_, _>>().unwrap();
    assert_eq!(entries, [(b"b".to_vec(), b"2".to_vec())]);
    store.write(&Batch::new()).unwrap();
}

#[test]
fn a_store_is_opened_by_one_only() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    let error = Store::open(folder.path(), Options::default()).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    drop(store);
    Store::open(folder.path(), Options::default()).unwrap();
}

#[test]
fn foreign_files_and_stores_of_other_formats_are_refused_by_name() {
    for (name, bytes) in
        [("data", vec![7; 5000]), ("data", vec![7; 8192]), ("log.0", b"text".to_vec()), ("log.1", vec![1; 9000])]
    {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(name), bytes).unwrap();
        let error = Store::open(folder.path(), Options::default()).unwrap_err();
        assert!(matches!(error, Error::Foreign { .. }) && error.to_string().contains(name), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    Store::open(folder.path(), Options::default()).unwrap().close().unwrap();
    let path = folder.path().join("log.0");
    let mut log = std::fs::read(&path).unwrap();
    let mut open_as = |format: u8| {
        log[8] = format;
        std::fs::write(&path, &log).unwrap();
        Store::open(folder.path(), Options::default())
    };
    let error = open_as(9).unwrap_err();
    assert!(matches!(error, Error::Newer { found: 9, known: 3, .. }) && error.to_string().contains("log.0"), "{error}");
    let error = open_as(1).unwrap_err();
    assert!(matches!(error, Error::Older { found: 1, known: 3, .. }) && error.to_string().contains("log.0"), "{error}");
    // Nothing of the store was touched.
    open_as(3).unwrap().close().unwrap();
}
