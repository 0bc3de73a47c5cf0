//! Schedules of items without their pages: their pages are loaded, changed, written and evicted
//! meanwhile, and slabs come and go.
//!
//! Pages and the device are those of `writes`. An item that is read is as new as the newest change
//! that had ended before the read began, and never of another page.

use std::sync::atomic::AtomicU8;

use super::writes::{Disk, add_one_to, disk, whole, write_at};
use super::*;
use crate::cache::TupleConfig;
use crate::layout::{FixedRows, TupleLayout};

/// What the whole frame of a page that is never changed is filled with.
const OTHER: u8 = 77;

/// A cache of which one frame may be a slab, and blocks that have their items in it: the first is
/// changed, the others are not.
fn cache_with_tuples() -> (Arc<Cache>, [u32; 3]) {
    let policy = PolicySpec::parse("clock(max=1,init=0)").unwrap().build(3, 1).unwrap().into_concurrent(QUEUE);
    let cooperation = Cooperation::new(CooperationConfig::EMPTY).unwrap();
    let config = TupleConfig { max_share: 0.4, shares: None, seed: 1 };
    let cache = Cache::new(FrameMemory::new(3, 4096).unwrap(), 3, policy, cooperation, Some(config));
    let layout: Arc<dyn TupleLayout> = Arc::new(FixedRows { first: 0, row: 4 });
    assert!(cache.set_layout(RELATION, &layout));
    cache.lend(|| cache.free.take());
    assert_eq!(cache.slabs(), 1);
    let mut blocks = (0..100).filter(|&block| cache.table.shard_number(page(block)) == 0);
    let blocks = std::array::from_fn(|_| blocks.next().unwrap());
    (cache, blocks)
}

/// The changed page is the device's first, and the others are not on it.
fn load(cache: &Arc<Cache>, disk: &Disk, block: u32, changed: u32) -> Option<Held> {
    match cache.request(&mut Anyone, access(block)) {
        Request::Hit(held) => Some(held),
        Request::Joined { waiter, .. } => block_on(waiter).unwrap(),
        Request::Started(mut loading, waiter) => {
            if cache.place(&mut loading, &NoScans) == Placement::Placed {
                loading.bytes().fill(OTHER);
                if block == changed {
                    let content = disk.lock().unwrap()[0];
                    loading.bytes()[..PAGE_BYTES].copy_from_slice(&content);
                }
                others_may_run();
                loading.publish(PAGE_BYTES as u32, 0);
            } else {
                loading.give_up();
            }
            block_on(waiter).unwrap()
        }
        Request::Full => None,
    }
}

/// An item of the page, from its mini-page if it has one. None if there was no frame.
fn item(cache: &Arc<Cache>, disk: &Disk, block: u32, changed: u32) -> Option<u8> {
    let mut bytes = [0; 4];
    if cache.copy_item(&mut Anyone, page(block), 1, &mut bytes[..]) == Some(4) {
        assert_eq!(bytes, [bytes[0]; 4], "a change is seen in the middle");
        return Some(bytes[0]);
    }
    let held = load(cache, disk, block, changed)?;
    cache.visit(held.index(), 1);
    let value = whole(cache.bytes(&held));
    cache.unpin(held);
    Some(value)
}

struct Scene {
    cache: Arc<Cache>,
    disk: Disk,
    blocks: [u32; 3],
    /// Changes that have ended.
    ended: AtomicU8,
}

impl Scene {
    fn new() -> Arc<Self> {
        let (cache, blocks) = cache_with_tuples();
        Arc::new(Self { cache, disk: disk(), blocks, ended: AtomicU8::new(0) })
    }

    fn read(&self, at: usize) {
        let ended = self.ended.load(Ordering::SeqCst);
        let Some(value) = item(&self.cache, &self.disk, self.blocks[at], self.blocks[0]) else { return };
        match at {
            0 => assert!((ended..10).contains(&value), "an item went back, or is of another page: {value}"),
            _ => assert_eq!(value, OTHER, "an item is of another page"),
        }
    }

