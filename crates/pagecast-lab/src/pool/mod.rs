//! The pool's hit path against other caches, contention for the lock of ordered policies, what a
//! read of ranges costs beside the copy, what a victim costs, and how much of the device misses can
//! use, items without their pages, and AMG-Buffer's queries.
//!
//! Prints ratios of neighbouring rounds of one run: above 1, ours took longer.

mod contention;
mod eviction;
mod hit_path;
mod miss_path;
mod queries;
mod reads;
mod resident;
mod tuples;

use std::num::NonZeroUsize;

use serde_json::{Value, json};

use crate::rounds::Figure;

const SCANS: [u32; 4] = [1, 8, 32, 128];
/// Of AMG-Buffer's, for each part of narrow ones.
const QUERIES: u32 = 200_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Medians are of so many rounds
    #[arg(long, value_name = "N", default_value = "11")]
    rounds: NonZeroUsize,
    /// One part alone
    #[arg(long, value_name = "SECTION", value_parser = SECTIONS.map(|(name, _)| name))]
    only: Option<String>,
}

/// A part of the benchmark: prints its table and returns its rows.
type Section = (&'static str, fn(usize) -> Result<Value, String>);

/// Under the names that they have in the JSON file.
const SECTIONS: [Section; 8] = [
    ("hit_path", hit_path),
    ("contention", contention),
    ("two_queue_against_clock", two_queue_against_clock),
    ("reads", reads),
    ("evictions", evictions),
    ("miss_path", miss_path),
    ("tuples", tuples),
    ("queries", queries),
];

pub(crate) fn run(args: &Args) -> Result<Value, String> {
    println!("medians of {} rounds; ratios are of neighbouring rounds", args.rounds);
    let mut rows = json!({});
    for (name, section) in SECTIONS {
        if args.only.as_ref().is_none_or(|only| only == name) {
            println!();
            rows[name] = section(args.rounds.get())?;
        }
    }
    Ok(rows)
}

fn hit_path(rounds: usize) -> Result<Value, String> {
    println!("hit path: ns per operation, all threads at work; the ratio is ours / peer");
    println!(
        "{:8} {:14} {:>7}  {:12} {:>8} {:>8} {:>7}",
        "policy", "workload", "threads", "peer", "ours ns", "peer ns", "ratio"
    );
    let rows = hit_path::measure(rounds);
    for row in &rows {
        println!(
            "{:8} {:14} {:>7}  {:12} {:>8.1} {:>8.1} {:>7.2}",
            row.policy, row.workload, row.threads, row.peer, row.figure.ours, row.figure.other, row.figure.ratio
        );
    }
    let json = |row: &hit_path::Row| {
        json!({
            "policy": row.policy, "workload": row.workload, "threads": row.threads, "peer": row.peer,
            "ours_ns": row.figure.ours, "peer_ns": row.figure.other, "ratio": row.figure.ratio,
        })
    };
    Ok(rows.iter().map(json).collect())
}

fn contention(rounds: usize) -> Result<Value, String> {
    println!("contention: the policy's lock per million accesses, hits only, and million accesses per second");
    println!(
        "{:8} {:12} {:>7} {:>12} {:>8} {:>12} {:>7}",
        "policy", "variant", "threads", "acquisitions", "blocked", "failed tries", "mops"
    );
    let rows = contention::measure(rounds.min(3));
    for row in &rows {
        println!(
            "{:8} {:12} {:>7} {:>12.0} {:>8.1} {:>12.1} {:>7.2}",
            row.policy, row.variant, row.threads, row.acquisitions, row.blocked, row.failed_tries, row.mops
        );
    }
    let json = |row: &contention::Row| {
        json!({
            "policy": row.policy, "variant": row.variant, "threads": row.threads,
            "acquisitions_per_million": row.acquisitions, "blocked_per_million": row.blocked,
            "failed_tries_per_million": row.failed_tries, "mops": row.mops,
        })
    };
    Ok(rows.iter().map(json).collect())
}

fn two_queue_against_clock(rounds: usize) -> Result<Value, String> {
    println!("2q with batching and prefetching against clock: seconds for a million accesses");
    println!("{:>7} {:>8} {:>8} {:>7}", "threads", "2q", "clock", "ratio");
    let rows = contention::against_clock(rounds);
    for (threads, figure) in &rows {
        println!("{threads:>7} {:>8.3} {:>8.3} {:>7.3}", figure.ours, figure.other, figure.ratio);
    }
    let json = |(threads, figure): &(u32, Figure)| json!({ "threads": threads, "two_queue_s": figure.ours, "clock_s": figure.other, "ratio": figure.ratio });
    Ok(rows.iter().map(json).collect())
}

fn reads(rounds: usize) -> Result<Value, String> {
    println!("reads of resident ranges: ns per MiB, against pins and a copy into a buffer that is there");
    println!("{:>10} {:>9} {:>9} {:>7}", "bytes", "read ns", "copy ns", "ratio");
    let rows = reads::measure(rounds)?;
    for (length, figure) in &rows {
        println!("{length:>10} {:>9.0} {:>9.0} {:>7.2}", figure.ours, figure.other, figure.ratio);
    }
    let json = |(length, figure): &(u64, Figure)| json!({ "bytes": length, "read_ns": figure.ours, "copy_ns": figure.other, "ratio": figure.ratio });
    Ok(rows.iter().map(json).collect())
}

fn evictions(rounds: usize) -> Result<Value, String> {
    println!("eviction: ns per victim and admission, pbm with 10 samples against clock");
    println!("{:>5} {:>9} {:>9} {:>7}", "scans", "pbm ns", "clock ns", "ratio");
    let rows = SCANS.map(|scans| (scans, eviction::measure(scans, rounds)));
    for (scans, figure) in &rows {
        println!("{scans:>5} {:>9.0} {:>9.1} {:>7.1}", figure.ours, figure.other, figure.ratio);
    }
    let json = |(scans, figure): &(u32, Figure)| json!({ "scans": scans, "pbm_ns": figure.ours, "clock_ns": figure.other, "ratio": figure.ratio });
    Ok(rows.iter().map(json).collect())
}

fn miss_path(rounds: usize) -> Result<Value, String> {
    println!("miss path: MiB/s of 8 readers, 256 KiB a page, against 8 dd with O_DIRECT");
    let Some(row) = miss_path::measure(rounds)? else {
        println!("skipped: there is no dd that reads with O_DIRECT here");
        return Ok(json!([]));
    };
    let how = if row.direct { "O_DIRECT" } else { "page cache" };
    println!("{:>10} {:>9} {:>9} {:>7}", "ours", "ours", "dd", "ratio");
    println!("{how:>10} {:>9.0} {:>9.0} {:>7.2}", row.figure.ours, row.figure.other, row.figure.ratio);
    Ok(json!([{
        "readers": 8, "page_bytes": 256 << 10, "direct": row.direct,
        "ours_mib_s": row.figure.ours, "dd_mib_s": row.figure.other, "ratio": row.figure.ratio,
    }]))
}

fn tuples(rounds: usize) -> Result<Value, String> {
    println!("items of 128 bytes: ns from a mini-page, against a copy out of a resident page, without a pin");
    println!("and with one; and a miss until its page is on its way, whose victim dissolves or is dropped");
    let ([copy, pin], dissolve) = (tuples::hits(rounds)?, tuples::dissolving(rounds)?);
    println!("{:>10} {:>9} {:>9} {:>7} {:>9}", "", "ours ns", "other ns", "ratio", "more ns");
    for (what, figure) in [("copy", &copy), ("pin", &pin), ("dissolve", &dissolve)] {
        let more = figure.ours - figure.other;
        println!("{what:>10} {:>9.1} {:>9.1} {:>7.2} {more:>9.1}", figure.ours, figure.other, figure.ratio);
    }
    let json = |figure: &Figure| json!({ "ours_ns": figure.ours, "other_ns": figure.other, "ratio": figure.ratio, "more_ns": figure.ours - figure.other });
    Ok(json!({ "hit": json(&copy), "hit_against_pin": json(&pin), "dissolve": json(&dissolve) }))
}

fn queries(_rounds: usize) -> Result<Value, String> {
    println!("AMG-Buffer's queries: thousands of pages read and written, in the pool and simulated");
    println!("{:>6} {:>10} {:16} {:>9} {:>9} {:>9}", "hybrid", "checkpoint", "buffer", "read", "written", "tuples");
    let thousands = |count: u64| count as f64 / 1e3;
    let rows = queries::measure(QUERIES)?;
    for row in &rows {
        let figures = [row.loads, row.written, row.tuple_hits].map(thousands);
        let [read, written, tuples] = figures;
        let checkpoint = row.checkpoint.map_or("none".to_owned(), |every| every.to_string());
        println!("{:>6} {checkpoint:>10} {:16} {read:>9.1} {written:>9.1} {tuples:>9.1}", row.hybrid, row.buffer);
    }
    let json = |row: &queries::Row| {
        json!({
            "hybrid": row.hybrid, "checkpoint": row.checkpoint, "buffer": row.buffer, "requests": row.requests, "read": row.loads,
            "written": row.written, "tuple_hits": row.tuple_hits,
        })
    };
    Ok(rows.iter().map(json).collect())
}
