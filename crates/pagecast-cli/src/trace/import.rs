//! `pagecast trace import`: scan traces from Redset's Parquet files.

use std::path::PathBuf;

use pagecast_sim::redset::{RedsetOptions, import};
use pagecast_sim::trace::Format;

use crate::failure::usage;
use crate::output::check_writable;

/// What to import.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// A Parquet file of Redset, whole or of one instance
    #[arg(value_name = "REDSET")]
    input: PathBuf,
    /// The file to write; its name tells the format as in convert
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// Format of the output: text, oracleGeneral, pagecast
    #[arg(long, value_name = "F")]
    to: Option<Format>,
    /// The instance (cluster); the one with the most queries unless given
    #[arg(long, value_name = "ID")]
    instance: Option<i64>,
    /// Queries to pass over, in the order of arrival
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: usize,
    /// Consecutive queries to take
    #[arg(long, value_name = "N", default_value_t = 200)]
    queries: usize,
    /// Megabytes that a page of the trace stands for
    #[arg(long, value_name = "MB", default_value_t = 8.0)]
    page_mb: f64,
    /// Seed of the ranges, which the data do not tell
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Runs the verb.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let to = super::target(args.to.as_ref(), &args.out)?;
    if !(args.page_mb > 0.0 && args.page_mb.is_finite()) {
        return Err(usage("--page-mb: must be above 0"));
    }
    let &Args { instance, skip, queries, page_mb, seed, .. } = args;
    let options = RedsetOptions { instance, skip, queries, page_mb, seed, ..RedsetOptions::default() };
    check_writable("--out", Some(&args.out))?;
    let mut made = import(&args.input, &options).map_err(anyhow::Error::msg)?;
    let origin = made.origin().to_owned();
    let written = super::write(&mut made, &origin, &to, &args.out)?;
    println!("{}: {written}, {origin}", args.out.display());
    println!("scanned bytes stand for table sizes, which the data do not tell; ranges are random");
    Ok(())
}
