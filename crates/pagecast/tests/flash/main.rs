//! The tier on flash: what it spares, what it survives, and that no byte of it is ever wrong.
#![cfg(all(feature = "object-store", not(pagecast_shuttle)))]
#![allow(clippy::unwrap_used)]

mod damage;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use object_store::memory::InMemory;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use pagecast::storage::{
    Device, Fault, FaultStorage, FaultStore, Faults, MemoryFiles, MeteredStore, ObjectOptions, Objects, RequestShape,
    WriteFault,
};
use pagecast::{FlashAdmission, FlashOptions, FlashView, Pool, PoolError, PoolOptions, Relation};
use tokio::runtime::{Builder, Runtime};

const PAGE: u64 = 4096;
/// What a page takes on flash.
const SLOT: u64 = 2 * PAGE;
const FILE: &str = "flash/pagecast.flash";

/// A store with objects, and a device for the tier.
struct Setup {
    faults: FaultStore,
    metered: MeteredStore,
    store: Arc<dyn ObjectStore>,
    objects: Objects,
    runtime: Runtime,
    files: MemoryFiles,
    device_faults: Faults,
    slots: u64,
}

impl Setup {
    /// Each page is a request, so that requests are pages.
    fn new(slots: u64) -> Self {
        Self::of_shape(slots, RequestShape { max_bytes: PAGE as usize, max_gap: 0 })
    }

    fn of_shape(slots: u64, shape: RequestShape) -> Self {
        let faults = FaultStore::new(InMemory::new());
        let metered = MeteredStore::new(Arc::new(faults.clone()), None);
        Self {
            faults,
            store: Arc::new(metered.clone()),
            metered,
            objects: Objects::start(ObjectOptions::default().shape(shape)).unwrap(),
            runtime: Builder::new_current_thread().build().unwrap(),
            files: MemoryFiles::new(),
            device_faults: Faults::default(),
            slots,
        }
    }

    fn options(&self) -> FlashOptions {
        let files = FaultStorage { files: self.files.clone(), faults: self.device_faults.clone() };
        let bytes = 2 * PAGE + self.slots.div_ceil(128) * PAGE + self.slots * SLOT;
        FlashOptions::new("flash", bytes).device(Device::new(files, None))
    }

    /// A pool of about a hundred frames.
    fn pool_with(&self, flash: FlashOptions) -> Pool {
        Pool::new(PoolOptions::default().memory(900_000).page_size(PAGE as u32).flash(flash)).unwrap()
    }

    /// A pool with fewer frames than what a crash reads has pages.
    fn small_pool(&self) -> Pool {
        let options = PoolOptions::default().memory(320_000).page_size(PAGE as u32);
        let pool = Pool::new(options.flash(self.options())).unwrap();
        assert!((8..60).contains(&pool.frames()), "{} frames", pool.frames());
        pool
    }

    fn pool(&self) -> Pool {
        self.pool_with(self.options())
    }

    fn put(&self, name: &str, bytes: Vec<u8>) -> ObjectMeta {
        self.runtime.block_on(async {
            self.store.put(&name.into(), bytes.into()).await.unwrap();
            self.store.head(&name.into()).await.unwrap()
        })
    }

    fn open(&self, pool: &Pool, listed: &ObjectMeta) -> Relation {
        pool.open_storage(&self.objects.storage(&self.store, "s3://bucket", listed)).unwrap()
    }

    fn gets(&self) -> u64 {
        self.metered.stats().requests.gets
    }
}

/// Bytes that tell which generation, and where they are.
fn content(pages: u64, generation: u64) -> Vec<u8> {
    (0..pages * PAGE - 100).map(|i| (i ^ i >> 8 ^ i >> 16 ^ (generation * 77)) as u8).collect()
}

/// Reads all pages in order, each compared with what it is, and lets the tier write what it has
/// admitted after each, so that what it does is the same each time.
fn read_all(pool: &Pool, table: &Relation, bytes: &[u8]) {
    read_settling(pool, table, bytes, 1);
}

