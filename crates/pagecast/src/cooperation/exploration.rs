//! Explores schedules of takes, loads, leases and cancellations, over a cache whose pages come and
//! go: `make explore`.
//!
//! A waker that is lost, or a load that nobody begins, leaves a thread asleep, which the explorer
//! reports as a deadlock. At the end each scan has had each of its chunks once, nothing is left of
//! any, and what the manager believes to be resident is so.
//!
//! | what meets what | test |
//! |---|---|
//! | takes of several scans, and loads that evict what others wait for | `scans_take_what_is_loaded` |
//! | workers of one scan, one of whom is cancelled or gives back | `workers_come_and_go` |
//! | a load that fails | `scans_take_what_is_loaded` |
//! | loads that are held back while a scan rests | `a_scan_that_rests_holds_nobody_up` |
//! | pages that come and go while a scan registers | `what_is_believed_resident_is_so` |

#![allow(clippy::unwrap_used)]

use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use pagecast_core::cooperation::{Chunk, CooperationConfig, Load, Loading, MemberId, Take, Unit};
use pagecast_core::oracle::NoScans;
use pagecast_core::policy::Access;
use pagecast_core::{PageId, ScanId, Tick};
use shuttle::thread;

use super::{Account, Cooperation, End, Loader, Processors, Taken};
use crate::blocking::block_on;
use crate::cache::exploration::{Io, RELATION, explore, must_be_caught, page, perform, settled, visit, with};
use crate::cache::{Ahead, Cache, Placement};
use crate::sync::mistake;

/// A cache, and who loads into it.
#[derive(Clone)]
struct World {
    cache: Arc<Cache>,
    io: Io,
    /// Time passes with each look at it, and while somebody sleeps.
    clock: Arc<AtomicU64>,
    /// How many pages a scan asks for that registers.
    asks_for: u64,
}

struct UnderWay {
    world: World,
    load: Load,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.world.cache.cooperation.loaded(&self.load, &self.world);
    }
}

impl Loader for World {
    fn now(&self) -> Tick {
        self.clock.fetch_add(1, Relaxed)
    }

    fn later(&self, ticks: Tick) -> bool {
        let world = self.clone();
        thread::spawn(move || {
            world.clock.fetch_add(ticks, Relaxed);
            world.cooperation().look_again(&world);
        });
        true
    }

    fn bring(&self, load: Load, account: Option<Arc<Account>>, pages: Vec<PageId>) {
        let scan = account.map(|account| account.scan);
        let under_way = Arc::new(UnderWay { world: self.clone(), load });
        for page in pages {
            match self.cache.bring_at_once(Access { page, scan, write: false, at: 0 }) {
                Ahead::Started(mut loading) => {
                    loading.accompany(under_way.clone());
                    if self.cache.place(&mut loading, &NoScans) == Placement::Placed {
                        let io = self.io;
                        thread::spawn(move || perform(loading, io));
                    } else {
                        loading.give_up();
                    }
                }
                Ahead::There => self.cache.cooperation.arrived(page, || self.cache.is_resident(page)),
                Ahead::NoRoom => {}
            }
        }
    }
}

impl World {
    /// With so many frames, for two scans of up to four units.
    fn new(frames: u32, io: Io) -> Self {
        let cooperation = Cooperation::new(CooperationConfig::of(2, 4, 2, 1)).unwrap();
        let cache = with("clock(max=1,init=0)", frames, frames, cooperation);
        Self { cache, io, clock: Arc::default(), asks_for: 0 }
    }

    fn cooperation(&self) -> &Cooperation {
        &self.cache.cooperation
    }

    /// A scan of these blocks, each a chunk.
    fn register(&self, blocks: Range<u32>) -> MemberId {
        let chunk = |first| Chunk { unit: Unit { relation: RELATION, first, blocks: 1 }, need: &[1], joined: false };
        let chunks: Vec<_> = blocks.map(chunk).collect();
        let account = Account::new(ScanId::from_raw(0));
        let residency = || self.cache.residency(self.asks_for);
        self.cooperation().register(&chunks, 1, account, residency, self).unwrap()
    }

    fn end(&self, member: MemberId, taken: Taken, end: End) {
        self.cooperation().end(member, taken.chunk, end, self);
    }

    /// Takes and reads until there is nothing more.
    fn drain(&self, member: MemberId) -> Vec<u32> {
        let mut chunks = Vec::new();
        while let Some(taken) = block_on(self.cooperation().take(member, self)) {
            visit(&self.cache, taken.chunk, Io::Works);
            self.end(member, taken, End::Consumed);
            chunks.push(taken.chunk);
        }
        chunks
    }

    /// Nothing is left of anybody.
    fn settled(&self) {
        crate::cache::exploration::drain(&self.cache);
        settled(&self.cache, 4);
        assert!(self.cooperation().views().is_empty(), "a registration is left");
    }
}

fn each_once(mut chunks: Vec<u32>, count: u32) {
    chunks.sort_unstable();
    assert_eq!(chunks, (0..count).collect::<Vec<_>>(), "each chunk once");
}