    /// Adds one to the first page and writes it.
    fn change(&self) {
        let block = self.blocks[0];
        let pinned = || load(&self.cache, &self.disk, block, block);
        if add_one_to(&self.cache, pinned) {
            self.ended.fetch_add(1, Ordering::SeqCst);
        }
        write_at(&self.cache, &self.disk, block, 0);
    }

    /// Nobody is at work: all invariants hold, and nothing is lost.
    fn end(&self) {
        self.read(0);
        self.cache.check();
        write_at(&self.cache, &self.disk, self.blocks[0], 0);
        assert_eq!(whole(&self.disk.lock().unwrap()[0]), self.ended.load(Ordering::SeqCst), "a change was lost");
    }
}

fn spawn(scene: &Arc<Scene>, work: impl FnOnce(&Scene) + Send + 'static) -> thread::JoinHandle<()> {
    let scene = scene.clone();
    thread::spawn(move || work(&scene))
}

/// The page is evicted by one while it is loaded, changed, written and evicted by another.
fn dissolve_against_change() {
    let scene = Scene::new();
    scene.read(0);
    scene.read(1);
    let reader = spawn(&scene, |scene| [2, 0, 1].into_iter().for_each(|at| scene.read(at)));
    let changer = spawn(&scene, |scene| {
        scene.change();
        scene.read(2);
        scene.read(1);
        scene.read(0);
    });
    reader.join().unwrap();
    changer.join().unwrap();
    scene.end();
}

/// The slab goes, its frame is filled with a page, and it comes again, under a reader.
fn slab_against_reader() {
    let scene = Scene::new();
    [0, 1, 2, 1].into_iter().for_each(|at| scene.read(at));
    let reader = spawn(&scene, |scene| (0..3).for_each(|_| scene.read(0)));
    let border = spawn(&scene, |scene| {
        let cache = &scene.cache;
        cache.tuples.as_ref().unwrap().set_share(0.0);
        if let Some(owned) = cache.take_slab() {
            cache.free.give(owned, &cache.memory);
        }
        [1, 2].into_iter().for_each(|at| scene.read(at));
        cache.tuples.as_ref().unwrap().set_share(0.4);
        [1, 0, 2].into_iter().for_each(|at| scene.read(at));
    });
    reader.join().unwrap();
    border.join().unwrap();
    scene.end();
}

/// The pool shrinks and grows under the slab.
fn slab_against_resize() {
    let scene = Scene::new();
    [0, 1, 2, 1].into_iter().for_each(|at| scene.read(at));
    let reader = spawn(&scene, |scene| [0, 2, 0].into_iter().for_each(|at| scene.read(at)));
    let resizer = spawn(&scene, |scene| {
        [2, 3].map(|frames| scene.cache.resize(frames));
    });
    scene.change();
    reader.join().unwrap();
    resizer.join().unwrap();
    scene.end();
}

/// The relation is dropped while its pages dissolve.
fn discard_against_dissolve() {
    let scene = Scene::new();
    scene.read(0);
    let reader = spawn(&scene, |scene| [1, 2, 0].into_iter().for_each(|at| scene.read(at)));
    scene.cache.discard(RELATION);
    reader.join().unwrap();
    scene.end();
}

#[test]
fn items_never_go_back() {
    explore(4_000, dissolve_against_change);
    explore(2_000, slab_against_reader);
    explore(2_000, slab_against_resize);
    explore(1_000, discard_against_dissolve);
}

#[test]
fn mistake_of_a_stale_publication_is_caught() {
    must_be_caught(mistake::STALE_PUBLICATION, &["went back"], 20_000, dissolve_against_change);
}

#[test]
fn mistake_of_an_item_without_a_second_look_is_caught() {
    must_be_caught(mistake::NO_ITEM_VALIDATION, &["of another page"], 10_000, slab_against_reader);
}

#[test]
fn mistake_of_items_that_stay_when_their_page_comes_is_caught() {
    must_be_caught(mistake::ITEMS_KEPT, &["went back", "(T1)"], 10_000, dissolve_against_change);
}
