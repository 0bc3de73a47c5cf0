//! `bench-prediction`: how much the policies read where scans are known, and what a victim costs
//! among many scans.
//!
//! Prints its tables; `--json FILE` writes them as JSON, `--seed N` makes other workloads (1),
//! `--quick` takes a few cells, and `--only PART,...` some of the parts:
//!
//! | part | |
//! |---|---|
//! | `cells` | scans alone, in the order of the trace and in logical time |
//! | `points` | points beside scans and without: all online policies |
//! | `index` | index scans: all online policies |
//! | `sampling` | the paper's sampling by the number of samples and victims |
//! | `sensitivity` | scans alone with each free choice of the simulation varied |
//! | `coarsening` | bitmap scans that are kept in fewer words than they need |
//! | `costs` | a victim, a registration, the memory of many scans |
//! | `cooperation` | a choice of the manager of cooperation among many units and scans |
//!
//! What must hold of them is checked cell by cell; the last table says where it does not, and by
//! how much.

mod cells;
mod coarsening;
mod cooperation;
mod costs;
mod goals;
mod online;
mod row;
mod sampling;
mod sensitivity;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use goals::Check;
use row::Row;
use serde_json::{Value, json};

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("bench-prediction: {message}");
            ExitCode::FAILURE
        }
    }
}

const PARTS: [&str; 8] = ["cells", "points", "index", "sampling", "sensitivity", "coarsening", "costs", "cooperation"];

#[derive(Default)]
struct Arguments {
    json: Option<PathBuf>,
    seed: u64,
    quick: bool,
    /// The parts that are asked for; none: all.
    only: Vec<String>,
    /// Policy, scans and evictions of a run whose instructions another process counts.
    counted: Option<(String, u32, u32)>,
    /// The same of choices of the manager of cooperation: which, column sets, how many.
    counted_choices: Option<(String, u32, u32)>,
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
            "--only" => {
                parsed.only = value()?.split(',').map(str::to_owned).collect();
                if let Some(part) = parsed.only.iter().find(|part| !PARTS.contains(&part.as_str())) {
                    return Err(format!("--only {part}: there are {}", PARTS.join(", ")));
                }
            }
            costs::COUNTED => parsed.counted = Some((value()?, number(value()?)?, number(value()?)?)),
            cooperation::COUNTED => {
                parsed.counted_choices = Some((value()?, number(value()?)?, number(value()?)?));
            }
            _ => {
                return Err(format!(
                    "unknown flag {flag}; there are --json FILE, --seed N, --only PART,... and --quick"
                ));
            }
        }
    }
    Ok(parsed)
}

fn run(arguments: &Arguments) -> Result<(), String> {
    if let Some((policy, scans, evictions)) = &arguments.counted {
        costs::work(policy, *scans, *evictions);
        return Ok(());
    }
    if let Some((kind, sets, choices)) = &arguments.counted_choices {
        return cooperation::work(kind, *sets, *choices).map(|_| ());
    }
    println!("seed {}", arguments.seed);
    let (mut tables, mut cells, mut checks) = (serde_json::Map::new(), Vec::new(), Vec::new());
    for part in PARTS {
        if arguments.only.is_empty() || arguments.only.iter().any(|only| only == part) {
            let started = Instant::now();
            tables.extend(measured(part, arguments, &mut cells, &mut checks)?);
            println!("\n`{part}` took {:.0} s", started.elapsed().as_secs_f64());
        }
    }
    goals::print(&checks);
    tables.insert("cells".to_owned(), cells.into());
    tables.insert("goals".to_owned(), goals::json(&checks));
    let Some(path) = &arguments.json else { return Ok(()) };
    tables.insert("arguments".to_owned(), pagecast_bench::arguments().into());
    let text = serde_json::to_string_pretty(&tables).map_err(|e| e.to_string())?;
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// The tables of a part, by name; hit rates by workload, pool and policy go to `cells`, what must
/// hold to `checks`.
fn measured(
    part: &str,
    arguments: &Arguments,
    cells: &mut Vec<Value>,
    checks: &mut Vec<Check>,
) -> Result<Vec<(String, Value)>, String> {
    let (seed, quick) = (arguments.seed, arguments.quick);
    let mut add = |rows: Vec<Row>| {
        cells.extend(rows.iter().flat_map(|row| row.json(seed)));
        vec![]
    };
    let tables = match part {
        "cells" => add(cells::measure(seed, quick, checks)?),
        "points" => add(online::points(seed, quick, checks)?),
        "index" => add(online::index(seed, quick, checks)?),
        "sampling" => vec![("sampling", sampling::measure(seed, quick, checks)?)],
        "sensitivity" if !quick => vec![("sensitivity", sensitivity_json(seed)?)],
        "coarsening" if !quick => vec![("coarsening", coarsening_json(seed)?)],
        "costs" => costs_json(checks)?,
        "cooperation" => vec![("choices", cooperation_json(checks)?)],
        _ => vec![],
    };
    Ok(tables.into_iter().map(|(name, table)| (name.to_owned(), table)).collect())
}

fn sensitivity_json(seed: u64) -> Result<Value, String> {
    let mut rows = Vec::new();
    for variant in sensitivity::measure(seed)? {
        for counted in &variant.row.counted {
            rows.push(json!({
                "choice": variant.choice, "workload": variant.row.workload, "policy": counted.policy, "seed": seed,
                "hit_rate": counted.hit_rate, "gap_closed": counted.gap,
            }));
        }
    }
    Ok(rows.into())
}

fn coarsening_json(seed: u64) -> Result<Value, String> {
    let row = |cell: &coarsening::Coarse| {
        json!({
            "form": cell.form, "policy": cell.policy, "pool": cell.pool, "scan_words": cell.scan_words,
            "misses": cell.misses, "of_exact": cell.of_exact, "seed": seed,
        })
    };
    Ok(coarsening::measure(seed)?.iter().map(row).collect())
}

fn cooperation_json(checks: &mut Vec<Check>) -> Result<Value, String> {
    let row = |cost: &cooperation::Cost| {
        json!({
            "choice": cost.kind, "column_sets": cost.sets, "us": cost.us, "instructions": cost.instructions,
            "bytes_per_unit_and_scan": cost.bytes,
        })
    };
    Ok(cooperation::choices(checks)?.iter().map(row).collect())
}

fn costs_json(checks: &mut Vec<Check>) -> Result<Vec<(&'static str, Value)>, String> {
    let victim = |cost: &costs::Cost| {
        json!({
            "policy": cost.policy, "scans": cost.scans, "ns_per_eviction": cost.ns,
            "instructions_per_eviction": cost.instructions,
        })
    };
    let registration = |cost: &costs::Registration| json!({ "runs": cost.runs, "register_ns": cost.register_ns, "finish_ns": cost.finish_ns });
    let (evictions, registrations) = (costs::evictions()?, costs::registrations()?);
    let metadata = costs::metadata_bytes(1_000, 30)?;
    costs::check(&evictions, &registrations, metadata, checks);
    Ok(vec![
        ("costs", evictions.iter().map(victim).collect()),
        ("registrations", registrations.iter().map(registration).collect()),
        ("metadata_bytes", metadata.into()),
    ])
}