/// The same, letting it write after each `every` pages. Between, it may have to leave pages out.
fn read_settling(pool: &Pool, table: &Relation, bytes: &[u8], every: u64) {
    for block in 0..u64::from(table.pages()) {
        let range = block * PAGE..((block + 1) * PAGE).min(table.len());
        let read = table.read_blocking(std::slice::from_ref(&range), None).unwrap();
        assert!(read.data[0][..] == bytes[range.start as usize..range.end as usize], "page {block}");
        if block % every == 0 {
            pool.settle_flash();
        }
    }
    pool.settle_flash();
}

fn view(pool: &Pool) -> FlashView {
    pool.flash().unwrap()
}

#[test]
fn there_are_no_more_requests_with_flash_than_without() {
    let setup = Setup::of_shape(600, RequestShape { max_bytes: 1 << 20, max_gap: 16 * PAGE as usize });
    let options = PoolOptions::default().memory(900_000).page_size(PAGE as u32).policy("lru".parse().unwrap());
    let pool = Pool::new(options.flash(setup.options())).unwrap();
    let (bytes, others) = (content(40, 1), content(400, 2));
    let table = setup.open(&pool, &setup.put("a/table", bytes.clone()));
    let pages = |pages: &[u64]| {
        let ranges: Vec<_> = pages.iter().map(|page| page * PAGE..(page + 1) * PAGE).collect();
        let (gets, before) = (setup.gets(), pool.stats());
        let read = table.read_blocking(&ranges, None).unwrap();
        for (data, range) in read.data.iter().zip(ranges) {
            assert!(data[..] == bytes[range.start as usize..range.end as usize], "{range:?}");
        }
        let after = pool.stats();
        (setup.gets() - gets, after.flash_hits - before.flash_hits, (after.gap_bytes - before.gap_bytes) / PAGE)
    };
    pages(&[3]);
    pages(&[33]);
    let other = setup.open(&pool, &setup.put("b/table", others.clone()));
    read_all(&pool, &other, &others);
    // What has a copy at an end of a request is not asked for, and none of what lies before it.
    assert_eq!(pages(&[3, 5]), (1, 1, 0));
    // What has one between others comes along with them.
    assert_eq!(pages(&[31, 33, 35]), (1, 0, 2));
    pool.check();
}

#[test]
fn what_memory_and_flash_hold_is_not_asked_for_again() {
    let setup = Setup::new(600);
    let (pool, bytes) = (setup.pool(), content(500, 1));
    let table = setup.open(&pool, &setup.put("a/table", bytes.clone()));
    assert!(pool.frames() < 250, "{}", pool.frames());
    read_all(&pool, &table, &bytes);
    let (gets, first) = (setup.gets(), pool.stats());
    assert_eq!((gets, first.flash_hits), (500, 0));
    for _ in 0..3 {
        read_all(&pool, &table, &bytes);
    }
    assert_eq!(setup.gets(), gets, "no GET at all");
    let (stats, view) = (pool.stats(), view(&pool));
    assert!(stats.flash_hits > 1000 - 3 * u64::from(pool.frames()), "{stats:?}");
    assert_eq!(stats.bytes_read - stats.flash_bytes_read, setup.metered.stats().bytes_read);
    // Each page is written once: it keeps its slot while memory has it.
    assert!(stats.flash_pages_written <= 500, "{stats:?}");
    assert!(stats.flash_bytes_written >= stats.flash_pages_written * SLOT, "{stats:?}");
    assert_eq!((view.off, view.broken, u64::from(view.pages)), (None, 0, stats.flash_pages_written));
    assert_eq!(pool.snapshot().flash.unwrap().slots, view.slots);
    assert!(pool.snapshot().prometheus().to_string().contains("pagecast_flash_hits_total"));
    pool.check();
}

