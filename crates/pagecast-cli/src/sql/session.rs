//! Tables, a pool, and SQL over both: what runs statements, from wherever they come.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

use anyhow::anyhow;
use datafusion::prelude::{SessionConfig, SessionContext};
use pagecast::storage::{MeteredStore, StoreStats};
use pagecast::{Pool, PoolStats};
use pagecast_datafusion::Host;
use pagecast_sql::query::Query;
use pagecast_sql::tables::{Closed, Table};
use pagecast_sql::{Engine, check, files};

use super::Args;
use super::destination::Destination;
use super::results::{self, Style};
use super::screen::{Screen, Sink};
use crate::failure::say;
use crate::flash;
use crate::interrupt::{Interrupted, unless_pressed};
use crate::stores::{Prices, dollars};
use crate::units::{bytes_text, seconds_text};

/// Tables, a pool, and SQL over both.
pub(super) struct Session {
    pub(super) ctx: SessionContext,
    pub(super) pool: Pool,
    host: Arc<Host>,
    pub(super) tables: Vec<Table>,
    pub(super) closed: Arc<[Closed]>,
    /// Where the tables of --data are, if that is an object store, and what it takes.
    store: Option<(MeteredStore, Prices)>,
    pub(super) destination: Destination,
    /// Whether a line of figures follows a statement.
    pub(super) figures: bool,
    /// Files that are being run by files.
    pub(super) depth: usize,
    /// Whether it was said that the tier on flash is off.
    said_off: bool,
}

impl Session {
    pub(super) async fn open(args: &Args) -> anyhow::Result<Self> {
        let screen = Screen::open(args.rows);
        let mut destination = Destination::new(screen, args.format, args.null.clone());
        destination.send_to(args.output.as_deref())?;
        let engine = args.engine.open(false, SessionConfig::new(), None).await?;
        let Engine { ctx, pool, host, tables, closed, store } = engine;
        let store = store.map(|store| (store, args.engine.store.price));
        files::install(&ctx, args.engine.store.endpoint.as_deref());
        let figures = !args.quiet;
        Ok(Self {
            ctx,
            pool,
            host,
            tables,
            closed: closed.into(),
            store,
            destination,
            figures,
            depth: 0,
            said_off: false,
        })
    }

    /// What the store of --data was asked so far.
    fn asked(&self) -> StoreStats {
        self.store.as_ref().map(|(store, _)| store.stats()).unwrap_or_default()
    }

    /// Runs one statement and writes its result and what it read. Ctrl-C ends it.
    pub(super) async fn run(&mut self, sql: &str) -> anyhow::Result<()> {
        // A text may have megabytes.
        let (ctx, closed, text) = (self.ctx.clone(), Arc::clone(&self.closed), sql.to_owned());
        let checked = Query::read(async move { check::statement(&ctx, &closed, &text) });
        unless_pressed(checked).await.ok_or(Interrupted)???;
        self.destination.check()?;
        let (started, before, in_order) = (Instant::now(), self.pool.stats(), self.host.back_in_order_scans());
        let asked = self.asked();
        let (config, null) = (self.ctx.copied_config(), self.destination.null.clone());
        let style = Style {
            format: self.destination.format,
            null: null.as_deref(),
            config: config.options(),
            terminal: self.destination.is_terminal(),
        };
        let (limit, for_programs) = (self.destination.limit(), self.destination.is_for_programs());
        let mut sink = self.destination.sink();
        let shown = unless_pressed(show(&self.ctx, sql, &mut sink, &style, limit, started)).await;
        let closed = sink.close();
        if !shown.as_ref().is_some_and(|shown| shown.as_ref().is_ok_and(|shown| !shown.has_columns)) {
            self.destination.written(!matches!(shown, Some(Ok(_))) || closed.is_err())?;
        }
        let shown = shown.ok_or(Interrupted)?;
        let shown = shown.map_err(|error| check::with_names(&self.ctx, error, "--data names a folder of tables"))?;
        closed?;
        let in_order = self.host.back_in_order_scans() - in_order;
        let after = self.pool.stats();
        let gap_bytes = after.gap_bytes - before.gap_bytes;
        let requests = self.store.as_ref().map(|(_, prices)| requests(&self.asked().since(&asked), gap_bytes, prices));
        let on_flash = flash::figures(&self.pool, &before, &after);
        let figures = figures(&shown, before, after, &on_flash, in_order) + requests.as_deref().unwrap_or_default();
        self.say_figures(&shown, &figures, for_programs)?;
        self.say_off();
        Ok(())
    }

