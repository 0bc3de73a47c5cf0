//! The scan-only microbenchmark with each free choice of the simulation varied, one at a time: how
//! requests interleave, what a miss takes, how far apart the speeds are, how often scans report,
//! how large the table and the ranges are, and the seed.

use pagecast_sim::simulation::Interleaving;

use super::row::{BELADY, LIMIT, LOGICAL, Row, add_foretold, load, row, specs};

const POLICIES: &str = "clock,pbm-paper,pbm-pq,pbm(history=off),pbm";
const POOL: f64 = 0.3;

/// A choice, the workload's parameters beside 32 streams, the order of requests, and what is added
/// to the seed.
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
    pub(crate) row: Row,
}

pub(crate) fn measure(seed: u64) -> Result<Vec<Sensitivity>, String> {
    println!(
        "\n32 streams in a pool of 30 %: hit rates in per cent, in brackets the share of the way from clock to Belady\n"
    );
    let names: String = specs(POLICIES)?.iter().map(|policy| format!(" `{}` |", policy.name())).collect();
    println!("| varied |{names} {LIMIT} |\n|---|---|---|---|---|---|---|");
    VARIANTS.iter().map(|variant| measured(variant, seed)).collect()
}

fn measured(&(choice, parameters, interleaving, more): &Variant, seed: u64) -> Result<Sensitivity, String> {
    let trace = load(&format!("sequential(streams=32,{parameters})"), seed + more)?;
    let mut row = row(&trace, &specs(POLICIES)?, interleaving, (32, POOL), seed)?;
    if interleaving == Interleaving::Fixed {
        add_foretold(&mut row, &trace, seed)?;
    }
    print!("| {choice} |");
    for counted in row.counted.iter().filter(|counted| counted.policy != BELADY) {
        print!(" {:.1} ({:.2}) |", 100.0 * counted.hit_rate, counted.gap);
    }
    println!();
    Ok(Sensitivity { choice, row })
}
