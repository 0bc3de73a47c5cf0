//! A disk that is full: reads go on, writes say so and change nothing, and all goes on when there
//! is room again.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

#[path = "../../../crates/pagecast/tests/small_disk_unsafe/mod.rs"]
mod small_disk_unsafe;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use pagecast_core::random::Random;
use pagecast_kv::{Error, Options, Store};

/// Runs a test with a folder on a disk of 6 MiB.
fn with_a_small_disk(test: impl FnOnce(&Path) + Send) {
    let small = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        let test = || match small_disk_unsafe::mount(small.path(), 6 << 20) {
            Ok(()) => test(small.path()),
            // Past the capture of a test's output, so that nobody takes it for passed.
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "skipped: no small disk can be mounted here: {error}");
            }
        };
        scope.spawn(test);
    });
}

fn check(store: &Store, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    assert_eq!(store.check().unwrap().entries, model.len() as u64);
    let entries: BTreeMap<_, _> = store.iter().map(Result::unwrap).collect();
    assert!(&entries == model, "an entry is missing or not what it was");
}

#[test]
fn a_full_disk_stops_writes_and_nothing_else() {
    with_a_small_disk(|folder| {
        let ballast = folder.join("ballast");
        std::fs::write(&ballast, vec![1; 1 << 20]).unwrap();
        let options = Options::default().memory(1 << 20).log_size(512 << 10);
        let store = Store::open(folder.join("store"), options.clone()).unwrap();
        let (mut model, mut random) = (BTreeMap::new(), Random::new(1));
        let mut put = |store: &Store, model: &mut BTreeMap<_, _>| {
            let (key, value) = (random.next().to_be_bytes().to_vec(), vec![random.below(256) as u8; 400]);
            store.put(&key, &value).map(|()| drop(model.insert(key, value)))
        };
        let error = loop {
            if let Err(error) = put(&store, &mut model) {
                break error;
            }
            assert!(model.len() < 20_000, "the disk is never full");
        };
        assert!(matches!(error, Error::Stalled { .. }), "{error}");
        assert!(error.to_string().contains("make room"), "{error}");
        println!("{} entries, then: {error}", model.len());
        for _ in 0..20 {
            put(&store, &mut model).unwrap_err();
        }
        check(&store, &model);

        std::fs::remove_file(ballast).unwrap();
        for _ in 0..100 {
            put(&store, &mut model).unwrap();
        }
        check(&store, &model);
        drop(store);
        check(&Store::open(folder.join("store"), options).unwrap(), &model);
    });
}
