//! Workers, a device and a canceller around one manager of cooperation, under many schedules. Run
//! with `make explore`.
//!
//! The host of this exploration does what a real one does: one lock, one queue of loads, a sleeping
//! place for waiting workers. It takes the lock anew for each call, so that others come between an
//! event and what follows from it. The explorer finds who sleeps for ever by itself; the host
//! checks each answer against its own page table. Each step that the manager rests on is left out
//! once ([`Mistake`]), and the exploration must then find the fault.
#![cfg(pagecast_shuttle)]
#![allow(clippy::unwrap_used)]

mod exploration;

use pagecast_core::cooperation::{Chunk, Cooperation, CooperationConfig, Load, Loading, MemberId, Take, Unit};
use pagecast_core::mistake::Mistake;
use pagecast_core::{PageId, RelationId, sync::atomic::AtomicU64};
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread;
use std::collections::{BTreeSet, VecDeque};

const FEW_SWITCHES: usize = 300;
const EVENLY_MIXED: usize = 100;
/// A chunk of three is loaded once, or a few times when it left before it was taken.
const MOST_LOADS: usize = 40;

/// What a worker's chunk is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Needed,
    Held,
    Consumed,
}

struct Shared {
    manager: Cooperation<Vec<AtomicU64>>,
    pool: BTreeSet<PageId>,
    orders: VecDeque<Load>,
    under_way: Vec<Load>,
    loads: usize,
    /// How often each member was woken.
    woken: Vec<(MemberId, u64)>,
    stages: Vec<(MemberId, Vec<Stage>)>,
    /// Workers that have not ended.
    workers: usize,
}

struct Host {
    shared: Mutex<Shared>,
    changed: Condvar,
    capacity: usize,
}

/// Neighbours share their border block: 0 to 2, 2 to 4, 4 to 6.
fn unit(number: u32) -> Unit {
    Unit { relation: RelationId(1), first: 2 * number, blocks: 3 }
}

fn pages(chunk: u32, need: u64) -> impl Iterator<Item = PageId> {
    let blocks = (0..3).filter(move |block| need >> block & 1 == 1);
    blocks.map(move |block| PageId::new(RelationId(1), unit(chunk).first + block))
}

impl Host {
    fn new(capacity: usize, loading: Loading) -> Arc<Self> {
        let config = CooperationConfig { scans: 3, units: 3, words: 200 };
        let memory: Vec<AtomicU64> = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
        let mut manager = Cooperation::format(memory, config).unwrap();
        manager.set_loading(loading);
        let shared = Shared {
            manager,
            pool: BTreeSet::new(),
            orders: VecDeque::new(),
            under_way: Vec::new(),
            loads: 0,
            woken: Vec::new(),
            stages: Vec::new(),
            workers: 0,
        };
        Arc::new(Self { shared: Mutex::new(shared), changed: Condvar::new(), capacity })
    }

    /// A scan that needs `need` of each of the first `chunks` units.
    fn register(&self, chunks: u32, need: u64, workers: usize) -> MemberId {
        let mask = [need];
        let list: Vec<Chunk<'_>> =
            (0..chunks).map(|number| Chunk { unit: unit(number), need: &mask, joined: false }).collect();
        let mut guard = self.shared.lock().unwrap();
        let Shared { manager, pool, .. } = &mut *guard;
        let id = manager.register(&list, workers as u32, 0, |page| pool.contains(&page)).unwrap();
        guard.woken.push((id, 0));
        guard.stages.push((id, vec![Stage::Needed; chunks as usize]));
        guard.workers += workers;
        drop(guard);
        self.follow_up();
        id
    }

    /// What follows from an event: loads, and waking.
    fn follow_up(&self) {
        loop {
            let mut shared = self.shared.lock().unwrap();
            let Some(load) = shared.manager.next_load(0) else { break };
            let unit_of = |load: &Load| load.chunk;
            assert!(shared.under_way.iter().all(|other| unit_of(other) != unit_of(&load)), "loaded twice at once");
            shared.loads += 1;
            assert!(shared.loads <= MOST_LOADS, "loads without progress");
            shared.under_way.push(load);
            shared.orders.push_back(load);
        }
        let mut guard = self.shared.lock().unwrap();
        let Shared { manager, woken, .. } = &mut *guard;
        manager.wake(|id| woken.iter_mut().filter(|(member, _)| *member == id).for_each(|(_, times)| *times += 1));
        drop(guard);
        self.changed.notify_all();
    }

    /// One worker, which gives back the first chunk that it gets if it is `fickle`.
    fn work(&self, id: MemberId, need: u64, fickle: bool) {
        let mut fickle = fickle;
        loop {
            let mut guard = self.shared.lock().unwrap();
            let chunk = loop {
                match guard.manager.take(id, 0) {
                    Take::Chunk { chunk, resident, .. } => {
                        let there = pages(chunk, need).all(|page| guard.pool.contains(&page));
                        assert_eq!(resident, there, "chunk {chunk}: what the manager knows of the pool");
                        break Some(chunk);
                    }
                    Take::End => break None,
                    Take::Wait => {
                        let times = |shared: &Shared| shared.woken.iter().find(|(member, _)| *member == id).unwrap().1;
                        let before = times(&guard);
                        while times(&guard) == before {
                            guard = self.changed.wait(guard).unwrap();
                        }
                    }
                }
            };
            let Some(number) = chunk else { break };
            let stage = |shared: &mut Shared, from: Stage, to: Stage| {
                let (_, stages) = shared.stages.iter_mut().find(|(member, _)| *member == id).unwrap();
                assert_eq!(std::mem::replace(&mut stages[number as usize], to), from, "chunk {number}");
            };
            stage(&mut guard, Stage::Needed, Stage::Held);
            drop(guard);
            let mut guard = self.shared.lock().unwrap();
            if std::mem::take(&mut fickle) {
                stage(&mut guard, Stage::Held, Stage::Needed);
                guard.manager.give_back(id, number);
            } else {
                stage(&mut guard, Stage::Held, Stage::Consumed);
                guard.manager.consumed(id, number);
            }
            drop(guard);
            self.follow_up();
        }
        let mut guard = self.shared.lock().unwrap();
        guard.workers -= 1;
        drop(guard);
        self.changed.notify_all();
    }

