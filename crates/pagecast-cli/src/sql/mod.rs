//! `pagecast sql`: statements over a folder of Parquet files and Delta tables, read through a pool.

mod grid;
mod query;
mod screen;
mod shell;
mod statements;

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use arrow::util::display::FormatOptions;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, dialect_from_str};
use futures::{Stream, StreamExt, stream};
use pagecast::{Pool, PoolOptions, PoolStats};
use pagecast_core::policy::PolicySpec;
use pagecast_datafusion::{Delivery, Host, HostOptions};
use tokio::sync::mpsc;

use crate::failure::{say, usage};
use crate::interrupt::{Interrupted, unless_pressed};
use crate::tables::{self, Closed, Found, Table};
use crate::units::{Size, bytes_text, seconds_text};
use crate::{stores, syntax};
use grid::Grid;
use query::Query;
use screen::{Screen, Sink};
use statements::Statements;

/// Runs SQL over a folder of Parquet files and Delta tables: the statements of -c, or of standard
/// input, or those typed into a shell.
///
/// After each statement one line says how many rows it gave, how long it took, how many bytes it
/// requested and how many of them came from storage.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Parquet file, Delta table, or folder of them; each file or subfolder is a table named by its
    /// stem. Also a URL: s3://bucket/folder, gs, az, https, file; credentials come from the usual
    /// variables
    #[arg(long, value_name = "PATH")]
    data: PathBuf,
    /// Where the store of --data is, if its provider has it elsewhere: http://127.0.0.1:7070
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
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
    /// In which order row groups are delivered, where the statement does not say
    #[arg(long, value_name = "D", value_enum, default_value = "out-of-order")]
    delivery: Delivered,
    /// Rows of a result that a terminal gets, 0 for all; files and pipes get all [default: 1000]
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Run this and exit
    #[arg(short, value_name = "SQL")]
    command: Option<String>,
}

/// In which order a scan's row groups come.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Delivered {
    /// Each thread reads its share of the files
    Stock,
    /// File order, shared by all threads
    InOrder,
    /// What is in memory first, and what serves several statements
    OutOfOrder,
}

impl From<Delivered> for Delivery {
    fn from(delivered: Delivered) -> Self {
        match delivered {
            Delivered::Stock => Self::Stock,
            Delivered::InOrder => Self::InOrder,
            Delivered::OutOfOrder => Self::OutOfOrder,
        }
    }
}

/// Runs the verb.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    tell_panics_to_their_queries();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    let mut session = runtime.block_on(Session::open(&args))?;
    let ended = match &args.command {
        Some(command) => {
            let lines = stream::iter(command.lines().map(|line| Ok(line.to_owned())));
            runtime.block_on(session.run_all(lines, "-c"))
        }
        None if io::stdin().is_terminal() => shell::run(&mut session, &runtime),
        None => runtime.block_on(session.run_all(lines_of_stdin(), "standard input")),
    };
    // A query that was given up and has not noticed yet is not waited for.
    runtime.shutdown_background();
    ended
}

/// A panic in a task ends its query, whose error says so; nothing else is printed, unless a
/// backtrace is asked for.
fn tell_panics_to_their_queries() {
    let (print, backtrace) = (std::panic::take_hook(), std::env::var_os("RUST_BACKTRACE").is_some());
    let main = std::thread::current().id();
    std::panic::set_hook(Box::new(move |panic| {
        if backtrace || std::thread::current().id() == main {
            print(panic);
        }
    }));
}

