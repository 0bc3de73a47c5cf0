//! pagecast-kv beside redb, fjall and Bf-Tree: 1 Mi records of 128 bytes, 16 MiB of memory.
//!
//! Reads and writes of the device are what the kernel counts of this process (`/proc/self/io`):
//! calls that read or write, and their bytes. So all stores are measured in the same way, and what
//! the operating system's cache answers counts as read: redb and fjall read through it, which
//! shortens their times here and not their counts. Times are of a shared machine.

mod engines;
mod slow_reads_unsafe;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pagecast::storage::DeclaredModel;
use pagecast_core::random::Random;
use pagecast_sim::generate::Zipf;
use serde_json::{Value, json};

use engines::{Engine, NAMES, open};

pub const MEMORY: u64 = 16 << 20;
const KEY: usize = 8;
const RECORD: usize = 128;
/// Where the seeds of a warm-up begin: what is measured draws others.
const WARM_UP: u64 = 1000;

struct Arguments {
    records: u32,
    lookups: u32,
    operations: u32,
    engines: Vec<String>,
    policy: String,
    folder: Option<PathBuf>,
    json: Option<PathBuf>,
    parts: Vec<String>,
    /// As they were given, for whoever wants to repeat it.
    given: Vec<String>,
}

fn arguments() -> Arguments {
    let mut found = Arguments {
        records: 1 << 20,
        lookups: 1 << 20,
        operations: 200_000,
        engines: NAMES.map(str::to_owned).to_vec(),
        policy: "pbm".to_owned(),
        folder: None,
        json: None,
        parts: ["lookups", "declared", "ycsb"].map(str::to_owned).to_vec(),
        given: Vec::new(),
    };
    let list = |text: String| text.split(',').map(str::to_owned).collect();
    let mut words = std::env::args().skip(1);
    while let (Some(flag), Some(value)) = (words.next(), words.next()) {
        if !matches!(flag.as_str(), "--folder" | "--json") {
            found.given.extend([flag.clone(), value.clone()]);
        }
        match flag.as_str() {
            "--records" => found.records = value.parse().expect("a number"),
            "--lookups" => found.lookups = value.parse().expect("a number"),
            "--operations" => found.operations = value.parse().expect("a number"),
            "--engines" => found.engines = list(value),
            "--policy" => found.policy = value,
            "--folder" => found.folder = Some(value.into()),
            "--json" => found.json = Some(value.into()),
            "--parts" => found.parts = list(value),
            _ => panic!("no such flag: {flag}"),
        }
    }
    found
}

/// What the kernel counted of this process.
#[derive(Clone, Copy, Default)]
struct Counted {
    reads: u64,
    bytes_read: u64,
    writes: u64,
    bytes_written: u64,
}

impl Counted {
    fn now() -> Self {
        let text = std::fs::read_to_string("/proc/self/io").expect("/proc/self/io");
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.and_then(|number| number.parse().ok()).unwrap_or(0)
        };
        Self {
            reads: field("syscr"),
            bytes_read: field("rchar"),
            writes: field("syscw"),
            bytes_written: field("wchar"),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            bytes_read: self.bytes_read - before.bytes_read,
            writes: self.writes - before.writes,
            bytes_written: self.bytes_written - before.bytes_written,
        }
    }
}

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

fn load(engine: &dyn Engine, records: u32) {
    let mut random = Random::new(7);
    engine.load(&mut (0..u64::from(records)).map(|number| (number.to_be_bytes().to_vec(), value(&mut random))));
    engine.settle();
}

/// Runs `operation` so often, on so many threads; how long it took, and what was read and written.
fn run(
    threads: u32,
    times: u32,
    seed: u64,
    operation: impl Fn(&mut Random, &mut Vec<u8>) + Sync,
) -> (Duration, Counted) {
    let (before, start, operation) = (Counted::now(), Instant::now(), &operation);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let (mut random, mut value) = (Random::new(seed ^ u64::from(thread) << 32), Vec::new());
                (0..times / threads).for_each(|_| operation(&mut random, &mut value));
            });
        }
    });
    (start.elapsed(), Counted::now().since(before))
}

fn row(times: u32, (elapsed, counted): (Duration, Counted)) -> Value {
    let each = |count: u64| (count as f64 / f64::from(times) * 1e4).round() / 1e4;
    json!({
        "per_second": (f64::from(times) / elapsed.as_secs_f64()).round(),
        "reads": each(counted.reads),
        "bytes_read": each(counted.bytes_read),
        "writes": each(counted.writes),
        "bytes_written": each(counted.bytes_written),
    })
}