    /// Carries out loads until all workers have ended.
    fn load(&self) {
        loop {
            let mut guard = self.shared.lock().unwrap();
            let load = loop {
                match guard.orders.pop_front() {
                    Some(load) => break load,
                    None if guard.workers == 0 => return,
                    None => guard = self.changed.wait(guard).unwrap(),
                }
            };
            let mut wanted = Vec::new();
            guard.manager.pages(&load, |page| wanted.push(page));
            drop(guard);
            for page in wanted {
                let mut guard = self.shared.lock().unwrap();
                if guard.pool.len() >= self.capacity
                    && let Some(victim) = guard.pool.iter().copied().find(|other| *other != page)
                {
                    guard.pool.remove(&victim);
                    guard.manager.left(victim);
                }
                guard.pool.insert(page);
                guard.manager.arrived(page);
                drop(guard);
                self.follow_up();
            }
            let mut guard = self.shared.lock().unwrap();
            guard.under_way.retain(|other| *other != load);
            guard.manager.loaded(&load, 0);
            drop(guard);
            self.follow_up();
        }
    }

    /// Everything has been read, and nothing is left behind.
    fn check_end(&self, finished: &[MemberId]) {
        let mut shared = self.shared.lock().unwrap();
        for (id, stages) in std::mem::take(&mut shared.stages) {
            assert!(finished.contains(&id) || stages.iter().all(|&stage| stage == Stage::Consumed), "{stages:?}");
            shared.manager.finish(id);
        }
        let usage = shared.manager.usage();
        assert_eq!((usage.scans, usage.units, usage.words, usage.loads), (0, 0, 0, 0));
    }
}

fn manager(outstanding: u32) -> Loading {
    Loading::Manager { outstanding }
}

/// Two workers of one scan and one of another, a device, and room for all.
fn all_is_read_once(host: &Arc<Host>) {
    let (wide, narrow) = (host.register(2, 0b111, 2), host.register(2, 0b101, 1));
    let loader = spawn(host, Host::load);
    let workers = [(wide, 0b111, true), (wide, 0b111, false), (narrow, 0b101, false)]
        .map(|(id, need, fickle)| spawn(host, move |host| host.work(id, need, fickle)));
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    loader.join().unwrap();
    host.check_end(&[]);
}

fn spawn(host: &Arc<Host>, run: impl FnOnce(&Host) + Send + 'static) -> thread::JoinHandle<()> {
    let host = Arc::clone(host);
    thread::spawn(move || run(&host))
}

fn with_room() {
    all_is_read_once(&Host::new(10, manager(1)));
}

fn with_two_loads_at_once() {
    all_is_read_once(&Host::new(10, manager(2)));
}

/// A pool that holds less than one chunk.
fn with_two_frames() {
    all_is_read_once(&Host::new(2, manager(1)));
}

fn each_for_itself() {
    all_is_read_once(&Host::new(10, Loading::Opportunistic));
}

/// A scan ends while a load for it may be under way; another goes on.
fn one_is_cancelled() {
    let host = Host::new(10, manager(1));
    let (cancelled, other) = (host.register(1, 0b111, 0), host.register(2, 0b101, 1));
    let loader = spawn(&host, Host::load);
    let worker = spawn(&host, move |host| host.work(other, 0b101, false));
    host.shared.lock().unwrap().manager.finish(cancelled);
    host.follow_up();
    worker.join().unwrap();
    loader.join().unwrap();
    host.check_end(&[cancelled]);
}

fn explore(protocol: fn(), left_out: Option<Mistake>) {
    exploration::explore((FEW_SWITCHES, EVENLY_MIXED), protocol, left_out);
}

#[test]
fn two_scans_share_a_device() {
    explore(with_room, None);
    explore(with_room, Some(Mistake::LostWakeUp));
    explore(with_room, Some(Mistake::EndWakesNobody));
    explore(with_room, Some(Mistake::HandedOutTwice));
    explore(with_room, Some(Mistake::BorderCountedOnce));
}

#[test]
fn two_loads_go_at_once() {
    explore(with_two_loads_at_once, None);
    explore(with_two_loads_at_once, Some(Mistake::LoadedTwice));
}

#[test]
fn a_pool_smaller_than_a_chunk_finishes() {
    explore(with_two_frames, None);
    explore(with_two_frames, Some(Mistake::NotGranted));
}

#[test]
fn scans_that_read_for_themselves_wait_for_nobody() {
    explore(each_for_itself, None);
}

#[test]
fn a_scan_ends_during_its_load() {
    explore(one_is_cancelled, None);
    explore(one_is_cancelled, Some(Mistake::EndedLoadStays));
}
