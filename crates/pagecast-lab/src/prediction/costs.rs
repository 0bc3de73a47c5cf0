//! What prediction costs: a victim, by the number of active scans on the relation; a registration
//! and an end, by the number of runs; the memory of many scans. Time, and for victims instructions
//! where valgrind is installed.
//!
//! Instructions are those of a run with evictions less those of the same run without, both under
//! callgrind, so that the setting up drops out; unlike time they do not depend on who else uses the
//! machine.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use crate::eviction::{Bench, FRAMES, running_scans};
use pagecast_core::RelationId;
use pagecast_core::predictor::{Pages, Part, PredictorConfig, Registry, Run, ScanKind, ScanSpec};

use super::goals::{Check, at_most};
use super::row::{OFF, PBM};

/// The paper's, ours with as many samples and without history, and as it is.
const POLICIES: [&str; 5] = [PAPER, OURS, OFF, "pbm(samples=10)", PBM];
const PAPER: &str = "pbm-paper(samples=10)";
const OURS: &str = "pbm(samples=10,history=off)";
const SCANS: [u32; 4] = [8, 16, 32, 64];
const EVICTIONS: u32 = 20_000;
/// Under callgrind everything takes some fifty times as long.
const COUNTED_EVICTIONS: u32 = 1_000;
/// The verb by which this program calls itself.
const COUNTED: &str = "counted-evictions";

/// Of an eviction.
pub(crate) struct Cost {
    pub(crate) policy: &'static str,
    pub(crate) scans: u32,
    pub(crate) ns: f64,
    pub(crate) instructions: Option<u64>,
}

/// Evicts, for whoever counts.
pub(crate) fn work(policy: &str, scans: u32, evictions: u32) -> f64 {
    Bench::new(policy).evictions(evictions, &running_scans(scans))
}

pub(crate) fn evictions() -> Result<Vec<Cost>, String> {
    println!("\nA victim among {FRAMES} frames, by scans that run\n");
    println!("| policy | scans | ns | instructions |\n|---|---|---|---|");
    let mut costs = Vec::new();
    for policy in POLICIES {
        for scans in SCANS {
            let ns = work(policy, scans, EVICTIONS);
            let instructions =
                match (counted(COUNTED, policy, scans, 0)?, counted(COUNTED, policy, scans, COUNTED_EVICTIONS)?) {
                    (Some(without), Some(with)) => Some(with.saturating_sub(without) / u64::from(COUNTED_EVICTIONS)),
                    _ => None,
                };
            let shown = instructions.map_or("valgrind is not installed".into(), |count| count.to_string());
            println!("| `{policy}` | {scans} | {ns:.0} | {shown} |");
            costs.push(Cost { policy, scans, ns, instructions });
        }
    }
    Ok(costs)
}

/// Of a scan's beginning and end, among others that run.
pub(crate) struct Registration {
    pub(crate) runs: u32,
    pub(crate) register_ns: f64,
    pub(crate) finish_ns: f64,
}

const RUNNING: u32 = 64;
const MOST_RUNS: u32 = 224;
const REGISTRATIONS: u32 = 2_000;

pub(crate) fn registrations() -> Result<Vec<Registration>, String> {
    println!("\nA scan's beginning and end among {RUNNING} that run, medians\n");
    println!("| runs | register, ns | finish, ns |\n|---|---|---|");
    [1, 32, MOST_RUNS].into_iter().map(registration).collect()
}

