//! The interactive shell.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use tokio::runtime::Runtime;

use super::Session;
use super::statements::Statements;
use crate::failure::say;
use crate::output::printable;
use crate::tables::cache_folder;

const HELP: &str = "\
statements end with `;` and may take several lines; Ctrl-C ends the query that runs, or drops what was typed
  \\d         tables; `DESCRIBE table;` shows its columns
  \\rows N    show N rows of a result, 0 for all
  \\q         leave, as does Ctrl-D
  \\?         this help";

/// Reads statements until the user leaves. A statement that fails says so and ends nothing.
pub(super) fn run(session: &mut Session, runtime: &Runtime) -> anyhow::Result<()> {
    let config = Config::builder().max_history_size(10_000)?.auto_add_history(false).build();
    let mut editor: Editor<(), FileHistory> = Editor::with_config(config).context("cannot edit lines here")?;
    let history = cache_folder().map(|folder| folder.join("history"));
    if let Ok(path) = &history {
        // None yet, at the first start.
        let _ = editor.load_history(path);
    }
    println!("{} tables; \\? for help, \\q to leave", session.tables.len());
    converse(session, runtime, &mut editor, history.as_deref().ok())
}

/// Adds what was typed to the history, at once: a shell may end in many ways.
fn remember(editor: &mut Editor<(), FileHistory>, history: Option<&Path>, typed: &str) -> anyhow::Result<()> {
    editor.add_history_entry(typed)?;
    let Some(path) = history else { return Ok(()) };
    let saved = path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(ReadlineError::from);
    if let Err(error) = saved.and_then(|()| editor.append_history(path)) {
        eprintln!("pagecast: cannot keep the history in {}: {error}", path.display());
    }
    Ok(())
}

fn converse(
    session: &mut Session,
    runtime: &Runtime,
    editor: &mut Editor<(), FileHistory>,
    history: Option<&Path>,
) -> anyhow::Result<()> {
    let mut statements = Statements::default();
    let mut typed = String::new();
    loop {
        let dialect = session.dialect();
        let fresh = statements.is_empty(dialect.as_ref());
        let line = match editor.readline(if fresh { "pagecast> " } else { "       -> " }) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                statements = Statements::default();
                typed.clear();
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(error).context("cannot read the terminal"),
        };
        if fresh && line.trim_start().starts_with('\\') {
            let line = line.trim();
            match (line, line.strip_prefix("\\rows ").map(|rows| rows.trim().parse())) {
                ("\\q", _) => return Ok(()),
                ("\\d", _) => list_tables(session)?,
                ("\\?" | "\\h", _) => println!("{HELP}"),
                (_, Some(Ok(rows))) => session.screen.set_limit(rows),
                (other, _) => println!("no command {}\n{HELP}", printable(other)),
            }
            continue;
        }
        typed += &line;
        let complete = statements.push(&line, dialect.as_ref());
        if complete.is_empty() {
            typed.push('\n');
        } else {
            remember(editor, history, typed.trim())?;
            typed.clear();
        }
        for statement in complete {
            if let Err(error) = runtime.block_on(session.run(&statement)) {
                say(&error);
            }
        }
    }
}

fn list_tables(session: &Session) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for table in &session.tables {
        writeln!(out, "{}  ({} files)", printable(&table.name), table.files.len())?;
    }
    for closed in &session.closed {
        writeln!(out, "{}", printable(&format!("{}  (closed: {:#})", closed.name, closed.fault)))?;
    }
    Ok(())
}