/// Two scans of the same three chunks over one frame or two.
fn two_scans(frames: u32, io: Io) {
    let world = World::new(frames, io);
    let scans = [(); 2].map(|()| {
        let world = world.clone();
        thread::spawn(move || {
            let member = world.register(0..3);
            each_once(world.drain(member), 3);
            world.cooperation().finish(member, &world);
        })
    });
    scans.into_iter().for_each(|scan| scan.join().unwrap());
    world.settled();
}

/// Two scans of a chunk each, one of which may find the turn taken and wait for a load that the
/// other has to begin: one goes at a time.
fn one_turn_for_two() {
    let world = World::new(2, Io::Works);
    world.cooperation().state.lock().manager.set_loading(Loading::Manager { outstanding: 1 });
    let scans = [0, 1].map(|block| {
        let world = world.clone();
        thread::spawn(move || {
            let member = world.register(block..block + 1);
            assert_eq!(world.drain(member).len(), 1);
            world.cooperation().finish(member, &world);
        })
    });
    scans.into_iter().for_each(|scan| scan.join().unwrap());
    world.settled();
}

/// Two workers of a scan of two chunks, and one who looks once and goes, or gives back what it
/// got.
fn workers_of_one() {
    let world = World::new(1, Io::Works);
    let member = world.register(0..2);
    let workers = [(); 2].map(|()| {
        let world = world.clone();
        thread::spawn(move || world.drain(member))
    });
    {
        let mut take = pin!(world.cooperation().take(member, &world));
        if let Poll::Ready(Some(taken)) = take.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            world.end(member, taken, End::Returned);
        }
    }
    each_once(workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect(), 2);
    world.cooperation().finish(member, &world);
    world.settled();
}

/// A scan takes a chunk and rests until the other, whose loads wait for it, has ended.
fn one_rests() {
    let world = World::new(2, Io::Works);
    let resting = world.register(0..2);
    let taken = block_on(world.cooperation().take(resting, &world)).unwrap();
    world.cooperation().state.lock().processors = Processors::always(1);
    let other = world.clone();
    let other = thread::spawn(move || {
        let member = other.register(2..4);
        assert_eq!(other.drain(member).len(), 2);
        other.cooperation().finish(member, &other);
    });
    other.join().unwrap();
    world.end(resting, taken, End::Returned);
    each_once(world.drain(resting), 2);
    world.cooperation().finish(resting, &world);
    world.settled();
}

/// A scan registers while pages come and go by other hands.
fn residency(asks_for: u64) {
    let world = World { asks_for, ..World::new(1, Io::Works) };
    let others = [0, 1].map(|block| {
        let cache = world.cache.clone();
        thread::spawn(move || visit(&cache, block, Io::Works))
    });
    let member = world.register(0..2);
    others.into_iter().for_each(|other| other.join().unwrap());
    // Until those who load have told what has come: each has the cache until then.
    while Arc::strong_count(&world.cache) > 1 {
        thread::yield_now();
    }
    // Of those that may be handed out, some were loaded for the scan and have left since.
    let take = || world.cooperation().state.lock().manager.take(member, 0);
    let mut believed = Vec::new();
    while let Take::Chunk { chunk, resident, .. } = take() {
        believed.extend(resident.then_some(chunk));
    }
    believed.sort_unstable();
    let resident: Vec<_> = (0..2).filter(|&block| world.cache.is_resident(page(block))).collect();
    assert_eq!(believed, resident, "what is believed is not so");
    world.cooperation().finish(member, &world);
    world.settled();
}

#[test]
fn scans_take_what_is_loaded() {
    explore(2_000, one_turn_for_two);
    explore(500, || two_scans(2, Io::Works));
    explore(500, || two_scans(1, Io::Works));
    explore(300, || two_scans(2, Io::Fails));
    explore(300, || two_scans(2, Io::Panics));
}

#[test]
fn workers_come_and_go() {
    explore(2_000, workers_of_one);
}

#[test]
fn a_scan_that_rests_holds_nobody_up() {
    explore(1_000, one_rests);
}

#[test]
fn mistake_of_a_clock_that_nobody_sets_is_caught() {
    must_be_caught(mistake::NO_CLOCK, &["deadlock"], 5_000, one_rests);
}

#[test]
fn what_is_believed_resident_is_so() {
    explore(2_000, || residency(0));
    // By a look at the frames.
    explore(2_000, || residency(u64::MAX));
}

#[test]
fn mistake_of_a_waker_that_is_left_late_is_caught() {
    must_be_caught(mistake::WAKER_LATE, &["deadlock"], 5_000, || two_scans(2, Io::Works));
}

#[test]
fn mistake_of_a_turn_that_is_kept_is_caught() {
    must_be_caught(mistake::TURN_KEPT, &["deadlock"], 20_000, one_turn_for_two);
}

#[test]
fn mistake_of_waking_one_of_several_is_caught() {
    must_be_caught(mistake::ONE_WOKEN, &["deadlock"], 5_000, workers_of_one);
}

#[test]
fn mistake_of_a_return_that_nobody_hears_of_is_caught() {
    must_be_caught(mistake::RETURN_UNTOLD, &["deadlock"], 5_000, workers_of_one);
}

#[test]
fn mistake_of_taking_an_event_for_the_state_is_caught() {
    must_be_caught(mistake::EVENT_BELIEVED, &["what is believed is not so"], 5_000, || residency(0));
}
