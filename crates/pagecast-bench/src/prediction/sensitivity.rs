//! The scan-only microbenchmark with each free choice of the simulation varied, one at a time: how requests interleave, what a
//! miss takes, how far apart the speeds are, how often scans report, how large the table and the ranges are, and the seed.

use pagecast_sim::simulation::Interleaving;

use super::cells::{Counted, LOGICAL, load, row};

const POLICIES: &str = "clock,pbm-paper,pbm-pq,pbm(frequency=off),pbm(frequency=auto)";
const POOL: f64 = 0.3;

/// A choice, the workload's parameters beside 32 streams, the order of requests, and what is added to the seed.
type Variant = (&'static str, &'static str, Interleaving, u64);

const TRACE: Interleaving = Interleaving::Fixed;
const BASE: &str = "queries=8,pages=8000";

const VARIANTS: &[Variant] = &[
    ("order of the trace", BASE, TRACE, 0),
    ("order of the trace, other seed", BASE, TRACE, 1),
    ("order of the trace, third seed", BASE, TRACE, 2),
    ("all scans equally fast", "queries=8,pages=8000,slow=1", TRACE, 0),
    ("speeds 10 times apart", "queries=8,pages=8000,slow=10", TRACE, 0),
    ("a report a page", "queries=8,pages=8000,report=1", TRACE, 0),
    ("a report in 64 pages", "queries=8,pages=8000,report=64", TRACE, 0),
    ("a quarter of the table", "queries=8,pages=2000", TRACE, 0),
    ("twice the table", "queries=8,pages=16000", TRACE, 0),
    ("ranges of 5 %", "queries=16,pages=8000,range=0.05", TRACE, 0),
    ("ranges of 30 %", "queries=3,pages=8000,range=0.3", TRACE, 0),
    ("logical time, a miss takes 20", BASE, LOGICAL, 0),
    ("logical, other seed", BASE, LOGICAL, 1),
    ("logical, a miss takes 5", BASE, Interleaving::Logical { latency: 5 }, 0),
    ("logical, a miss takes 80", BASE, Interleaving::Logical { latency: 80 }, 0),
    ("logical, all scans equally fast", "queries=8,pages=8000,slow=1", LOGICAL, 0),
    ("logical, speeds 10 times apart", "queries=8,pages=8000,slow=10", LOGICAL, 0),
    ("logical, a report a page", "queries=8,pages=8000,report=1", LOGICAL, 0),
    ("logical, a report in 64 pages", "queries=8,pages=8000,report=64", LOGICAL, 0),
];

pub(crate) struct Sensitivity {
    pub(crate) choice: &'static str,
    pub(crate) workload: String,
    pub(crate) requests: u64,
    pub(crate) row: Vec<Counted>,
}

pub(crate) fn measure(seed: u64) -> Result<Vec<Sensitivity>, String> {
    println!(
        "\nhit rates in per cent, 32 streams in a pool of 30 %; in brackets the share of the way from clock to Belady"
    );
    VARIANTS.iter().map(|variant| measured(variant, seed)).collect()
}

fn measured(&(choice, parameters, interleaving, more): &Variant, seed: u64) -> Result<Sensitivity, String> {
    let workload = format!("sequential(streams=32,{parameters})");
    let trace = load(&workload, seed + more)?;
    let foretold = interleaving == Interleaving::Fixed;
    let row = row(&trace, POLICIES, (interleaving, foretold), POOL, seed)?;
    let requests = trace.requests().len() as u64;
    print!("| {choice} |");
    for counted in &row {
        let hit_rate = 100.0 * (1.0 - counted.misses as f64 / requests as f64);
        print!(" {}: {hit_rate:.1} ({:.2}) |", counted.policy, counted.gap);
    }
    println!();
    Ok(Sensitivity { choice, workload, requests, row })
}
