//! Power cuts, killed processes and failing storage, at every write: after recovery from the log no
//! acknowledged update is missing, and before it no page on the device is ahead of the log.
//!
//! A workload runs once over a [`Disk`] that remembers every write, growth and sync. Then its
//! process is killed, or the power is cut, in the middle of each of them. What is left is recovered
//! by a new pool, as a database would do it, and compared with the log.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

mod database;
#[path = "../disk/mod.rs"]
mod disk;
#[path = "../rounds/mod.rs"]
mod rounds;

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use pagecast::PoolError;
use pagecast_core::random::Random;

use database::{Acknowledged, Database, PAGE, Records, Setup, UPDATES_WITHOUT_PAGES, run, run_together};
use disk::{Disk, ENDS, End, Failure, Planned, Replay, SECTOR};
use rounds::rounds;

/// Ends the process, recovers what is left, and compares it with what the log holds.
fn recover(
    replay: &Replay,
    end: End,
    setup: &Setup,
    random: &mut Random,
    acknowledged: u64,
) -> Result<Disk, PoolError> {
    let disk = replay.after(end, random);
    let files = disk.files();
    let survivors = Records::read(files.get(Path::new("log")).map_or(&[], Vec::as_slice));
    assert!(survivors.last() >= acknowledged, "the log lost what it had acknowledged: the test's own log is wrong");
    if let Some(table) = files.get(Path::new("table")) {
        database::assert_not_ahead_of_log(table, survivors.last());
    }
    let database = Database::recover(&disk, setup, &survivors)?;
    assert_eq!(database.content()?, survivors.content(), "an update is missing, or there is one too many");
    Ok(disk)
}

/// Ends the process in every `stride`th operation of a workload that ran: the power goes, and of
/// every third the process is killed, too. How many ends were recovered from, and how many were
/// refused because of a torn page.
fn cut(disk: &Disk, setup: &Setup, acknowledged: &Acknowledged, seed: u64, stride: usize) -> [usize; 2] {
    let mut outcomes = [0, 0];
    let mut replay = disk.replay();
    for operation in 0..=disk.operations() {
        let mut random = Random::new(seed ^ operation as u64);
        let acknowledged = acknowledged.iter().rev().find(|&&(at, _)| at <= operation).map_or(0, |&(_, lsn)| lsn);
        let mut cut = |replay: &Replay, end, random: &mut Random| {
            match recover(replay, end, setup, random, acknowledged) {
                Ok(after) => {
                    outcomes[0] += 1;
                    Some(after)
                }
                // The second when the last page of a file that grew is torn.
                Err(PoolError::Checksum { .. } | PoolError::PartialPage { .. }) => {
                    outcomes[1] += 1;
                    None
                }
                Err(other) => panic!("seed {seed}, operation {operation}, {end:?}: {other}"),
            }
        };
        let is_due = |share: usize| operation % (share * stride) == 0;
        for (end, share, again) in [(End::PowerLost, 1, 16), (End::Killed, 3, 6)] {
            let Some(after) = is_due(share).then(|| cut(&replay, end, &mut random)).flatten() else { continue };
            // And then the power goes, in the middle of the recovery or after it.
            let operations = after.operations() as u32;
            let steps = if is_due(again) { random.below(operations + 1) } else { operations };
            if is_due(again) || end == End::Killed {
                let mut replay = after.replay();
                (0..steps).for_each(|_| replay.step());
                cut(&replay, End::PowerLost, &mut random);
            }
        }
        replay.step();
    }
    outcomes
}

/// Ends the process in every operation of a workload.
fn cut_everywhere(setup: &Setup, updates: u32, seed: u64, unit: usize) -> [usize; 2] {
    let disk = Disk::new(seed, unit);
    let acknowledged = run(&disk, setup, updates, seed).unwrap();
    let [recovered, refused] = cut(&disk, setup, &acknowledged, seed, 1);
    println!(
        "seed {seed}: {updates} updates, {} operations, {} ends: {recovered} recovered, {refused} refused",
        disk.operations(),
        recovered + refused
    );
    [recovered, refused]
}

