//! What a choice of the manager of cooperation costs, with 1,000 units and 100 scans: time, and
//! instructions as in `costs`. And the memory that these take.
//!
//! All scans read all units, so that every choice looks at 1,000 chunks. They read them in a
//! number of column sets, each some of 16 columns of 8 blocks.

use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use pagecast_core::RelationId;
use pagecast_core::cooperation::{Chunk, Cooperation, CooperationConfig, Loading, MemberId, Take, Unit};
use pagecast_core::random::Random;

use super::costs::counted;
use super::goals::{Check, at_most};

const UNITS: u32 = 1_000;
const SCANS: u32 = 100;
const COLUMNS: u32 = 16;
const BLOCKS: u32 = 128;
const SETS: [u32; 4] = [1, 8, 22, 100];
const CHOICES: u32 = 2_000;
/// Under callgrind.
const COUNTED_CHOICES: u32 = 50;
/// The verb by which this program calls itself.
const COUNTED: &str = "counted-choices";

/// Which choice.
const KINDS: [&str; 4] =
    ["take of 1,000 resident", "take, nothing resident", "load, nothing resident", "load, half resident"];

/// Of a choice.
pub(crate) struct Cost {
    pub(crate) kind: &'static str,
    pub(crate) sets: u32,
    pub(crate) us: f64,
    pub(crate) instructions: Option<u64>,
    /// Bytes for each unit and scan.
    pub(crate) bytes: f64,
}

struct Bench {
    manager: Cooperation<Vec<AtomicU64>>,
    members: Vec<MemberId>,
}

impl Bench {
    /// Of each block the chance to be resident is `resident` in 100.
    fn new(sets: u32, resident: u32) -> Result<Self, String> {
        let mut random = Random::new(11);
        let config = CooperationConfig::of(SCANS, UNITS, BLOCKS, sets);
        let memory: Vec<AtomicU64> = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
        let mut manager = Cooperation::format(memory, config).map_err(|e| e.to_string())?;
        let there: Vec<bool> = (0..UNITS * BLOCKS).map(|_| random.below(100) < resident).collect();
        let masks: Vec<[u64; 2]> = (0..sets).map(|_| columns(&mut random)).collect();
        let mut members = Vec::new();
        for scan in 0..SCANS {
            let need = &masks[(scan % sets) as usize];
            let unit = |number| Unit { relation: RelationId(1), first: number * BLOCKS, blocks: BLOCKS };
            let chunks: Vec<Chunk<'_>> =
                (0..UNITS).map(|number| Chunk { unit: unit(number), need, joined: false }).collect();
            let resident = |page: pagecast_core::PageId| there[page.block() as usize];
            members.push(manager.register(&chunks, 1, 0, resident).map_err(|e| e.to_string())?);
        }
        Ok(Self { manager, members })
    }

    /// Microseconds that each of `count` choices of `kind` takes.
    fn choose(&mut self, kind: &str, count: u32) -> f64 {
        let (mut spent, mut random) = (0, Random::new(5));
        let loading =
            if kind.starts_with("take") { Loading::Opportunistic } else { Loading::Manager { outstanding: 1 } };
        self.manager.set_loading(loading);
        for now in 0..u64::from(count) {
            let member = self.members[random.below(SCANS) as usize];
            if kind.starts_with("take") {
                let start = Instant::now();
                let taken = black_box(self.manager.take(member, now));
                spent += start.elapsed().as_nanos();
                if let Take::Chunk { chunk, .. } = taken {
                    self.manager.give_back(member, chunk);
                }
            } else {
                let start = Instant::now();
                let load = black_box(self.manager.next_load(now));
                spent += start.elapsed().as_nanos();
                if let Some(load) = load {
                    // It brings nothing. Its chunk, which counts as available, goes and comes
                    // back.
                    self.manager.loaded(&load, now);
                    self.manager.take(load.member, now);
                    self.manager.give_back(load.member, load.chunk);
                }
            }
        }
        spent as f64 / 1e3 / f64::from(count)
    }
}

/// One to ten columns.
fn columns(random: &mut Random) -> [u64; 2] {
    let mut mask = [0; 2];
    for _ in 0..1 + random.below(10) {
        let block = random.below(COLUMNS) * (BLOCKS / COLUMNS);
        mask[block as usize / 64] |= 0xff << (block % 64);
    }
    mask
}

fn resident(kind: &str) -> u32 {
    match kind {
        "take of 1,000 resident" => 100,
        "load, half resident" => 50,
        _ => 0,
    }
}

/// Makes choices, for whoever counts. `kind` is a number.
pub(crate) fn work(kind: &str, sets: u32, count: u32) -> Result<f64, String> {
    let kind = kind.parse::<usize>().ok().and_then(|kind| KINDS.get(kind)).ok_or("no such choice")?;
    Ok(Bench::new(sets, resident(kind))?.choose(kind, count))
}

pub(crate) fn choices(checks: &mut Vec<Check>) -> Result<Vec<Cost>, String> {
    println!("\nA choice of the manager of cooperation with {UNITS} units and {SCANS} scans\n");
    println!("| choice | column sets | µs | instructions | bytes a unit and scan |\n|---|---|---|---|---|");
    let mut costs = Vec::new();
    for (number, kind) in KINDS.into_iter().enumerate() {
        for sets in SETS {
            let mut bench = Bench::new(sets, resident(kind))?;
            let us = (0..3).map(|_| bench.choose(kind, CHOICES)).fold(f64::INFINITY, f64::min);
            let fixed = CooperationConfig { words: 0, ..bench.manager.config() }.bytes();
            let bytes = (fixed + 8 * bench.manager.usage().words) as f64 / f64::from(UNITS * SCANS);
            let number = number.to_string();
            let instructions =
                match (counted(COUNTED, &number, sets, 0)?, counted(COUNTED, &number, sets, COUNTED_CHOICES)?) {
                    (Some(without), Some(with)) => Some(with.saturating_sub(without) / u64::from(COUNTED_CHOICES)),
                    _ => None,
                };
            let shown = instructions.map_or("valgrind is not installed".into(), |count| count.to_string());
            println!("| {kind} | {sets} | {us:.1} | {shown} | {bytes:.0} |");
            let cell = format!("{kind}, {sets} column sets");
            checks.push(at_most("a choice takes 20 µs".to_owned(), cell.clone(), (us, 20.0), "µs"));
            checks.push(at_most("200 bytes a unit and scan".to_owned(), cell, (bytes, 200.0), "bytes"));
            costs.push(Cost { kind, sets, us, instructions, bytes });
        }
    }
    Ok(costs)
}
