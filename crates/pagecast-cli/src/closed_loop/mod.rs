//! `pagecast closed-loop`: streams of scan programs on a simulated device, by how scans get their
//! rows.

mod page;
mod rows;
mod work;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use pagecast_core::policy::PolicySpec;
use pagecast_sim::closed::{DELIVERIES, Delivery, Machine, Workload, workloads};

use crate::failure::{last_of, usage};
use crate::interrupt::Interrupted;
use crate::output::{OutputArgs, write_whole};
use crate::units::{Size, rate, split_list, time};
use rows::Results;

/// Runs streams of scans in a closed loop, where what is asked for next depends on what came, once
/// per delivery, policy and pool size.
#[derive(clap::Args, Debug)]
#[command(after_help = help())]
pub(crate) struct Args {
    /// Workloads: speeds, or columns(sets=ABC+BCD,streams=16)
    #[arg(required = true, value_name = "WORKLOAD")]
    workloads: Vec<String>,
    /// How scans get their rows, separated by commas
    #[arg(long, value_name = "D,D", default_value = "ordered,unordered")]
    deliveries: String,
    /// Policies of the pool, separated by commas; each runs with each delivery
    #[arg(long, value_name = "P,P", default_value = "lru,pbm")]
    policies: String,
    /// Pool sizes, separated by commas: pages, 40% of the tables, or 800MB
    #[arg(long, value_name = "S,S", default_value = "40%")]
    sizes: String,
    /// Seeds from --seed on; figures are means over them
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: u32,
    /// Bandwidth of the device, shared by all
    #[arg(long, value_name = "RATE", default_value = "100MB/s", value_parser = rate)]
    bandwidth: u64,
    /// Latency of a request to the device
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time)]
    latency: Duration,
    /// Requests whose latencies overlap
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65536))]
    outstanding: u32,
    /// Processor cores
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=65536))]
    cores: u32,
    /// Which read the device takes next
    #[arg(long, value_enum, default_value_t = IoOrder::Arrival)]
    io_order: IoOrder,
    /// Runs at the same time; as many as there are cores unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum IoOrder {
    /// The one that came first
    Arrival,
    /// That of the scan which still needs the least time
    LeastLeft,
}

fn help() -> String {
    let lines = |of: &str, list: &mut dyn Iterator<Item = (&'static str, &'static str)>| {
        list.fold(format!("{of}:\n"), |text, (name, about)| format!("{text}  {name:14}{about}\n"))
    };
    format!("{}\n{}", lines("Workloads", &mut workloads()), lines("Deliveries", &mut DELIVERIES.iter().copied()))
}

/// What all runs of one command share.
pub(crate) struct Plan {
    /// As they were asked for.
    workloads: Vec<String>,
    deliveries: Vec<Delivery>,
    policies: Vec<PolicySpec>,
    sizes: Vec<Size>,
    seed: u64,
    seeds: u32,
    machine: Machine,
    /// Whether the report wants pictures.
    pictures: bool,
}

/// Runs the verb.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    args.output.check()?;
    let plan = Arc::new(plan(&args)?);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let results = work::run_all(&plan, args.jobs.map_or(cores, usize::from))?;
    // The files come first: a reader of the table may be gone.
    let mut errors: Vec<_> = write_results(&args, &plan, &results).into_iter().filter_map(Result::err).collect();
    if let Err(error) = show(&plan, &results) {
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
    write!(out, "{}", rows::table(results))?;
    if plan.workloads.len() == 1 && plan.sizes.len() == 1 {
        write!(out, "\n{}", rows::types_table(results))?;
    }
    writeln!(out, "seeds {}, {}", rows::seeds_text(plan), rows::machine_text(&plan.machine))?;
    Ok(())
}

fn plan(args: &Args) -> anyhow::Result<Plan> {
    let policies = PolicySpec::parse_list(&args.policies).map_err(|error| usage(format!("--policies: {error}")))?;
    if let Some(opt) = policies.iter().find(|policy| policy.needs_trace()) {
        return Err(usage(format!(
            "--policies: `{opt}` cannot run here, where the order of requests depends on the policy"
        )));
    }
    let size = |text: &str| match text.parse() {
        Ok(Size::Plain(0) | Size::Bytes(0)) => Err(usage("--sizes: a pool of 0 pages holds nothing")),
        Ok(size) => Ok(size),
        Err(error) => Err(usage(format!("--sizes: {error}"))),
    };
    let delivery = |text: &str| Delivery::parse(text).map_err(|error| usage(format!("--deliveries: {error}")));
    for workload in &args.workloads {
        Workload::make(workload, args.output.seed).map_err(usage)?;
    }
    Ok(Plan {
        workloads: args.workloads.clone(),
        deliveries: split_list(&args.deliveries).into_iter().map(delivery).collect::<Result<_, _>>()?,
        policies,
        sizes: split_list(&args.sizes).into_iter().map(size).collect::<Result<_, _>>()?,
        seed: args.output.seed,
        seeds: args.seeds,
        machine: Machine {
            bandwidth: args.bandwidth as f64,
            latency: u64::try_from(args.latency.as_nanos()).unwrap_or(u64::MAX),
            outstanding: args.outstanding,
            cores: args.cores,
            least_first: args.io_order == IoOrder::LeastLeft,
        },
        pictures: args.output.html.is_some(),
    })
}

/// Writes each file that was asked for.
fn write_results(args: &Args, plan: &Plan, results: &Results) -> Vec<anyhow::Result<()>> {
    let json = || -> anyhow::Result<Vec<u8>> {
        let mut json =
            serde_json::to_vec_pretty(&rows::json(plan, results)).context("cannot make JSON of the results")?;
        json.push(b'\n');
        Ok(json)
    };
    let written = [
        args.output.json.as_ref().map(|path| write_whole(path, &json()?)),
        args.output.html.as_ref().map(|path| write_whole(path, page::render(plan, results).as_bytes())),
    ];
    written.into_iter().flatten().collect()
}
