//! Scripts: statements with commands between them, from files, from standard input or from `-c`.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::pin::pin;

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use futures::{Stream, StreamExt};
use pagecast_sql::Fault;
use pagecast_sql::query::Query;
use pagecast_sql::semantics::{Words, dialect};
use pagecast_sql::statements::{Statement, Statements};

use super::commands::{Command, Kind, help, name_of};
use super::lines_of;
use super::results::Format;
use super::session::Session;
use crate::interrupt::{Interrupted, Presses};
use crate::output::{Table, printable};
use crate::units::bytes_text;

/// Files that run files that run files: more are a circle.
const MOST_FILES_DEEP: usize = 16;

/// Whether there is more to run: `.quit` breaks.
pub(super) type Flow = ControlFlow<()>;

/// Where statements come from.
pub(super) struct Source {
    name: String,
    /// Whether its one statement needs no number.
    is_single: bool,
}

impl Source {
    /// The value of -c.
    pub(super) fn of_command(command: &str) -> Self {
        let mut statements = Statements::default();
        let complete: usize = command.lines().map(|line| statements.push(line, &Words).len()).sum();
        let rest = statements.rest(&Words).is_ok_and(|rest| rest.is_some());
        Self { name: "-c".into(), is_single: complete + usize::from(rest) == 1 }
    }

    fn of_file(path: &Path) -> Self {
        let name = if path == Path::new("-") { "standard input".into() } else { path.display().to_string() };
        Self { name, is_single: false }
    }

    /// `error` with where it came from.
    fn placed(&self, error: anyhow::Error, number: usize, statement: &Statement) -> anyhow::Error {
        match error.downcast::<Fault>() {
            Ok(fault) => anyhow!("{}:{}", self.name, fault.within(statement.line, statement.column)),
            Err(error) if self.is_single => error,
            Err(error) => error.context(format!("{}:{}: statement {number}", self.name, statement.line)),
        }
    }
}

impl Session {
    /// Runs the statements and commands of a file, `-` for standard input.
    pub(super) async fn run_file(&mut self, path: &Path) -> anyhow::Result<Flow> {
        if self.depth == MOST_FILES_DEEP {
            bail!("{} is read by {MOST_FILES_DEEP} files, one by the other", path.display());
        }
        self.depth += 1;
        let ran = match lines_of(path) {
            Ok(lines) => Box::pin(self.run_all(lines, &Source::of_file(path))).await,
            Err(error) => Err(error),
        };
        self.depth -= 1;
        ran
    }

    /// Runs statement after statement out of `lines`, up to the first that fails.
    pub(super) async fn run_all(
        &mut self,
        lines: impl Stream<Item = io::Result<String>>,
        source: &Source,
    ) -> anyhow::Result<Flow> {
        let (mut lines, mut statements, mut number) = (pin!(lines), Statements::default(), 0);
        let mut presses = Presses::new();
        while let Some(line) = presses.unless(lines.next()).await.ok_or(Interrupted)? {
            let line = line.with_context(|| format!("cannot read {}", source.name))?;
            if Command::is_one(&line) && statements.is_empty(dialect(&self.ctx).as_ref()) {
                statements.skip_line();
                if self.command(&line).await.with_context(|| source.name.clone())?.is_break() {
                    return Ok(Flow::Break(()));
                }
                continue;
            }
            // A line may have megabytes.
            let ctx = self.ctx.clone();
            let split = Query::read(async move { (statements.push(&line, dialect(&ctx).as_ref()), statements) });
            let complete;
            (complete, statements) = presses.unless(split).await.ok_or(Interrupted)??;
            for statement in complete {
                number += 1;
                self.run(&statement.text).await.map_err(|error| source.placed(error, number, &statement))?;
            }
        }
        let rest = statements.rest(dialect(&self.ctx).as_ref());
        if let Some(statement) = rest.map_err(|fault| anyhow!("{}:{fault}", source.name))? {
            self.run(&statement.text).await.map_err(|error| source.placed(error, number + 1, &statement))?;
        }
        Ok(Flow::Continue(()))
    }

    /// Does what a line says that begins with a dot or a backslash.
    pub(super) async fn command(&mut self, line: &str) -> anyhow::Result<Flow> {
        run(self, Command::parse(line)?).await
    }
}