/// The lines of standard input, read by a thread, so that nobody who can be interrupted waits for
/// them.
fn lines_of_stdin() -> impl Stream<Item = io::Result<String>> {
    let (sender, mut lines) = mpsc::channel(64);
    std::thread::spawn(move || io::stdin().lock().lines().try_for_each(|line| sender.blocking_send(line)));
    stream::poll_fn(move |context| lines.poll_recv(context))
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
    host: Arc<Host>,
    tables: Vec<Table>,
    closed: Vec<Closed>,
    /// Whether the tables are in an object store, where requests count.
    is_store: bool,
    screen: Screen,
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
        let options = PoolOptions::default().memory(memory).policy(policy).seed(args.seed);
        let pool = Pool::new(options).map_err(|error| usage(format!("--pool: {error}")))?;
        let mut runtime = RuntimeEnvBuilder::new();
        if let Some(limit) = args.memory {
            match bytes("--memory", limit)? {
                0 => return Err(usage("--memory: no query works without memory; leave the flag out for no limit")),
                limit => runtime = runtime.with_memory_limit(limit as usize, 1.0),
            }
        }
        let config = SessionConfig::new().with_information_schema(true);
        let ctx = SessionContext::new_with_config_rt(config, runtime.build_arc().context("no runtime for SQL")?);
        let source = stores::source(&args.data, args.endpoint.as_deref())?;
        let found = match &source {
            None => tables::discover(&args.data)?,
            Some(source) => {
                source.register(&ctx)?;
                source.discover().await?
            }
        };
        let (tables, mut closed) = register(&ctx, found).await;
        if tables.is_empty() {
            return Err(closed.swap_remove(0).fault);
        }
        for closed in &closed {
            say(&anyhow!("table {} is closed: {:#}", closed.name, closed.fault));
        }
        let options = HostOptions::default().delivery(args.delivery.into());
        pagecast_delta::install(&ctx).map_err(|error| anyhow!(tables::message(&error)))?;
        let host = pagecast_datafusion::install_with(&ctx, pool.clone(), options)?;
        Ok(Self { ctx, pool, host, tables, closed, is_store: source.is_some(), screen: Screen::open(args.rows) })
    }

    /// The words of SQL that the session has been set to.
    fn dialect(&self) -> Box<dyn Dialect> {
        let name = self.ctx.state_ref().read().config_options().sql_parser.dialect;
        dialect_from_str(name).unwrap_or_else(|| Box::new(GenericDialect {}))
    }

    /// Runs statement after statement out of `lines`, up to the first that fails.
    async fn run_all(&self, lines: impl Stream<Item = io::Result<String>>, source: &str) -> anyhow::Result<()> {
        let (mut lines, mut statements) = (pin!(lines), Statements::default());
        while let Some(line) = unless_pressed(lines.next()).await.ok_or(Interrupted)? {
            let line = line.with_context(|| format!("cannot read {source}"))?;
            for statement in statements.push(&line, self.dialect().as_ref()) {
                self.run(&statement).await?;
            }
        }
        let rest = statements.rest(self.dialect().as_ref());
        match rest.map_err(|fault| anyhow!("{source}: in the last statement at {fault}"))? {
            Some(statement) => self.run(&statement).await,
            None => Ok(()),
        }
    }

    /// Runs one statement and prints its result and what it read. Ctrl-C ends it.
    async fn run(&self, sql: &str) -> anyhow::Result<()> {
        let dialect = self.dialect();
        syntax::statements_of(sql, dialect.as_ref()).map_err(|fault| anyhow!("in the statement at {fault}"))?;
        self.check_open(sql)?;
        let (started, before, in_order) = (Instant::now(), self.pool.stats(), self.host.back_in_order_scans());
        let requests = self.pool.device().stats().requests;
        let mut sink = self.screen.sink();
        let shown = unless_pressed(self.show(sql, &mut sink, started)).await;
        sink.close()?;
        let shown = shown.ok_or(Interrupted)??;
        let mut out = io::stdout().lock();
        if shown.cut {
            let limit = shown.rows;
            writeln!(out, "the first {limit} rows; --rows or \\rows says how many, a file or pipe gets all")?;
        }
        let in_order = self.host.back_in_order_scans() - in_order;
        let requests = match self.is_store {
            true => format!(", {} requests", self.pool.device().stats().requests - requests),
            false => String::new(),
        };
        writeln!(out, "{}{requests}", figures(&shown, before, self.pool.stats(), in_order))?;
        Ok(())
    }

    /// Fails if the statement names a table that is closed.
    fn check_open(&self, sql: &str) -> anyhow::Result<()> {
        if self.closed.is_empty() {
            return Ok(());
        }
        let state = self.ctx.state();
        let dialect = state.config_options().sql_parser.dialect;
        let named = state.sql_to_statement(sql, &dialect).and_then(|parsed| state.resolve_table_references(&parsed));
        for table in named.unwrap_or_default() {
            if let Some(closed) = self.closed.iter().find(|closed| closed.name == table.table()) {
                bail!("table {} is closed: {:#}", closed.name, closed.fault);
            }
        }
        Ok(())
    }

    /// Writes the rows of a statement into `sink` as they come, up to the limit of the screen.
    async fn show(&self, sql: &str, sink: &mut Sink, started: Instant) -> anyhow::Result<Shown> {
        let mut query = Query::start(&self.ctx, sql).await?;
        let config = self.ctx.copied_config();
        let format = &config.options().format;
        let null = if format.null.is_empty() { "NULL" } else { &format.null };
        let options =
            FormatOptions::try_from(format).map_err(|error| anyhow!(tables::message(&error)))?.with_null(null);
        let schema = query.schema().clone();
        let mut grid = (!schema.fields().is_empty()).then(|| Grid::new(&mut *sink, &schema, options));
        let mut shown = Shown { rows: 0, cut: false, seconds: 0.0 };
        let mut written = Ok(());
        while let Some(batch) = query.next().await? {
            let room = self.screen.limit().map_or(usize::MAX, |limit| limit - shown.rows);
            shown.cut = batch.num_rows() > room;
            let batch = batch.slice(0, batch.num_rows().min(room));
            shown.rows += batch.num_rows();
            if let Some(grid) = &mut grid {
                written = grid.write(&batch);
            }
            if shown.cut || written.is_err() {
                break;
            }
            // Ctrl-C is looked for here, also where rows come faster than they are shown.
            tokio::task::yield_now().await;
        }
        shown.seconds = started.elapsed().as_secs_f64();
        drop(query);
        if let Some(grid) = grid {
            written = written.and_then(|()| grid.finish());
        }
        match written {
            Err(error) if !sink.is_left(&error) => Err(error.into()),
            _ => Ok(shown),
        }
    }
}

