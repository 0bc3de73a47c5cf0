//! `pagecast simulate`: replays traces through policies at several pool sizes.

mod page;
mod rows;
mod work;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use pagecast_core::policy::PolicySpec;
use pagecast_sim::simulation::Interleaving;
use pagecast_sim::trace::{Format, Rows};
use pagecast_sim::tuples::TupleSpec;

use crate::failure::{last_of, usage};
use crate::interrupt::Interrupted;
use crate::output::{OutputArgs, check_writable, write_whole};
use crate::units::{Size, share, split_list};
use rows::Results;

/// What to replay.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Trace files; gzip, zstd and xz are recognised
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Policies, separated by commas: lru,arc,lirs(hir=1%),opt
    #[arg(long, value_name = "P,P", allow_hyphen_values = true)]
    policies: String,
    /// Pool sizes, separated by commas: pages, 30% of the trace's unique pages, or 64MiB (see
    /// --page-size)
    #[arg(long, value_name = "S,S", allow_hyphen_values = true)]
    sizes: String,
    /// auto, text, csv, csv(page=COLUMN,write=COLUMN,relation=COLUMN,tuple=COLUMN), oracleGeneral,
    /// lis, lirs, pagecast
    #[arg(long, value_name = "F", default_value = "auto")]
    format: Format,
    /// Replays at the same time; as many as there are cores unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Which stream's request comes next: as the trace has it, or in logical time with --latency
    #[arg(long, value_enum, default_value_t = Time::Fixed)]
    time: Time,
    /// With --time logical: how long a miss takes, where a hit takes the stream's own pace, 1
    /// unless the trace says more
    #[arg(long, value_name = "TICKS", default_value_t = 10)]
    latency: u32,
    /// Bytes of a page, for sizes in bytes
    #[arg(long, value_name = "SIZE", default_value = "8KiB")]
    page_size: Size,
    /// Miss-ratio curves of N pool sizes, from a thousandth of the unique pages to all; `lru` and
    /// `opt` take one pass for all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000))]
    curve: Option<u32>,
    /// Make the curves from this part of the pages, chosen by hash (SHARDS), and show the error
    /// against the exact rows
    #[arg(long, value_name = "SHARE", default_value = "100%", value_parser = share)]
    sample: f64,
    /// Buffers of tuples over each policy, at sizes that include all overhead: off, row(50%), mg,
    /// amg(spill=on), share=50%, learn, bound, bound(pages)
    #[arg(long, value_name = "T,T", allow_hyphen_values = true)]
    tuples: Option<String>,
    /// With --tuples: bytes of a tuple, where the trace does not say
    #[arg(long, value_name = "SIZE", default_value = "128B")]
    tuple_size: Size,
    /// With --tuples: this part of the trace fills the memory and does not count
    #[arg(long, value_name = "SHARE", value_parser = share)]
    warm_up: Option<f64>,
    /// With --tuples: after so many requests all that is changed is written
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    checkpoint: Option<u32>,
    /// Write the results as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Time {
    /// The order of the trace
    Fixed,
    /// Streams run at their own speed, and misses slow them down
    Logical,
}

/// What every replay of one command shares.
pub(crate) struct Plan {
    traces: Vec<PathBuf>,
    format: Format,
    policies: Vec<PolicySpec>,
    sizes: Vec<Size>,
    page_size: u64,
    /// What is replayed at each size.
    cells: Vec<Cell>,
    /// With tuples: how they lie where the trace does not say, what is not counted, and the
    /// requests between checkpoints.
    rows: Rows,
    warm_up: f64,
    checkpoint: Option<u32>,
    curve: Option<u32>,
    /// The part of the pages that curves are made from.
    sample: f64,
    /// Whether the report wants pictures of the accesses.
    pictures: bool,
    interleaving: Interleaving,
    seed: u64,
}

/// A policy, and the buffer of tuples over it.
pub(crate) struct Cell {
    policy: PolicySpec,
    tuples: Option<TupleSpec>,
}

/// Each policy, with each of the buffers. Those that have no use for the policy come once.
fn cells(policies: &[PolicySpec], tuples: Option<&str>) -> anyhow::Result<Vec<Cell>> {
    let Some(tuples) = tuples else {
        return Ok(policies.iter().map(|policy| Cell { policy: policy.clone(), tuples: None }).collect());
    };
    if let Some(opt) = policies.iter().find(|policy| policy.needs_trace()) {
        return Err(usage(format!("--policies: `{opt}` knows pages only; with --tuples there is the buffer `bound`")));
    }
    let parsed = split_list(tuples).into_iter().map(TupleSpec::parse).collect::<Result<Vec<_>, _>>();
    let tuples = parsed.map_err(|error| usage(format!("--tuples: {error}")))?;
    let mut cells = Vec::new();
    for (number, policy) in policies.iter().enumerate() {
        let of = tuples.iter().filter(|spec| number == 0 || spec.uses_policy());
        cells.extend(of.map(|&spec| Cell { policy: policy.clone(), tuples: Some(spec) }));
    }
    Ok(cells)
}