#[test]
fn a_restart_finds_what_was_written() {
    let setup = Setup::new(600);
    let (one, two) = (content(300, 1), content(200, 2));
    let listed = [setup.put("a/one", one.clone()), setup.put("a/two", two.clone())];
    let pool = setup.pool();
    read_all(&pool, &setup.open(&pool, &listed[0]), &one);
    read_all(&pool, &setup.open(&pool, &listed[1]), &two);
    let written = pool.stats().flash_pages_written;
    assert!(written > 250, "{written}");
    drop(pool);

    // The other way round, and beside one that was not there before.
    let pool = setup.pool();
    assert_eq!(u64::from(view(&pool).restored), written);
    let new = content(10, 3);
    let third = setup.open(&pool, &setup.put("a/new", new.clone()));
    let before = setup.gets();
    let [second, first] = [&listed[1], &listed[0]].map(|listed| setup.open(&pool, listed));
    read_all(&pool, &second, &two);
    read_all(&pool, &first, &one);
    assert_eq!(setup.gets() - before, 500 - written, "what is written is not asked for");
    assert_eq!(pool.stats().flash_hits, written);
    read_all(&pool, &third, &new);
    assert_eq!(view(&pool).broken, 0);
    pool.check();
}

#[test]
fn a_generation_never_gets_the_pages_of_another() {
    let setup = Setup::new(600);
    let mut pool = setup.pool();
    for generation in 0..12 {
        let bytes = content(250, generation);
        let table = setup.open(&pool, &setup.put("a/table", bytes.clone()));
        let before = pool.stats().flash_hits;
        read_all(&pool, &table, &bytes);
        assert_eq!(pool.stats().flash_hits, before, "nothing of this one was there before");
        if generation % 3 == 2 {
            // A pool that finds the last generation on flash opens the next one.
            drop(table);
            pool = setup.pool_after(pool);
            assert!(view(&pool).restored > 0);
        } else {
            read_all(&pool, &table, &bytes);
            assert!(pool.stats().flash_hits > before);
        }
        pool.check();
    }
}

impl Setup {
    /// The next pool, when the last one has gone.
    fn pool_after(&self, pool: Pool) -> Pool {
        drop(pool);
        self.pool()
    }
}

/// Two contents of one name, each in a store of its own, so that both can be read.
struct Two {
    setups: [Setup; 2],
    listed: [ObjectMeta; 2],
    bytes: [Vec<u8>; 2],
}

/// Pages of each content, and slots of the tier.
const PAGES: u64 = 80;
const SLOTS: u64 = 40;

impl Two {
    fn new() -> Self {
        let setups = [Setup::new(SLOTS), Setup::new(SLOTS)];
        // The second store tags its second object.
        setups[1].put("a/before", Vec::new());
        let bytes = [content(PAGES, 1), content(PAGES, 2)];
        let mut listed = [0, 1].map(|which| setups[which].put("a/table", bytes[which].clone()));
        listed[1].last_modified = listed[0].last_modified;
        assert_ne!(listed[0].e_tag, listed[1].e_tag);
        Self { setups, listed, bytes }
    }

    /// Reads one of them.
    fn read(&self, pool: &Pool, which: usize) {
        let table = self.setups[which].open(pool, &self.listed[which]);
        read_settling(pool, &table, &self.bytes[which], 8);
    }
}

#[test]
fn an_answer_that_is_cut_is_read_on() {
    let setup = Setup::new(300);
    let bytes = content(250, 1);
    let pool = setup.pool();
    let table = setup.open(&pool, &setup.put("a/table", bytes.clone()));
    setup.device_faults.plan_writes((0..40).map(|write| WriteFault::Short(1 + write * 200)));
    read_all(&pool, &table, &bytes);
    setup.device_faults.plan((0..40).map(|read| Fault::Short(1 + read * 200)));
    let gets = setup.gets();
    read_all(&pool, &table, &bytes);
    assert_eq!((setup.gets(), view(&pool).off, view(&pool).broken), (gets, None, 0));
}

#[test]
fn what_cannot_be_told_apart_for_good_is_not_copied() {
    let setup = Setup::new(300);
    setup.faults.list_without_tags();
    let bytes = content(250, 1);
    let pool = setup.pool();
    setup.put("a/table", bytes.clone());
    let folder = "a".into();
    let listed = setup.runtime.block_on(setup.store.list_with_delimiter(Some(&folder))).unwrap().objects.remove(0);
    assert_eq!((&listed.e_tag, &listed.version), (&None, &None));
    let table = setup.open(&pool, &listed);
    read_all(&pool, &table, &bytes);
    read_all(&pool, &table, &bytes);
    // Nor are local files.
    let files = MemoryFiles::new();
    files.write("table", bytes.clone());
    let local = pool.open_storage(&pagecast::storage::Opener::open(&files, "table".as_ref()).unwrap()).unwrap();
    read_all(&pool, &local, &bytes);
    assert_eq!((pool.stats().flash_pages_written, view(&pool).pages), (0, 0));
}

