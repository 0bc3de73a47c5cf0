//! Schedules of whole pools: pages and items are changed, loaded and written while checkpoints are
//! made, over a disk whose cache and device are apart. `make explore` runs them.
//!
//! Nothing here is a model but the disk: checkpoints, syncs, loads and the pool's own threads are
//! those that users have. After each schedule the power is cut. What came before a checkpoint that
//! was made must be on the device then.

#![allow(clippy::unwrap_used)]

use std::io;
use std::path::Path;
use std::sync::Arc;

use shuttle::thread;

use crate::cache::exploration::{explore, must_be_caught};
use crate::disk::{Disk, Planned};
use crate::storage::{Device, MemoryFiles};
use crate::sync::atomic::{AtomicU64, Ordering::SeqCst};
use crate::sync::{mistake, step};
use crate::{
    CooperationConfig, FixedRows, Format, Log, Lsn, Pool, PoolError, PoolOptions, PredictorConfig, PrefetchOptions,
    Relation, TupleId, TupleOptions, Tuples, WriteOptions,
};

const PAGE: usize = 4096;
/// More pages than fit.
const BLOCKS: u32 = 20;
/// Bytes of an item.
const ROW: usize = 16;

/// A log that is always durable: only its numbers matter here.
#[derive(Default)]
struct Counter(AtomicU64);

impl Counter {
    fn append(&self) -> Lsn {
        Lsn(self.0.fetch_add(1, SeqCst) + 1)
    }

    /// The record that comes next.
    fn end(&self) -> Lsn {
        Lsn(self.0.load(SeqCst) + 1)
    }
}

impl Log for Counter {
    fn flush_to(&self, lsn: Lsn) -> io::Result<Lsn> {
        Ok(lsn)
    }
}

/// A pool of a few frames over a file of `blocks` pages.
struct Scene {
    pool: Pool,
    table: Relation,
    items: Option<Tuples>,
    log: Arc<Counter>,
    disk: Disk,
}

/// A pool of a few frames.
fn options() -> PoolOptions {
    PoolOptions::default()
        .memory(70_000)
        .page_size(PAGE as u32)
        .policy("clock(max=1,init=0)".parse().unwrap())
        .predictor(PredictorConfig { scans: 1, parts: 1, runs: 1, cells: 1, ..PredictorConfig::EMPTY })
        .cooperation(CooperationConfig::EMPTY)
        .prefetch(PrefetchOptions::default().share(0.0).read_ahead(false))
        .loads(4)
}

impl Scene {
    fn new(blocks: u32, tuples: bool) -> Arc<Self> {
        let (disk, log) = (Disk::new(1, PAGE), Arc::<Counter>::default());
        let options = options()
            .device(Device::new(disk.clone(), None))
            .log(log.clone())
            .tuples(tuples.then(|| TupleOptions::default().learn(false).max_share(0.5)));
        let pool = Pool::new(options).unwrap();
        let options = WriteOptions::default().create(true).format(Format::Sealed);
        let table = pool.open_to_write("table".as_ref(), &options).unwrap();
        table.grow(blocks).unwrap();
        let items = tuples.then(|| pool.tuples(&table, FixedRows { first: 0, row: ROW as u32 }).unwrap());
        Arc::new(Self { pool, table, items, log, disk })
    }

    /// From here on threads come between the calls of the disk, too.
    fn begin(&self) {
        self.disk.pause(step);
    }

    fn change(&self, block: u32, byte: u8) {
        let mut page = self.table.pin_mut(block, None).unwrap();
        page[0] = byte;
        page.logged(self.log.append());
    }

    /// A checkpoint up to now.
    fn checkpoint(&self) -> Result<(), PoolError> {
        self.pool.checkpoint(self.log.end()).map(drop)
    }

    /// What a power cut leaves of a byte of the file.
    fn on_device(&self, offset: usize) -> u8 {
        self.disk.surely(Path::new("table"), offset)
    }
}

fn spawn(scene: &Arc<Scene>, work: impl FnOnce(&Scene) + Send + 'static) -> thread::JoinHandle<()> {
    let scene = scene.clone();
    thread::spawn(move || work(&scene))
}

/// A page is changed and written by the background writer while others make a checkpoint that is
/// not for it. The next one is.
fn checkpoint_against_write_back() {
    let scene = Scene::new(2, false);
    scene.begin();
    let other = spawn(&scene, |scene| scene.checkpoint().unwrap());
    scene.change(0, 7);
    scene.pool.write_back(1 << 20).unwrap();
    scene.checkpoint().unwrap();
    let after = scene.on_device(0);
    assert_eq!(after, 7, "a checkpoint left a page that the device does not have");
    other.join().unwrap();
}

/// A pool without the first page, which has left all of its items behind, and with room for more.
fn without_first_page() -> Arc<Scene> {
    let scene = Scene::new(BLOCKS, true);
    let (items, frames) = (scene.items.as_ref().unwrap(), scene.pool.frames());
    // It dissolves when as many others come as there are frames, once one is a slab.
    for _ in 0..3 {
        for item in 0..2 {
            assert_eq!(items.read(TupleId { block: 0, item }, &mut [0; ROW]).unwrap(), Some(ROW));
        }
        (1..=frames).for_each(|block| drop(scene.table.pin(block, None).unwrap()));
    }
    scene
}

impl Scene {
    fn change_item(&self, item: u32, byte: u8) {
        let id = TupleId { block: 0, item };
        self.items.as_ref().unwrap().update(id, &[byte; ROW], || self.log.append()).unwrap();
    }