/// The median of each, as others use the machine too.
fn registration(count: u32) -> Result<Registration, String> {
    let scans = RUNNING + 1;
    let config =
        PredictorConfig { scans, parts: scans, runs: scans * MOST_RUNS, cells: 4096, ..PredictorConfig::EMPTY };
    let mut registry = Registry::format(memory(&config), config).map_err(|e| e.to_string())?;
    let runs: Vec<Run> =
        (0..count).map(|i| Run { first: i * 100, blocks: 50, position: u64::from(i) * 50, span: 50 }).collect();
    let parts = [Part { relation: RelationId(1), pages: Pages::Runs(&runs) }];
    let spec = ScanSpec { kind: ScanKind(0), length: u64::from(count) * 50, parts: &parts };
    for _ in 0..RUNNING {
        registry.register(&spec, 0).map_err(|e| e.to_string())?;
    }
    let (mut begins, mut ends) = (Vec::new(), Vec::new());
    for now in 0..u64::from(REGISTRATIONS) {
        let start = Instant::now();
        let scan = registry.register(&spec, now).map_err(|e| e.to_string())?;
        begins.push(start.elapsed().as_nanos() as f64);
        let start = Instant::now();
        registry.finish(scan, now);
        ends.push(start.elapsed().as_nanos() as f64);
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let cost = Registration { runs: count, register_ns: median(&mut begins), finish_ns: median(&mut ends) };
    println!("| {count} | {:.0} | {:.0} |", cost.register_ns, cost.finish_ns);
    Ok(cost)
}

/// What must hold of costs: 64 scans against 8 at 10 samples, by instructions where they are
/// counted; a microsecond for a scan with one run; 64 MiB.
pub(crate) fn check(evictions: &[Cost], registrations: &[Registration], metadata: u64, checks: &mut Vec<Check>) {
    for policy in [PAPER, OURS] {
        let of = |scans| {
            let cost = evictions.iter().find(|cost| cost.policy == policy && cost.scans == scans);
            cost.map_or(0.0, |cost| cost.instructions.map_or(cost.ns, |count| count as f64))
        };
        let goal = "a victim of 10 samples costs under 1.5 times as much among 64 scans as among 8".to_owned();
        checks.push(at_most(goal, format!("`{policy}`"), (of(64) / of(8), 1.5), "times"));
    }
    for cost in registrations {
        let goal = "registering and finishing take 1 µs and 20 ns a run".to_owned();
        let limit = 1_000.0 + 20.0 * f64::from(cost.runs);
        checks.push(at_most(goal, format!("{} runs", cost.runs), (cost.register_ns + cost.finish_ns, limit), "ns"));
    }
    let mib = metadata as f64 / f64::from(1 << 20);
    checks.push(at_most("1,000 scans over 10 TiB take 64 MiB".to_owned(), String::new(), (mib, 64.0), "MiB"));
}

/// The bytes of a predictor with `scans` scans of `ranges` ranges each; its memory does not depend
/// on the size of the data.
pub(crate) fn metadata_bytes(scans: u32, ranges: u32) -> Result<u64, String> {
    let config = PredictorConfig { scans, parts: scans, runs: scans * ranges, cells: 65_536, ..PredictorConfig::EMPTY };
    let mut registry = Registry::format(memory(&config), config).map_err(|e| e.to_string())?;
    // 10 TiB in blocks of 8 KiB; scan `i` reads every 1,000th stretch from the `i`-th on.
    let blocks = (10_u64 << 40 >> 13) as u32;
    let stretch = blocks / (scans * ranges);
    for scan in 0..scans {
        let runs: Vec<Run> = (0..ranges)
            .map(|i| Run {
                first: (i * scans + scan) * stretch,
                blocks: stretch,
                position: u64::from(i * stretch),
                span: u64::from(stretch),
            })
            .collect();
        let parts = [Part { relation: RelationId(1), pages: Pages::Runs(&runs) }];
        let spec = ScanSpec { kind: ScanKind(0), length: u64::from(ranges * stretch), parts: &parts };
        registry.register(&spec, 0).map_err(|e| e.to_string())?;
    }
    let bytes = config.words() as u64 * 8;
    println!("\n{scans} scans of {ranges} ranges each over 10 TiB: {:.1} MiB", bytes as f64 / f64::from(1 << 20));
    Ok(bytes)
}

fn memory(config: &PredictorConfig) -> Arc<[AtomicU64]> {
    (0..config.words()).map(|_| AtomicU64::new(0)).collect()
}

/// The instructions of a run of this program with so many evictions or choices, which `verb` asks
/// for; `None` without valgrind.
pub(crate) fn counted(verb: &str, what: &str, size: u32, times: u32) -> Result<Option<u64>, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([verb, what, &size.to_string(), &times.to_string()])
        .output();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|e| format!("valgrind: {e}"))?,
    };
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split("Collected :").nth(1)?.trim().parse().ok());
    collected.map(Some).ok_or_else(|| format!("valgrind counted nothing: {}", text.trim()))
}
