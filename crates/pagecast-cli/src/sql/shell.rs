//! The interactive shell.

use std::io::Write;

use anyhow::Context;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use tokio::runtime::Runtime;

use super::Session;
use super::statements::Statements;
use crate::tables::cache_folder;

const HELP: &str = "\
statements end with `;` and may take several lines; Ctrl-C drops what was typed
  \\d         tables; `DESCRIBE table;` shows its columns
  \\q         leave, as does Ctrl-D
  \\?         this help";

/// Reads statements until the user leaves. A statement that fails says so and ends nothing.
pub(super) fn run(session: &Session, runtime: &Runtime) -> anyhow::Result<()> {
    let config = Config::builder().max_history_size(10_000)?.auto_add_history(false).build();
    let mut editor: Editor<(), FileHistory> = Editor::with_config(config).context("cannot edit lines here")?;
    let history = cache_folder().map(|folder| folder.join("history"));
    if let Ok(path) = &history {
        // None yet, at the first start.
        let _ = editor.load_history(path);
    }
    println!("{} tables; \\? for help, \\q to leave", session.tables.len());
    let ended = converse(session, runtime, &mut editor);
    if let Ok(path) = history {
        let saved = path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(ReadlineError::from);
        if let Err(error) = saved.and_then(|()| editor.append_history(&path)) {
            eprintln!("pagecast: cannot keep the history in {}: {error}", path.display());
        }
    }
    ended
}

fn converse(session: &Session, runtime: &Runtime, editor: &mut Editor<(), FileHistory>) -> anyhow::Result<()> {
    let mut statements = Statements::default();
    let mut typed = String::new();
    loop {
        let line = match editor.readline(if statements.is_empty() { "pagecast> " } else { "       -> " }) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                statements = Statements::default();
                typed.clear();
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(error).context("cannot read the terminal"),
        };
        if statements.is_empty() && line.trim_start().starts_with('\\') {
            match line.trim() {
                "\\q" => return Ok(()),
                "\\d" => list_tables(session)?,
                "\\?" | "\\h" => println!("{HELP}"),
                other => println!("no command {other}\n{HELP}"),
            }
            continue;
        }
        typed += &line;
        let complete = statements.push(&line);
        if complete.is_empty() {
            typed.push('\n');
        } else {
            editor.add_history_entry(typed.trim())?;
            typed.clear();
        }
        for statement in complete {
            if let Err(error) = runtime.block_on(session.run(&statement)) {
                eprintln!("pagecast: {error:#}");
            }
        }
    }
}

fn list_tables(session: &Session) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for table in &session.tables {
        writeln!(out, "{}  ({} files)", table.name, table.files.len())?;
    }
    Ok(())
}