fn say(name: &str, what: &str, row: &Value) {
    println!(
        "{name:12} {what:22} {:>9} /s {:8.4} reads {:9.0} B read {:9.0} B written",
        row["per_second"],
        row["reads"].as_f64().unwrap_or(0.0),
        row["bytes_read"].as_f64().unwrap_or(0.0),
        row["bytes_written"].as_f64().unwrap_or(0.0)
    );
}

/// Lookups after as many to warm up, by 1 and 8 threads.
fn lookups(engine: &dyn Engine, name: &str, what: &str, records: &Records, times: u32, warm: u32) -> Value {
    let get = |random: &mut Random, value: &mut Vec<u8>| {
        assert!(engine.get(&records.draw(random), value), "a key is missing")
    };
    for part in 0..4 {
        // A device that is declared makes each thread wait.
        let threads = if what.contains("declared") { 8 } else { 2 };
        let (took, counted) = run(threads, warm / 4, WARM_UP + part, get);
        say(name, &format!("{what}, warming"), &row(warm / 4, (took, counted)));
    }
    let mut rows = serde_json::Map::new();
    for threads in [1, 8] {
        let row = row(times, run(threads, times, 12 + u64::from(threads), get));
        say(name, &format!("{what}, {threads} threads"), &row);
        rows.insert(format!("{threads}"), row);
    }
    rows.insert("memory".to_owned(), engine.memory().into());
    rows.insert("says".to_owned(), engine.describe().into());
    println!("{name:12} {}", engine.describe());
    rows.into()
}

/// YCSB's workloads, one after the other in one store: reads and writes of records by Zipf's law; D
/// reads what came last, E scans. As many operations of a workload as are measured come first.
fn ycsb(engine: &dyn Engine, name: &str, records: &Records, times: u32) -> Value {
    let mut rows = serde_json::Map::new();
    for (letter, seed) in ["A", "B", "C", "D", "E", "F"].into_iter().zip(100..) {
        let step = |random: &mut Random, out: &mut Vec<u8>| {
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
        };
        // A scan reads about four leaves.
        let times = if letter == "E" { times / 4 } else { times };
        let before = row(times, run(1, times, WARM_UP + seed, step));
        say(name, &format!("{letter}, warming"), &before);
        let mut row = row(times, run(1, times, seed, step));
        row["reads_before"] = before["reads"].clone();
        say(name, letter, &row);
        println!("{name:12} {}", engine.describe());
        rows.insert(letter.to_owned(), row);
    }
    engine.settle();
    rows.into()
}

fn main() {
    let arguments = arguments();
    let model = DeclaredModel { bandwidth: 250_000_000, latency: Duration::from_micros(500), outstanding: 16 };
    let mut report = serde_json::Map::new();
    let has = |part: &str| arguments.parts.iter().any(|one| one == part);
    for name in &arguments.engines {
        let mut of_engine = serde_json::Map::new();
        for (device, model) in [("real", None), ("declared", Some(model))] {
            let is_wanted = if model.is_some() { has("declared") } else { has("lookups") || has("ycsb") };
            let folder = match &arguments.folder {
                Some(folder) => tempfile::tempdir_in(folder),
                None => tempfile::tempdir(),
            };
            let folder = folder.expect("a folder");
            if !is_wanted {
                continue;
            }
            let Some(engine) = open(name, folder.path(), MEMORY, model, &arguments.policy) else { continue };
            let records = Records::new(arguments.records);
            load(engine.as_ref(), arguments.records);
            slow_reads_unsafe::declare(model);
            let times = if model.is_some() { arguments.lookups / 16 } else { arguments.lookups };
            if model.is_some() || has("lookups") {
                let rows =
                    lookups(engine.as_ref(), name, &format!("lookups, {device}"), &records, times, arguments.lookups);
                of_engine.insert(format!("lookups_{device}"), rows);
            }
            if model.is_none() && has("ycsb") {
                of_engine.insert("ycsb".to_owned(), ycsb(engine.as_ref(), name, &records, arguments.operations));
            }
            slow_reads_unsafe::declare(None);
        }
        report.insert(name.clone(), of_engine.into());
    }
    let report = json!({
        "records": arguments.records, "record_bytes": RECORD, "memory": MEMORY, "zipf": 0.99,
        "lookups": arguments.lookups, "operations": arguments.operations, "policy": arguments.policy,
        "declared": model.to_string(), "arguments": arguments.given.join(" "), "engines": report,
    });
    if let Some(path) = &arguments.json {
        std::fs::write(path, format!("{report:#}\n")).expect("the report");
    }
}
