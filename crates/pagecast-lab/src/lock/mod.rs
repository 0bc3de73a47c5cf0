//! What the lock of an ordered policy costs, with the loads of BP-Wrapper's authors: its shares of
//! the threads' time on hits only, and what batches cost in hits where there are misses.
//!
//! Threads share frames without contents; an access adds up 4 KiB of its own. Prefetching is left
//! out, since only the pool has the instruction: `pool --only contention` has all four variants.

mod frames;
mod loads;
mod threads;
mod watched;

use std::num::NonZeroUsize;

use clap::builder::PossibleValuesParser;
use pagecast_core::policy::{Batching, PolicySpec, names};
use pagecast_sim::replay::{PageIds, replay_in_sessions};
use serde_json::{Value, json};

use loads::{Load, PAGES};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Medians are of so many rounds
    #[arg(long, value_name = "N", default_value = "3")]
    rounds: NonZeroUsize,
    /// Numbers of threads
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,4,8,16", value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: Vec<u32>,
    /// These policies alone, of those that keep an order, and clock
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = PossibleValuesParser::new(names()), hide_possible_values = true)]
    policies: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<Value, String> {
    Ok(json!({ "hits_only": hits_only(args), "with_misses": with_misses()? }))
}

fn hits_only(args: &Args) -> Value {
    println!("hits only: million accesses a second, waits per million accesses, parts of the threads' time");
    println!(
        "{:10} {:10} {:8} {:>7} {:>7} {:>9} {:>8} {:>8}",
        "load", "policy", "", "threads", "mops", "waits", "holding", "waiting"
    );
    let rows = threads::measure(&args.threads, &args.policies, args.rounds.get());
    for row in &rows {
        println!(
            "{:10} {:10} {:8} {:>7} {:>7.2} {:>9.1} {:>8.3} {:>8.3}",
            row.load, row.policy, row.way, row.threads, row.mops, row.blocked, row.holding, row.waiting
        );
    }
    let json = |row: &threads::Row| {
        json!({
            "load": row.load, "policy": row.policy, "way": row.way, "threads": row.threads, "mops": row.mops,
            "waits_per_million": row.blocked, "holding": row.holding, "waiting": row.waiting,
        })
    };
    rows.iter().map(json).collect()
}

/// Of the pages, in per cent.
const POOLS: [u32; 4] = [5, 10, 20, 40];
const SESSIONS: u32 = 8;
const REQUESTS: usize = 400_000;

/// What runs where there are misses. The last shows what 2Q pays for pages that have just come,
/// which have a fourth of its frames otherwise.
const WITH_MISSES: [(&str, &str, Batching); 4] = [
    ("clock", "clock", Batching::OFF),
    ("2q", "2q", Batching::OFF),
    ("2q wrapped", "2q", Batching { queue: 64, prefetch: true }),
    ("2q, in 2 %", "2q(in=0.02)", Batching::OFF),
];

/// Hit ratios of eight sessions in turns, which need no threads.
fn with_misses() -> Result<Value, String> {
    println!("\nwith misses: hit ratios of {SESSIONS} sessions that take turns");
    println!("{:10} {:>7} {}", "load", "pool, %", WITH_MISSES.map(|(name, _, _)| format!("{name:>10}")).join(" "));
    let mut rows = Vec::new();
    for load in Load::ALL {
        let pages = load.pages(SESSIONS, REQUESTS / SESSIONS as usize);
        for pool in POOLS {
            let mut row = json!({ "load": load.name(), "pool": pool });
            print!("{:10} {pool:>7}", load.name());
            for (name, policy, batching) in WITH_MISSES {
                let hits = hit_ratio(&pages, policy, PAGES * pool / 100, batching)?;
                print!(" {hits:>10.4}");
                row[name] = hits.into();
            }
            println!();
            rows.push(row);
        }
    }
    Ok(rows.into())
}

fn hit_ratio(pages: &[Vec<u32>], policy: &str, frames: u32, batching: Batching) -> Result<f64, String> {
    let turns = (0..REQUESTS).map(|at| pages[at % pages.len()][at / pages.len()]);
    let requests = turns.enumerate().map(|(at, block)| frames::access(block, at as u64));
    let spec = PolicySpec::parse(policy).map_err(|error| error.to_string())?;
    let how = (SESSIONS, batching.within(frames));
    let counts = replay_in_sessions(requests, PageIds::Dense(PAGES), &spec, frames, 1, how);
    let counts = counts.map_err(|error| error.to_string())?;
    Ok(1.0 - counts.misses as f64 / counts.requests as f64)
}
