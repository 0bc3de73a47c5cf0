//! `pagecast-lab`: what parts of pagecast cost and are worth, beside named peers and beside the
//! simulator. A verb for each benchmark; each prints its tables, and gives them to `--json`.

mod eviction;
mod flash;
mod io;
mod lock;
mod pool;
mod prediction;
mod rounds;
mod warm;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use pagecast_sim::report::text::one_line;

/// Measure parts of pagecast, beside peers and beside the simulator
#[derive(Parser)]
#[command(name = "pagecast-lab")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
    /// Write what was measured as JSON
    #[arg(long, value_name = "FILE", global = true)]
    json: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Verb {
    /// The hit path against other caches, contention, reads, victims, misses and tuples
    Pool(pool::Args),
    /// Reads a second over threads and over io_uring, reading ahead, checkpoints
    Io(io::Args),
    /// The lock of ordered policies under the loads of the authors of BP-Wrapper, bare and wrapped
    Lock(lock::Args),
    /// What policies read where scans are known, and what a victim costs among many
    Prediction(prediction::Args),
    /// The tier on flash of a real pool beside the simulator's, over the same requests
    Flash(flash::Args),
    #[command(flatten)]
    Counted(prediction::Counted),
}

fn main() -> ExitCode {
    let (status, message) = match Cli::try_parse() {
        Ok(cli) => match run(cli) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(message) => (1, message),
        },
        Err(error) if error.to_string().starts_with("error: ") => (2, error.to_string()),
        // Help, which was asked for, or there is no verb.
        Err(error) => error.exit(),
    };
    // After an empty line clap repeats the usage.
    let complaint = message.split("\n\n").next().unwrap_or_default();
    eprintln!("pagecast-lab: {}", one_line(complaint.trim_start_matches("error: ")));
    ExitCode::from(status)
}

fn run(cli: Cli) -> Result<(), String> {
    let mut measured = match cli.verb {
        Verb::Pool(args) => pool::run(&args)?,
        Verb::Io(args) => io::run(&args)?,
        Verb::Lock(args) => lock::run(&args)?,
        Verb::Prediction(args) => prediction::run(&args)?,
        Verb::Flash(args) => flash::run(&args)?,
        Verb::Counted(work) => return work.run(),
    };
    let Some(path) = cli.json else { return Ok(()) };
    measured["arguments"] = arguments(std::env::args().skip(1)).into();
    pagecast::files::write(&path, format!("{measured:#}\n").as_bytes()).map_err(|e| e.to_string())
}

/// What the verb was told, without the file that is written: `--only cells --seed 2`. A result says
/// by it how to get it again.
fn arguments(mut given: impl Iterator<Item = String>) -> String {
    let mut kept = Vec::new();
    while let Some(argument) = given.next() {
        if argument == "--json" {
            given.next();
        } else if !argument.starts_with("--json=") {
            kept.push(argument);
        }
    }
    // The verb comes first, since the program has no other flag of its own.
    kept.get(1..).unwrap_or_default().join(" ")
}
