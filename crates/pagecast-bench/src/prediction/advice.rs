//! What it is worth that scans wait for those behind them, and that short ones read ahead first: misses and times, in logical
//! time.

use pagecast_core::policy::PolicySpec;
use pagecast_core::predictor::Throttle;
use pagecast_sim::simulation::{Interleaving, LogicalOutcome, Options, ReadAhead, simulate_with};
use pagecast_sim::trace::Trace;

use super::row::{LOGICAL, frames, load};

/// A miss is slow, so that waiting for it weighs; or as in the other tables.
const SLOW: Interleaving = Interleaving::Logical { latency: 80 };
/// The second has scans of one speed, which stay behind each other.
const WORKLOADS: [&str; 2] =
    ["sequential(streams=32,queries=8,pages=8000)", "sequential(streams=32,queries=8,pages=8000,slow=1)"];
const POOLS: [f64; 2] = [0.1, 0.3];
const POLICY: &str = "pbm(frequency=off)";
/// Half of what a scan takes alone, if it misses throughout.
const LONGEST: u64 = 8_000;

/// Advice, and its name.
type Advice = (&'static str, Option<Throttle>, Option<ReadAhead>);

const fn waiting(share: f64) -> Option<Throttle> {
    Some(Throttle { share, longest: LONGEST })
}

const fn ahead(budget: u32, short_first: bool) -> Option<ReadAhead> {
    Some(ReadAhead { budget, short_first })
}

const ADVICE: &[Advice] = &[
    ("none", None, None),
    ("wait, at most 5 %", waiting(0.05), None),
    ("wait, at most 20 %", waiting(0.2), None),
    ("wait, at most 50 %", waiting(0.5), None),
    ("128 requests ahead, shared alike", None, ahead(128, false)),
    ("128 requests ahead, short first", None, ahead(128, true)),
];

pub(crate) struct Advised {
    pub(crate) workload: &'static str,
    pub(crate) latency: u32,
    pub(crate) pool: f64,
    pub(crate) advice: &'static str,
    pub(crate) misses: u64,
    pub(crate) outcome: LogicalOutcome,
}

pub(crate) fn measure(seed: u64) -> Result<Vec<Advised>, String> {
    println!("\n`{POLICY}` in logical time; in brackets and after over `none`\n");
    println!(
        "| scans | a miss takes | pool | advice | misses | ticks until all are done | scans' ticks | of these waited |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut all = Vec::new();
    for workload in WORKLOADS {
        let trace = load(workload, seed)?;
        for interleaving in [LOGICAL, SLOW] {
            for pool in POOLS {
                let rows = rows(&trace, (workload, interleaving), pool, seed)?;
                all.extend(rows);
            }
        }
    }
    Ok(all)
}

fn rows(
    trace: &Trace,
    (workload, interleaving): (&'static str, Interleaving),
    pool: f64,
    seed: u64,
) -> Result<Vec<Advised>, String> {
    let Interleaving::Logical { latency } = interleaving else { return Err("advice needs time".into()) };
    let spec = PolicySpec::parse(POLICY).map_err(|e| e.to_string())?;
    let mut rows: Vec<Advised> = Vec::new();
    for &(advice, throttle, read_ahead) in ADVICE {
        let options = Options { throttle, read_ahead, ..Options::of(interleaving) };
        let outcome = simulate_with(trace, &spec, frames(trace, pool), seed, &options).map_err(|e| e.to_string())?;
        let logical = outcome.logical.ok_or("logical time has times")?;
        let row = Advised { workload, latency, pool, advice, misses: outcome.counts.misses, outcome: logical };
        let base = rows.first().unwrap_or(&row);
        let of = |value: u64, base: u64| value as f64 / base as f64;
        println!(
            "| `{workload}` | {latency} | {:.0} % | {advice} | {} ({:.3}) | {:.3} | {:.3} | {:.3} |",
            pool * 100.0,
            row.misses,
            of(row.misses, base.misses),
            of(logical.ticks, base.outcome.ticks),
            of(logical.scan_ticks, base.outcome.scan_ticks),
            of(logical.paused, logical.scan_ticks),
        );
        rows.push(row);
    }
    Ok(rows)
}
