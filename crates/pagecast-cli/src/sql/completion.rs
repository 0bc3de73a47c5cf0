//! What the Tab key adds: words of SQL, tables, columns, functions, files, commands.

use std::path::Path;

use clap::ValueEnum;
use datafusion::prelude::SessionContext;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::commands::{Command, Kind};
use super::results::Format;

/// Words that everyday statements have.
const KEYWORDS: &str = "ALL ALTER ANALYZE AND ANTI AS ASC BETWEEN BIGINT BOOLEAN BY CASE CAST COLUMNS COMMIT COPY \
    CREATE CROSS CURRENT_DATE CURRENT_TIMESTAMP DATE DELETE DESC DESCRIBE DISTINCT DOUBLE DROP ELSE END EXCEPT EXISTS \
    EXPLAIN EXTERNAL EXTRACT FALSE FILTER FIRST FOLLOWING FROM FULL FUNCTIONS GROUP HAVING ILIKE IN INNER INSERT INT \
    INTERSECT INTERVAL INTO IS JOIN LAST LATERAL LEFT LIKE LIMIT LOCATION NATURAL NOT NULL NULLS OFFSET ON OPTIONS OR \
    ORDER OUTER OVER PARTITION PARTITIONED PRECEDING QUALIFY RANGE RECURSIVE RIGHT ROLLBACK ROWS SELECT SEMI SET SHOW \
    START STORED SUMMARIZE TABLE TABLES THEN TIMESTAMP TO TRANSACTION TRUE UNBOUNDED UNION UNNEST UPDATE USING VALUES \
    VARCHAR VIEW WHEN WHERE WINDOW WITH";

/// Words after which a table comes.
const BEFORE_TABLES: [&str; 9] = ["FROM", "JOIN", "INTO", "UPDATE", "TABLE", "DESCRIBE", "SUMMARIZE", "COPY", "VIEW"];

/// Most columns of tables that a statement has not named yet: more would be a wall.
const MOST_UNNAMED: usize = 200;

/// What there is to add.
#[derive(Default)]
pub(super) struct Words {
    tables: Vec<Table>,
    functions: Vec<String>,
    /// The lines of the statement before the one that is being typed.
    before: String,
}

struct Table {
    name: String,
    columns: Vec<String>,
}

impl Words {
    /// The names that the session knows.
    pub(super) async fn of(ctx: &SessionContext) -> Self {
        let mut words = Self::default();
        let config = ctx.copied_config();
        let names = &config.options().catalog;
        let schema = ctx.catalog(&names.default_catalog).and_then(|all| all.schema(&names.default_schema));
        if let Some(schema) = schema {
            for name in schema.table_names() {
                // A table that cannot be opened still has its name.
                let table = schema.table(&name).await.ok().flatten();
                let columns = |table: &dyn datafusion::catalog::TableProvider| {
                    table.schema().fields().iter().map(|field| field.name().clone()).collect()
                };
                let columns = table.map(|table| columns(table.as_ref())).unwrap_or_default();
                words.tables.push(Table { name, columns });
            }
        }
        let state = ctx.state();
        let functions = state.scalar_functions().keys().chain(state.aggregate_functions().keys());
        words.functions = functions.chain(state.window_functions().keys()).cloned().collect();
        words.tables.sort_by(|a, b| a.name.cmp(&b.name));
        words.functions.sort();
        words.functions.dedup();
        words
    }

    /// Whether these, sorted, are the tables it knows.
    pub(super) fn knows(&self, names: &[String]) -> bool {
        self.tables.iter().map(|table| &table.name).eq(names)
    }

    /// Notes the lines of the statement that were typed already.
    pub(super) fn before(&mut self, lines: &str) {
        lines.clone_into(&mut self.before);
    }

    /// What may stand at `pos` of `line` in place of what follows the first number.
    fn candidates(&self, line: &str, pos: usize) -> (usize, Vec<String>) {
        let typed = &line[..pos];
        if self.before.is_empty() && Command::is_one(typed) {
            return self.of_command(typed);
        }
        let statement = format!("{}{typed}", self.before);
        if statement.matches('\'').count() % 2 == 1 {
            let start = typed.rfind('\'').map_or(0, |quote| quote + 1);
            return (start, files(&typed[start..]));
        }
        let start = typed.rfind(|c: char| !is_part(c)).map_or(0, |at| at + char_at(typed, at));
        let word = &typed[start..];
        let whole = format!("{}{line}", self.before);
        let mut found = match typed[..start].strip_suffix('.') {
            Some(qualified) => self.columns_of(last_name(qualified), &whole),
            None => self.of_statement(&statement[..statement.len() - word.len()], word, &whole),
        };
        found.retain(|name| begins(name.trim_start_matches('"'), word));
        (start, found)
    }

