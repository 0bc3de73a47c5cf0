//! What the stores are asked for.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pagecast_core::random::Random;
use pagecast_sim::generate::Zipf;
use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::engines::Engine;
use crate::figures::Figures;

const KEY: usize = 8;
pub const RECORD: usize = 128;
/// Where the seeds of a warm-up begin: what is measured draws others.
const WARM_UP: u64 = 1000;

/// Records in the order of their keys; the hot ones lie scattered.
struct Records {
    zipf: Zipf,
    /// The record of each rank.
    of_rank: Vec<u32>,
    count: AtomicU64,
}

impl Records {
    fn new(count: u32) -> Self {
        let mut random = Random::new(1);
        let mut of_rank: Vec<u32> = (0..count).collect();
        (1..count).rev().for_each(|at| of_rank.swap(at as usize, random.below(at + 1) as usize));
        Self { zipf: Zipf::new(count, 0.99), of_rank, count: AtomicU64::new(u64::from(count)) }
    }

    fn draw(&self, random: &mut Random) -> [u8; KEY] {
        u64::from(self.of_rank[self.zipf.draw(random) as usize]).to_be_bytes()
    }

    /// One of those that came last.
    fn latest(&self, random: &mut Random) -> [u8; KEY] {
        let rank = u64::from(self.zipf.draw(random));
        (self.count.load(Relaxed) - 1 - rank).to_be_bytes()
    }

    fn next(&self) -> [u8; KEY] {
        self.count.fetch_add(1, Relaxed).to_be_bytes()
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    (0..(RECORD - KEY) / 8).flat_map(|_| random.next().to_le_bytes()).collect()
}

/// A store with the records in it.
pub struct Contender {
    pub name: String,
    engine: Box<dyn Engine>,
    records: Records,
    /// Goes after the store.
    _folder: TempDir,
}

impl Contender {
    pub fn load(name: String, engine: Box<dyn Engine>, folder: TempDir, records: u32) -> Self {
        let mut random = Random::new(7);
        engine.load(&mut (0..u64::from(records)).map(|key| (key.to_be_bytes().to_vec(), value(&mut random))));
        engine.settle();
        Self { name, engine, records: Records::new(records), _folder: folder }
    }

    pub fn describe(&self) -> (u64, String) {
        (self.engine.memory(), self.engine.describe())
    }

    /// Runs `step` so often, on so many threads.
    fn run(
        &self,
        what: &str,
        threads: u32,
        times: u32,
        seed: u64,
        step: impl Fn(&mut Random, &mut Vec<u8>) + Sync,
    ) -> Figures {
        let step = &step;
        let work = || {
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    scope.spawn(move || {
                        let (mut random, mut value) = (Random::new(seed ^ u64::from(thread) << 32), Vec::new());
                        (0..times / threads).for_each(|_| step(&mut random, &mut value));
                    });
                }
            });
        };
        let figures = Figures::of(times, work);
        figures.say(&self.name, what);
        figures
    }

    fn lookups(&self, what: &str, threads: u32, times: u32, seed: u64) -> Figures {
        self.run(what, threads, times, seed, |random, value| {
            assert!(self.engine.get(&self.records.draw(random), value), "a key is missing");
        })
    }

    /// An operation of one of YCSB's workloads: reads and writes of records by Zipf's law; D reads
    /// what came last, E scans.
    fn step(&self, letter: &str, random: &mut Random, out: &mut Vec<u8>) {
        let Self { engine, records, .. } = self;
        let percent = random.below(100);
        match letter {
            "A" if percent < 50 => engine.put(&records.draw(random), &value(random)),
            "B" if percent < 5 => engine.put(&records.draw(random), &value(random)),
            "D" | "E" if percent < 5 => engine.put(&records.next(), &value(random)),
            "D" => drop(engine.get(&records.latest(random), out)),
            "E" => drop(engine.scan(&records.draw(random), 1 + random.below(100) as usize)),
            "F" if percent < 50 => {
                let key = records.draw(random);
                engine.get(&key, out);
                engine.put(&key, &value(random));
            }
            _ => drop(engine.get(&records.draw(random), out)),
        }
    }
}

/// Of each kind of work the figures of each round.
#[derive(Default)]
struct Rounds(Vec<(String, Vec<Figures>)>);

impl Rounds {
    fn add(&mut self, work: &str, figures: Figures) {
        match self.0.iter_mut().find(|of| of.0 == work) {
            Some(of) => of.1.push(figures),
            None => self.0.push((work.to_owned(), vec![figures])),
        }
    }

    fn medians(self) -> Map<String, Value> {
        self.0.into_iter().map(|(work, rounds)| (work, Figures::median(&rounds))).collect()
    }
}

fn of_each(
    stores: &[Contender],
    rounds: u32,
    mut round: impl FnMut(&Contender, u32, &mut Rounds),
) -> Vec<Map<String, Value>> {
    let mut of_stores: Vec<Rounds> = stores.iter().map(|_| Rounds::default()).collect();
    for number in 0..rounds {
        // In turns, so that what else the machine does meets all of them.
        stores.iter().zip(&mut of_stores).for_each(|(store, of)| round(store, number, of));
    }
    of_stores.into_iter().map(Rounds::medians).collect()
}

/// Lookups by 1 and 8 threads, `times` in all of each, after `warm` to warm up.
pub fn lookups(stores: &[Contender], device: &str, times: u32, warm: u32, rounds: u32) -> Vec<Map<String, Value>> {
    // A device that is declared makes each thread wait.
    let warming = if device == "declared" { 8 } else { 2 };
    for store in stores {
        for part in 0..4 {
            store.lookups(&format!("{device}, warming"), warming, warm / 4, WARM_UP + part);
        }
        println!("{:18} {:?}", store.name, store.describe());
    }
    let mut rows = of_each(stores, rounds, |store, round, of| {
        for threads in [1, 8] {
            let seed = 12 + u64::from(threads) + 10 * u64::from(round);
            of.add(
                &threads.to_string(),
                store.lookups(&format!("{device}, {threads} threads"), threads, times / rounds, seed),
            );
        }
    });
    for (store, row) in stores.iter().zip(&mut rows) {
        let (memory, says) = store.describe();
        row.insert("memory".to_owned(), memory.into());
        row.insert("says".to_owned(), says.into());
    }
    rows
}

/// YCSB's workloads, one after the other. As many operations of each come first as are then
/// measured; of E, whose scans read about four leaves each, a quarter of `times`.
pub fn ycsb(stores: &[Contender], times: u32, rounds: u32) -> Vec<Map<String, Value>> {
    of_each(stores, rounds, |store, round, of| {
        for (letter, number) in ["A", "B", "C", "D", "E", "F"].into_iter().zip(100..) {
            let times = if letter == "E" { times / 4 } else { times };
            let seed = number + 10 * u64::from(round);
            let run = |what: &str, seed| store.run(what, 1, times, seed, |random, out| store.step(letter, random, out));
            of.add(&format!("{letter}, first"), run(&format!("{letter}, first"), WARM_UP + seed));
            of.add(letter, run(letter, seed));
        }
        println!("{:18} {:?}", store.name, store.describe());
        // Nobody writes in the background while the next is measured.
        store.engine.settle();
    })
}
