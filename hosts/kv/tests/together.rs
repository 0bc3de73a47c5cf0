//! Many threads at once, and two processes.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use pagecast::TupleOptions;
use pagecast::storage::{DeclaredModel, Device, MemoryFiles};
use pagecast_core::random::Random;
use pagecast_kv::{Batch, Error, Options, Store};

const FOLDER_OF_THE_OTHER: &str = "PAGECAST_KV_OPENED_ELSEWHERE";

/// Splits, merges and evictions all the time. Each value says whose it is and how often it was
/// written; a reader never sees an older one than before, nor half of one. Two keys of one batch
/// have the same number for whoever reads the second one after the first.
#[test]
fn readers_and_writers_see_whole_entries_that_only_get_newer() {
    for tuples in [false, true] {
        let options = Options::default().memory(300_000).log_size(256 << 10).sync_commits(false);
        let tuples = tuples.then(|| TupleOptions::default().learn(false));
        let store = Store::open("s", options.tuples(tuples).device(Device::new(MemoryFiles::new(), None))).unwrap();
        let (is_over, found) = (AtomicBool::new(false), AtomicU32::new(0));
        let pair = |number: u32| [format!("{number:05}-one"), format!("{:05}-two", 9_999 - number)];
        let value = |owner: &str, count: u32| {
            let mut value = format!("{owner}/{count:08}/").into_bytes();
            value.resize(60 + (count % 200) as usize, b'.');
            value
        };
        let count_of = |owner: &str, value: &[u8]| {
            let text = std::str::from_utf8(value).unwrap();
            let mut parts = text.split('/');
            assert_eq!(parts.next(), Some(owner));
            let count = parts.next().unwrap().parse::<u32>().unwrap();
            assert_eq!(value.len(), 60 + (count % 200) as usize);
            count
        };
        std::thread::scope(|scope| {
            for writer in 0..2u32 {
                let (store, is_over) = (&store, &is_over);
                scope.spawn(move || {
                    let mut random = Random::new(writer.into());
                    for count in 1..=2_500 {
                        let number = random.below(1_000) * 2 + writer;
                        let [one, two] = pair(number);
                        let mut batch = Batch::new();
                        if random.below(4) == 0 {
                            batch.delete(one.as_bytes()).delete(two.as_bytes());
                        } else {
                            batch.put(one.as_bytes(), &value(&one, count)).put(two.as_bytes(), &value(&two, count));
                        }
                        store.write(&batch).unwrap();
                    }
                    is_over.store(true, SeqCst);
                });
            }
            for reader in 0..3u64 {
                let (store, is_over, found) = (&store, &is_over, &found);
                scope.spawn(move || {
                    let mut random = Random::new(100 + reader);
                    while !is_over.load(SeqCst) {
                        let [one, two] = pair(random.below(2_000));
                        let first = store.get(one.as_bytes()).unwrap().map(|value| count_of(&one, &value));
                        let second = store.get(two.as_bytes()).unwrap().map(|value| count_of(&two, &value));
                        if let (Some(first), Some(second)) = (first, second) {
                            assert!(second >= first, "a batch was seen in part: {first}, then {second}");
                            found.fetch_add(1, SeqCst);
                        }
                        let from = format!("{:05}", random.below(9_999));
                        let keys: Vec<_> = if reader == 0 {
                            let mut keys: Vec<_> =
                                store.range(..from.as_bytes()).rev().take(300).map(|entry| entry.unwrap().0).collect();
                            keys.reverse();
                            keys
                        } else {
                            store.range(from.as_bytes()..).take(300).map(|entry| entry.unwrap().0).collect()
                        };
                        assert!(keys.is_sorted_by(|one, next| one < next));
                    }
                });
            }
        });
        let statistics = store.check().unwrap();
        assert!(found.load(SeqCst) > 20 && statistics.entries > 500, "{} pairs, {statistics}", found.load(SeqCst));
        assert_eq!(store.iter().count() as u64, statistics.entries);
        let stats = store.pool().stats();
        println!("{} evictions", stats.evictions);
        assert!(stats.evictions > 0, "{stats:?}");
    }
}

#[test]
fn commits_of_many_threads_share_their_flushes() {
    // A device on which a write takes long enough for the others to come.
    let slow = DeclaredModel { bandwidth: 1 << 30, latency: Duration::from_millis(1), outstanding: 16 };
    let device = Device::new(MemoryFiles::new(), Some(slow));
    let store = Store::open("s", Options::default().device(device)).unwrap();
    let before = store.pool().device().stats().syncs;
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let store = &store;
            scope.spawn(move || (0..50u8).for_each(|number| store.put(&[thread, number], b"value").unwrap()));
        }
    });
    assert_eq!(store.check().unwrap().entries, 400);
    let flushes = store.pool().device().stats().syncs - before;
    println!("400 commits of 8 threads: {flushes} syncs");
    assert!(flushes < 300, "{flushes} syncs for 400 commits");
}

#[test]
fn two_processes_cannot_open_one_store() {
    if let Some(folder) = std::env::var_os(FOLDER_OF_THE_OTHER) {
        let error = Store::open(folder, Options::default()).unwrap_err();
        assert!(matches!(error, Error::Locked { .. }), "{error}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let _store = Store::open(folder.path(), Options::default()).unwrap();
    let other = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "two_processes_cannot_open_one_store"])
        .env(FOLDER_OF_THE_OTHER, folder.path())
        .output()
        .unwrap();
    assert!(other.status.success(), "{}", String::from_utf8_lossy(&other.stdout));
}
