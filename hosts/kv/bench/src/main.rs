//! pagecast-kv beside redb, fjall and Bf-Tree: 1 Mi records of 128 bytes, 16 MiB of memory.
//!
//! Reads and writes are what the kernel counts of this process (`/proc/self/io`): calls that read
//! or write, their bytes, and the bytes that came from the device. So all stores are measured in
//! the same way. None has the operating system's cache besides ([`slow_reads_unsafe`]). All are
//! open at once and measured in turns, several rounds. What is written down is the median. Rates
//! are of a shared machine.

mod engines;
mod figures;
mod slow_reads_unsafe;
mod work;

use std::path::PathBuf;
use std::time::Duration;

use pagecast::storage::DeclaredModel;
use serde_json::{Map, Value, json};

use engines::{NAMES, open};
use work::Contender;

pub const MEMORY: u64 = 16 << 20;
/// Lookups on the declared device are so much fewer: it makes each of them wait.
const FEWER: u32 = 8;

struct Arguments {
    records: u32,
    lookups: u32,
    operations: u32,
    rounds: u32,
    engines: Vec<String>,
    policy: String,
    folder: PathBuf,
    json: Option<PathBuf>,
    parts: Vec<String>,
    /// As they were given, for whoever wants to repeat it.
    given: Vec<String>,
}

fn arguments() -> Arguments {
    let mut found = Arguments {
        records: 1 << 20,
        lookups: 1 << 20,
        operations: 100_000,
        rounds: 3,
        engines: NAMES.map(str::to_owned).to_vec(),
        policy: "pbm".to_owned(),
        folder: std::env::temp_dir(),
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
            "--rounds" => found.rounds = value.parse::<u32>().expect("a number").max(1),
            "--engines" => found.engines = list(value),
            "--policy" => found.policy = value,
            "--folder" => found.folder = value.into(),
            "--json" => found.json = Some(value.into()),
            "--parts" => found.parts = list(value),
            _ => panic!("no such flag: {flag}"),
        }
    }
    found
}

/// The stores, each with the records, on the device of this model or the real one.
fn contenders(arguments: &Arguments, model: Option<DeclaredModel>) -> Vec<Contender> {
    let load = |name: &String| {
        let folder = tempfile::tempdir_in(&arguments.folder).expect("a folder");
        let engine = open(name, folder.path(), MEMORY, model, &arguments.policy).expect("a store of this name");
        Contender::load(name.clone(), engine, folder, arguments.records)
    };
    arguments.engines.iter().map(load).collect()
}

fn main() {
    let arguments = arguments();
    let Arguments { lookups, operations, rounds, .. } = arguments;
    let has = |part: &str| arguments.parts.iter().any(|one| one == part);
    let mut report: Map<String, Value> = arguments.engines.iter().map(|name| (name.clone(), json!({}))).collect();
    let mut note = |part: &str, stores: &[Contender], rows: Vec<Map<String, Value>>| {
        for (store, row) in stores.iter().zip(rows) {
            report[&store.name][part] = row.into();
        }
    };
    if has("lookups") || has("ycsb") {
        let stores = contenders(&arguments, None);
        if has("lookups") {
            note("lookups_real", &stores, work::lookups(&stores, "real", lookups, lookups, rounds));
        }
        if has("ycsb") {
            note("ycsb", &stores, work::ycsb(&stores, operations, rounds));
        }
    }
    let model = DeclaredModel { bandwidth: 250_000_000, latency: Duration::from_micros(500), outstanding: 16 };
    if has("declared") {
        let stores = contenders(&arguments, Some(model));
        slow_reads_unsafe::declare(Some(model));
        note("lookups_declared", &stores, work::lookups(&stores, "declared", lookups / FEWER, lookups, rounds));
        slow_reads_unsafe::declare(None);
    }
    let report = json!({
        "records": arguments.records, "record_bytes": work::RECORD, "memory": MEMORY, "zipf": 0.99,
        "lookups": lookups, "operations": operations, "rounds": rounds, "policy": arguments.policy,
        "declared": model.to_string(), "arguments": arguments.given.join(" "), "engines": report,
    });
    if let Some(path) = &arguments.json {
        std::fs::write(path, format!("{report:#}\n")).expect("the report");
    }
}
