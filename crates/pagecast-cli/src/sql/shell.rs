//! The interactive shell.

use std::path::Path;

use anyhow::Context;
use pagecast_sql::semantics::dialect;
use pagecast_sql::shown;
use pagecast_sql::statements::Statements;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use tokio::runtime::Runtime;

use super::commands::Command;
use super::completion::Words;
use super::session::Session;
use crate::cache;
use crate::failure::say;

type Lines = Editor<Words, FileHistory>;

/// Reads statements until the user leaves. A statement that fails says so and ends nothing.
pub(super) fn run(session: &mut Session, runtime: &Runtime, quiet: bool) -> anyhow::Result<()> {
    let config = Config::builder().max_history_size(10_000)?.auto_add_history(false);
    let config = config.completion_type(CompletionType::List).build();
    let mut editor = Lines::with_config(config).context("cannot edit lines here")?;
    editor.set_helper(Some(runtime.block_on(Words::of(&session.ctx))));
    let history = cache::folder().map(|folder| folder.join("history"));
    if let Ok(path) = &history {
        // None yet, at the first start.
        let _ = editor.load_history(path);
    }
    if !quiet {
        println!("{} tables; .help or \\? for help, \\q to leave", session.table_names().len());
    }
    converse(session, runtime, &mut editor, history.as_deref().ok())
}

/// Adds what was typed to the history, at once: a shell may end in many ways.
/// What holds a key or a password is not kept.
fn remember(editor: &mut Lines, history: Option<&Path>, typed: &str) -> anyhow::Result<()> {
    if shown(typed) != typed {
        return Ok(());
    }
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
    editor: &mut Lines,
    history: Option<&Path>,
) -> anyhow::Result<()> {
    let mut statements = Statements::default();
    let mut typed = String::new();
    loop {
        let words = dialect(&session.ctx);
        let fresh = statements.is_empty(words.as_ref());
        if let Some(helper) = editor.helper_mut() {
            helper.before(if fresh { "" } else { &typed });
        }
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
        if fresh && Command::is_one(&line) {
            (statements, typed) = Default::default();
            remember(editor, history, line.trim())?;
            match runtime.block_on(session.command(&line)) {
                Ok(flow) if flow.is_break() => return Ok(()),
                Ok(_) => {}
                Err(error) => say(&error),
            }
            refresh(session, runtime, editor);
            continue;
        }
        typed += &line;
        let complete = statements.push(&line, words.as_ref());
        if complete.is_empty() {
            typed.push('\n');
            continue;
        }
        remember(editor, history, typed.trim())?;
        typed.clear();
        let count = complete.len();
        for statement in complete {
            if let Err(error) = runtime.block_on(session.run(&statement.text)) {
                say(&if count > 1 { error.context(statement_start(&statement.text)) } else { error });
            }
        }
        refresh(session, runtime, editor);
    }
}

/// Gives the completion the tables that are there now.
fn refresh(session: &Session, runtime: &Runtime, editor: &mut Lines) {
    if let Some(helper) = editor.helper_mut().filter(|helper| !helper.knows(&session.table_names())) {
        *helper = runtime.block_on(Words::of(&session.ctx));
    }
}

/// Which of several statements of a line it was.
fn statement_start(text: &str) -> String {
    let text = shown(text);
    let start: String = text.chars().take(30).collect();
    if start.len() < text.len() { format!("{start}...") } else { start }
}
