//! `pagecast sql`: statements over a folder of Parquet files, read through a pool.

mod shell;
mod statements;

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use arrow::util::pretty::pretty_format_batches;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use pagecast::{Pool, PoolOptions, PoolStats};
use pagecast_core::policy::PolicySpec;

use crate::failure::usage;
use crate::syntax;
use crate::tables::{self, Table};
use crate::units::{Size, bytes_text, seconds_text};
use statements::Statements;

/// Runs SQL over a folder of Parquet files: the statements of -c, or of standard input, or those typed into a shell.
///
/// After each statement one line says how many rows it gave, how long it took, how many bytes it requested and how many
/// of them came from storage.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Folder of Parquet files; each file or subfolder is a table named by its stem
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Memory of the pool
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pool: Size,
    /// Most memory that DataFusion may take for sorts, joins and aggregates [default: no limit]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Replacement policy of the pool
    #[arg(long, value_name = "P", default_value = "pbm")]
    policy: String,
    /// Seed of the policy
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run this and exit
    #[arg(short, value_name = "SQL")]
    command: Option<String>,
}

/// Runs the verb.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    let session = runtime.block_on(Session::open(&args))?;
    match &args.command {
        Some(command) => runtime.block_on(session.run_all(command.lines().map(|line| Ok(line.to_owned())), "-c")),
        None if std::io::stdin().is_terminal() => shell::run(&session, &runtime),
        None => runtime.block_on(session.run_all(std::io::stdin().lock().lines(), "standard input")),
    }
}

/// Bytes of a flag's size, which must have a unit.
fn bytes(flag: &str, size: Size) -> anyhow::Result<u64> {
    match size {
        Size::Bytes(bytes) => Ok(bytes),
        size => Err(usage(format!("{flag}: `{size}` is no amount of memory; write 256MiB or 1GiB"))),
    }
}

/// Tables, a pool, and SQL over both.
struct Session {
    ctx: SessionContext,
    pool: Pool,
    tables: Vec<Table>,
}

impl Session {
    async fn open(args: &Args) -> anyhow::Result<Self> {
        let policy = PolicySpec::parse(&args.policy).map_err(|error| usage(format!("--policy: {error}")))?;
        if policy.needs_trace() {
            return Err(usage(format!(
                "--policy: {} needs the future and works in `pagecast simulate`",
                policy.name()
            )));
        }
        let memory = bytes("--pool", args.pool)?;
        let options = PoolOptions { memory, policy, seed: args.seed, ..PoolOptions::default() };
        let pool = Pool::new(options).map_err(|error| usage(format!("--pool: {error}")))?;
        let mut runtime = RuntimeEnvBuilder::new();
        if let Some(limit) = args.memory {
            runtime = runtime.with_memory_limit(bytes("--memory", limit)? as usize, 1.0);
        }
        let config = SessionConfig::new().with_information_schema(true);
        let ctx = SessionContext::new_with_config_rt(config, runtime.build_arc().context("no runtime for SQL")?);
        let tables = tables::discover(&args.data)?;
        tables::register(&ctx, &tables).await?;
        pagecast_datafusion::install(&ctx, pool.clone());
        Ok(Self { ctx, pool, tables })
    }

    /// Runs statement after statement out of `lines`, up to the first that fails.
    async fn run_all(&self, lines: impl Iterator<Item = std::io::Result<String>>, source: &str) -> anyhow::Result<()> {
        let mut statements = Statements::default();
        for line in lines {
            let line = line.with_context(|| format!("cannot read {source}"))?;
            for statement in statements.push(&line) {
                self.run(&statement).await?;
            }
        }
        if let Some(place) = statements.unclosed() {
            bail!("{source}: {place} is not closed");
        }
        match statements.rest() {
            Some(statement) => self.run(&statement).await,
            None => Ok(()),
        }
    }

    /// Runs one statement and prints its result and what it read.
    async fn run(&self, sql: &str) -> anyhow::Result<()> {
        syntax::statements(sql).map_err(|fault| anyhow::anyhow!("in the statement at {fault}"))?;
        let (started, before) = (Instant::now(), self.pool.stats());
        let result = async {
            let frame = self.ctx.sql(sql).await?;
            let schema = Arc::clone(frame.schema().inner());
            Ok((schema, frame.collect().await?))
        };
        let (schema, batches) = result.await.map_err(|error| anyhow::anyhow!("{}", tables::message(&error)))?;
        let seconds = started.elapsed().as_secs_f64();
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        let mut out = std::io::stdout().lock();
        if !schema.fields().is_empty() {
            let empty = arrow::array::RecordBatch::new_empty(schema);
            let table =
                if batches.is_empty() { pretty_format_batches(&[empty]) } else { pretty_format_batches(&batches) };
            writeln!(out, "{}", table.context("cannot show the result")?)?;
        }
        writeln!(out, "{}", figures(rows, seconds, before, self.pool.stats()))?;
        Ok(())
    }
}

/// The line after a statement.
fn figures(rows: usize, seconds: f64, before: PoolStats, after: PoolStats) -> String {
    let requests = after.requests - before.requests;
    let hit_rate = match requests {
        0 => "-".into(),
        _ => format!("{:.1} %", (after.hits - before.hits) as f64 / requests as f64 * 100.0),
    };
    format!(
        "{rows} {} in {}, {} requested, {} read, hit rate {hit_rate}",
        if rows == 1 { "row" } else { "rows" },
        seconds_text(seconds),
        bytes_text(after.bytes_requested - before.bytes_requested),
        bytes_text(after.bytes_read - before.bytes_read),
    )
}