/// Runs the verb.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    args.output.check()?;
    check_writable("--csv", args.csv.as_deref())?;
    let plan = Arc::new(plan(&args)?);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut results, mut errors) = work::replay_all(&plan, args.jobs.map_or(cores, usize::from))?;
    results.measure_errors();
    // All that could be computed is written and shown, whatever of it fails; then every fault has
    // its line, and the exit status says so. The files come first: a reader of the table may be
    // gone.
    let missing: Vec<_> = errors.iter().map(|error| format!("{error:#}")).collect();
    errors.extend(write_results(&args, &plan, &results, &missing));
    if let Err(error) = show(&plan, &results) {
        // First, since a closed pipe is no failure and the last error makes the exit status.
        errors.insert(0, error);
    }
    if results.partial {
        errors.push(Interrupted.into());
    }
    last_of(errors)
}

fn show(plan: &Plan, results: &Results) -> anyhow::Result<()> {
    if results.rows.is_empty() {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    write!(out, "{}{}", rows::table(&results.rows), rows::error_table(&results.curves))?;
    writeln!(out, "seed {}, {}", plan.seed, rows::time_text(plan.interleaving))?;
    Ok(())
}

fn plan(args: &Args) -> anyhow::Result<Plan> {
    let policies = PolicySpec::parse_list(&args.policies).map_err(|error| usage(format!("--policies: {error}")))?;
    let interleaving = match args.time {
        Time::Fixed => Interleaving::Fixed,
        Time::Logical => Interleaving::Logical { latency: args.latency },
    };
    if args.time == Time::Logical
        && let Some(opt) = policies.iter().find(|policy| policy.needs_trace())
    {
        return Err(usage(format!(
            "--policies: `{opt}` cannot run with --time logical, where the order depends on the policy; every row shows \
             the fewest misses of its own order instead"
        )));
    }
    if args.time == Time::Logical && args.curve.is_some() {
        return Err(usage("--curve: curves are made in the order of the trace only; leave out --time logical"));
    }
    let tuples_only = [("--warm-up", args.warm_up.is_some()), ("--checkpoint", args.checkpoint.is_some())];
    match (&args.tuples, tuples_only.iter().find(|(_, given)| *given)) {
        (None, Some((flag, _))) => return Err(usage(format!("{flag}: means something with --tuples only"))),
        (Some(_), _) if args.curve.is_some() || args.time == Time::Logical => {
            return Err(usage("--tuples: replays in the order of the trace, without --curve and --time logical"));
        }
        _ => {}
    }
    let size = |text: &str| match text.parse() {
        Ok(Size::Plain(0) | Size::Bytes(0)) => Err(usage("--sizes: a pool of 0 pages holds nothing")),
        Ok(Size::Plain(pages)) if pages > u64::from(u32::MAX) => {
            Err(usage(format!("--sizes: {pages} pages are more than the 2^32 - 1 that a pool can have")))
        }
        Ok(size) => Ok(size),
        Err(error) => Err(usage(format!("--sizes: {error}"))),
    };
    let page_size = match args.page_size {
        Size::Bytes(bytes) | Size::Plain(bytes) if bytes > 0 => bytes,
        other => return Err(usage(format!("--page-size: `{other}` is no number of bytes"))),
    };
    let tuple_size = match args.tuple_size {
        Size::Bytes(bytes) | Size::Plain(bytes) if (1..=page_size).contains(&bytes) => bytes,
        other => return Err(usage(format!("--tuple-size: `{other}` is no number of bytes up to a page's"))),
    };
    let narrow = |bytes: u64| u32::try_from(bytes).ok().filter(|&bytes| bytes <= Rows::MOST);
    let rows = match (narrow(page_size), narrow(tuple_size)) {
        (Some(page), Some(bytes)) => Rows { page, count: page / bytes, bytes },
        _ if args.tuples.is_some() => return Err(usage("--page-size: above 1 GiB there are no tuples")),
        _ => Rows { page: 1, count: 1, bytes: 1 },
    };
    Ok(Plan {
        cells: cells(&policies, args.tuples.as_deref())?,
        rows,
        warm_up: args.warm_up.unwrap_or(0.0),
        checkpoint: args.checkpoint,
        traces: args.traces.clone(),
        format: args.format.clone(),
        policies,
        sizes: split_list(&args.sizes).into_iter().map(size).collect::<Result<_, _>>()?,
        page_size,
        curve: args.curve,
        sample: args.sample,
        pictures: args.output.html.is_some(),
        interleaving,
        seed: args.output.seed,
    })
}

/// Writes each file that was asked for; `missing` says why results are not in them. Returns what
/// went wrong here.
fn write_results(args: &Args, plan: &Plan, results: &Results, missing: &[String]) -> Vec<anyhow::Error> {
    let json = || -> anyhow::Result<Vec<u8>> {
        let mut json = serde_json::to_vec_pretty(&rows::json(plan, results, missing))
            .context("cannot make JSON of the results")?;
        json.push(b'\n');
        Ok(json)
    };
    let written = [
        args.output.json.as_ref().map(|path| write_whole(path, &json()?)),
        args.csv.as_ref().map(|path| write_whole(path, rows::csv(&results.rows).as_bytes())),
        args.output.html.as_ref().map(|path| write_whole(path, page::render(plan, results).as_bytes())),
    ];
    written.into_iter().flatten().filter_map(Result::err).collect()
}
