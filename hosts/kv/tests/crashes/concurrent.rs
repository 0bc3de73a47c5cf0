//! Crash with concurrency: threads write, a thread makes checkpoints and another reads ranges,
//! while pages leave and come without their entries. Then the process is killed, or the power cut,
//! in the middle of any operation of the disk. What each thread was told is there, and nothing of
//! it in part. (The idea is RocksDB's db_stress and crash_test.)

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use pagecast::TupleOptions;
use pagecast::storage::{DeclaredModel, Device};
use pagecast_core::random::Random;
use pagecast_kv::{Batch, Options, Store};

use super::disk::{Disk, ENDS, End, Failure, SECTOR};
use super::rounds::rounds;
use super::workload::{Content, FOLDER, content, fingerprint};

const THREADS: u32 = 4;
const KEYS: u32 = 48;

/// Its leaves are shared by all threads.
fn key(thread: u32, number: u32) -> Vec<u8> {
    format!("{:06}", number * THREADS + thread).into_bytes()
}

fn thread_of(key: &[u8]) -> u32 {
    std::str::from_utf8(key).unwrap().parse::<u32>().unwrap() % THREADS
}

/// What one thread did: the number of each state that its keys had.
struct Told {
    states: HashMap<u64, Vec<usize>>,
    /// At how many operations of the disk each was begun.
    begun: Vec<usize>,
    /// At how many operations which of them was acknowledged.
    acknowledged: Vec<(usize, usize)>,
}

fn options(disk: &Disk) -> Options {
    let model = DeclaredModel { bandwidth: u64::MAX, latency: Duration::ZERO, outstanding: 2 };
    Options::default()
        .memory(300_000)
        .tuples(TupleOptions::default().learn(false).max_share(0.4))
        .log_size(48 << 10)
        .device(Device::new(disk.clone(), Some(model)))
}

/// The work of one thread, until the store says that something failed.
fn work(store: &Store, disk: &Disk, thread: u32, (updates, seed): (usize, u64)) -> Told {
    let (mut random, mut now) = (Random::new(seed * 100 + u64::from(thread)), Content::new());
    let mut told =
        Told { states: HashMap::from([(fingerprint(&now), vec![0])]), begun: vec![0], acknowledged: Vec::new() };
    for update in 1..=updates {
        let mut batch = Batch::new();
        for _ in 0..if random.below(4) == 0 { 3 } else { 1 } {
            let key = key(thread, random.below(KEYS));
            let before = now.get(&key).map(Vec::len);
            match (random.below(8), before) {
                (0, _) => {
                    batch.delete(&key);
                    now.remove(&key);
                }
                (drawn, before) => {
                    let length = before.filter(|_| drawn < 5).unwrap_or(20 + random.below(400) as usize);
                    let value = vec![random.below(256) as u8; length];
                    batch.put(&key, &value);
                    now.insert(key, value);
                }
            }
        }
        told.begun.push(disk.operations());
        told.states.entry(fingerprint(&now)).or_default().push(update);
        if store.write(&batch).is_err() {
            break;
        }
        told.acknowledged.push((disk.operations(), update));
        let key = self::key(thread, random.below(KEYS));
        assert_eq!(store.get(&key).unwrap().as_ref(), now.get(&key), "a thread does not see its own writes");
    }
    told
}

/// All threads at once. What each was told.
fn run(disk: &Disk, updates: usize, seed: u64) -> Vec<Told> {
    let Ok(store) = Store::open(FOLDER, options(disk)) else { return Vec::new() };
    let (store, is_over) = (Arc::new(store), Arc::new(AtomicBool::new(false)));
    let beside: [fn(&Store); 2] = [
        |store| drop(store.checkpoint()),
        |store| store.range(&b"000050"[..]..).take(60).for_each(|entry| drop(entry.unwrap())),
    ];
    std::thread::scope(|scope| {
        for work in beside {
            let (store, is_over) = (&store, &is_over);
            scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    work(store);
                    std::thread::yield_now();
                }
            });
        }
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let store = &store;
                scope.spawn(move || work(store, disk, thread, (updates, seed)))
            })
            .collect();
        let told = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
        is_over.store(true, Relaxed);
        told
    })
}

/// Opens what is left after the end, and looks at what each thread has.
fn check(disk: &Disk, told: &[Told], operation: usize, what: &str) {
    let store = Store::open(FOLDER, options(disk)).unwrap_or_else(|error| panic!("{what}: {error}"));
    store.check().unwrap();
    let mut found = vec![Content::new(); THREADS as usize];
    content(&store).into_iter().for_each(|(key, value)| {
        found[thread_of(&key) as usize].insert(key, value);
    });
    for (found, told) in found.iter().zip(told) {
        let acknowledged =
            told.acknowledged.iter().rev().find(|&&(at, _)| at <= operation).map_or(0, |&(_, last)| last);
        let which = told.states.get(&fingerprint(found)).map_or(&[][..], Vec::as_slice);
        assert!(
            which.iter().any(|&state| state >= acknowledged && told.begun[state] <= operation),
            "{what}: update {acknowledged} was acknowledged, and {which:?} is there"
        );
    }
}

/// Ends the process in every `stride`th operation, and the power after half of the recoveries. How
/// many ends there were.
fn end_everywhere(disk: &Disk, told: &[Told], seed: u64, stride: usize) -> usize {
    let (mut ends, mut replay) = (0, disk.replay());
    for operation in 0..=disk.operations() {
        if operation % stride == 0 {
            let mut random = Random::new(seed ^ operation as u64);
            let end = ENDS[random.below(2) as usize];
            let after = replay.after(end, &mut random);
            check(&after, told, operation, &format!("seed {seed}, {end:?} in operation {operation}"));
            ends += 1;
            if random.below(2) == 0 {
                let mut again = after.replay();
                (0..random.below(after.operations() as u32 + 1)).for_each(|_| again.step());
                let after = again.after(End::PowerLost, &mut random);
                check(&after, told, operation, &format!("seed {seed}, {end:?} in operation {operation}, and again"));
                ends += 1;
            }
        }
        replay.step();
    }
    ends
}

#[test]
fn threads_that_were_told_lose_nothing() {
    let (mut ends, mut operations, mut failures) = (0, 0, 0);
    for seed in rounds(4) {
        let disk = Disk::new(seed, SECTOR);
        disk.pause(std::thread::yield_now);
        match seed % 4 {
            1 => disk.fail(Failure::Writes, 1.0 / 256.0),
            2 => disk.fail(Failure::Syncs, 1.0 / 256.0),
            _ => {}
        }
        let told = run(&disk, 160, seed);
        ends += end_everywhere(&disk, &told, seed, 5);
        operations += disk.operations();
        failures += disk.failures();
    }
    println!("{THREADS} threads and 2 beside: {operations} operations of the disk, {failures} failed; {ends} ends");
    assert!(ends > 200);
}
