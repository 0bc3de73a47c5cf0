//! How much the policies read where scans are known, and what a victim costs among many scans.
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

use std::time::Instant;

use clap::ValueEnum;
use goals::Check;
use row::Row;
use serde_json::{Value, json};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Make other workloads
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Take a few cells
    #[arg(long)]
    quick: bool,
    /// Some of the parts
    #[arg(long, value_name = "PART,...", value_delimiter = ',')]
    only: Vec<Part>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Part {
    /// Scans alone, in the order of the trace and in logical time
    Cells,
    /// Points beside scans and without: all online policies
    Points,
    /// Index scans: all online policies
    Index,
    /// The paper's sampling by the number of samples and victims
    Sampling,
    /// Scans alone with each free choice of the simulation varied
    Sensitivity,
    /// Bitmap scans that are kept in fewer words than they need
    Coarsening,
    /// A victim, a registration, the memory of many scans
    Costs,
    /// A choice of the manager of cooperation among many units and scans
    Cooperation,
}

/// Work whose instructions another process counts: this program calls itself, so it is no verb for
/// people.
#[derive(clap::Subcommand)]
pub(crate) enum Counted {
    #[command(hide = true)]
    CountedEvictions { policy: String, scans: u32, evictions: u32 },
    #[command(hide = true)]
    CountedChoices { kind: String, sets: u32, choices: u32 },
}

impl Counted {
    pub(crate) fn run(self) -> Result<(), String> {
        match self {
            Self::CountedEvictions { policy, scans, evictions } => _ = costs::work(&policy, scans, evictions),
            Self::CountedChoices { kind, sets, choices } => _ = cooperation::work(&kind, sets, choices)?,
        }
        Ok(())
    }
}

pub(crate) fn run(args: &Args) -> Result<Value, String> {
    println!("seed {}", args.seed);
    let (mut tables, mut cells, mut checks) = (json!({}), Vec::new(), Vec::new());
    for part in Part::value_variants() {
        if args.only.is_empty() || args.only.contains(part) {
            let started = Instant::now();
            for (name, table) in measured(*part, args, &mut cells, &mut checks)? {
                tables[name] = table;
            }
            let name = part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
            println!("\n`{name}` took {:.0} s", started.elapsed().as_secs_f64());
        }
    }
    goals::print(&checks);
    tables["cells"] = cells.into();
    tables["goals"] = goals::json(&checks);
    Ok(tables)
}

/// The tables of a part, by name; hit rates by workload, pool and policy go to `cells`, what must
/// hold to `checks`.
fn measured(
    part: Part,
    args: &Args,
    cells: &mut Vec<Value>,
    checks: &mut Vec<Check>,
) -> Result<Vec<(&'static str, Value)>, String> {
    let (seed, quick) = (args.seed, args.quick);
    let mut add = |rows: Vec<Row>| {
        cells.extend(rows.iter().flat_map(|row| row.json(seed)));
        vec![]
    };
    Ok(match part {
        Part::Cells => add(cells::measure(seed, quick, checks)?),
        Part::Points => add(online::points(seed, quick, checks)?),
        Part::Index => add(online::index(seed, quick, checks)?),
        Part::Sampling => vec![("sampling", sampling::measure(seed, quick, checks)?)],
        Part::Sensitivity if !quick => vec![("sensitivity", sensitivity_json(seed)?)],
        Part::Coarsening if !quick => vec![("coarsening", coarsening_json(seed)?)],
        Part::Costs => costs_json(checks)?,
        Part::Cooperation => vec![("choices", cooperation_json(checks)?)],
        // Neither has a few cells.
        Part::Sensitivity | Part::Coarsening => vec![],
    })
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
