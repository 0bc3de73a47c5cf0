//! Objects under the pool: what is read is one generation, whatever the store does meanwhile.
#![cfg(all(feature = "object-store", not(pagecast_shuttle)))]
#![allow(clippy::unwrap_used)]
#![allow(clippy::single_range_in_vec_init)] // Reads take several ranges; here mostly one.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use pagecast::storage::{FaultStore, ObjectFault, ObjectOptions, Objects, RequestShape, StoreRequests};
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
    // No request before the first read or after it, and one for all that lies near together.
    assert_eq!(setup.faults.requests(), StoreRequests { gets: 1, heads: 0, lists: 1 });
    assert_eq!(setup.pool.device().stats().requests, 1);
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

/// Reads `ranges` of an object of 40 pages: how many GETs that took.
fn gets_for(setup: &Setup, table: &Relation, bytes: &[u8], ranges: &[std::ops::Range<u64>]) -> u64 {
    let before = setup.faults.requests().gets;
    let read = table.read_blocking(ranges, None).unwrap();
    for (range, data) in ranges.iter().zip(&read.data) {
        assert!(data[..] == bytes[range.start as usize..range.end as usize], "{range:?}");
    }
    setup.faults.requests().gets - before
}

#[test]
fn ranges_with_a_small_gap_between_them_are_one_request() {
    let shape = RequestShape { max_bytes: 8 << 20, max_gap: 4 * PAGE as usize };
    let setup = Setup::new(ObjectOptions::default().shape(shape));
    let bytes = content(40);
    let table = setup.open(&setup.put(bytes.clone()));
    let page = |block: u64| block * PAGE + 7..block * PAGE + 9;
    assert_eq!(gets_for(&setup, &table, &bytes, &[page(0), page(5)]), 1, "four pages between");
    assert_eq!(gets_for(&setup, &table, &bytes, &[page(10), page(16)]), 2, "five pages between");
    // Frames are free, so that what came along is there.
    assert_eq!(gets_for(&setup, &table, &bytes, &[page(1), page(2), page(3), page(4)]), 0);
    assert_eq!(setup.pool.stats().gap_bytes, 0);
    // What is resident between pages that are not is read over again.
    assert_eq!(gets_for(&setup, &table, &bytes, &[page(9), page(11)]), 1);
    assert_eq!(setup.pool.stats().gap_bytes, PAGE);
    let stats = setup.pool.stats();
    assert_eq!(setup.pool.device().stats().bytes_read, stats.bytes_read + stats.gap_bytes);
    setup.pool.check();
}

#[test]
fn what_comes_along_displaces_nothing() {
    let mut setup = Setup::new(ObjectOptions::default());
    setup.pool = Pool::new(PoolOptions::default().memory(2 << 20)).unwrap();
    let bytes = content(40);
    let table = setup.open(&setup.put(bytes.clone()));
    let frames = setup.pool.frames();
    assert!(frames < 40, "{frames}");
    for block in 0..u64::from(frames) {
        drop(table.pin(block as u32, None).unwrap());
    }
    let before = setup.pool.stats();
    let (first, last) = (u64::from(frames), u64::from(frames) + 2);
    assert_eq!(gets_for(&setup, &table, &bytes, &[first * PAGE..first * PAGE + 1, last * PAGE..last * PAGE + 1]), 1);
    let after = setup.pool.stats();
    assert_eq!((after.evictions - before.evictions, after.gap_bytes), (2, PAGE));
    setup.pool.check();
}

#[test]
fn what_finds_no_frame_is_read_over_gaps_too() {
    let mut setup = Setup::new(ObjectOptions::default());
    setup.pool = Pool::new(PoolOptions::default().memory(1 << 20)).unwrap();
    let bytes = content(40);
    let table = setup.open(&setup.put(bytes.clone()));
    let pins: Vec<_> = (0..setup.pool.frames()).map(|block| table.pin(block, None).unwrap()).collect();
    let first = pins.len() as u64;
    assert!(first < 20, "{first} frames");
    let page = |block: u64| block * PAGE + 5..block * PAGE + 9;
    let wanted = [page(first), page(first + 1), page(first + 4), page(first + 9), page(39)];
    // Two pages of ten that lie together are followed by gaps of two and four, and one page is far.
    let gaps = if 39 - (first + 10) <= 16 { 39 - (first + 10) } else { 0 };
    let gets = if gaps > 0 { 1 } else { 2 };
    assert_eq!(gets_for(&setup, &table, &bytes, &wanted), gets);
    let stats = setup.pool.stats();
    assert_eq!((stats.bypassed_bytes, stats.gap_bytes), (5 * PAGE - 100, (2 + 4 + gaps) * PAGE));
    drop(pins);
    setup.pool.check();
}