#[test]
fn power_cuts_that_tear_pages_lose_nothing_with_double_writes() {
    let [recovered, refused] = cut_everywhere(&Setup { double_write: true, ..Setup::default() }, 1_000, 1, SECTOR);
    assert!(recovered > 1_000, "{recovered}");
    assert_eq!(refused, 0);
}

#[test]
fn power_cuts_between_pages_lose_nothing_without_double_writes() {
    let [recovered, refused] = cut_everywhere(&Setup::default(), 1_000, 2, PAGE);
    assert!(recovered > 1_000, "{recovered}");
    assert_eq!(refused, 0);
}

/// The same with places that are changed as items: what is not in their page yet is in the log.
#[test]
fn power_cuts_lose_no_change_of_an_item_without_its_page() {
    let setup = Setup { double_write: true, tuples: true, ..Setup::default() };
    let [recovered, refused] = cut_everywhere(&setup, 1_000, 5, SECTOR);
    let without_pages = UPDATES_WITHOUT_PAGES.load(Relaxed);
    println!("{without_pages} of the updates were made without the page");
    assert!(recovered > 1_000 && without_pages > 50, "{recovered} cuts, {without_pages} updates");
    assert_eq!(refused, 0);
}

/// Crash with concurrency: threads that change pages and items, the background writer, and one that
/// makes checkpoints at any time.
#[test]
fn threads_with_a_background_writer_lose_nothing() {
    let (mut ends, mut operations) = (0, 0);
    for seed in rounds(4) {
        let setup = Setup { double_write: true, tuples: seed % 2 == 0, writer: true, ..Setup::default() };
        let disk = Disk::new(seed, SECTOR);
        disk.pause(std::thread::yield_now);
        let acknowledged = run_together(&disk, &setup, (4, 120), seed);
        let [recovered, refused] = cut(&disk, &setup, &acknowledged, seed, 5);
        assert_eq!(refused, 0, "seed {seed}: a torn page was not restored");
        (ends, operations) = (ends + recovered, operations + disk.operations());
    }
    println!("4 threads, writer and checkpoints: {operations} operations, {ends} ends recovered");
    assert!(ends > 300);
}

/// An error at the n-th call, for every n: a read, a write, a growth or a sync, once or from then
/// on. What fails is tried again where a host would, the process ends, and nothing is missing.
#[test]
fn an_error_at_any_call_loses_nothing() {
    let (mut runs, mut told, mut last) = (0, 0, 0);
    for seed in rounds(1) {
        for call in 0.. {
            let disk = Disk::new(seed, SECTOR);
            let what = [Planned::Nothing, Planned::Part, Planned::All][call % 3];
            // Writes that fail for ever are tried for ever.
            disk.fail_at(call, what, false);
            let setup = Setup { double_write: true, tuples: call % 2 == 0, ..Setup::default() };
            let acknowledged = run(&disk, &setup, 110, seed).unwrap_or_else(|stopped| {
                let said = stopped.error.to_string();
                assert!(said.contains("planned"), "call {call}: not what the disk said: {said}");
                told += 1;
                stopped.acknowledged
            });
            let has_failed = disk.failures() > 0;
            disk.heal();
            let mut random = Random::new(seed ^ call as u64);
            for end in ENDS {
                let mut replay = disk.replay();
                (0..disk.operations()).for_each(|_| replay.step());
                let acknowledged = acknowledged.last().map_or(0, |&(_, lsn)| lsn);
                recover(&replay, end, &setup, &mut random, acknowledged)
                    .unwrap_or_else(|error| panic!("seed {seed}, call {call}, {end:?}: {error}"));
            }
            (runs, last) = (runs + 1, call);
            if !has_failed {
                break;
            }
        }
    }
    println!("{runs} runs with an error at one of up to {last} calls; {told} ended the writing");
    assert!(runs > 100 && told > 10);
}

