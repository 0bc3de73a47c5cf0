//! `pagecast trace info`: what is in a trace.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use pagecast_sim::trace::{Format, Trace};
use serde::Serialize;

use crate::output::{Table, check_writable, write_whole};

/// Which traces to look at.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The traces
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// auto, text, csv(...), oracleGeneral, lis, lirs, pagecast
    #[arg(long, value_name = "F", default_value = "auto")]
    format: Format,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Serialize)]
struct Info {
    trace: String,
    requests: u64,
    unique: u64,
    writes: u64,
    /// Pages that are asked for only once: no cache can hit them.
    once: u64,
    /// Requests for the hottest page, and for the ten hottest.
    hottest: u64,
    hottest_ten: u64,
    relations: u64,
    streams: u64,
    scans: u64,
    /// Requests that a registered scan makes.
    scan_requests: u64,
}

impl Info {
    fn of(trace: &Trace) -> Self {
        let mut counts = vec![0u64; trace.unique() as usize];
        trace.requests().iter().for_each(|&number| counts[number as usize] += 1);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let mut relations: Vec<u32> = trace.pages().iter().map(|page| page.relation().0).collect();
        relations.sort_unstable();
        relations.dedup();
        Self {
            trace: trace.name.clone(),
            requests: trace.requests().len() as u64,
            unique: counts.len() as u64,
            writes: trace.writes(),
            once: counts.iter().filter(|&&count| count == 1).count() as u64,
            hottest: counts[0],
            hottest_ten: counts.iter().take(10).sum(),
            relations: relations.len() as u64,
            streams: u64::from(trace.stream_count()),
            scans: trace.scan_count() as u64,
            scan_requests: (0..trace.requests().len()).filter(|&at| trace.scan(at).is_some()).count() as u64,
        }
    }
}

/// Runs the verb.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    check_writable("--json", args.json.as_deref())?;
    let heads = [
        "trace",
        "requests",
        "pages",
        "writes",
        "once",
        "hottest",
        "hottest 10",
        "relations",
        "streams",
        "scans",
        "by scans",
    ];
    let mut table = Table::new(&heads, 1);
    let mut infos = Vec::new();
    let mut fault = None;
    for path in &args.traces {
        match super::load(path, &args.format) {
            Ok(trace) => infos.push(Info::of(&trace)),
            // The others are still looked at; each fault has its line, and the last one makes the
            // exit status.
            Err(error) => {
                if let Some(before) = fault.replace(error) {
                    crate::failure::report(&before);
                }
            }
        }
    }
    for info in &infos {
        let share = |part: u64| format!("{:.2} %", part as f64 / info.requests as f64 * 100.0);
        let mut cells = vec![info.trace.clone()];
        cells.extend([info.requests, info.unique, info.writes, info.once].map(|number| number.to_string()));
        cells.extend([share(info.hottest), share(info.hottest_ten)]);
        cells.extend([info.relations, info.streams, info.scans].map(|number| number.to_string()));
        cells.push(share(info.scan_requests));
        table.row(cells);
    }
    if let Some(path) = &args.json {
        let json = serde_json::json!({"schema": 1, "traces": infos});
        write_whole(path, &serde_json::to_vec_pretty(&json).context("cannot make JSON of the figures")?)?;
    }
    if !infos.is_empty() {
        write!(std::io::stdout().lock(), "{table}")?;
    }
    fault.map_or(Ok(()), Err)
}