#[test]
fn a_body_that_is_cut_within_a_gap_is_asked_for_again() {
    let setup = Setup::new(ObjectOptions::default());
    let bytes = content(40);
    let table = setup.open(&setup.put(bytes.clone()));
    drop(table.pin(3, None).unwrap());
    setup.faults.plan([ObjectFault::Cut(3 * PAGE as usize + 5)]);
    assert_eq!(gets_for(&setup, &table, &bytes, &[2 * PAGE..3 * PAGE, 4 * PAGE..6 * PAGE]), 2);
    setup.pool.check();
}

/// Small objects in number, each open.
fn many(setup: &Setup, count: usize) -> Vec<Relation> {
    let listed = setup.runtime.block_on(async {
        for number in 0..count {
            setup.store.put(&format!("many/{number}").into(), vec![7; 100].into()).await.unwrap();
        }
        setup.store.list_with_delimiter(Some(&"many".into())).await.unwrap().objects
    });
    listed.iter().map(|meta| setup.open(meta)).collect()
}

/// Waits until the store has been asked for bytes `gets` times.
fn until_asked(setup: &Setup, gets: u64) {
    let begin = std::time::Instant::now();
    while setup.faults.requests().gets < gets {
        assert!(begin.elapsed() < Duration::from_secs(120), "{:?}", setup.faults.requests());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Begins to read the whole of each.
fn begin(tables: &[Relation]) -> Vec<impl Future<Output = Result<pagecast::ReadResult, PoolError>> + use<>> {
    let mut readings: Vec<_> = tables.iter().map(|table| Box::pin(table.read(&[0..table.len()], None))).collect();
    for reading in &mut readings {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(reading.as_mut().poll(&mut context).is_pending());
    }
    readings
}

#[test]
fn many_objects_are_asked_for_at_once_without_a_thread_each() {
    let setup = Setup::new(ObjectOptions::default().outstanding(100).deadline(Duration::from_secs(3)));
    let tables = many(&setup, 150);
    setup.faults.plan(std::iter::repeat_n(ObjectFault::Silent, 100));
    let readings = begin(&tables);
    until_asked(&setup, 100);
    println!("{} threads, 100 GETs under way", setup.pool.device().threads());
    assert!(setup.pool.device().threads() < 100);
    // Nobody is answered before the deadline, and nobody else is asked.
    assert_eq!(setup.faults.requests().gets, 100);
    let ended = setup.runtime.block_on(futures::future::join_all(readings));
    assert_eq!(ended.iter().filter(|ended| ended.is_err()).count(), 100);
    setup.pool.check();
}

#[test]
fn what_nobody_waits_for_any_more_is_not_asked_for() {
    let setup = Setup::new(ObjectOptions::default().outstanding(1).deadline(Duration::from_secs(1)));
    let tables = many(&setup, 60);
    setup.faults.plan([ObjectFault::Silent]);
    let first = begin(&tables[..1]);
    until_asked(&setup, 1);
    // A query that is given up while its requests wait for their turn.
    drop(begin(&tables[1..50]));
    let last = begin(&tables[50..]);
    assert!(setup.runtime.block_on(futures::future::join_all(first)).remove(0).is_err());
    let read = setup.runtime.block_on(futures::future::join_all(last));
    assert!(read.into_iter().all(|read| read.unwrap().data == [vec![7; 100]]));
    assert_eq!(setup.faults.requests().gets, 1 + 10);
    // They are there for whoever asks again.
    assert_eq!(tables[1].read_blocking(&[0..100], None).unwrap().data, [vec![7; 100]]);
    assert_eq!((setup.faults.requests().gets, setup.pool.pinned()), (12, 0));
    setup.pool.check();
}

/// A pool of few frames, and an object of many pages.
fn few_frames(outstanding: usize) -> (Setup, Relation, Vec<u8>) {
    let mut setup = Setup::new(ObjectOptions::default().outstanding(outstanding).deadline(Duration::from_secs(3)));
    setup.pool = Pool::new(PoolOptions::default().memory(1 << 20)).unwrap();
    let bytes = content(200);
    let table = setup.open(&setup.put(bytes.clone()));
    assert!(setup.pool.frames() < 20);
    (setup, table, bytes)
}

#[test]
fn a_small_pool_asks_in_requests_as_long_as_a_large_one() {
    let (setup, table, bytes) = few_frames(64);
    assert_eq!(gets_for(&setup, &table, &bytes, &[0..table.len()]), 2, "12.5 MiB in requests of 8 MiB");
    let stats = setup.pool.stats();
    assert_eq!((stats.bytes_read, stats.bypassed_bytes), (table.len(), 0), "each page had a frame for a while");
    // As many of them as there are frames are there still.
    let again = table.read_blocking(&[0..table.len()], None).unwrap();
    assert_eq!((again.stats.hits, again.data[0] == bytes), (u64::from(setup.pool.frames()), true));
    setup.pool.check();
}

/// Begins these reads, all behind one that the store does not answer before its deadline.
fn begin_behind_a_silent_one(
    setup: &Setup,
    tables: &[Relation],
) -> (impl Future + use<>, Vec<impl Future<Output = Result<pagecast::ReadResult, PoolError>> + use<>>) {
    let others = many(setup, 1);
    setup.faults.plan([ObjectFault::Silent]);
    let silent = begin(&others);
    until_asked(setup, 1);
    (futures::future::join_all(silent), begin(tables))
}

#[test]
fn who_joins_a_read_has_its_bytes_whatever_frames_there_are() {
    let (setup, table, bytes) = few_frames(1);
    let readers = vec![table.clone(); 5];
    let (silent, readings) = begin_behind_a_silent_one(&setup, &readers);
    setup.runtime.block_on(silent);
    let read = setup.runtime.block_on(futures::future::join_all(readings));
    assert!(read.into_iter().all(|read| read.unwrap().data[0] == bytes));
    let stats = setup.pool.stats();
    assert_eq!((setup.faults.requests().gets, stats.bytes_read, stats.bypassed_bytes), (1 + 2, table.len(), 0));
    assert_eq!(setup.pool.pinned(), 0);
    setup.pool.check();
}

#[test]
fn a_pin_that_joins_a_read_has_a_frame_of_its_own() {
    let (setup, table, bytes) = few_frames(1);
    let (_silent, readings) = begin_behind_a_silent_one(&setup, std::slice::from_ref(&table));
    for block in [0, 150, 199] {
        let page = table.pin(block, None).unwrap();
        assert!(page[..] == bytes[block as usize * PAGE as usize..][..page.len()], "{block}");
    }
    let read = setup.runtime.block_on(futures::future::join_all(readings));
    assert!(read.into_iter().all(|read| read.unwrap().data[0] == bytes));
    assert_eq!(setup.pool.pinned(), 0);
    setup.pool.check();
}

#[test]
fn a_read_goes_on_for_who_has_joined_it() {
    let (setup, table, bytes) = few_frames(1);
    let readers = [table.clone(), table.clone()];
    let (silent, mut both) = begin_behind_a_silent_one(&setup, &readers);
    // The one that asked goes away before it is its turn.
    drop(both.remove(0));
    setup.runtime.block_on(silent);
    let read = setup.runtime.block_on(futures::future::join_all(both));
    assert!(read.into_iter().all(|read| read.unwrap().data[0] == bytes));
    assert_eq!(setup.faults.requests().gets, 1 + 2);
    setup.pool.check();
}

#[test]
fn a_read_that_fails_fails_for_who_has_joined_it() {
    let (setup, table, bytes) = few_frames(64);
    setup.faults.plan([ObjectFault::Silent, ObjectFault::Silent]);
    let readers = vec![table.clone(); 3];
    // Readers have the error of the first request. This one waits for the first page of the second,
    // which may meet its deadline later: then nothing is under way any more.
    let second = table.read(std::slice::from_ref(&((8 << 20)..(8 << 20) + PAGE)), None);
    let (mut read, second) =
        setup.runtime.block_on(futures::future::join(futures::future::join_all(begin(&readers)), second));
    read.push(second);
    for failed in read {
        let error = failed.unwrap_err().to_string();
        assert!(error.contains("s3://bucket/a/table") && error.contains("no answer within"), "{error}");
    }
    assert_eq!(setup.faults.requests().gets, 2);
    assert_eq!(gets_for(&setup, &table, &bytes, &[0..table.len()]), 2);
    setup.pool.check();
}

/// As a program does that has a runtime of its own.
#[test]
fn a_thread_of_another_runtime_may_ask_what_there_is_now() {
    let setup = Setup::new(ObjectOptions::default());
    let listed = setup.put(content(3));
    setup.runtime.block_on(async {
        let table = setup.open(&listed);
        table.verify().unwrap();
        let end = table.read_uncached_blocking(2 * PAGE..table.len()).unwrap();
        assert!(end[..] == content(3)[2 * PAGE as usize..]);
        setup.store.put(&"a/table".into(), content(2).into()).await.unwrap();
        assert!(matches!(table.verify(), Err(PoolError::Changed { .. })));
    });
}
