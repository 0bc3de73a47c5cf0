//! Commands: lines that begin with a dot, as in DuckDB and SQLite, or with a backslash, as in psql
//! and datafusion-cli. Each has names of both kinds.

use anyhow::bail;
use clap::ValueEnum;

use super::results::Format;
use crate::output::{Table, printable};

/// What a line asks for, without what it says of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Help,
    Leave,
    Tables,
    Columns,
    Functions,
    Format,
    Records,
    Rows,
    Null,
    Output,
    Read,
    Figures,
    Pager,
    Pool,
}

/// A command's names, its argument, and what it does.
struct Entry {
    kind: Kind,
    names: &'static [&'static str],
    argument: &'static str,
    does: &'static str,
}

const fn entry(kind: Kind, names: &'static [&'static str], argument: &'static str, does: &'static str) -> Entry {
    Entry { kind, names, argument, does }
}

const ENTRIES: [Entry; 14] = [
    entry(Kind::Help, &[".help", "\\?", "\\h"], "", "this help"),
    entry(Kind::Leave, &[".quit", ".exit", "\\q"], "", "leave, as does Ctrl-D"),
    entry(Kind::Tables, &[".tables", "\\dt"], "", "tables and views; SHOW TABLES is its SQL"),
    entry(Kind::Columns, &[".schema", "\\d"], "[TABLE]", "columns of a table, as DESCRIBE; else the tables"),
    entry(Kind::Functions, &[".functions", "\\df"], "[WORD]", "functions with the word in their names"),
    entry(Kind::Format, &[".mode", "\\f", "\\pset format"], "[FORMAT]", "how results are written"),
    entry(Kind::Records, &[".records", "\\x"], "", "a line for each column, and back"),
    entry(Kind::Rows, &[".rows", ".maxrows", "\\rows"], "N", "rows that the screen gets of a result, 0 for all"),
    entry(Kind::Null, &[".nullvalue", "\\null"], "[TEXT]", "the text of NULL"),
    entry(Kind::Output, &[".output", "\\o"], "[FILE]", "results go into the file, else to the screen again"),
    entry(Kind::Read, &[".read", "\\i"], "FILE", "run the statements of a file"),
    entry(Kind::Figures, &[".timer", "\\timing"], "[on|off]", "rows, time and bytes after each statement"),
    entry(Kind::Pager, &[".pager", "\\pager"], "[on|off]", "whether long results go through $PAGER"),
    entry(Kind::Pool, &[".pool", "\\pool"], "", "what the pool holds and has read"),
];

/// A line for us.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Command {
    pub(super) kind: Kind,
    /// What follows the name, as it is written.
    pub(super) argument: Option<String>,
    pub(super) name: &'static str,
}

impl Command {
    /// Whether a line is for us, where a statement could begin.
    pub(super) fn is_one(line: &str) -> bool {
        line.trim_start().starts_with(['.', '\\'])
    }

    /// What the line asks for.
    pub(super) fn parse(line: &str) -> anyhow::Result<Self> {
        let line = line.trim().trim_end_matches(';').trim_end();
        let named = |entry: &'static Entry| {
            let found = entry.names.iter().find_map(|name| Some((*name, after(line, name)?)));
            found.map(|(name, argument)| (entry, name, argument))
        };
        let Some((entry, name, argument)) = ENTRIES.iter().find_map(named) else {
            let word = line.split_whitespace().next().unwrap_or(line);
            bail!("there is no command {}; .help lists them", printable(word));
        };
        match entry.argument {
            "" if !argument.is_empty() => bail!("{name} takes nothing after it"),
            wanted if argument.is_empty() && !wanted.is_empty() && !wanted.starts_with('[') => {
                bail!("{name} wants {wanted} after it")
            }
            _ => {}
        }
        let argument = (!argument.is_empty()).then(|| argument.to_owned());
        Ok(Self { kind: entry.kind, argument, name })
    }

    /// All names, for completion.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        ENTRIES.iter().flat_map(|entry| entry.names).copied()
    }

    /// What follows the name, without quotes around it.
    pub(super) fn text(&self) -> Option<&str> {
        let text = self.argument.as_deref()?;
        let inner = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
        Some(inner('\'').or_else(|| inner('"')).unwrap_or(text))
    }

    /// On, off, or what it is not now.
    pub(super) fn switch(&self, now: bool) -> anyhow::Result<bool> {
        match self.text() {
            None => Ok(!now),
            Some("on" | "true" | "1") => Ok(true),
            Some("off" | "false" | "0") => Ok(false),
            Some(other) => bail!("{} is on or off, and not {}", self.name, printable(other)),
        }
    }
}

/// What follows `name` in `line`, if that begins with it.
fn after<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let rest = line.strip_prefix(name)?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim())
}

/// What each command does.
pub(super) fn help() -> String {
    let mut table = Table::new(&["", "", ""], 3);
    for Entry { names, argument, does, .. } in ENTRIES {
        table.row(vec![format!("  {} {argument}", names.join(" ")), String::new(), does.to_owned()]);
    }
    format!(
        "statements end with `;` and may take several lines; Ctrl-C ends the query that runs, or drops what was typed\n\
         files stand in quotes: SELECT * FROM 'folder/day.parquet'; SUMMARIZE t; COPY t TO 'day.csv'; DESCRIBE t{table}\
         formats: {}\n",
        Format::value_variants().iter().map(|format| name_of(*format)).collect::<Vec<_>>().join(", ")
    )
}

/// The name of a format on the command line.
pub(super) fn name_of(format: Format) -> String {
    format.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parsed(line: &str) -> (Kind, Option<String>) {
        let command = Command::parse(line).unwrap();
        (command.kind, command.text().map(str::to_owned))
    }

    #[test]
    fn both_kinds_of_names_mean_the_same() {
        for (lines, kind, text) in [
            (&[".quit", "\\q", " .exit ; "][..], Kind::Leave, None),
            (&[".tables", "\\dt"], Kind::Tables, None),
            (&[".schema a b", "\\d a b", "\\d 'a b'", "\\d  \"a b\";"], Kind::Columns, Some("a b")),
            (&[".mode csv", "\\f csv", "\\pset format csv"], Kind::Format, Some("csv")),
            (&[".output", "\\o"], Kind::Output, None),
            (&[".output x y.csv", "\\o 'x y.csv'"], Kind::Output, Some("x y.csv")),
        ] {
            for line in lines {
                assert_eq!(parsed(line), (kind, text.map(str::to_owned)), "{line}");
            }
        }
    }

    #[test]
    fn what_is_no_command_is_said() {
        let fault = |line| Command::parse(line).unwrap_err().to_string();
        assert!(fault(".nope x").contains("no command .nope; .help"));
        assert!(fault("\\quit").contains("\\quit"));
        assert!(fault(".rows").contains(".rows wants N"));
        assert!(fault("\\x on").contains("\\x takes nothing"));
    }

    #[test]
    fn names_are_told_apart() {
        let mut names: Vec<_> = Command::names().collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(names.iter().all(|name| Command::is_one(name)));
    }
}