/// The same of a recovery: it succeeds when the disk is well, or the process has ended once more.
#[test]
fn an_error_at_any_call_of_a_recovery_loses_nothing() {
    let (mut runs, mut told) = (0, 0);
    for seed in rounds(3) {
        let setup = Setup { double_write: true, tuples: seed % 2 == 0, ..Setup::default() };
        let disk = Disk::new(seed, SECTOR);
        let acknowledged = run(&disk, &setup, 250, seed).unwrap();
        for call in 0.. {
            let mut random = Random::new(seed ^ call as u64);
            let operation = random.below(disk.operations() as u32 + 1) as usize;
            let mut replay = disk.replay();
            (0..operation).for_each(|_| replay.step());
            let left = replay.after(ENDS[call / 3 % 2], &mut random);
            let files = left.files();
            let records = Records::read(files.get(Path::new("log")).map_or(&[], Vec::as_slice));
            left.fail_at(call, [Planned::Nothing, Planned::Part, Planned::All][call % 3], false);
            let outcome = Database::recover(&left, &setup, &records).map(drop);
            told += usize::from(outcome.is_err());
            runs += 1;
            let has_failed = left.failures() > 0;
            left.heal();
            let mut replay = left.replay();
            (0..left.operations()).for_each(|_| replay.step());
            let before = acknowledged.iter().rev().find(|&&(at, _)| at <= operation).map_or(0, |&(_, lsn)| lsn);
            for end in ENDS {
                recover(&replay, end, &setup, &mut random, before)
                    .unwrap_or_else(|error| panic!("seed {seed}, call {call}, {end:?}: {error}"));
            }
            if !has_failed && call > 100 {
                break;
            }
        }
    }
    println!("{runs} recoveries with an error at a call; {told} were told to the host");
    assert!(runs > 100 && told > 10);
}

/// What double writes are for: without them some torn page is met, and it is refused by its seal
/// and never taken for a page.
#[test]
fn torn_pages_without_double_writes_are_noticed() {
    let [recovered, refused] = cut_everywhere(&Setup::default(), 250, 3, SECTOR);
    assert!(recovered > 0 && refused > 0);
}

/// The test's own known mistakes: it must notice a pool that does not wait for the log, and a
/// checkpoint that promises too much.
#[test]
fn mistakes_are_noticed() {
    let mistakes = [
        (Setup { log_lies: true, ..Setup::default() }, ["ahead of the log", "is missing"]),
        (Setup { checkpoint_lies: true, ..Setup::default() }, ["is missing", "is missing"]),
    ];
    for (setup, words) in mistakes {
        let found = std::panic::catch_unwind(|| cut_everywhere(&setup, 500, 4, PAGE)).unwrap_err();
        let said = found.downcast_ref::<String>().cloned().unwrap_or_default();
        assert!(words.iter().any(|word| said.contains(word)), "something else was found: {said}");
    }
}

#[test]
fn failing_writes_and_syncs_lose_nothing() {
    let (mut failures, mut latched, mut cuts) = (0, 0, 0);
    for seed in 0..24 {
        let setup = Setup { double_write: seed % 2 == 0, ..Setup::default() };
        let disk = Disk::new(seed, if setup.double_write { SECTOR } else { PAGE });
        let (failure, rate) = if seed % 3 == 0 { (Failure::Syncs, 1.0 / 256.0) } else { (Failure::Writes, 1.0 / 8.0) };
        disk.fail(failure, rate);
        let acknowledged = match run(&disk, &setup, 250, seed) {
            Ok(acknowledged) => acknowledged,
            Err(stopped) => {
                let error = stopped.error;
                assert!(matches!(error, PoolError::ReadOnly { .. } | PoolError::Log { .. }), "{error}");
                latched += 1;
                stopped.acknowledged
            }
        };
        failures += disk.failures();
        let [recovered, refused] = cut(&disk, &setup, &acknowledged, seed, 8);
        assert_eq!(refused, 0, "seed {seed}: a torn page was not restored");
        cuts += recovered;
    }
    println!("24 runs: {failures} failures, of which {latched} ended the writing; {cuts} power cuts recovered");
    assert!(failures > 48 && latched > 0 && latched < 24);
}
