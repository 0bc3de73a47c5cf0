//! A store for as long as `SOAK_SECONDS` says, 3 unless it is set: threads that read, change,
//! insert, delete and walk through ranges, while it is resized and makes checkpoints. No change is
//! lost, the pool never takes more memory than it is given, and the process no more beside than the
//! documentation of `Options::memory` says.
//!
//! Alone in its binary, because it counts every allocation of the process.
#![allow(clippy::unwrap_used)]

mod counting_unsafe;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use pagecast::TupleOptions;
use pagecast_core::random::Random;
use pagecast_kv::{Batch, Options, Store};

const WORKERS: u32 = 4;
/// Each has as many keys of its own, in between those of the others.
const KEYS: u32 = 5_000;
const LEAST_MEMORY: u64 = 1 << 20;
const MOST_MEMORY: u64 = 4 << 20;
/// The log's buffers, of which the pool knows nothing.
const LOG_BUFFERS: u64 = 2 * MOST_MEMORY / 128;
/// What each thread may have beside: copies of the pages that its batch changes, their record, the
/// leaf of its range, and the keys and values that it has in hand.
const IN_HAND: u64 = 128 << 10;
/// Copies of pages that are being written, and as many again for double writes: no more than there
/// are, of all threads together.
const IN_WRITING: u64 = 2 * MOST_MEMORY;

fn key(worker: u32, number: u32) -> [u8; 8] {
    (u64::from(number) * u64::from(WORKERS) + u64::from(worker)).to_be_bytes()
}

/// What a key must have: a value of one byte again and again, so long.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Held {
    byte: u8,
    length: u16,
}

impl Held {
    fn draw(random: &mut Random, length: Option<u16>) -> Self {
        let drawn = 100 + random.below(300) as u16;
        Self { byte: random.below(256) as u8, length: length.unwrap_or(drawn) }
    }

    fn value(self) -> Vec<u8> {
        vec![self.byte; self.length.into()]
    }

    fn of(value: &[u8]) -> Self {
        assert!(value.iter().all(|&byte| byte == value[0]), "a value of two changes");
        Self { byte: value[0], length: value.len() as u16 }
    }
}

struct Soak {
    store: Store,
    is_over: AtomicBool,
    done: AtomicU64,
}

impl Soak {
    fn fill(&self, worker: u32, held: &mut [Option<Held>]) {
        let mut random = Random::new(u64::from(worker));
        for (first, some) in (0..).step_by(25).zip(held.chunks_mut(25)) {
            let mut batch = Batch::new();
            for (number, held) in (first..).zip(some) {
                let new = Held::draw(&mut random, None);
                batch.put(&key(worker, number), &new.value());
                *held = Some(new);
            }
            self.store.write(&batch).unwrap();
        }
    }

    fn work(&self, worker: u32, held: &mut [Option<Held>]) {
        let mut random = Random::new(u64::from(worker) + 1);
        while !self.is_over.load(Relaxed) {
            // A twentieth of the keys is asked for most of the time.
            let most = if random.below(4) == 0 { KEYS } else { KEYS / 20 };
            let number = random.below(most) * (KEYS / most);
            let (of_key, key) = (&mut held[number as usize], key(worker, number));
            match random.below(16) {
                0 => {
                    assert_eq!(self.store.delete(&key).unwrap(), of_key.is_some());
                    *of_key = None;
                }
                1..3 => self.put(&key, of_key, Held::draw(&mut random, None)),
                3..7 => {
                    let length = of_key.map(|held| held.length);
                    self.put(&key, of_key, Held::draw(&mut random, length));
                }
                7 => self.write_some(worker, number, held, &mut random),
                8 => self.walk(worker, number, held, &mut random),
                _ => assert_eq!(self.store.get_with(&key, Held::of).unwrap(), *of_key, "{worker}: {number}"),
            }
            self.done.fetch_add(1, Relaxed);
        }
    }

    fn put(&self, key: &[u8], held: &mut Option<Held>, new: Held) {
        self.store.put(key, &new.value()).unwrap();
        *held = Some(new);
    }

    fn write_some(&self, worker: u32, first: u32, held: &mut [Option<Held>], random: &mut Random) {
        let mut batch = Batch::new();
        for number in (first..KEYS).step_by(37).take(6) {
            let new = (random.below(4) > 0).then(|| Held::draw(random, None));
            match new {
                Some(new) => batch.put(&key(worker, number), &new.value()),
                None => batch.delete(&key(worker, number)),
            };
            held[number as usize] = new;
        }
        self.store.write(&batch).unwrap();
    }

