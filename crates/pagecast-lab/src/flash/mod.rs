//! The tier on flash of a real pool beside the simulator's, over the same requests.
//!
//! A trace of scans is replayed in its order through a pool, scans registered, over storage that
//! is far away, with a tier in a real file. The simulator replays the same trace. Both run the same
//! code of `pagecast_core::tier`; what differs is that the pool's time is of a clock, that its
//! slots are held while they are read and written, and its file.
//!
//! Prints reads from the store and pages written of each, in pages, and both as parts of what
//! second touch does.

mod replay;

use std::path::{Path, PathBuf};

use pagecast::FlashAdmission;
use pagecast_sim::flash::{FlashSpec, simulate_flash};
use pagecast_sim::generate::generate;
use pagecast_sim::trace::Trace;
use serde_json::{Value, json};

/// Workloads: scans of all parts alike, of a fifth mostly, of four tables, and few at a time.
const WORKLOADS: [&str; 4] = [
    "sequential(streams=8,queries=24,pages=4000)",
    "sequential(streams=8,queries=24,pages=4000,recent=0.8)",
    "sequential(streams=32,queries=8,pages=4000,tables=4)",
    "sequential(streams=2,queries=64,pages=4000)",
];
const QUICK: &str = "sequential(streams=8,queries=8,pages=1000)";
/// The part of a trace's pages that memory has, and tiers.
const MEMORY: f64 = 0.1;
const TIERS: [f64; 2] = [0.3, 0.6];
/// Beside the tier without a bound: pages written for each request, after it was filled.
const BUDGET: f64 = 0.01;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Make other workloads
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Take a small workload
    #[arg(long)]
    quick: bool,
    /// Take this one, of those of `pagecast trace generate`; may be given several times
    #[arg(long)]
    workload: Vec<String>,
    /// Where the tier's file is
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    folder: PathBuf,
}

/// What a tier did.
#[derive(Clone, Copy, Default)]
struct Figures {
    /// Pages that the store was asked for.
    reads: u64,
    /// Pages written to flash.
    written: u64,
}

/// One tier of one workload, simulated and built.
struct Row {
    filling: &'static str,
    simulated: Figures,
    built: replay::Built,
}

pub(crate) fn run(args: &Args) -> Result<Value, String> {
    let mut workloads = args.workload.clone();
    workloads.extend(args.quick.then(|| QUICK.to_owned()));
    if workloads.is_empty() {
        workloads = WORKLOADS.map(str::to_owned).to_vec();
    }
    let mut cells = Vec::new();
    println!("parts of what second touch reads from the store / writes to flash");
    for workload in &workloads {
        let mut source = generate(workload, args.seed).map_err(|error| error.to_string())?;
        let trace = Trace::load(workload, &mut source).map_err(|error| error.to_string())?;
        for share in TIERS {
            let rows = cell(&trace, share, &args.folder)?;
            print(workload, share, &rows);
            cells.push(json_of(workload, share, &rows));
        }
    }
    Ok(json!({ "cells": cells }))
}

/// The tiers of one size.
fn cell(trace: &Trace, share: f64, folder: &Path) -> Result<Vec<Row>, String> {
    let pages = |share: f64| (share * f64::from(trace.unique())) as u32;
    let (frames, slots) = (pages(MEMORY), pages(share));
    let bounded = format!("predicted(budget={BUDGET})");
    let fillings = [
        ("second-touch", "second-touch", FlashAdmission::SecondTouch, None),
        ("predicted", "predicted", FlashAdmission::Predicted, None),
        ("predicted, bounded", &bounded, FlashAdmission::Predicted, Some(BUDGET)),
    ];
    let mut rows: Vec<Row> = Vec::new();
    for (filling, spec, admission, budget) in fillings {
        let memory = "pbm".parse().map_err(|error| format!("pbm: {error}"))?;
        let outcome = simulate_flash(trace, &memory, frames, &FlashSpec::parse(spec)?, slots, 1);
        let outcome = outcome.map_err(|error| error.to_string())?;
        let simulated = Figures { reads: outcome.store_reads(), written: outcome.flash.written };
        // The clock of a run before tells how long a request takes.
        let per_second =
            budget.map(|budget: f64| budget * rows.last().map_or(1e4, |row| row.built.requests_per_second));
        let built = replay::replay(trace, frames, slots, (admission, per_second), folder)?;
        rows.push(Row { filling, simulated, built });
    }
    Ok(rows)
}

fn print(workload: &str, share: f64, rows: &[Row]) {
    println!("{workload}, memory {:.0} %, tier {:.0} %", MEMORY * 100.0, share * 100.0);
    let (simulated, built) = (rows[0].simulated, rows[0].built.figures);
    let part = |figure: u64, of: u64| figure as f64 / of.max(1) as f64;
    for row in rows {
        let (s, b) = (row.simulated, row.built.figures);
        println!(
            "  {:<19} simulated {:>7} {:>6} {:.2} / {:.2}   built {:>7} {:>6} {:.2} / {:.2}   skipped {}, broken {}",
            row.filling,
            s.reads,
            s.written,
            part(s.reads, simulated.reads),
            part(s.written, simulated.written),
            b.reads,
            b.written,
            part(b.reads, built.reads),
            part(b.written, built.written),
            row.built.skipped,
            row.built.broken,
        );
    }
}

fn json_of(workload: &str, share: f64, rows: &[Row]) -> Value {
    let figures = |figures: Figures| json!({ "store_reads": figures.reads, "flash_written": figures.written });
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "filling": row.filling, "simulated": figures(row.simulated), "built": figures(row.built.figures),
                "bytes_written": row.built.bytes_written, "skipped": row.built.skipped, "broken": row.built.broken,
                "wall_s": row.built.wall_s,
            })
        })
        .collect();
    json!({ "workload": workload, "memory_share": MEMORY, "tier_share": share, "rows": rows })
}
