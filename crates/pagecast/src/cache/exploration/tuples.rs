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

/// A cache of which one frame is a slab: the last, if it is to be that.
fn cache_with_slab(frames: u32, is_last: bool) -> Arc<Cache> {
    let policy = PolicySpec::parse("clock(max=1,init=0)").unwrap().build(frames, 1).unwrap().into_concurrent(QUEUE);
    let cooperation = Cooperation::new(CooperationConfig::EMPTY).unwrap();
    let config = TupleConfig { max_share: 0.4, shares: None, seed: 1 };
    let cache =
        Cache::new(FrameMemory::new(frames, 4096).unwrap(), (frames, frames), policy, cooperation, Some(config));
    let layout: Arc<dyn TupleLayout> = Arc::new(FixedRows { first: 0, row: 4 });
    assert!(cache.set_layout(RELATION, &layout));
    let others: Vec<_> = (1..frames).filter(|_| is_last).filter_map(|_| cache.free.take()).collect();
    cache.lend(|| cache.free.take());
    others.into_iter().rev().for_each(|owned| cache.free.give(owned, &cache.memory));
    assert_eq!(cache.slabs(), 1);
    cache
}

/// The changed page is the device's first, and the others are not on it.
fn load(cache: &Arc<Cache>, disk: &Disk, block: u32, changed: u32) -> Option<Held> {
    match cache.request(&mut Anyone, access(block)) {
        Request::Hit(held) => Some(held),
        Request::Joined { waiter, .. } => block_on(waiter).unwrap(),
        Request::Started(loading, waiter) => {
            fill(cache, disk, loading, changed);
            block_on(waiter).unwrap()
        }
        Request::Full => None,
    }
}

/// What an I/O thread does, and what finds it a frame.
fn fill(cache: &Arc<Cache>, disk: &Disk, mut loading: Loading, changed: u32) {
    if cache.place(&mut loading, &NoScans) != Placement::Placed {
        loading.give_up();
        return;
    }
    loading.bytes().fill(OTHER);
    if loading.access().page.block() == changed {
        let content = disk.lock().unwrap()[0];
        loading.bytes()[..PAGE_BYTES].copy_from_slice(&content);
    }
    others_may_run();
    loading.apply_changes(PAGE_BYTES as u32).unwrap();
    loading.publish(PAGE_BYTES as u32, 0);
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
    /// The first is changed, the others are not.
    blocks: [u32; 4],
    /// Changes that have ended.
    ended: AtomicU8,
}

impl Scene {
    fn new() -> Arc<Self> {
        Self::of(cache_with_slab(3, false))
    }