    /// Sees its own keys as they are, whatever happens to the others between them.
    fn walk(&self, worker: u32, first: u32, held: &[Option<Held>], random: &mut Random) {
        let end = (first + random.below(200)).min(KEYS - 1);
        let (from, to) = (key(worker, first), key(worker, end));
        let mut range = self.store.range(&from[..]..&to[..]);
        let backward = random.below(2) == 0;
        let mut numbers = first..end;
        while let Some(entry) = if backward { range.next_back() } else { range.next() } {
            let (found, value) = entry.unwrap();
            let found = u64::from_be_bytes(found.try_into().unwrap());
            if found % u64::from(WORKERS) != u64::from(worker) {
                continue;
            }
            let expected = loop {
                let number = if backward { numbers.next_back() } else { numbers.next() }.unwrap();
                if held[number as usize].is_some() {
                    break number;
                }
            };
            assert_eq!(found / u64::from(WORKERS), u64::from(expected), "{worker}: an entry is missing or too many");
            assert_eq!(Some(Held::of(&value)), held[expected as usize]);
        }
        assert!(numbers.all(|number| held[number as usize].is_none()), "{worker}: a range ends too early");
    }

    fn disturb(&self) {
        let (mut random, pool) = (Random::new(99), self.store.pool());
        while !self.is_over.load(Relaxed) {
            match random.below(4) {
                0 => self.store.checkpoint().unwrap(),
                1 => self.store.flush().unwrap(),
                _ => {
                    let size = LEAST_MEMORY + random.next() % (MOST_MEMORY - LOG_BUFFERS - LEAST_MEMORY);
                    pool.resize(size).unwrap();
                    assert!(pool.memory().total <= size, "{:?} of {size}", pool.memory());
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn check(store: &Store, held: &[Vec<Option<Held>>]) {
    let entries: usize = held.iter().flatten().flatten().count();
    assert_eq!(store.check().unwrap().entries, entries as u64);
    for (worker, of_worker) in (0..).zip(held) {
        for (number, held) in (0..).zip(of_worker) {
            assert_eq!(store.get_with(&key(worker, number), Held::of).unwrap(), *held, "{worker}: {number}");
        }
    }
}

#[test]
fn a_store_that_is_resized_under_load_loses_nothing_and_keeps_to_its_memory() {
    let seconds = std::env::var("SOAK_SECONDS").map_or(3, |text| text.parse().expect("a whole number"));
    for (tuples, name) in [
        (Some(TupleOptions::default()), "learned"),
        (Some(TupleOptions::default().learn(false)), "97 %"),
        (None, "pages only"),
    ] {
        // In memory where there is such a folder: a sync of a busy disk takes longer than the run.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let mut held: Vec<_> = (0..WORKERS).map(|_| vec![None; KEYS as usize]).collect();
        let options = Options::default().memory(MOST_MEMORY).log_size(512 << 10).sync_commits(false).tuples(tuples);
        counting_unsafe::begin();
        let store = Store::open(folder.path(), options.clone()).unwrap();
        let soak = Soak { store, is_over: AtomicBool::new(false), done: AtomicU64::new(0) };
        (0..).zip(&mut held).for_each(|(worker, held)| soak.fill(worker, held));
        std::thread::scope(|scope| {
            let soak = &soak;
            for (worker, held) in (0..).zip(&mut held) {
                scope.spawn(move || soak.work(worker, held));
            }
            scope.spawn(|| soak.disturb());
            std::thread::sleep(Duration::from_millis(seconds * 1000 / 3));
            soak.is_over.store(true, Relaxed);
        });
        let memory = soak.store.pool().memory();
        // The frames are not from the allocator.
        let (most, given) = (counting_unsafe::most(), memory.total - memory.frames);
        let beside = LOG_BUFFERS + u64::from(WORKERS + 1) * IN_HAND + IN_WRITING;
        let stats = soak.store.pool().tuple_stats().unwrap_or_default();
        println!(
            "{name}: {} operations, {} evictions, {} updates without their leaf; {most} bytes at most from the \
             allocator, {given} said and {beside} beside",
            soak.done.load(Relaxed),
            soak.store.pool().stats().evictions,
            stats.updates,
        );
        assert!(soak.store.pool().stats().evictions > 100);
        assert!(most <= given + beside, "{most} bytes, {given} said and {beside} beside");
        check(&soak.store, &held);
        soak.store.flush().unwrap();
        drop(soak);
        check(&Store::open(folder.path(), options).unwrap(), &held);
    }
}
