//! Objects under the pool: what is read is one generation, whatever the store does meanwhile.
#![cfg(all(feature = "object-store", not(pagecast_shuttle)))]
#![allow(clippy::unwrap_used)]

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use pagecast::storage::{FaultStore, ObjectFault, ObjectOptions, Objects, StoreRequests};
use pagecast::{Pool, PoolError, PoolOptions, Relation};
use tokio::runtime::{Builder, Runtime};

const PAGE: u64 = 65_536;

/// A store with one object, and a pool over it.
struct Setup {
    faults: FaultStore,
    store: Arc<dyn ObjectStore>,
    objects: Objects,
    pool: Pool,
    runtime: Runtime,
}

impl Setup {
    fn new(options: ObjectOptions) -> Self {
        let faults = FaultStore::new(InMemory::new());
        Self {
            store: Arc::new(faults.clone()),
            faults,
            objects: Objects::start(options).unwrap(),
            pool: Pool::new(PoolOptions::default().memory(128 << 20)).unwrap(),
            runtime: Builder::new_current_thread().build().unwrap(),
        }
    }

    /// Writes the object, and says what a listing tells of it.
    fn put(&self, bytes: impl Into<Bytes>) -> ObjectMeta {
        let bytes: Bytes = bytes.into();
        self.runtime.block_on(async {
            self.store.put(&"a/table".into(), bytes.into()).await.unwrap();
            self.store.list_with_delimiter(Some(&"a".into())).await.unwrap().objects.remove(0)
        })
    }

    fn open(&self, listed: &ObjectMeta) -> Relation {
        self.pool.open_storage(&self.objects.storage(&self.store, "s3://bucket/", listed)).unwrap()
    }

    /// The pool as it was at its start.
    fn start_anew(&mut self) {
        self.pool = Pool::new(PoolOptions::default().memory(128 << 20)).unwrap();
    }
}

/// Bytes that tell where they are.
fn content(pages: u64) -> Vec<u8> {
    (0..pages * PAGE - 100).map(|i| (i ^ i >> 8 ^ i >> 16) as u8).collect()
}

#[test]
fn ranges_are_the_objects_bytes_and_a_second_read_asks_nothing() {
    let setup = Setup::new(ObjectOptions::default());
    let bytes = content(20);
    let table = setup.open(&setup.put(bytes.clone()));
    assert_eq!(table.path().to_str(), Some("s3://bucket/a/table"));
    let ranges = [0..1, 5 * PAGE - 1..9 * PAGE + 7, 15 * PAGE..table.len()];
    for _ in 0..2 {
        let read = table.read_blocking(&ranges, None).unwrap();
        for (range, data) in ranges.iter().zip(&read.data) {
            assert!(data[..] == bytes[range.start as usize..range.end as usize], "{range:?}");
        }
    }
    // Three runs of pages, and no request before the first read or after the last.
    assert_eq!(setup.faults.requests(), StoreRequests { gets: 3, heads: 0, lists: 1 });
    assert_eq!(setup.pool.device().stats().requests, 3);
    let error = table.read_blocking(&[0..table.len() + 1], None).unwrap_err().to_string();
    assert!(error.contains("s3://bucket/a/table"), "{error}");
}

#[test]
fn what_a_store_breaks_is_asked_again_or_fails_by_its_name() {
    use ObjectFault::{Broken, Cut, Long, Shifted, Unavailable};
    let mut setup = Setup::new(ObjectOptions::default());
    let bytes = content(20);
    let listed = setup.put(bytes.clone());
    for (fault, is_right, word) in [
        (Cut(70_000), true, ""),
        (Cut(0), false, "ended after 0"),
        (Broken(10), false, "connection reset"),
        (Long(1), false, "more than the bytes"),
        (Shifted, false, "came for"),
        (Unavailable, false, "SlowDown"),
    ] {
        let table = setup.open(&listed);
        setup.faults.plan([fault.clone()]);
        let read = table.read_blocking(&[0..4 * PAGE], None);
        match read {
            Ok(read) => assert!(is_right && read.data[0][..] == bytes[..4 * PAGE as usize], "{fault:?}"),
            Err(error) => {
                let text = error.to_string();
                assert!(!is_right && text.contains("s3://bucket/a/table") && text.contains(word), "{fault:?}: {text}");
                assert!(matches!(error, PoolError::Io { .. }), "{error:?}");
            }
        }
        // What follows is answered, and right.
        assert!(table.read_blocking(&[0..4 * PAGE], None).unwrap().data[0][..] == bytes[..4 * PAGE as usize]);
        setup.pool.check();
        setup.start_anew();
    }
}