    /// Says once that the tier on flash is off, and why.
    fn say_off(&mut self) {
        let off = self.pool.flash().and_then(|flash| flash.off).filter(|_| !self.said_off);
        if let Some(why) = off {
            say(&anyhow!("--flash: {why}"));
            self.said_off = true;
        }
    }

    /// Says what a statement read, beside rows that people read, else on stderr.
    fn say_figures(&self, shown: &Shown, figures: &str, for_programs: bool) -> io::Result<()> {
        let mut lines = String::new();
        if shown.cut {
            let limit = shown.rows;
            lines += &format!("the first {limit} rows; --rows or .rows says how many, a file or pipe gets all\n");
        }
        if self.figures {
            lines += figures;
            lines.push('\n');
        }
        match for_programs {
            true => io::stderr().lock().write_all(lines.as_bytes()),
            false => io::stdout().lock().write_all(lines.as_bytes()),
        }
    }

    /// The tables and views of the default schema, sorted.
    pub(super) fn table_names(&self) -> Vec<String> {
        check::table_names(&self.ctx)
    }
}

/// Writes the rows of a statement into `sink` as they come, up to `limit`.
async fn show(
    ctx: &SessionContext,
    sql: &str,
    sink: &mut Sink<'_>,
    style: &Style<'_>,
    limit: Option<usize>,
    started: Instant,
) -> anyhow::Result<Shown> {
    let mut query = Query::start(ctx, sql).await?;
    let schema = query.schema().clone();
    let has_columns = !schema.fields().is_empty();
    let mut rows = has_columns.then(|| results::rows(&mut *sink, &schema, style)).transpose()?;
    let mut shown = Shown { rows: 0, cut: false, seconds: 0.0, has_columns };
    let mut written = Ok(());
    while let Some(batch) = query.next().await? {
        let room = limit.map_or(usize::MAX, |limit| limit - shown.rows);
        shown.cut = batch.num_rows() > room;
        let batch = batch.slice(0, batch.num_rows().min(room));
        shown.rows += batch.num_rows();
        if let Some(rows) = &mut rows {
            written = rows.write(&batch);
        }
        if shown.cut || written.is_err() {
            break;
        }
        // Ctrl-C is looked for here, also where rows come faster than they are shown.
        tokio::task::yield_now().await;
    }
    shown.seconds = started.elapsed().as_secs_f64();
    drop(query);
    let finished = rows.map_or(Ok(()), |rows| if written.is_ok() { rows.finish() } else { Ok(()) });
    match written.and(finished) {
        Err(error) if !sink.is_left(&error) => Err(error.into()),
        _ => Ok(shown),
    }
}

/// What was shown of a result.
struct Shown {
    rows: usize,
    /// Whether there were more.
    cut: bool,
    /// The time until the last row came.
    seconds: f64,
    has_columns: bool,
}

/// What a statement asked of an object store, and what that costs.
fn requests(asked: &StoreStats, gap_bytes: u64, prices: &Prices) -> String {
    let kinds = [("GET", asked.requests.gets), ("HEAD", asked.requests.heads), ("LIST", asked.requests.lists)];
    let named = |(kind, count): (&str, u64)| match count {
        0 => String::new(),
        1 => format!(", 1 {kind}"),
        _ => format!(", {count} {kind}s"),
    };
    let gaps = match gap_bytes {
        0 => String::new(),
        bytes => format!(", {} over gaps", bytes_text(bytes)),
    };
    let requests: String = kinds.into_iter().map(named).collect();
    format!("{requests}{gaps}, {}", dollars(prices.of(asked)))
}

/// The line after a statement.
fn figures(shown: &Shown, before: PoolStats, after: PoolStats, on_flash: &str, back_in_order: u64) -> String {
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
        "{rows} {} in {}, {} requested, {} read{on_flash}, hit rate {hit_rate}{in_order}",
        if rows == 1 { "row" } else { "rows" },
        seconds_text(shown.seconds),
        bytes_text(after.bytes_requested - before.bytes_requested),
        bytes_text(after.bytes_read - before.bytes_read),
    )
}
