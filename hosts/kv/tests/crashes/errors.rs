//! An error at the n-th call of the disk, for every n: a read, a write, a growth or a sync fails,
//! once or from then on, with nothing, a part or all of it done. The store goes on as far as it
//! can, ends, and is opened again. The same of a recovery.

use pagecast_core::random::Random;
use pagecast_kv::{Batch, Error, Store};

use super::disk::{Disk, ENDS, End, Planned, SECTOR};
use super::rounds::rounds;
use super::workload::{Content, FOLDER, content, draw, options};

/// So many updates, and a checkpoint in the middle.
const UPDATES: usize = 100;

/// What a failure leaves of its call, and whether all that follow fail, too.
const FAILURES: [(Planned, bool); 6] = [
    (Planned::Nothing, false),
    (Planned::Part, false),
    (Planned::All, false),
    (Planned::Nothing, true),
    (Planned::Part, true),
    (Planned::All, true),
];

struct Run {
    disk: Disk,
    /// What the store held, one after the other.
    done: Vec<Content>,
    /// At how many operations of the disk which of them was acknowledged.
    acknowledged: Vec<(usize, usize)>,
    /// Calls that failed.
    failed: usize,
}

impl Run {
    fn now(&self) -> &Content {
        &self.done[self.done.len() - 1]
    }

    fn acknowledge(&mut self) {
        self.acknowledged.push((self.disk.operations(), self.done.len() - 1));
    }

    /// Opens the store on what there is; an error must go away when the disk is well.
    fn open(&mut self) -> Store {
        let open = |disk: &Disk| Store::open(FOLDER, options(disk, true).sync_commits(true));
        open(&self.disk).unwrap_or_else(|error| {
            self.expect(&error);
            self.disk.heal();
            open(&self.disk).unwrap()
        })
    }

    /// An error says what is at fault.
    fn expect(&mut self, error: &Error) {
        self.failed += 1;
        let said = error.to_string();
        assert!(said.contains("planned"), "not what the disk said: {said}");
    }

    /// Whether the store can go on after a failed write: it holds all of it or nothing.
    fn go_on(&mut self, store: &Store, next: &Content, batch: &Batch) -> bool {
        self.disk.heal();
        let found = content(store);
        assert!(found == *next || found == *self.now(), "a part of a refused batch is there");
        if found == *next {
            self.done.push(found);
        }
        // What works now is acknowledged.
        match store.write(batch) {
            Ok(()) if self.now() != next => self.done.push(next.clone()),
            Ok(()) => {}
            Err(_) => {
                // It may be there, or not.
                self.done.push(next.clone());
                return false;
            }
        }
        self.acknowledge();
        true
    }

    /// All that was acknowledged is there, however the process ends.
    fn check(&self, random: &mut Random) {
        for end in ENDS {
            let operation = random.below(self.disk.operations() as u32 + 1) as usize;
            for operation in [operation, self.disk.operations()] {
                let mut replay = self.disk.replay();
                (0..operation).for_each(|_| replay.step());
                let disk = replay.after(end, random);
                let store = Store::open(FOLDER, options(&disk, false)).unwrap();
                store.check().unwrap();
                let found = content(&store);
                let last =
                    self.acknowledged.iter().rev().find(|&&(at, _)| at <= operation).map_or(0, |&(_, last)| last);
                assert!(
                    self.done[last..].contains(&found),
                    "{end:?} at {operation} of {}: update {last} was acknowledged, and {:?} is there",
                    self.disk.operations(),
                    self.done.iter().rposition(|done| *done == found)
                );
            }
        }
    }
}

/// A workload whose disk fails as `plan` says. How many calls the disk had.
fn run(seed: u64, plan: Option<(usize, (Planned, bool))>) -> (usize, usize) {
    let disk = Disk::new(seed, SECTOR);
    if let Some((call, (what, lasts))) = plan {
        disk.fail_at(call, what, lasts);
    }
    let mut run = Run { disk, done: vec![Content::new()], acknowledged: Vec::new(), failed: 0 };
    let mut random = Random::new(seed);
    let mut store = run.open();
    for update in 1..=UPDATES {
        let (next, batch) = draw(&mut random, run.now());
        match store.write(&batch) {
            Ok(()) => {
                run.done.push(next);
                run.acknowledge();
            }
            // Of so small a store, and nothing of it is there.
            Err(Error::BatchTooLarge { .. }) => {}
            Err(error) => {
                run.expect(&error);
                if !run.go_on(&store, &next, &batch) {
                    // It has given up: a new process comes.
                    let last = run.acknowledged.last().map_or(0, |&(_, last)| last);
                    drop(store);
                    store = run.open();
                    let found = content(&store);
                    assert!(run.done[last..].contains(&found), "{plan:?}: update {last} was acknowledged");
                    run.done.push(found);
                    run.acknowledge();
                }
            }
        }
        if update == UPDATES / 2
            && let Err(error) = store.checkpoint()
        {
            run.expect(&error);
            run.disk.heal();
        }
    }
    let _ = store.close();
    run.disk.heal();
    let calls = run.disk.calls();
    run.check(&mut random);
    (calls, run.failed)
}