    fn of(cache: Arc<Cache>) -> Arc<Self> {
        let (blocks, ended) = ([0, 1, 2, 3], AtomicU8::new(0));
        Arc::new(Self { cache, disk: disk(), blocks, ended })
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

/// The page is evicted by one while it is loaded, changed, written and evicted by another, who
/// waits for nothing that the first one loads.
fn dissolve_against_change() {
    let scene = Scene::new();
    scene.read(0);
    scene.read(1);
    let reader = spawn(&scene, |scene| [2, 0].into_iter().for_each(|at| scene.read(at)));
    let changer = spawn(&scene, |scene| {
        scene.change();
        [3, 0].into_iter().for_each(|at| scene.read(at));
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
        let _ = [2, 3].map(|frames| resize(&scene.cache, frames));
    });
    scene.change();
    reader.join().unwrap();
    resizer.join().unwrap();
    scene.end();
}

/// The pool shrinks to a page that is pinned and the slab, which is too many then: its frame is had
/// for another page, whoever takes it away.
fn slab_against_shrink() {
    let scene = Scene::of(cache_with_slab(4, false));
    let cache = &scene.cache;
    [0, 1, 2].into_iter().for_each(|at| scene.read(at));
    let pinned = (0..3).map(|block| load(cache, &scene.disk, block, 0).unwrap());
    let (low, above): (Vec<_>, Vec<_>) = pinned.partition(|held| held.index() < 2);
    assert!(low.len() == 1 && cache.headers[0].is_slab(0));
    above.into_iter().for_each(|held| cache.unpin(held));
    let resizer = spawn(&scene, |scene| {
        resize(&scene.cache, 2);
    });
    let held = load(cache, &scene.disk, 3, 0).expect("the slab's frame can be had");
    resizer.join().unwrap();
    cache.unpin(held);
    low.into_iter().for_each(|held| cache.unpin(held));
    cache.shed(u32::MAX, &access(0), &NoScans);
    scene.end();
}

/// A slab that holds a change is in a frame that is out of use, since all others are pinned. The
/// pool grows, and shrinks again, while a miss empties the frames that are out of use.
fn slab_against_growth() {
    let scene = Scene::of(cache_with_slab(4, true));
    let (cache, blocks) = (&scene.cache, scene.blocks);
    // The first page dissolves when three others come.
    [0, 1, 2, 3].into_iter().for_each(|at| scene.read(at));
    add_one_to_item(&scene, 1);
    assert_eq!(cache.changed_mini_pages(), 1, "the first page was not dissolved");
    let in_frame = |frame: u32| blocks.into_iter().find(|&block| cache.headers[frame as usize].is_tagged(page(block)));
    let pinned: Vec<_> = [0, 1].into_iter().filter_map(|frame| load(cache, &scene.disk, in_frame(frame)?, 0)).collect();
    assert_eq!(pinned.len(), 2);
    // One of two frames is to be a slab, so that this one may move.
    cache.tuples.as_ref().unwrap().set_share(0.5);
    resize(cache, 2);
    assert!(cache.slabs() == 1 && cache.headers[3].is_slab(0), "the slab stays, for what it holds");
    let resizer = spawn(&scene, |scene| {
        let _ = [4, 2, 4].map(|frames| resize(&scene.cache, frames));
    });
    let misser = spawn(&scene, |scene| scene.read(2));
    resizer.join().unwrap();
    misser.join().unwrap();
    pinned.into_iter().for_each(|held| cache.unpin(held));
    load(cache, &scene.disk, 0, 0).into_iter().for_each(|held| cache.unpin(held));
    let (index, mut copy) = (cache.find_dirty(page(0)).expect("the page has the change"), [0; PAGE_BYTES]);
    cache.begin_write(index, page(0), &mut copy).expect("it is dirty").done();
    cache.check();
    assert_eq!((copy[4], cache.changed_mini_pages()), (1, 0), "a change was lost");
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

/// Adds one to an item of the first page, without the page.
fn add_one_to_item(scene: &Scene, name: u32) {
    let cache = &scene.cache;
    let mut bytes = [0; 4];
    let Some(updating) = cache.begin_update(access(scene.blocks[0]), (name, 4), false) else { return };
    assert_eq!(cache.copy_item(&mut Anyone, page(scene.blocks[0]), name, &mut bytes[..]), Some(4));
    assert!(updating.finish(&[bytes[0] + 1; 4], 1).is_none(), "nobody waits for the page");
}

#[test]
fn items_never_go_back() {
    explore(4_000, dissolve_against_change);
    explore(2_000, slab_against_reader);
    explore(2_000, slab_against_resize);
    explore(2_000, slab_against_shrink);
    explore(1_000, discard_against_dissolve);
    explore(1_000, slab_against_growth);
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
fn mistake_of_a_frame_that_is_shed_unsaid_is_caught() {
    must_be_caught(mistake::SHED_UNSAID, &["can be had"], 5_000, slab_against_shrink);
}

#[test]
fn mistake_of_items_that_stay_when_their_page_comes_is_caught() {
    must_be_caught(mistake::ITEMS_KEPT, &["went back", "(T1)"], 10_000, dissolve_against_change);
}