/// Does it. Breaks where the user wants to leave.
async fn run(session: &mut Session, command: Command) -> anyhow::Result<Flow> {
    let mut out = io::stdout();
    match command.kind {
        Kind::Help => write!(out, "{}", help())?,
        Kind::Leave => return Ok(Flow::Break(())),
        Kind::Tables => list_tables(session, &mut out)?,
        Kind::Columns => match &command.argument {
            Some(table) => session.run(&format!("DESCRIBE {}", as_table(session, table))).await?,
            None => list_tables(session, &mut out)?,
        },
        Kind::Functions => session.run(&functions(command.text().unwrap_or_default())).await?,
        Kind::Format => set_format(session, command.text(), &mut out)?,
        Kind::Records => {
            let format = session.destination.turn();
            writeln!(out, "results are written as {}", name_of(format))?;
        }
        Kind::Rows => {
            let rows = command.text().and_then(|rows| rows.parse().ok());
            session.destination.screen.set_limit(rows.with_context(|| format!("{} wants a number", command.name))?);
        }
        Kind::Null => session.destination.null = command.text().map(str::to_owned),
        Kind::Output => session.destination.send_to(command.text().map(Path::new))?,
        Kind::Read => return session.run_file(&PathBuf::from(command.text().unwrap_or_default())).await,
        Kind::Figures => {
            session.figures = command.switch(session.figures)?;
            writeln!(out, "figures are {}", if session.figures { "on" } else { "off" })?;
        }
        Kind::Pager => {
            let pages = command.switch(session.destination.screen.pages)?;
            session.destination.screen.pages = pages;
            writeln!(out, "the pager is {}", if pages { "on" } else { "off" })?;
        }
        Kind::Pool => write!(out, "{}", pool(session))?,
    }
    out.flush()?;
    Ok(Flow::Continue(()))
}

fn set_format(session: &mut Session, name: Option<&str>, out: &mut impl Write) -> anyhow::Result<()> {
    let Some(name) = name else {
        return Ok(writeln!(out, "results are written as {}", name_of(session.destination.format))?);
    };
    let all = || Format::value_variants().iter().map(|format| name_of(*format)).collect::<Vec<_>>().join(", ");
    let format = Format::from_str(name, true);
    let format = format.map_err(|_| anyhow!("there is no format {}; there are {}", printable(name), all()))?;
    session.destination.set_format(format);
    Ok(())
}

/// The tables and views, with what is known of their files.
fn list_tables(session: &Session, out: &mut impl Write) -> io::Result<()> {
    let count = |name: &str| session.tables.iter().find(|table| table.name == name)?.file_count();
    for name in session.table_names() {
        match count(&name) {
            Some(1) => writeln!(out, "{}  (1 file)", printable(&name))?,
            Some(files) => writeln!(out, "{}  ({files} files)", printable(&name))?,
            None => writeln!(out, "{}", printable(&name))?,
        }
    }
    for closed in session.closed.iter() {
        writeln!(out, "{}", printable(&format!("{}  (closed: {:#})", closed.name, closed.fault)))?;
    }
    Ok(())
}

/// A table's name as SQL has it: in quotes where it is known only so.
fn as_table(session: &Session, name: &str) -> String {
    let known = session.table_names().iter().any(|known| known == name);
    if known { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() }
}

/// The functions with `word` in their names.
fn functions(word: &str) -> String {
    let word = word.replace('\'', "''").to_lowercase();
    format!(
        "SELECT DISTINCT routine_name AS name, function_type AS kind, syntax_example AS example, description \
         FROM information_schema.routines WHERE strpos(lower(routine_name), '{word}') > 0 ORDER BY name, kind"
    )
}

fn pool(session: &Session) -> String {
    let snapshot = session.pool.snapshot();
    let (frames, stats, page) = (snapshot.frames, snapshot.stats, u64::from(snapshot.page_size));
    let mut table = Table::new(&["", ""], 1);
    let mut row = |what: &str, value: String| table.row(vec![what.to_owned(), value]);
    row("policy", snapshot.policy);
    row("memory", bytes_text(u64::from(session.pool.frames()) * page));
    row("filled", bytes_text(u64::from(frames.resident) * page));
    row("files", snapshot.relations.len().to_string());
    row("scans", snapshot.scans.len().to_string());
    row("requested", bytes_text(stats.bytes_requested));
    row("read", bytes_text(stats.bytes_read));
    row("past the pool", bytes_text(stats.bypassed_bytes));
    row("hit rate", format!("{:.1} %", stats.hit_rate() * 100.0));
    row("evictions", stats.evictions.to_string());
    table.to_string().trim_start().to_owned()
}
