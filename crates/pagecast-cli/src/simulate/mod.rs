//! `pagecast simulate`: replays traces through policies at several pool sizes.

mod rows;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use pagecast_core::policy::PolicySpec;
use pagecast_sim::flash::FlashSpec;
use pagecast_sim::simulation::{Contender, Interleaving};
use pagecast_sim::study::{Cell, Input, Results, Study, StudyError, Work, error_table, render, table, time_text};
use pagecast_sim::trace::{Format, Rows};
use pagecast_sim::tuples::TupleSpec;
use pagecast_sim::watch::Watch;

use crate::failure::{last_of, usage};
use crate::interrupt::{Interrupted, on_threads};
use crate::output::{OutputArgs, check_writable, write_whole};
use crate::units::{Size, share, split_list};

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
    /// A tier of this size on flash below each pool: pages, or as --sizes
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    flash: Option<String>,
    /// With --flash: what fills it and who leaves, separated by commas: predicted(budget=5%),
    /// second-touch(evict=pbm), tenth, all, blocks(pages=64), opt
    #[arg(long, value_name = "T,T", allow_hyphen_values = true)]
    flash_policies: Option<String>,
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

/// Each policy, with each of the buffers. Those that have no use for the policy come once.
fn cells(policies: &[PolicySpec], tuples: Option<&str>) -> anyhow::Result<Vec<Cell>> {
    let Some(tuples) = tuples else {
        return Ok(policies
            .iter()
            .map(|policy| Cell { policy: Contender::Known(policy.clone()), tuples: None, flash: None })
            .collect());
    };
    if let Some(opt) = policies.iter().find(|policy| policy.needs_trace()) {
        return Err(usage(format!("--policies: `{opt}` knows pages only; with --tuples there is the buffer `bound`")));
    }
    let parsed = split_list(tuples).into_iter().map(TupleSpec::parse).collect::<Result<Vec<_>, _>>();
    let tuples = parsed.map_err(|error| usage(format!("--tuples: {error}")))?;
    let mut cells = Vec::new();
    for (number, policy) in policies.iter().enumerate() {
        let of = tuples.iter().filter(|spec| number == 0 || spec.uses_policy());
        cells.extend(of.map(|&spec| Cell {
            policy: Contender::Known(policy.clone()),
            tuples: Some(spec),
            flash: None,
        }));
    }
    Ok(cells)
}

/// Each policy, with each of the tiers.
fn tiered(policies: &[PolicySpec], size: &str, tiers: &str) -> anyhow::Result<Vec<Cell>> {
    let size = Size::of_pool(size).map_err(|error| usage(format!("--flash: {error}")))?;
    let parsed = split_list(tiers).into_iter().map(FlashSpec::parse).collect::<Result<Vec<_>, _>>();
    let tiers = parsed.map_err(|error| usage(format!("--flash-policies: {error}")))?;
    let cell = |policy: &PolicySpec, flash: &FlashSpec| Cell {
        policy: Contender::Known(policy.clone()),
        tuples: None,
        flash: Some((flash.clone(), size)),
    };
    Ok(policies.iter().flat_map(|policy| tiers.iter().map(move |flash| cell(policy, flash))).collect())
}

/// Runs the verb.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    args.output.check()?;
    check_writable("--csv", args.csv.as_deref())?;
    let study = Arc::new(study(&args)?);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (results, errors) = replay_all(&study, args.jobs.map_or(cores, usize::from))?;
    let mut errors: Vec<_> = errors.into_iter().map(anyhow::Error::new).collect();
    // All that could be computed is written and shown, whatever of it fails; then every fault has
    // its line, and the exit status says so. The files come first: a reader of the table may be
    // gone.
    let missing: Vec<_> = errors.iter().map(|error| format!("{error:#}")).collect();
    errors.extend(write_results(&args, &study, &results, &missing));
    if let Err(error) = show(&study, &results) {
        // First, since a closed pipe is no failure and the last error makes the exit status.
        errors.insert(0, error);
    }
    if results.partial {
        errors.push(Interrupted.into());
    }
    last_of(errors)
}

/// All results in the order of the command line, and what went wrong. Ctrl-C ends the work; what is
/// done until then is kept.
fn replay_all(study: &Arc<Study>, jobs: usize) -> anyhow::Result<(Results, Vec<StudyError>)> {
    let bar = ProgressBar::no_length();
    let watch = Arc::new(Watch::default());
    let steps = bar.clone();
    let work = Arc::new(Work::new(Arc::clone(study), Arc::clone(&watch), move |jobs| steps.inc(jobs as u64)));
    let all = work.jobs();
    bar.set_length(all as u64);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} replays, {eta} left {wide_msg}");
    bar.set_style(style.expect("the template is well-formed"));
    if !on_threads(&work, jobs.min(all.max(1)), Work::run)? {
        watch.stop();
    }
    bar.finish_and_clear();
    Ok(work.finish())
}

fn show(study: &Study, results: &Results) -> anyhow::Result<()> {
    if results.rows.is_empty() {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    write!(out, "{}{}", table(&results.rows), error_table(&results.curves))?;
    writeln!(out, "seed {}, {}", study.seed, time_text(study.interleaving))?;
    Ok(())
}

fn study(args: &Args) -> anyhow::Result<Study> {
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
    match (&args.flash, &args.flash_policies) {
        (None, Some(_)) => return Err(usage("--flash-policies: means something with --flash only")),
        (Some(_), _) if args.curve.is_some() || args.time == Time::Logical || args.tuples.is_some() => {
            return Err(usage(
                "--flash: replays in the order of the trace, without --curve, --tuples and --time logical",
            ));
        }
        _ => {}
    }
    let size = |text: &str| Size::of_pool(text).map_err(|error| usage(format!("--sizes: {error}")));
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
    Ok(Study {
        inputs: args.traces.iter().map(|path| Input::File(path.clone(), args.format.clone())).collect(),
        cells: match &args.flash {
            Some(size) => tiered(&policies, size, args.flash_policies.as_deref().unwrap_or(FlashSpec::DEFAULTS))?,
            None => cells(&policies, args.tuples.as_deref())?,
        },
        rows,
        warm_up: args.warm_up.unwrap_or(0.0),
        checkpoint: args.checkpoint,
        policies: policies.into_iter().map(Contender::Known).collect(),
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
fn write_results(args: &Args, study: &Study, results: &Results, missing: &[String]) -> Vec<anyhow::Error> {
    let json = || -> anyhow::Result<Vec<u8>> {
        let mut json = serde_json::to_vec_pretty(&rows::json(study, results, missing))
            .context("cannot make JSON of the results")?;
        json.push(b'\n');
        Ok(json)
    };
    let written = [
        args.output.json.as_ref().map(|path| write_whole(path, &json()?)),
        args.csv.as_ref().map(|path| write_whole(path, rows::csv(&results.rows).as_bytes())),
        args.output.html.as_ref().map(|path| write_whole(path, render(study, results).as_bytes())),
    ];
    written.into_iter().flatten().filter_map(Result::err).collect()
}