#[test]
fn a_store_that_is_silent_meets_the_deadline() {
    let setup = Setup::new(ObjectOptions::default().deadline(Duration::from_millis(1)));
    let table = setup.open(&setup.put(content(1)));
    setup.faults.plan([ObjectFault::Silent]);
    let Err(PoolError::Io { source, .. }) = table.pin(0, None).map(drop) else { panic!("it was answered") };
    assert_eq!(source.kind(), io::ErrorKind::TimedOut);
}

/// Reads a scan of several requests, the object being overwritten before the request `at`: what
/// came, if something did.
fn overwritten_at(setup: &Setup, listed: &ObjectMeta, at: usize, new: &Bytes) -> Result<Vec<u8>, PoolError> {
    let table = setup.pool.open_storage(&setup.objects.storage(&setup.store, "s3://bucket", listed))?;
    let faults = std::iter::repeat_n(ObjectFault::None, at).chain([ObjectFault::Overwritten(new.clone())]);
    setup.faults.plan(faults);
    let mut all = Vec::new();
    for block in (0..u64::from(table.pages())).step_by(2) {
        all.extend(table.read_blocking(&[block * PAGE..(block + 1) * PAGE], None)?.data.remove(0));
    }
    Ok(all)
}

/// A thousand scans, each over an object that is overwritten while it is read.
#[test]
fn a_scan_ends_with_the_old_content_or_by_the_objects_name() {
    for (ignores_conditions, lists_without_tags) in [(false, false), (true, false), (false, true), (true, true)] {
        let setup = Setup::new(ObjectOptions::default());
        if ignores_conditions {
            setup.faults.ignore_conditions();
        }
        if lists_without_tags {
            setup.faults.list_without_tags();
        }
        let (mut ended, mut whole) = (0, 0);
        for round in 0..250_usize {
            // Each page of one content is filled with the number of its round.
            let of = |round: usize| Bytes::from(vec![(round % 256) as u8; 5 * PAGE as usize]);
            let listed = setup.put(of(round));
            match overwritten_at(&setup, &listed, round % 5, &of(round + 1)) {
                Ok(bytes) => {
                    whole += 1;
                    assert!(bytes.iter().all(|&byte| byte == bytes[0]), "two contents in one scan");
                    // A listing without tags tells no more than size and second: the first answer
                    // says which content it is.
                    let is_old = usize::from(bytes[0]) == round % 256;
                    assert!(is_old || (lists_without_tags && round.is_multiple_of(5)), "round {round}");
                }
                Err(error) => {
                    ended += 1;
                    assert!(matches!(error, PoolError::Changed { .. }), "{error}");
                    assert!(error.to_string().contains("s3://bucket/a/table"), "{error}");
                }
            }
            // What was planned for requests that were not made.
            while setup.faults.unplan() {}
            // A new plan sees the new content.
            let table = setup.open(&setup.put(of(round + 2)));
            assert!(
                table.read_blocking(&[0..PAGE], None).unwrap().data[0]
                    .iter()
                    .all(|&b| usize::from(b) == (round + 2) % 256)
            );
        }
        // A scan has three requests. What is overwritten after them is read as it was.
        assert!(ended >= 100 && whole >= 100, "{ended} ended, {whole} were whole");
        assert_eq!(setup.faults.requests().heads, 0);
        setup.pool.check();
    }
}

#[test]
fn an_object_that_was_removed_ends_its_scans() {
    let setup = Setup::new(ObjectOptions::default());
    let table = setup.open(&setup.put(content(3)));
    drop(table.pin(0, None).unwrap());
    setup.runtime.block_on(setup.store.delete(&"a/table".into())).unwrap();
    let error = table.pin(1, None).map(drop).unwrap_err().to_string();
    assert!(error.contains("s3://bucket/a/table") && error.contains("removed"), "{error}");
    assert!(matches!(table.verify(), Err(PoolError::Changed { .. })));
}
