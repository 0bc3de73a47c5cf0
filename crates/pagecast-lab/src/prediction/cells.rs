//! Scans alone: hit rates in the order of the trace, and in logical time, where streams race.

use pagecast_sim::simulation::Interleaving;
use pagecast_sim::trace::Trace;

use super::goals::{Check, at_most};
use super::row::{BELADY, EVERY_FRAME, LIMIT, LOGICAL, OFF, PBM, Row, add_foretold, load, row, specs};

const POLICIES: &str = "clock,pbm-paper,pbm-pq,pbm(history=off),pbm";
/// As a column: in logical time nobody can foretell, but a scan can tell where it is at every page,
/// and all frames be asked.
const REPORTED: &str = "every frame, a report a page";
const STREAMS: &[u32] = &[8, 16, 32, 64];
const POOLS: &[f64] = &[0.1, 0.2, 0.3, 0.45, 0.6, 0.8];

fn workload(streams: u32, report: u32) -> String {
    format!("sequential(streams={streams},queries=8,pages=8000,report={report})")
}

pub(crate) fn measure(seed: u64, quick: bool, checks: &mut Vec<Check>) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let (streams, pools) = if quick { (&STREAMS[..1], &POOLS[2..3]) } else { (STREAMS, POOLS) };
    for interleaving in [Interleaving::Fixed, LOGICAL] {
        head(interleaving);
        for &streams in streams {
            let trace = load(&workload(streams, 16), seed)?;
            let reported = load(&workload(streams, 1), seed)?;
            for &pool in pools {
                let row = measured((&trace, &reported), interleaving, (streams, pool), seed)?;
                print(&row)?;
                check(&row, checks)?;
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

fn measured(
    (trace, reported): (&Trace, &Trace),
    interleaving: Interleaving,
    cell: (u32, f64),
    seed: u64,
) -> Result<Row, String> {
    let mut measured = row(trace, &specs(POLICIES)?, interleaving, cell, seed)?;
    if interleaving == Interleaving::Fixed {
        add_foretold(&mut measured, trace, seed)?;
    } else {
        let every_frame = row(reported, &specs(EVERY_FRAME)?, interleaving, cell, seed)?.counted;
        measured.counted.extend(every_frame.into_iter().map(|mut counted| {
            counted.policy = REPORTED.to_owned();
            counted
        }));
    }
    Ok(measured)
}

/// The last column but those of ours.
fn limit(order: &str) -> &'static str {
    if order == "trace" { LIMIT } else { REPORTED }
}

fn head(interleaving: Interleaving) {
    let fixed = interleaving == Interleaving::Fixed;
    let (title, order) = if fixed { ("order of the trace", "trace") } else { ("logical time", "logical") };
    let belady = if fixed { " Belady |" } else { "" };
    println!(
        "\nScans alone, {title}: hit rates in per cent, misses over Belady's, share of the way from clock to Belady\n"
    );
    println!(
        "| streams | pool | clock | `pbm-paper` | `pbm-pq` | off | `pbm` | {} |{belady} off / Belady | `pbm` / Belady | gap, off | gap, `pbm` |",
        limit(order)
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|{}", if fixed { "---|" } else { "" });
}

fn print(row: &Row) -> Result<(), String> {
    print!("| {} | {:.0} % |", row.streams, 100.0 * row.pool);
    let belady = (row.order == "trace").then_some(BELADY);
    for policy in ["clock", "pbm-paper", "pbm-pq", OFF, PBM, limit(row.order)].into_iter().chain(belady) {
        print!(" {:.1} |", 100.0 * row.of(policy)?.hit_rate);
    }
    let (off, pbm) = (row.of(OFF)?, row.of(PBM)?);
    println!(" {:.2} | {:.2} | {:.2} | {:.2} |", off.of_belady, pbm.of_belady, off.gap, pbm.gap);
    Ok(())
}

/// What must hold for scans alone.
fn check(row: &Row, checks: &mut Vec<Check>) -> Result<(), String> {
    let cell = || format!("{} streams, {:.0} %", row.streams, 100.0 * row.pool);
    let points = |counted: &str| row.of(counted).map(|counted| 100.0 * counted.hit_rate);
    for ours in [OFF, PBM] {
        let goal = |text: &str| format!("{}: `{ours}` {text}", if row.order == "trace" { "trace" } else { "logical" });
        let counted = row.of(ours)?;
        let beyond =
            |other: &str| row.of(other).map(|other| 100.0 * (counted.misses as f64 / other.misses as f64 - 1.0));
        if (row.streams, row.pool) == (32, 0.3) {
            let ahead = points(ours)? - points("clock")?;
            checks.push(at_most(goal("15 points over clock"), cell(), (15.0 - ahead, 0.0), "points"));
        }
        for other in ["pbm-pq", "pbm-paper"] {
            checks.push(at_most(goal(&format!("reads no more than `{other}`")), cell(), (beyond(other)?, 0.0), "%"));
        }
        checks.push(at_most(goal("within 3 % of every frame"), cell(), (beyond(limit(row.order))?, 3.0), "%"));
        checks.push(at_most(goal("closes half of the gap"), cell(), (0.5 - counted.gap, 0.0), "of the gap"));
    }
    let behind = points(OFF)? - points(PBM)?;
    checks.push(at_most(format!("{}: `pbm` at most 1 point behind off", row.order), cell(), (behind, 1.0), "points"));
    Ok(())
}