    fn changed_without_page(&self) -> u32 {
        self.pool.tuple_stats().unwrap().changed
    }
}

/// An item is changed without its page, which others load while a checkpoint is made.
fn checkpoint_against_a_load() {
    let scene = without_first_page();
    scene.change_item(0, 7);
    assert_eq!(scene.changed_without_page(), 1, "the item is not changed without its page");
    scene.begin();
    let other = spawn(&scene, |scene| drop(scene.table.pin(0, None).unwrap()));
    scene.checkpoint().unwrap();
    assert_eq!(scene.on_device(0), 7, "a checkpoint left an item that the device does not have");
    other.join().unwrap();
    scene.pool.check();
}

/// Two items of a page are changed without it while a checkpoint is made, and once more before the
/// next.
fn checkpoint_against_changed_items() {
    let scene = without_first_page();
    scene.change_item(0, 6);
    scene.change_item(1, 6);
    assert_eq!(scene.changed_without_page(), 1, "the items are not changed without their page");
    scene.begin();
    let changers = [0, 1].map(|item| spawn(&scene, move |scene| scene.change_item(item, 7)));
    scene.checkpoint().unwrap();
    let after_one = [0, 1].map(|item| scene.on_device(item * ROW));
    assert!(after_one.iter().all(|&byte| byte >= 6), "a checkpoint left an item: {after_one:?}");
    changers.into_iter().for_each(|changer| changer.join().unwrap());
    scene.checkpoint().unwrap();
    let after_two = [0, 1].map(|item| scene.on_device(item * ROW));
    assert_eq!(after_two, [7, 7], "a checkpoint left an item");
    assert_eq!(scene.changed_without_page(), 0);
    scene.pool.check();
}

/// A file is made anew under its name while a page of it is written and another is had alone.
fn a_file_goes_while_it_is_written() {
    let files = MemoryFiles::new();
    files.write("table", vec![0; 4 * PAGE]);
    let pool = Pool::new(options().device(Device::new(files.clone(), None))).unwrap();
    let old = pool.open_to_write("table".as_ref(), &WriteOptions::default()).unwrap();
    [0, 1].into_iter().for_each(|block| old.pin_mut(block, None).unwrap()[0] = 1);
    let writer = thread::spawn({
        let pool = pool.clone();
        // It may meet the change of the file.
        move || drop(pool.flush())
    });
    let changer = thread::spawn(move || {
        if let Ok(mut page) = old.pin_mut(2, None) {
            page[0] = 1;
        }
    });
    files.write("table", vec![5; 4 * PAGE]);
    let new = pool.open_to_write("table".as_ref(), &WriteOptions::default()).unwrap();
    new.pin_mut(3, None).unwrap()[0] = 6;
    writer.join().unwrap();
    changer.join().unwrap();
    pool.flush().unwrap();
    pool.close().unwrap();
    let stored = [0, 1, 2, 3].map(|block| files.read("table".as_ref()).unwrap()[block * PAGE]);
    assert_eq!(stored, [5, 5, 5, 6], "a page of the former file is in the new one");
    pool.check();
}

/// Two make checkpoints while a sync fails: neither may say that all is well.
fn checkpoints_against_a_failing_sync() {
    let scene = Scene::new(2, false);
    scene.checkpoint().unwrap();
    scene.change(0, 7);
    scene.pool.write_back(1 << 20).unwrap();
    // The next call of the disk is the sync of one of them.
    scene.disk.fail_at(0, Planned::Nothing, false);
    scene.begin();
    let other = spawn(&scene, |scene| assert!(scene.checkpoint().is_err(), "a checkpoint hid that a sync failed"));
    assert!(scene.checkpoint().is_err(), "a checkpoint hid that a sync failed");
    other.join().unwrap();
}

#[test]
fn a_checkpoint_that_was_made_is_on_the_device() {
    explore(4_000, checkpoint_against_write_back);
    explore(1_000, checkpoints_against_a_failing_sync);
}

#[test]
fn nobody_waits_for_a_page_of_a_file_that_is_gone() {
    explore(4_000, a_file_goes_while_it_is_written);
}

#[test]
fn changed_items_are_on_the_device_after_a_checkpoint() {
    explore(4_000, checkpoint_against_a_load);
    explore(4_000, checkpoint_against_changed_items);
}

#[test]
fn mistake_of_a_file_that_is_marked_before_it_is_written_is_caught() {
    must_be_caught(mistake::MARKED_EARLY, &["the device does not have"], 60_000, checkpoint_against_write_back);
}

#[test]
fn mistake_of_a_sync_that_hides_that_another_has_failed_is_caught() {
    let scenario = checkpoints_against_a_failing_sync;
    must_be_caught(mistake::FAILURE_FORGOTTEN, &["hid that a sync failed"], 10_000, scenario);
}

#[test]
fn mistake_of_a_checkpoint_that_misses_items_on_their_way_is_caught() {
    must_be_caught(mistake::LOOKED_AT_ONCE, &["the device does not have"], 10_000, checkpoint_against_a_load);
}

#[test]
fn mistake_of_a_checkpoint_that_forgets_changed_items_is_caught() {
    must_be_caught(mistake::CHANGES_FORGOTTEN, &["left an item"], 1_000, checkpoint_against_changed_items);
}

#[test]
fn mistake_of_a_page_that_gets_a_part_of_its_changes_is_caught() {
    must_be_caught(mistake::PART_MERGED, &["left an item"], 5_000, checkpoint_against_changed_items);
}