    /// Names and arguments of commands.
    fn of_command(&self, typed: &str) -> (usize, Vec<String>) {
        let indent = typed.len() - typed.trim_start().len();
        let Some(space) = typed[indent..].find(' ').map(|at| indent + at) else {
            let names = Command::names().filter(|name| name.starts_with(typed.trim_start()));
            return (indent, names.map(str::to_owned).collect());
        };
        let start = space + typed[space..].len() - typed[space..].trim_start().len();
        let argument = &typed[start..];
        let Ok(command) = Command::parse(&format!("{} x", &typed[..space])) else { return (start, Vec::new()) };
        let mut found: Vec<String> = match command.kind {
            Kind::Columns => self.tables.iter().map(|table| table.name.clone()).collect(),
            Kind::Functions => self.functions.clone(),
            Kind::Format => {
                let names = Format::value_variants().iter().filter_map(ValueEnum::to_possible_value);
                names.map(|name| name.get_name().to_owned()).collect()
            }
            Kind::Output | Kind::Read => return (start, files(argument)),
            Kind::Figures | Kind::Pager => vec!["on".into(), "off".into()],
            _ => Vec::new(),
        };
        found.retain(|name| begins(name, argument));
        (start, found)
    }

    /// What may follow `before` in the statement `whole`.
    fn of_statement(&self, before: &str, word: &str, whole: &str) -> Vec<String> {
        let last = before.trim_end().rsplit(|c: char| !is_part(c)).next().unwrap_or_default();
        let last_is_whole = before.ends_with(char::is_whitespace);
        let is_after = |words: &[&str]| last_is_whole && words.iter().any(|known| known.eq_ignore_ascii_case(last));
        let tables = self.tables.iter().map(|table| quoted(&table.name));
        if is_after(&BEFORE_TABLES) {
            return tables.collect();
        }
        let named: Vec<&Table> =
            self.tables.iter().filter(|table| names(whole).any(|name| name == table.name)).collect();
        let mut columns: Vec<String> = match named.is_empty() {
            true => self.tables.iter().flat_map(|table| &table.columns).take(MOST_UNNAMED).map(|c| quoted(c)).collect(),
            false => named.iter().flat_map(|table| &table.columns).map(|column| quoted(column)).collect(),
        };
        columns.sort();
        columns.dedup();
        if word.is_empty() {
            return columns;
        }
        let is_upper = !word.contains(char::is_lowercase);
        let keywords = KEYWORDS.split_whitespace().filter(|keyword| begins(keyword, word));
        let cased = |keyword: &str| if is_upper { keyword.to_owned() } else { keyword.to_lowercase() };
        let keywords: Vec<_> = keywords.map(|keyword| cased(keyword) + " ").collect();
        // Who writes words of SQL in capitals does not write functions so.
        let functions = self.functions.iter().filter(|_| !is_upper || keywords.is_empty());
        let functions = functions.map(|name| format!("{name}("));
        columns.into_iter().chain(tables).chain(keywords.clone()).chain(functions).collect()
    }

    /// The columns of a table, or of the one that the statement calls so.
    fn columns_of(&self, qualifier: &str, statement: &str) -> Vec<String> {
        let is_it = |table: &&Table| table.name == qualifier;
        let words: Vec<&str> = names(statement).collect();
        let called = |at: usize| {
            let named = if words[at - 1].eq_ignore_ascii_case("as") { at.checked_sub(2)? } else { at - 1 };
            self.tables.iter().find(|table| table.name == words[named])
        };
        let aliased = || (1..words.len()).filter(|&at| words[at] == qualifier).find_map(called);
        let table = self.tables.iter().find(is_it).or_else(aliased);
        table.map(|table| table.columns.iter().map(|column| quoted(column)).collect()).unwrap_or_default()
    }
}

/// The name at the end of a text, without its quotes.
fn last_name(text: &str) -> &str {
    match text.strip_suffix('"') {
        Some(inner) => inner.rsplit('"').next().unwrap_or_default(),
        None => text.rsplit(|c: char| !is_part(c)).next().unwrap_or_default(),
    }
}

/// Whether a name may have it without quotes.
fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn char_at(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(0, char::len_utf8)
}

