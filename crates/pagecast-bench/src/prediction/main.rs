//! `bench-prediction`: how much the policies read where scans are known, and what a victim costs among many scans.
//!
//! Prints both tables; `--json FILE` writes them as JSON, `--seed N` makes other workloads (1), `--quick` takes a few cells.

mod cells;
mod costs;

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("bench-prediction: {message}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Default)]
struct Arguments {
    json: Option<PathBuf>,
    seed: u64,
    quick: bool,
    /// Policy, scans and evictions of a run whose instructions another process counts.
    counted: Option<(String, u32, u32)>,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments { seed: 1, ..Arguments::default() };
    let mut given = std::env::args().skip(1);
    while let Some(flag) = given.next() {
        let mut value = || given.next().ok_or_else(|| format!("{flag} needs a value"));
        let number = |text: String| text.parse::<u32>().map_err(|e| format!("{flag} {text}: {e}"));
        match flag.as_str() {
            "--json" => parsed.json = Some(value()?.into()),
            "--seed" => parsed.seed = number(value()?)?.into(),
            "--quick" => parsed.quick = true,
            costs::COUNTED => parsed.counted = Some((value()?, number(value()?)?, number(value()?)?)),
            _ => return Err(format!("unknown flag {flag}; there are --json FILE, --seed N and --quick")),
        }
    }
    Ok(parsed)
}

fn run(arguments: &Arguments) -> Result<(), String> {
    if let Some((policy, scans, evictions)) = &arguments.counted {
        costs::work(policy, *scans, *evictions);
        return Ok(());
    }
    println!("seed {}", arguments.seed);
    let cells = cells::measure(arguments.seed, arguments.quick)?;
    let costs = costs::evictions()?;
    let registrations = costs::registrations()?;
    let metadata_bytes = costs::metadata_bytes(1_000, 30)?;
    let Some(path) = &arguments.json else { return Ok(()) };
    let rows = json!({
        "cells": cells.iter().map(|cell| json!({
            "workload": cell.workload, "streams": cell.streams, "pool": cell.pool, "policy": cell.policy,
            "hit_rate": cell.hit_rate, "bytes_read": cell.bytes_read, "order": cell.order, "of_belady": cell.of_belady,
            "gap_closed": cell.gap_closed, "seed": arguments.seed,
        })).collect::<Vec<_>>(),
        "costs": costs.iter().map(|cost| json!({
            "policy": cost.policy, "scans": cost.scans, "ns_per_eviction": cost.ns,
            "instructions_per_eviction": cost.instructions,
        })).collect::<Vec<_>>(),
        "registrations": registrations.iter().map(|cost| json!({
            "runs": cost.runs, "register_ns": cost.register_ns, "finish_ns": cost.finish_ns,
        })).collect::<Vec<_>>(),
        "metadata_bytes": metadata_bytes,
    });
    let text = serde_json::to_string_pretty(&rows).map_err(|e| e.to_string())?;
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}
