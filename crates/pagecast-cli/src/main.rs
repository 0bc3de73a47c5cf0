//! The `pagecast` command: one file or folder per verb, and what they share.

#[cfg(feature = "sql")]
mod bench;
#[cfg(feature = "sql")]
mod cache;
mod closed_loop;
mod failure;
#[cfg(feature = "sql")]
mod flash;
mod interrupt;
mod output;
#[cfg(feature = "serve")]
mod serve;
mod simulate;
#[cfg(feature = "sql")]
mod sql;
#[cfg(feature = "sql")]
mod stores;
mod trace;
mod units;
#[cfg(feature = "sql")]
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Counted, so that `--memory` bounds what statements really take.
#[cfg(feature = "sql")]
#[global_allocator]
static HEAP: pagecast_sql::CountedHeap = pagecast_sql::CountedHeap;

/// A database buffer manager that knows what your queries will read next.
#[derive(Parser)]
#[command(name = "pagecast", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run concurrent query streams over Parquet through the pool, once per policy, and show what
    /// each read
    #[cfg(feature = "sql")]
    Bench(bench::Args),
    /// Run SQL over Parquet files and Delta tables: a shell, statements or scripts
    #[cfg(feature = "sql")]
    Sql(sql::Args),
    /// Serve the tables to clients of PostgreSQL, who read them through one pool
    #[cfg(feature = "serve")]
    Serve(serve::Args),
    /// Replay page traces through replacement policies
    Simulate(simulate::Args),
    /// Run streams of scans on a simulated device, by how they get their rows
    ClosedLoop(closed_loop::Args),
    /// Look at, convert, generate and draw traces
    Trace(trace::Args),
    /// Print what a shell needs to complete this command's words
    #[command(hide = true)]
    Completions { shell: clap_complete::Shell },
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::of_arguments(&error),
    };
    let done = match cli.verb {
        #[cfg(feature = "sql")]
        Verb::Bench(args) => bench::run(args),
        #[cfg(feature = "sql")]
        Verb::Sql(args) => sql::run(args),
        #[cfg(feature = "serve")]
        Verb::Serve(args) => serve::run(args),
        Verb::Simulate(args) => simulate::run(args),
        Verb::ClosedLoop(args) => closed_loop::run(args),
        Verb::Trace(args) => trace::run(args),
        Verb::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "pagecast", &mut std::io::stdout());
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}