fn begins(name: &str, word: &str) -> bool {
    name.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// The words of a statement, and what stands in double quotes as one.
fn names(statement: &str) -> impl Iterator<Item = &str> {
    let parts = statement.split('"').enumerate();
    parts.flat_map(|(number, part)| {
        let (whole, words) = if number % 2 == 1 { (Some(part), "") } else { (None, part) };
        whole.into_iter().chain(words.split(|c: char| !is_part(c)).filter(|word| !word.is_empty()))
    })
}

/// A name as SQL needs it.
fn quoted(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !KEYWORDS.split_whitespace().any(|keyword| keyword.eq_ignore_ascii_case(name));
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The files and folders whose paths begin with `start`.
fn files(start: &str) -> Vec<String> {
    let (folder, name) = start.rsplit_once('/').map_or(("", start), |(folder, name)| (folder, name));
    let prefix = if start.contains('/') { format!("{folder}/") } else { String::new() };
    let folder = match prefix.as_str() {
        "" => Path::new("."),
        prefix => Path::new(prefix),
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let entries = entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path().is_dir())));
    let entries =
        entries.filter(|(entry, _)| entry.starts_with(name) && (name.starts_with('.') || !entry.starts_with('.')));
    let mut found: Vec<_> =
        entries.map(|(entry, is_folder)| format!("{prefix}{entry}{}", if is_folder { "/" } else { "" })).collect();
    found.sort();
    found
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, found) = self.candidates(line, pos);
        let pair = |name: String| Pair { display: crate::output::printable(&name).into_owned(), replacement: name };
        Ok((start, found.into_iter().map(pair).collect()))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}

impl Validator for Words {}

impl Helper for Words {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn words() -> Words {
        let table = |name: &str, columns: &[&str]| Table {
            name: name.into(),
            columns: columns.iter().map(|&column| column.into()).collect(),
        };
        Words {
            tables: vec![table("Day Book", &["at", "Sum"]), table("items", &["id", "price", "order"])],
            functions: vec!["max".into(), "md5".into()],
            before: String::new(),
        }
    }

    /// What is offered where the bar stands.
    fn offered(line: &str) -> Vec<String> {
        let pos = line.find('|').unwrap();
        words().candidates(&line.replace('|', ""), pos).1
    }

    #[test]
    fn what_may_follow_is_offered() {
        assert_eq!(offered("SELECT pr|"), ["price", "preceding "]);
        assert_eq!(offered("SELECT PR|"), ["price", "PRECEDING "]);
        assert_eq!(offered("select m|"), ["max(", "md5("]);
        assert_eq!(offered("SELECT * FROM |"), ["\"Day Book\"", "items"]);
        assert_eq!(offered("SELECT * from d|"), ["\"Day Book\""]);
        assert_eq!(offered("SELECT | FROM items"), ["\"order\"", "id", "price"]);
        assert_eq!(offered("SELECT S| FROM \"Day Book\"")[0], "\"Sum\"");
        assert!(!offered("SELECT p| FROM \"Day Book\"").contains(&"price".to_owned()));
        assert_eq!(offered("ä SEL|"), ["SELECT "]);
        assert_eq!(offered("SELECT MA|"), ["max("]);
    }

    #[test]
    fn columns_follow_their_table() {
        assert_eq!(offered("SELECT items.p|"), ["price"]);
        assert_eq!(offered("SELECT i.| FROM items AS i"), ["id", "price", "\"order\""]);
        assert_eq!(offered("SELECT i.| FROM items i"), ["id", "price", "\"order\""]);
        assert_eq!(offered("SELECT \"Day Book\".a|"), ["at"]);
        assert!(offered("SELECT x.|").is_empty());
    }

    #[test]
    fn commands_have_their_arguments() {
        assert_eq!(offered(".ta|"), [".tables"]);
        assert_eq!(offered("\\d|"), ["\\dt", "\\d", "\\df"]);
        assert_eq!(offered(".mode nd|"), ["ndjson"]);
        assert_eq!(offered("\\d it|"), ["items"]);
        assert!(offered(".read src/s|").contains(&"src/sql/".to_owned()));
    }

    #[test]
    fn files_are_offered_in_quotes() {
        assert_eq!(offered("SELECT * FROM 'Cargo.t|"), ["Cargo.toml"]);
        let mut words = words();
        words.before("SELECT 'a',\n'");
        assert_eq!(words.candidates("Cargo.t", 7), (0, vec!["Cargo.toml".into()]));
    }
}
