//! Ours among all online policies: where points are read beside scans or alone, and where indexes
//! are scanned.

use pagecast_core::policy::{PolicySpec, names};
use pagecast_sim::simulation::Interleaving;

use super::goals::{Check, at_most};
use super::row::{BELADY, OFF, PBM, Row, load, row, spec};

/// A workload with `{}` for the number of streams, in which pools, and how many points ours may be
/// behind the best.
struct Series {
    workload: &'static str,
    streams: &'static [u32],
    pools: &'static [f64],
    behind: f64,
}

const fn series(workload: &'static str, streams: &'static [u32], pools: &'static [f64], behind: f64) -> Series {
    Series { workload, streams, pools, behind }
}

/// With scans that register, ours has to be the best or nearly; without, it knows no more than the
/// others.
const WITH_SCANS: f64 = 0.5;
const WITHOUT: f64 = 1.0;

const SHARES: &[f64] = &[0.05, 0.1, 0.2, 0.4, 0.7];
const ALL_STREAMS: &[u32] = &[8, 16, 32, 64];
const INDEX_SHARES: &[f64] = &[0.1, 0.2, 0.3, 0.5];

/// Scans make a fifth or half of the reads of `ycsb`, or none.
const POINTS: &[Series] = &[
    series("dynzipf-like(reads=400000,pages=8000)", &[1], SHARES, WITH_SCANS),
    series("dynzipf-like-cs(reads=400000,pages=8000)", &[16], SHARES, WITH_SCANS),
    series("ycsb(streams={},operations=200000,pages=8000,skew=0.99,scans=625)", &[32], SHARES, WITH_SCANS),
    series("ycsb(streams={},operations=200000,pages=8000,skew=0.99,scans=2500)", &[32], SHARES, WITH_SCANS),
    series("ycsb(streams={},operations=200000,pages=8000,skew=0.75,scans=2500)", &[32], SHARES, WITH_SCANS),
    series("ycsb(streams={},operations=200000,pages=8000,skew=0.99,scans=0)", &[32], SHARES, WITHOUT),
    series("ycsb(streams={},operations=200000,pages=8000,skew=0.75,scans=0)", &[32], SHARES, WITHOUT),
];

/// A key strays over 96 of 4,000 pages or, as TPC-H's dates do, over 24 to either side at most.
const INDEX: &[Series] = &[
    series("sequential-index(streams={},queries=4,pages=4000,stray=48)", ALL_STREAMS, INDEX_SHARES, WITH_SCANS),
    series("trailing-index(streams={},queries=4,pages=4000)", ALL_STREAMS, INDEX_SHARES, WITH_SCANS),
];

pub(crate) fn points(seed: u64, quick: bool, checks: &mut Vec<Check>) -> Result<Vec<Row>, String> {
    measure(POINTS, (seed, quick), checks)
}

pub(crate) fn index(seed: u64, quick: bool, checks: &mut Vec<Check>) -> Result<Vec<Row>, String> {
    measure(INDEX, (seed, quick), checks)
}

/// All that there are, ours with and without learned reuse.
fn policies() -> Result<Vec<PolicySpec>, String> {
    // Clock comes first, as each row's gap counts from it.
    let others = names().filter(|&name| !["clock", "pbm", BELADY].contains(&name));
    ["clock"].into_iter().chain(others).chain([OFF, PBM]).map(spec).collect()
}

fn measure(all: &[Series], (seed, quick): (u64, bool), checks: &mut Vec<Check>) -> Result<Vec<Row>, String> {
    let policies = policies()?;
    let mut rows = Vec::new();
    for series in all {
        for &streams in if quick { &series.streams[..1] } else { series.streams } {
            let workload = series.workload.replace("{}", &streams.to_string());
            let trace = load(&workload, seed)?;
            let pools = if quick { &series.pools[1..2] } else { series.pools };
            let one = |&pool: &f64| row(&trace, &policies, Interleaving::Fixed, (streams, pool), seed);
            let table = pools.iter().map(one).collect::<Result<Vec<Row>, String>>()?;
            print(&table);
            for row in &table {
                checks.push(check(row, series.behind)?);
            }
            rows.extend(table);
        }
    }
    Ok(rows)
}

/// A line for each policy and a column for each pool.
fn print(rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    let columns: String = rows.iter().map(|row| format!(" {:.0} % |", 100.0 * row.pool)).collect();
    println!("\n`{}`, hit rates in per cent by the pool's share\n", first.workload);
    println!("| |{columns}\n|---|{}", "---|".repeat(rows.len()));
    for (at, policy) in first.counted.iter().enumerate() {
        let rates: String = rows.iter().map(|row| format!(" {:.2} |", 100.0 * row.counted[at].hit_rate)).collect();
        println!("| `{}` |{rates}", policy.policy);
    }
}

/// Ours is behind the best of the others by no more than this many points.
fn check(row: &Row, behind: f64) -> Result<Check, String> {
    let others = row.counted.iter().filter(|counted| counted.policy != PBM && counted.policy != BELADY);
    let best = others.min_by_key(|counted| counted.misses).ok_or("no policy but ours was run")?;
    let short = 100.0 * (best.hit_rate - row.of(PBM)?.hit_rate);
    let name = row.workload.split('(').next().unwrap_or_default();
    let goal = format!("`{name}`: `{PBM}` at most {behind} points behind the best online policy");
    let cell = format!("{}, {:.0} % (`{}`)", row.workload, 100.0 * row.pool, best.policy);
    Ok(at_most(goal, cell, (short, behind), "points"))
}
