//! Mixed updates of a small store, and what it held after each of them.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use pagecast::TupleOptions;
use pagecast::storage::{DeclaredModel, Device, Opener};
use pagecast_core::random::Random;
use pagecast_kv::{Batch, Error, Options, Store};

use super::disk::Disk;

pub(crate) const FOLDER: &str = "store";

pub(crate) type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// What was done.
#[derive(Default)]
pub(crate) struct History {
    /// Of each content that the store had, the last update that led to it.
    pub(crate) states: HashMap<u64, usize>,
    /// At how many operations of the disk which update was acknowledged.
    pub(crate) acknowledged: Vec<(usize, usize)>,
    pub(crate) checkpoints: usize,
    pub(crate) evictions: u64,
    /// Updates that changed an entry without its leaf.
    pub(crate) without_leaf: u64,
}

/// Why a workload ended early.
pub(crate) struct Stopped {
    pub(crate) error: Error,
    pub(crate) history: Box<History>,
}

impl std::fmt::Debug for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

pub(crate) fn options(disk: &Disk, tuples: bool) -> Options {
    options_on(disk.clone(), tuples)
}

/// So small that pages leave, the log begins anew and checkpoints are made.
fn options_on(disk: impl Opener + 'static, tuples: bool) -> Options {
    // One thread that reads; the model costs nothing else.
    let model = DeclaredModel { bandwidth: u64::MAX, latency: Duration::ZERO, outstanding: 1 };
    let device = Device::new(disk, Some(model));
    Options::default()
        .memory(250_000)
        .tuples(tuples.then(|| TupleOptions::default().learn(false).max_share(0.5)))
        .log_size(48 << 10)
        .sync_commits(false)
        .device(device)
}

pub(crate) fn content(store: &Store) -> Content {
    store.iter().map(Result::unwrap).collect()
}

pub(crate) fn fingerprint(content: &Content) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

pub(crate) fn run(disk: &Disk, updates: usize, seed: u64) -> Result<History, Stopped> {
    run_on(disk.clone(), disk, updates, seed)
}

/// Makes the updates through `opener`, which ends at `disk`. Ends early when the store gives up.
pub(crate) fn run_on(
    opener: impl Opener + 'static,
    disk: &Disk,
    updates: usize,
    seed: u64,
) -> Result<History, Stopped> {
    let mut history = History::default();
    let mut model = Content::new();
    history.states.insert(fingerprint(&model), 0);
    match work(options_on(opener, seed % 2 == 1), disk, (updates, seed), &mut history, &mut model) {
        Ok(()) => Ok(history),
        Err(error) => Err(Stopped { error, history: Box::new(history) }),
    }
}

fn work(
    options: Options,
    disk: &Disk,
    (updates, seed): (usize, u64),
    history: &mut History,
    model: &mut Content,
) -> Result<(), Error> {
    let store = Store::open(FOLDER, options)?;
    let mut random = Random::new(seed);
    for update in 1..=updates {
        let (next, batch) = draw(&mut random, model);
        // Entries that are read have a chance to stay in memory without their leaves.
        for (key, value) in model.iter().skip(random.below(model.len() as u32 + 1) as usize).take(2) {
            assert_eq!(store.get(key)?.as_ref(), Some(value));
        }
        // What fails has changed nothing, so that it can be tried again.
        while let Err(error) = store.write(&batch) {
            if is_final(&error) {
                return Err(error);
            }
        }
        *model = next;
        history.states.insert(fingerprint(model), update);
        if random.below(2) == 0 {
            while let Err(error) = store.flush() {
                if is_final(&error) {
                    return Err(error);
                }
            }
            history.acknowledged.push((disk.operations(), update));
        }
        if update % 100 == 0 {
            assert!(&content(&store) == model, "update {update}");
            history.checkpoints += usize::from(store.checkpoint().is_ok());
        }
    }
    history.evictions = store.pool().stats().evictions;
    history.without_leaf = store.pool().tuple_stats().map_or(0, |stats| stats.updates);
    Ok(())
}

/// Whether the store has given up: a sync has failed. The words are those of the disk.
fn is_final(error: &Error) -> bool {
    !error.to_string().contains("a failure in the middle of a write")
}

/// The next update: entries that come, change, change their length, and go, one or several.
pub(crate) fn draw(random: &mut Random, model: &Content) -> (Content, Batch) {
    let (mut next, mut batch) = (model.clone(), Batch::new());
    let changes = if random.below(8) == 0 { 2 + random.below(4) } else { 1 };
    for _ in 0..changes {
        let key = format!("{:03}", random.below(700)).repeat(1 + random.below(3) as usize).into_bytes();
        // Rather one that is there.
        let there = next.range(key.clone()..).next().map(|(key, value)| (key.clone(), value.len()));
        let (key, length) = match (random.below(8), there) {
            (0, there) => {
                let key = there.map_or(key, |(key, _)| key);
                batch.delete(&key);
                next.remove(&key);
                continue;
            }
            // Such an entry is changed without its leaf where it can be.
            (1..=4, Some(there)) => there,
            _ => (key, if random.below(20) == 0 { 1900 } else { 100 + random.below(900) as usize }),
        };
        let value = vec![random.below(256) as u8; length];
        batch.put(&key, &value);
        next.insert(key, value);
    }
    (next, batch)
}
