//! Against a `BTreeMap`, with crashes between.

use std::collections::HashMap;
use std::ops::Bound;

use pagecast_core::random::Random;
use pagecast_kv::{Batch, Error, Store};
use proptest::prelude::*;

use super::disk::{Disk, ENDS, SECTOR};
use super::workload::{Content, FOLDER, content, fingerprint, options};

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    /// From here to there, forward, backward, or from both ends.
    Range(Bound<Vec<u8>>, Bound<Vec<u8>>, u8),
    Get(Vec<u8>),
    Flush,
    Checkpoint,
    /// Closed, and opened again.
    Reopen,
    /// The process is killed, or the power goes off.
    Crash(u64),
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(0u8..4, 0..6),
        (0u16..200).prop_map(|number| number.to_be_bytes().repeat(20)),
        (0u8..8).prop_map(|number| vec![number; 500]),
    ]
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![Just(Bound::Unbounded), key().prop_map(Bound::Included), key().prop_map(Bound::Excluded)]
}

fn step() -> impl Strategy<Value = Step> {
    let value = prop_oneof![
        4 => (any::<u8>(), 0usize..300).prop_map(|(byte, length)| Some(vec![byte; length])),
        1 => (any::<u8>(), 1000usize..1500).prop_map(|(byte, length)| Some(vec![byte; length])),
        3 => Just(None),
    ];
    prop_oneof![
        30 => prop::collection::vec((key(), value), 1..6).prop_map(Step::Write),
        6 => (bound(), bound(), any::<u8>()).prop_map(|(low, high, way)| Step::Range(low, high, way)),
        4 => key().prop_map(Step::Get),
        4 => Just(Step::Flush),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Reopen),
        1 => any::<u64>().prop_map(Step::Crash),
    ]
}

fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(|key| &key[..])
}

/// What a range gives, read from the ends in turn as `way` says, put in order.
fn read(store: &Store, low: &Bound<Vec<u8>>, high: &Bound<Vec<u8>>, way: u8) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut range = store.range((slice(low), slice(high)));
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for turn in 0.. {
        let backward = match way % 3 {
            0 => false,
            1 => true,
            _ => way >> (turn % 8) & 1 == 1,
        };
        match if backward { range.next_back() } else { range.next() } {
            Some(entry) if backward => last.push(entry.unwrap()),
            Some(entry) => first.push(entry.unwrap()),
            None => break,
        }
    }
    assert!(range.next().is_none() && range.next_back().is_none());
    first.extend(last.into_iter().rev());
    first
}

/// A store, its disk, and what it must hold.
struct World {
    disk: Disk,
    store: Store,
    model: Content,
    /// What it held since the last flush: one of these is there after a crash.
    unsafe_yet: HashMap<u64, Content>,
}

impl World {
    fn new() -> Self {
        let disk = Disk::new(0, SECTOR);
        let store = Store::open(FOLDER, options(&disk, true)).unwrap();
        Self { disk, store, model: Content::new(), unsafe_yet: HashMap::new() }.flushed()
    }

    fn flushed(mut self) -> Self {
        self.unsafe_yet.clear();
        self.remember();
        self
    }

    fn remember(&mut self) {
        self.unsafe_yet.insert(fingerprint(&self.model), self.model.clone());
    }

    fn step(mut self, step: &Step) -> Self {
        match step {
            Step::Write(writes) => {
                let (mut batch, mut after) = (Batch::new(), self.model.clone());
                for (key, value) in writes {
                    match value {
                        Some(value) => drop((batch.put(key, value), after.insert(key.clone(), value.clone()))),
                        None => drop((batch.delete(key), after.remove(key))),
                    }
                }
                match self.store.write(&batch) {
                    Ok(_) => self.model = after,
                    // Of so small a store a few long entries may want too many pages. Nothing of
                    // such a batch is there.
                    Err(Error::BatchTooLarge { unit: "pages of memory", .. }) if writes.len() > 1 => {
                        assert!(content(&self.store) == self.model, "a part of a refused batch is there");
                    }
                    Err(error) => panic!("{error}"),
                }
                self.remember();
            }
            Step::Range(low, high, way) => {
                let is_empty = matches!((low, high), (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) if low >= high);
                let expected: Vec<_> = match is_empty {
                    // The map panics on some of these.
                    true => self
                        .model
                        .iter()
                        .filter(|(key, _)| {
                            Bound::Included(*key) == low.as_ref() && Bound::Included(*key) == high.as_ref()
                        })
                        .map(|(key, value)| (key.clone(), value.clone()))
                        .collect(),
                    false => self
                        .model
                        .range((low.clone(), high.clone()))
                        .map(|(key, value)| (key.clone(), value.clone()))
                        .collect(),
                };
                assert_eq!(read(&self.store, low, high, *way), expected, "{low:?} {high:?}");
            }
            Step::Get(key) => assert_eq!(self.store.get(key).unwrap().as_ref(), self.model.get(key)),
            Step::Flush => {
                self.store.flush().unwrap();
                return self.flushed();
            }
            Step::Checkpoint => {
                self.store.checkpoint().unwrap();
                return self.flushed();
            }
            Step::Reopen => {
                self.store.close().unwrap();
                self.store = Store::open(FOLDER, options(&self.disk, true)).unwrap();
                assert!(content(&self.store) == self.model);
                return self.flushed();
            }
            Step::Crash(seed) => {
                let mut random = Random::new(*seed);
                self.disk = self.disk.after(ENDS[random.below(2) as usize], &mut random);
                self.store = Store::open(FOLDER, options(&self.disk, true)).unwrap();
                let found = self.unsafe_yet.remove(&fingerprint(&content(&self.store)));
                self.model = found.expect("a flushed update is missing, or there is one too many");
                return self.flushed();
            }
        }
        self
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_store_is_a_map_that_survives(steps in prop::collection::vec(step(), 1..250)) {
        let world = steps.iter().fold(World::new(), World::step);
        world.store.check().unwrap();
        prop_assert!(content(&world.store) == world.model);
    }
}
