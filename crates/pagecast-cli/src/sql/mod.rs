//! `pagecast sql`: statements over Parquet files and Delta tables, read through a pool.

mod commands;
mod completion;
mod destination;
pub(crate) mod engine;
mod results;
mod screen;
mod script;
mod session;
mod shell;

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::Context;
use futures::{Stream, stream};
use pagecast::files;
use pagecast_sql::query;
use pagecast_sql::shape;
use tokio::sync::mpsc;

use crate::failure::usage;
use engine::EngineArgs;
use results::Format;
use script::Source;
use session::Session;

/// Runs SQL over Parquet files and Delta tables: the statements of -c, of -f or of standard input,
/// or those typed into a shell.
///
/// A statement may name files in quotes: SELECT * FROM 'folder/day.parquet'. After each statement
/// one line says how many rows it gave, how long it took, how many bytes it requested and how many
/// of them came from storage. Lines that begin with a dot or a backslash are commands: .help
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    engine: EngineArgs,
    /// How results are written
    #[arg(long, value_name = "F", value_enum, default_value = "table")]
    format: Format,
    /// Write results into this file; it appears whole, when all statements have run
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The text of NULL [default: NULL, and nothing in csv and tsv]
    #[arg(long, value_name = "TEXT")]
    null: Option<String>,
    /// Rows of a result that a terminal gets, 0 for all; files and pipes get all [default: 1000]
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Write results alone: no figures, no greeting
    #[arg(short, long)]
    quiet: bool,
    /// Run this and exit; several run one after the other
    #[arg(short, long = "query", value_name = "SQL")]
    command: Vec<String>,
    /// Run the statements of this file and exit, `-` for standard input; several run one after the
    /// other
    #[arg(short, long, value_name = "FILE", conflicts_with = "command")]
    file: Vec<PathBuf>,
}

/// Runs the verb.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    shape::with_stack(|| run_here(&args)).context("no thread for statements")?
}

fn run_here(args: &Args) -> anyhow::Result<()> {
    query::tell_panics_to_their_queries();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.thread_stack_size(shape::STACK).enable_all().build().context("no runtime")?;
    let mut session = runtime.block_on(Session::open(args))?;
    let is_script = !args.command.is_empty() || !args.file.is_empty() || !io::stdin().is_terminal();
    let ended = match is_script {
        true => runtime.block_on(run_scripts(&mut session, args)),
        false => shell::run(&mut session, &runtime, args.quiet),
    };
    let ended = ended.and_then(|()| session.destination.finish());
    // A query that was given up and has not noticed yet is not waited for for long.
    query::settle();
    runtime.shutdown_background();
    // The next run finds what this one has read.
    session.pool.settle_flash();
    files::leave_nothing();
    ended
}

/// Runs -c, or -f, or standard input.
async fn run_scripts(session: &mut Session, args: &Args) -> anyhow::Result<()> {
    for command in &args.command {
        let lines = stream::iter(command.lines().map(|line| Ok(line.to_owned())));
        if session.run_all(lines, &Source::of_command(command)).await?.is_break() {
            return Ok(());
        }
    }
    let stdin = [PathBuf::from("-")];
    let files = if args.command.is_empty() && args.file.is_empty() { &stdin[..] } else { &args.file };
    for file in files {
        if session.run_file(file).await?.is_break() {
            return Ok(());
        }
    }
    Ok(())
}

/// The lines of a file, or of standard input for `-`, read by a thread, so that nobody who can be
/// interrupted waits for them.
fn lines_of(path: &Path) -> anyhow::Result<impl Stream<Item = io::Result<String>> + use<>> {
    let file = match path == Path::new("-") {
        true => None,
        false => Some(File::open(path).map_err(|error| usage(format!("cannot open {}: {error}", path.display())))?),
    };
    let (sender, mut lines) = mpsc::channel(64);
    std::thread::spawn(move || match file {
        Some(file) => BufReader::new(file).lines().try_for_each(|line| sender.blocking_send(line)),
        None => io::stdin().lock().lines().try_for_each(|line| sender.blocking_send(line)),
    });
    Ok(stream::poll_fn(move |context| lines.poll_recv(context)))
}