/// What was shown of a result.
struct Shown {
    rows: usize,
    /// Whether there were more.
    cut: bool,
    /// The time until the last row came.
    seconds: f64,
}

/// Makes what was found known to SQL. What DataFusion cannot read is closed, too.
async fn register(ctx: &SessionContext, found: Found) -> (Vec<Table>, Vec<Closed>) {
    let Found { mut tables, mut closed } = found;
    let mut faults = Vec::new();
    for table in &tables {
        let (ctx, table) = (ctx.clone(), table.clone());
        // A task of its own: a decoder that panics over a footer ends that task.
        let registered = tokio::spawn(async move { table.register(&ctx).await }).await;
        faults.push(registered.unwrap_or_else(|stopped| Err(anyhow!("its files make no sense: {stopped}"))).err());
    }
    let mut faults = faults.into_iter();
    tables.retain(|table| match faults.next().flatten() {
        Some(fault) => {
            closed.push(Closed { name: table.name.clone(), fault });
            false
        }
        None => true,
    });
    (tables, closed)
}

/// The line after a statement.
fn figures(shown: &Shown, before: PoolStats, after: PoolStats, back_in_order: u64) -> String {
    let rows = shown.rows;
    let in_order = match back_in_order {
        0 => String::new(),
        1 => ", 1 scan in file order".into(),
        scans => format!(", {scans} scans in file order"),
    };
    let mut during = PoolStats::default();
    during.requests = after.requests - before.requests;
    during.hits = after.hits - before.hits;
    during.prefetch_useful = after.prefetch_useful - before.prefetch_useful;
    let hit_rate = match during.requests {
        0 => "-".into(),
        _ => format!("{:.1} %", during.hit_rate() * 100.0),
    };
    format!(
        "{rows} {} in {}, {} requested, {} read, hit rate {hit_rate}{in_order}",
        if rows == 1 { "row" } else { "rows" },
        seconds_text(shown.seconds),
        bytes_text(after.bytes_requested - before.bytes_requested),
        bytes_text(after.bytes_read - before.bytes_read),
    )
}
