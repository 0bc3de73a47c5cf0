//! Entries that are given another value of the same length: without their leaves where the pool has
//! them, and as any other change for whoever looks.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use pagecast::TupleOptions;
use pagecast::storage::{Device, MemoryFiles};
use pagecast_core::random::Random;
use pagecast_kv::{Batch, Error, Options, Store};

const KEYS: u32 = 6_000;
/// More than fit into any of these pools.
const MANY: u32 = 30_000;

fn open(files: &MemoryFiles) -> Store {
    let options = Options::default().memory(1 << 20).log_size(128 << 10).sync_commits(false);
    let tuples = TupleOptions::default().learn(false).max_share(0.5);
    Store::open("s", options.tuples(tuples).device(Device::new(files.clone(), None))).unwrap()
}

fn key(number: u32) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

fn filled(files: &MemoryFiles) -> (Store, BTreeMap<Vec<u8>, Vec<u8>>) {
    let store = open(files);
    let model: BTreeMap<_, _> = (0..KEYS).map(|number| (key(number), vec![1; 200])).collect();
    model.iter().for_each(|(key, value)| store.put(key, value).unwrap());
    (store, model)
}

/// The hot half of the time one of a few keys, which lie on as many leaves.
fn draw(random: &mut Random) -> u32 {
    if random.below(2) == 0 { random.below(40) * (KEYS / 40) } else { random.below(KEYS) }
}

#[test]
fn hot_ones_need_no_leaf_and_none_is_lost() {
    let files = MemoryFiles::new();
    let (store, mut model) = filled(&files);
    let mut random = Random::new(1);
    for step in 0..30_000 {
        let key = key(draw(&mut random));
        match random.below(20) {
            // Entries come and go around them.
            0 => assert_eq!(store.delete(&key).unwrap(), model.remove(&key).is_some()),
            1..8 => {
                let value = vec![random.below(256) as u8; if random.below(20) == 0 { 100 } else { 200 }];
                store.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            _ => assert_eq!(store.get(&key).unwrap().as_ref(), model.get(&key), "step {step}"),
        }
    }
    let stats = store.pool().tuple_stats().unwrap();
    assert!(stats.updates > 500, "{stats:?}");
    let content: BTreeMap<_, _> = store.iter().map(Result::unwrap).collect();
    assert!(content == model);
    store.check().unwrap();
    store.flush().unwrap();
    // Without closing: the log has to tell.
    drop(store);
    let store = open(&files);
    let content: BTreeMap<_, _> = store.iter().map(Result::unwrap).collect();
    assert!(content == model);
}

/// Two writers overwrite, one puts entries between theirs and takes them away: leaves split and
/// merge under them.
#[test]
fn leaves_that_split_meanwhile_lose_no_value() {
    let (store, model) = filled(&MemoryFiles::new());
    std::thread::scope(|scope| {
        for writer in 0..2u32 {
            let store = &store;
            scope.spawn(move || {
                let mut random = Random::new(writer.into());
                let mut last = BTreeMap::new();
                for count in 0..4_000u32 {
                    let number = draw(&mut random) / 2 * 2 + writer;
                    let value = count.to_le_bytes().repeat(50);
                    store.put(&key(number), &value).unwrap();
                    last.insert(number, value);
                    let (number, value) = last.range(random.below(KEYS)..).next().unwrap_or((&number, &last[&number]));
                    assert_eq!(store.get(&key(*number)).unwrap().as_ref(), Some(value));
                }
            });
        }
        scope.spawn(|| {
            let mut random = Random::new(9);
            for _ in 0..4_000 {
                let between = [&key(random.below(KEYS))[..], b"-"].concat();
                if random.below(2) == 0 {
                    store.put(&between, &[3; 300]).unwrap();
                } else {
                    store.delete(&between).unwrap();
                }
            }
        });
    });
    store.check().unwrap();
    assert!(model.keys().all(|key| store.get(key).unwrap().is_some_and(|value| value.len() == 200)));
}

/// A store of which entries have 97 % of the frames, and the hot ones that were changed without
/// their leaves.
fn mostly_entries(files: &MemoryFiles) -> (Store, BTreeSet<u32>) {
    let tuples = TupleOptions::default().learn(false);
    let options = Options::default().memory(4 << 20).log_size(1 << 20).sync_commits(false);
    let store = Store::open("s", options.tuples(tuples).device(Device::new(files.clone(), None))).unwrap();
    (0..MANY).for_each(|number| store.put(&key(number), &[1; 200]).unwrap());
    store.checkpoint().unwrap();
    let (mut random, mut changed) = (Random::new(1), BTreeSet::new());
    for step in 0..40_000 {
        let hot = random.below(300) * 97;
        match random.below(4) {
            // The last of them are not in their leaves.
            0 if step > 36_000 => {
                store.put(&key(hot), &[2; 200]).unwrap();
                changed.insert(hot);
            }
            0 | 1 => assert!(store.contains_key(&key(hot)).unwrap()),
            _ => assert!(store.contains_key(&key(random.below(MANY))).unwrap()),
        }
    }
    let (frames, stats) = (store.pool().frames(), store.pool().tuple_stats().unwrap());
    assert!(frames - stats.slabs < frames / 6 && stats.changed > 20, "{stats:?} of {frames} frames");
    (store, changed)
}

fn is_as_left(store: &Store, changed: &BTreeSet<u32>) -> bool {
    let value = |number: u32| vec![1 + u8::from(changed.contains(&number)); 200];
    (0..MANY).all(|number| store.get(&key(number)).unwrap() == Some(value(number)))
}

/// A batch that changes more leaves than there are frames left gets them nevertheless.
#[test]
fn a_large_batch_gets_frames_that_entries_have() {
    let (store, _) = mostly_entries(&MemoryFiles::new());
    let frames = store.pool().frames();
    let of_leaves = |leaves: u32| {
        let mut batch = Batch::new();
        (0..leaves).for_each(|leaf| _ = batch.put(&key(leaf * (MANY / leaves)), &[3; 150]));
        store.write(&batch)
    };
    of_leaves(frames / 5).unwrap();
    assert_eq!(store.get(&key(0)).unwrap(), Some(vec![3; 150]));
    assert!(matches!(of_leaves(frames / 2), Err(Error::BatchTooLarge { .. })));
    store.check().unwrap();
}

/// Frames go back to pages though entries in them are changed, and no change is lost.
#[test]
fn frames_go_back_to_pages_with_changes_in_them() {
    let files = MemoryFiles::new();
    let (store, changed) = mostly_entries(&files);
    let pool = store.pool();
    pool.reserve_pages(pool.frames() / 2);
    let mut random = Random::new(2);
    for _ in 0..8_000 {
        assert!(store.contains_key(&key(random.below(MANY))).unwrap());
    }
    let stats = pool.tuple_stats().unwrap();
    assert!(stats.slabs <= pool.frames() / 2 && stats.changed > 0, "{stats:?} of {} frames", pool.frames());
    assert!(is_as_left(&store, &changed));
    store.flush().unwrap();
    drop(store);
    let (tuples, options) = (TupleOptions::default(), Options::default().memory(4 << 20));
    let store = Store::open("s", options.tuples(tuples).device(Device::new(files, None))).unwrap();
    assert!(is_as_left(&store, &changed));
}