#[test]
fn the_budget_bounds_what_is_written_beyond_the_free_room() {
    let setup = Setup::new(100);
    let bytes = content(400, 1);
    let listed = setup.put("a/table", bytes.clone());
    // A byte a second: in a test's time nothing but what fills it.
    let pool = setup.pool_with(setup.options().writes(1));
    let table = setup.open(&pool, &listed);
    (0..6).for_each(|_| read_all(&pool, &table, &bytes));
    assert_eq!(pool.stats().flash_pages_written, u64::from(view(&pool).slots));
    drop((pool, table));
    // What is full has no burst after a restart.
    let pool = setup.pool_with(setup.options().writes(1));
    let table = setup.open(&pool, &listed);
    (0..6).for_each(|_| read_all(&pool, &table, &bytes));
    assert_eq!(view(&pool).restored, view(&pool).slots);
    assert_eq!(pool.stats().flash_pages_written, 0);
}

#[test]
fn second_touch_waits_for_the_second_time() {
    let setup = Setup::new(600);
    let bytes = content(400, 1);
    let pool = setup.pool_with(setup.options().admission(FlashAdmission::SecondTouch));
    let table = setup.open(&pool, &setup.put("a/table", bytes.clone()));
    read_all(&pool, &table, &bytes);
    assert_eq!(pool.stats().flash_pages_written, 0);
    read_all(&pool, &table, &bytes);
    let gets = setup.gets();
    assert!(pool.stats().flash_pages_written > 50, "{:?}", pool.stats());
    read_all(&pool, &table, &bytes);
    assert!(setup.gets() - gets < 350 && pool.stats().flash_hits > 50, "{:?}", pool.stats());
}

#[test]
fn its_memory_is_the_pools_and_its_file_never_passes_its_cap() {
    let setup = Setup::new(1000);
    let options = setup.options();
    let (with, cap) = (setup.pool(), options.bytes);
    let without = Pool::new(PoolOptions::default().memory(900_000).page_size(PAGE as u32)).unwrap();
    assert!(with.memory().flash > 0 && without.memory().flash == 0);
    assert!(with.memory().total <= 900_000 && with.frames() < without.frames());
    assert!(setup.files.read(FILE.as_ref()).unwrap().len() as u64 <= cap);
    let slots = view(&with).slots;
    drop(with);
    // Another size, and another page size, begin anew.
    let sized = |bytes| {
        let mut other = options.clone();
        other.bytes = bytes;
        other
    };
    let smaller = setup.pool_with(sized(cap / 2));
    assert!(view(&smaller).slots < slots && setup.files.read(FILE.as_ref()).unwrap().len() as u64 <= cap / 2);
    let error = Pool::new(PoolOptions::default().flash(sized(4096))).unwrap_err();
    assert!(matches!(error, PoolError::FlashTooSmall { given: 4096, .. }), "{error}");
    assert!(error.to_string().contains("needs at least"), "{error}");
    let missing = FlashOptions::new("/nowhere/at/all", 1 << 30);
    let error = Pool::new(PoolOptions::default().flash(missing)).unwrap_err();
    assert!(matches!(&error, PoolError::Open { path, .. } if path.starts_with("/nowhere")), "{error}");
}

