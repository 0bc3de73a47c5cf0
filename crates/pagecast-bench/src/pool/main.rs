//! `bench-pool`: the pool's hit path against other caches, and what a victim costs.
//!
//! Prints ratios of neighbouring rounds of one run: above 1, ours took longer. `--json FILE` writes them as JSON,
//! `--rounds N` sets how many rounds the medians are of.

mod eviction;
mod hit_path;
mod rounds;

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

const SCANS: [u32; 4] = [1, 8, 32, 128];

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("bench-pool: {message}");
            ExitCode::FAILURE
        }
    }
}

struct Arguments {
    json: Option<PathBuf>,
    rounds: usize,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments { json: None, rounds: 11 };
    let mut given = std::env::args().skip(1);
    while let Some(flag) = given.next() {
        let value = given.next().ok_or_else(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--json" => parsed.json = Some(value.into()),
            "--rounds" => parsed.rounds = value.parse().map_err(|e| format!("--rounds {value}: {e}"))?,
            _ => return Err(format!("unknown flag {flag}; there are --json FILE and --rounds N")),
        }
    }
    if parsed.rounds == 0 {
        return Err("--rounds must be at least 1".into());
    }
    Ok(parsed)
}

fn run(arguments: &Arguments) -> Result<(), String> {
    println!(
        "hit path: ns per operation, all threads at work; the ratio is ours / peer, median of {} rounds",
        arguments.rounds
    );
    println!(
        "{:8} {:14} {:>7}  {:12} {:>8} {:>8} {:>7}",
        "policy", "workload", "threads", "peer", "ours ns", "peer ns", "ratio"
    );
    let hits = hit_path::measure(arguments.rounds);
    for row in &hits {
        println!(
            "{:8} {:14} {:>7}  {:12} {:>8.1} {:>8.1} {:>7.2}",
            row.policy, row.workload, row.threads, row.peer, row.figure.ours, row.figure.other, row.figure.ratio
        );
    }
    println!("\neviction: ns per victim and admission, pbm with 10 samples against clock");
    println!("{:>5} {:>9} {:>9} {:>7}", "scans", "pbm ns", "clock ns", "ratio");
    let evictions: Vec<_> = SCANS.map(|scans| (scans, eviction::measure(scans, arguments.rounds))).into();
    for (scans, figure) in &evictions {
        println!("{scans:>5} {:>9.0} {:>9.1} {:>7.1}", figure.ours, figure.other, figure.ratio);
    }
    let Some(path) = &arguments.json else { return Ok(()) };
    let rows = json!({
        "hit_path": hits.iter().map(|row| json!({
            "policy": row.policy, "workload": row.workload, "threads": row.threads, "peer": row.peer,
            "ours_ns": row.figure.ours, "peer_ns": row.figure.other, "ratio": row.figure.ratio,
        })).collect::<Vec<_>>(),
        "evictions": evictions.iter().map(|(scans, figure)| json!({
            "scans": scans, "pbm_ns": figure.ours, "clock_ns": figure.other, "ratio": figure.ratio,
        })).collect::<Vec<_>>(),
    });
    let text = serde_json::to_string_pretty(&rows).map_err(|e| e.to_string())?;
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}
