//! `fuzz-sql`: see the library.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result};
use clap::Parser;
use pagecast_fuzz::{Case, Options, find};

/// Look for statements that pagecast answers in other rows than they have
#[derive(Parser)]
struct Args {
    /// The first round's seed; a round is the same for the same seed
    #[arg(long)]
    seed: Option<u64>,
    /// End after so many statements
    #[arg(long)]
    statements: Option<u64>,
    /// End after so many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// Ask tables of other writers instead of files: delta, iceberg or ducklake
    #[arg(long, value_name = "FORMAT")]
    tables: Option<String>,
    /// Look for one kind of fault alone, by its name in reports
    #[arg(long)]
    kind: Option<String>,
    /// Seconds that it takes to make a difference smaller, at most
    #[arg(long, default_value_t = 20)]
    shrink: u64,
    /// A Python with the wheels of DuckDB, which answers too, and of pyarrow, polars and
    /// fastparquet, which write files [default: `PAGECAST_PYTHON`'s]
    #[arg(long, value_name = "PROGRAM")]
    python: Option<String>,
    /// Write what was counted
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where differences are kept, and which statement is under way
    #[arg(long, value_name = "FOLDER", default_value = "target/bench/fuzz-sql")]
    keep: PathBuf,
    /// Run a difference that was kept once more, and leave its files in a folder
    #[arg(long, value_name = "FILE")]
    case: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let python = args.python.or_else(|| env::var("PAGECAST_PYTHON").ok());
    if let Some(path) = &args.case {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let case = serde_json::from_str(&text).with_context(|| format!("{} is no case", path.display()))?;
        return repeat(&case, python.as_deref()).await;
    }
    let options = Options {
        seed: args.seed.unwrap_or_else(fresh_seed),
        statements: args.statements,
        time: args.seconds.map(Duration::from_secs),
        python,
        format: args.tables,
        kind: args.kind,
        shrinking: Duration::from_secs(args.shrink),
        folder: args.keep,
    };
    println!("seed {}", options.seed);
    let report = find(&options, |report| {
        let (statements, differences) = (report.statements, report.differences);
        eprint!("\r{statements} statements, {differences} differences, {:.0} s ", report.seconds);
    })
    .await?;
    eprintln!();
    let json = serde_json::to_string_pretty(&report.json())?;
    println!("{json}");
    if let Some(path) = &args.json {
        pagecast::files::write(path, json.as_bytes())?;
    }
    Ok(if report.differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a case, and says what it shows.
async fn repeat(case: &Case, python: Option<&str>) -> Result<ExitCode> {
    let folder = tempfile::tempdir()?.keep();
    println!("{}\n{:?}\nfiles in {}", case.sql(), case.setting(), folder.display());
    let difference = case.run(&folder, python).await?;
    println!("{}", case.plan(&folder).await.unwrap_or_else(|error| format!("no plan: {error}")));
    Ok(match difference {
        Some(difference) => {
            println!("{difference}");
            ExitCode::FAILURE
        }
        None => {
            println!("no difference");
            ExitCode::SUCCESS
        }
    })
}

fn fresh_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| since.as_secs())
}