#[test]
fn readers_at_once_get_their_pages() {
    let setup = Setup::new(300);
    let bytes = content(400, 1);
    let pool = setup.pool();
    let table = setup.open(&pool, &setup.put("a/table", bytes.clone()));
    std::thread::scope(|scope| {
        for reader in 0..6u64 {
            let (table, bytes) = (&table, &bytes);
            scope.spawn(move || {
                for round in 0..1500u64 {
                    let block = (round * (2 * reader + 3) * 13 + reader * 61) % 397;
                    let page = table.pin(block as u32, None).unwrap();
                    let start = (block * PAGE) as usize;
                    assert!(page[..] == bytes[start..bytes.len().min(start + PAGE as usize)], "page {block}");
                }
            });
        }
    });
    pool.settle_flash();
    let (stats, view) = (pool.stats(), view(&pool));
    println!("{stats:?}, {view:?}");
    assert!(stats.flash_hits > 0 && view.broken == 0 && view.off.is_none());
    pool.check();
}

/// A real file, direct I/O included where the file system has it.
#[test]
fn a_local_file_works_alike_and_is_of_one_pool() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::new(300);
    let bytes = content(250, 1);
    let options = FlashOptions::new(folder.path(), 300 * SLOT + 5 * PAGE);
    let pool = setup.pool_with(options.clone());
    let listed = setup.put("a/table", bytes.clone());
    let table = setup.open(&pool, &listed);
    read_all(&pool, &table, &bytes);
    let gets = setup.gets();
    read_all(&pool, &table, &bytes);
    assert_eq!(setup.gets(), gets);
    let error = Pool::new(PoolOptions::default().flash(options.clone())).unwrap_err();
    assert!(error.to_string().contains("somebody else"), "{error}");
    let written = pool.stats().flash_pages_written;
    drop((pool, table));
    let pool = when_free(|| setup.try_pool(options.clone()));
    assert_eq!(u64::from(view(&pool).restored), written);
    let table = setup.open(&pool, &listed);
    read_all(&pool, &table, &bytes);
    assert_eq!(pool.stats().flash_hits, written);
    let file = std::fs::metadata(folder.path().join("pagecast.flash")).unwrap();
    assert!(file.len() <= options.bytes);
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o777, 0o600);
}

impl Setup {
    fn try_pool(&self, flash: FlashOptions) -> Result<Pool, PoolError> {
        Pool::new(PoolOptions::default().memory(900_000).page_size(PAGE as u32).flash(flash))
    }
}

/// A file is free when the last thread of its pool has gone.
fn when_free(mut open: impl FnMut() -> Result<Pool, PoolError>) -> Pool {
    for _ in 0..1000 {
        match open() {
            Err(PoolError::Open { source, .. }) if source.kind() == ErrorKind::ResourceBusy => {}
            opened => return opened.unwrap(),
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the file stays busy");
}

#[cfg(target_os = "linux")]
#[path = "../small_disk_unsafe/mod.rs"]
mod small_disk_unsafe;

/// A disk without the room that was asked for: the tier is off, and queries run.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_full_is_a_tier_that_is_off() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| match small_disk_unsafe::mount(folder.path(), 1 << 20) {
            Ok(()) => with_a_small_disk(folder.path()),
            Err(error) => {
                use std::io::Write;
                let _ = writeln!(std::io::stderr(), "skipped: no small disk can be mounted here: {error}");
            }
        });
    });
}

#[cfg(target_os = "linux")]
fn with_a_small_disk(folder: &Path) {
    let setup = Setup::new(300);
    let bytes = content(250, 1);
    let listed = setup.put("a/table", bytes.clone());
    let too_much = setup.pool_with(FlashOptions::new(folder, 4 << 20));
    read_all(&too_much, &setup.open(&too_much, &listed), &bytes);
    let off = view(&too_much).off.unwrap();
    assert!(off.contains("No space left"), "{off}");
    drop(too_much);
    // What fits is promised: others may fill the disk, and the tier goes on.
    let pool = when_free(|| setup.try_pool(FlashOptions::new(folder, 700_000)));
    let rest = std::fs::write(folder.join("ballast"), vec![1; 1 << 20]).unwrap_err();
    assert_eq!(rest.kind(), ErrorKind::StorageFull);
    let table = setup.open(&pool, &listed);
    (0..2).for_each(|_| read_all(&pool, &table, &bytes));
    assert_eq!(view(&pool).off, None);
    assert!(pool.stats().flash_hits > 20, "{:?}", pool.stats());
}
