//! Power cuts and failing storage, at every write, over a whole store: after each recovery the tree
//! is sound, and holds all updates up to one that is not before the last acknowledged.
//!
//! A workload runs once over the pool's own [`Disk`](disk::Disk) that remembers every operation.
//! Then the power is cut in the middle of each of them: what was synced survives, what was not
//! survives, is lost or is torn, as the seed says.
#![allow(clippy::unwrap_used)]

mod concurrent;
mod corrupt;
#[path = "../../../../crates/pagecast/tests/disk/mod.rs"]
mod disk;
mod errors;
mod lives;
mod model;
#[path = "../../../../crates/pagecast/tests/rounds/mod.rs"]
mod rounds;
mod workload;

use std::path::Path;
use std::sync::Arc;

use pagecast::PoolError;
use pagecast::storage::{FaultStorage, Faults, Opener, Storage, WriteFault};
use pagecast_core::random::Random;
use pagecast_kv::{Error, Store};

use disk::{Disk, ENDS, End, Failure, Replay, SECTOR};
use workload::{FOLDER, History, content, fingerprint, options, run};

/// Ends the process, recovers what is left, and compares it with what was done before.
fn recover(replay: &Replay, end: End, random: &mut Random, history: &History, acknowledged: usize) -> Disk {
    let disk = replay.after(end, random);
    let store = Store::open(FOLDER, options(&disk, acknowledged % 2 == 1)).unwrap();
    store.check().unwrap();
    let content = content(&store);
    let done = history.states.get(&fingerprint(&content));
    let done = *done.unwrap_or_else(|| panic!("no moment had these {} entries", content.len()));
    assert!(done >= acknowledged, "update {acknowledged} was acknowledged, and {done} is the last that is there");
    disk
}

/// Ends the process in every `stride`th operation of a workload that ran, and in some recoveries:
/// it is killed, or the power is cut.
fn cut(disk: &Disk, history: &History, seed: u64, stride: usize) -> usize {
    let (mut cuts, mut replay) = (0, disk.replay());
    for operation in 0..=disk.operations() {
        let mut random = Random::new(seed ^ operation as u64);
        let before = history.acknowledged.partition_point(|&(at, _)| at <= operation);
        let acknowledged = before.checked_sub(1).map_or(0, |last| history.acknowledged[last].1);
        if operation % stride == 0 {
            let end = ENDS[random.below(2) as usize];
            let after = recover(&replay, end, &mut random, history, acknowledged);
            cuts += 1;
            // A recovery of a killed process sees what is not on the device.
            if end == End::Killed || operation % (16 * stride) == 0 {
                let (mut again, all) = (after.replay(), after.operations() as u32);
                // In the middle of it, or when it is done.
                let steps = if random.below(2) == 0 { all } else { random.below(all + 1) };
                (0..steps).for_each(|_| again.step());
                recover(&again, End::PowerLost, &mut random, history, acknowledged);
                cuts += 1;
            }
        }
        replay.step();
    }
    cuts
}

#[test]
fn power_cuts_that_tear_pages_lose_nothing() {
    for (seed, updates, stride) in [(1, 1_000, 1), (2, 1_000, 7)] {
        let disk = Disk::new(seed, SECTOR);
        let history = run(&disk, updates, seed).unwrap();
        let cuts = cut(&disk, &history, seed, stride);
        println!("seed {seed}: {updates} updates, {} operations, {cuts} power cuts recovered", disk.operations());
        assert!(cuts > 250 && history.checkpoints > 3, "{cuts} cuts, {} checkpoints", history.checkpoints);
        let (evictions, without_leaf) = (history.evictions, history.without_leaf);
        println!("{evictions} evictions, {without_leaf} updates changed an entry without its leaf");
        assert!(evictions > 100 && (seed % 2 == 0 || without_leaf > 10), "{evictions}, {without_leaf}");
    }
}

/// A disk that says it has synced the log, and has not.
struct LyingAboutTheLog {
    disk: Disk,
    log: FaultStorage<Disk>,
}

impl LyingAboutTheLog {
    fn new(disk: &Disk) -> Self {
        let faults = Faults::default();
        faults.plan_syncs([WriteFault::Lost; 10_000]);
        Self { disk: disk.clone(), log: FaultStorage { files: disk.clone(), faults } }
    }
}

impl Opener for LyingAboutTheLog {
    fn open(&self, path: &Path) -> std::io::Result<Arc<dyn Storage>> {
        self.disk.open(path)
    }

    fn open_to_write(&self, path: &Path, create: bool) -> std::io::Result<Arc<dyn Storage>> {
        let is_log = path.to_string_lossy().contains("log");
        if is_log { self.log.open_to_write(path, create) } else { self.disk.open_to_write(path, create) }
    }

    fn make_folder(&self, path: &Path) -> std::io::Result<()> {
        self.disk.make_folder(path)
    }

    fn describe(&self) -> String {
        "a disk that lies".to_owned()
    }
}

/// The test's own known mistake: it must notice a log that is not durable when it says so.
#[test]
fn a_log_that_is_not_synced_is_noticed() {
    let disk = Disk::new(3, SECTOR);
    let history = workload::run_on(LyingAboutTheLog::new(&disk), &disk, 300, 3).unwrap();
    std::panic::catch_unwind(|| cut(&disk, &history, 3, 4)).unwrap_err();
}

#[test]
fn failing_writes_and_syncs_lose_nothing() {
    let (mut failures, mut ended, mut cuts) = (0, 0, 0);
    for seed in 0..16 {
        let disk = Disk::new(seed, SECTOR);
        let (failure, rate) = if seed % 2 == 0 { (Failure::Syncs, 1.0 / 256.0) } else { (Failure::Writes, 1.0 / 8.0) };
        disk.fail(failure, rate);
        let history = match run(&disk, 250, seed) {
            Ok(history) => history,
            Err(stopped) => {
                let error = stopped.error;
                let is_expected =
                    matches!(error, Error::Log { .. } | Error::Open { .. } | Error::Pool(PoolError::ReadOnly { .. }))
                        || matches!(
                            &error,
                            Error::Stalled { cause: PoolError::ReadOnly { .. } | PoolError::Log { .. } }
                        );
                assert!(is_expected, "{error:?}");
                ended += 1;
                *stopped.history
            }
        };
        failures += disk.failures();
        cuts += cut(&disk, &history, seed, 8);
    }
    println!("16 runs: {failures} failures, of which {ended} ended the writing; {cuts} power cuts recovered");
    assert!(failures > 32 && ended > 0 && ended < 16);
}