/// The ways to fail that are tried at a call: all, or one after the other.
fn failures_at(call: usize) -> &'static [(Planned, bool)] {
    let is_long = std::env::var("DURABILITY_SECONDS").is_ok();
    if is_long { &FAILURES } else { &FAILURES[call % FAILURES.len()..][..1] }
}

#[test]
fn an_error_at_any_call_loses_nothing() {
    let (mut runs, mut failed, mut last) = (0, 0, 0);
    for seed in rounds(1) {
        let (calls, _) = run(seed, None);
        for call in 0..calls {
            for &failure in failures_at(call) {
                failed += usize::from(run(seed, Some((call, failure))).1 > 0);
                runs += 1;
            }
        }
        last = calls;
    }
    println!("{runs} runs with an error at one of up to {last} calls; {failed} were told to the caller");
    assert!(runs > 100 && failed > runs / 2);
}

/// A store whose process has ended in the middle of an operation, and what it may hold.
fn ended(seed: u64) -> (Disk, Vec<Content>) {
    let (disk, mut random) = (Disk::new(seed, SECTOR), Random::new(seed));
    let store = Store::open(FOLDER, options(&disk, true).sync_commits(true)).unwrap();
    let (mut done, mut acknowledged) = (vec![Content::new()], vec![(disk.operations(), 0)]);
    let begun = disk.operations();
    for _ in 0..UPDATES {
        let (next, batch) = draw(&mut random, &done[done.len() - 1]);
        if store.write(&batch).is_ok() {
            done.push(next);
            acknowledged.push((disk.operations(), done.len() - 1));
        }
    }
    let operation = begun + random.below((disk.operations() - begun) as u32) as usize;
    let mut replay = disk.replay();
    (0..operation).for_each(|_| replay.step());
    let left = replay.after(ENDS[random.below(2) as usize], &mut random);
    drop(store);
    let last = acknowledged.iter().rev().find(|&&(at, _)| at <= operation).map_or(0, |&(_, last)| last);
    (left, done.split_off(last))
}

/// Of a recovery: the store opens when the disk is well, or when the process has ended once more.
#[test]
fn an_error_at_any_call_of_a_recovery_loses_nothing() {
    let (mut runs, mut failed) = (0, 0);
    for seed in rounds(3) {
        for call in 0.. {
            let mut calls = 0;
            for &(what, lasts) in failures_at(call) {
                let (disk, possible) = ended(seed);
                let mut random = Random::new(seed ^ call as u64);
                disk.fail_at(call, what, lasts);
                let opened = Store::open(FOLDER, options(&disk, true)).map(drop);
                calls = calls.max(disk.calls());
                disk.heal();
                if let Err(error) = &opened {
                    assert!(error.to_string().contains("planned"), "not what the disk said: {error}");
                    failed += 1;
                }
                let disks = ENDS.map(|end| disk.after(end, &mut random));
                for (disk, how) in disks.iter().chain([&disk]).zip(["killed", "without power", "at once"]) {
                    let what = format!("seed {seed}, {what:?} at call {call}, {how}");
                    let open = |disk: &Disk| {
                        let store = Store::open(FOLDER, options(disk, false));
                        let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
                        store.check().unwrap();
                        content(&store)
                    };
                    let found = open(disk);
                    assert!(possible.contains(&found), "{what}: an acknowledged update is not there");
                    // What was recovered is on the device.
                    assert_eq!(open(&disk.after(End::PowerLost, &mut random)), found, "{what}");
                }
                runs += 1;
            }
            if call >= calls {
                break;
            }
        }
    }
    println!("{runs} recoveries with an error at a call; {failed} were told to the caller");
    assert!(runs > 100 && failed > runs / 2);
}
