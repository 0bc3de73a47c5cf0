//! A statement on which engines differ, with all that it takes to run it again.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::engines::{ByRule, Engine, Outcome, Setting};
use crate::faults::Fault;
use crate::files;
use crate::naive::World;
use crate::peers::Peers;
use crate::statements::{Same, Statement};
use crate::tables::Table;
use crate::value::{line, surplus};

/// How often a case runs until it counts as one that shows no difference: threads decide about
/// some.
const TRIES: usize = 3;

/// Tables, a statement over them, and the session in which its rows are others.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Case {
    pub(crate) tables: Vec<Table>,
    pub(crate) statement: Statement,
    pub(crate) setting: Setting,
}

/// Two results that should be the same.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Who gave the second result.
    pub whose: &'static str,
    /// How the results differ.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.whose, self.what)
    }
}

/// What every engine must answer.
pub(crate) struct Expected {
    same: Same,
    rows: Vec<String>,
    /// Without the limit.
    all: Vec<String>,
}

impl Expected {
    /// The answer that the rows give.
    ///
    /// # Errors
    ///
    /// It is not computed.
    pub(crate) fn of(statement: &Statement, world: &World) -> Result<Self> {
        let same = statement.same();
        let run = |statement: &Statement| {
            let rows = world.answer(statement)?;
            anyhow::Ok(rows.iter().map(|row| line(row)).collect::<Vec<_>>())
        };
        let all = if same == Same::Some { run(&statement.unlimited())? } else { Vec::new() };
        Ok(Self { same, rows: run(statement)?, all })
    }

    /// In what other rows differ; none if they do not.
    pub(crate) fn differs(&self, found: &[String]) -> Option<String> {
        let count = |rows: &[String]| rows.len();
        match self.same {
            Same::Order if self.rows == found => None,
            Same::Some if count(found) == count(&self.rows) && surplus(found, &self.all).is_empty() => None,
            _ => {
                let expected = if self.same == Same::Some { &self.all } else { &self.rows };
                let (missing, extra) = (surplus(expected, found), surplus(found, expected));
                let is_same = missing.is_empty() && extra.is_empty();
                if is_same && self.same == Same::Rows {
                    return None;
                }
                let some = |rows: std::collections::BTreeMap<&str, i64>| {
                    rows.keys().take(3).map(|row| row.chars().take(200).collect::<String>()).collect::<Vec<_>>()
                };
                let order = if is_same { ", in another order" } else { "" };
                let (wanted, have) = (count(&self.rows), count(found));
                Some(format!(
                    "{wanted} rows expected, {have} found{order}; missing {:?}, extra {:?}",
                    some(missing),
                    some(extra)
                ))
            }
        }
    }
}

impl Case {
    /// The statement.
    pub fn sql(&self) -> String {
        self.statement.sql()
    }

    /// The session.
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// The kind of fault that it can show.
    pub fn kind(&self) -> &'static str {
        Fault::of(None, &self.statement, &self.tables).map_or("none that is known", Fault::name)
    }

    /// Runs it, and says whether pagecast differs from what the rows say. `folder` is empty, and is
    /// left with the files.
    async fn shows(&self, folder: &Path, peers: Option<&Peers>) -> Result<Option<(Expected, String)>> {
        for table in &self.tables {
            files::write(table, &folder.join(&table.name), peers).await?;
        }
        let expected = Expected::of(&self.statement, &World::of(self.tables.iter().map(Table::known))?)?;
        for _ in 0..TRIES {
            let engine = Engine::of_pool(&self.tables, folder, &self.setting).await?;
            let (outcome, _) = engine.run(self.statement.sql()).await;
            let Some(what) = judge(&expected, outcome) else { continue };
            return Ok(Some((expected, what)));
        }
        Ok(None)
    }

    /// The same with the files that `python` writes.
    ///
    /// # Errors
    ///
    /// Files are not written, or the statement makes no sense.
    pub async fn run(&self, folder: &Path, python: Option<&str>) -> Result<Option<Difference>> {
        let peers = python.map(Peers::start).transpose()?;
        let Some((expected, what)) = self.shows(folder, peers.as_ref()).await? else { return Ok(None) };
        Ok(Some(Difference { whose: self.blame(&expected, folder).await?, what }))
    }

    /// How pagecast plans the statement over the files that [`run`](Self::run) has left.
    ///
    /// # Errors
    ///
    /// It has no plan.
    pub async fn plan(&self, folder: &Path) -> Result<String> {
        Engine::of_pool(&self.tables, folder, &self.setting).await?.plan(&self.sql()).await
    }

    /// Whose the difference is: of DataFusion, if it has it over the rows in memory, or over files
    /// without a pool and in tables of its own making, as far as it makes them.
    pub(crate) async fn blame(&self, expected: &Expected, folder: &Path) -> Result<&'static str> {
        let differs = async |engine: Engine| {
            for _ in 0..TRIES {
                if let Some(what) = judge(expected, engine.run(self.sql()).await.0) {
                    return Some(what);
                }
            }
            None
        };
        if differs(Engine::of_rows(&self.tables, &self.setting)?).await.is_some() {
            return Ok("DataFusion");
        }
        let without_pool = async |own| Engine::of_files(&self.tables, folder, &self.setting, own).await;
        let own = without_pool(true).await?;
        // What is missing says nothing of its rows.
        if own.has_all() && differs(own).await.is_some() {
            return Ok("DataFusion");
        }
        if differs(without_pool(false).await?).await.is_none() {
            return Ok("pagecast");
        }
        Ok("pagecast, without a pool")
    }

    /// Whether the statement names this table.
    fn names(&self, table: &Table) -> bool {
        self.statement.sql().contains(&format!("{} ", table.name))
    }

    /// A case that shows a difference with less. Ends after `limit`.
    pub(crate) async fn smallest(mut self, limit: Duration, peers: Option<&Peers>) -> Result<Self> {
        let begin = Instant::now();
        'again: loop {
            for smaller in self.smaller() {
                if begin.elapsed() > limit {
                    return Ok(self);
                }
                let folder = tempfile::tempdir()?;
                // What cannot be run any more shows nothing.
                if let Ok(Some(_)) = smaller.shows(folder.path(), peers).await {
                    self = smaller;
                    continue 'again;
                }
            }
            return Ok(self);
        }
    }

    fn smaller(&self) -> Vec<Self> {
        let sql = self.statement.sql();
        let mut smaller = Vec::new();
        for (at, table) in self.tables.iter().enumerate() {
            if !self.names(table) {
                let mut other = self.clone();
                other.tables.remove(at);
                smaller.push(other);
            }
        }
        let of_statement = self.statement.smaller().into_iter();
        smaller.extend(of_statement.map(|statement| Self { statement, ..self.clone() }));
        for (at, table) in self.tables.iter().enumerate() {
            smaller.extend(table.smaller(&sql).into_iter().map(|table| {
                let mut other = self.clone();
                other.tables[at] = table;
                other
            }));
        }
        smaller.extend(self.setting.smaller().into_iter().map(|setting| Self { setting, ..self.clone() }));
        smaller
    }
}

/// What is wrong with an outcome, if anything is.
pub(crate) fn judge(expected: &Expected, outcome: Outcome) -> Option<String> {
    match outcome {
        Outcome::Rows(rows) => expected.differs(&rows),
        Outcome::Refused => None,
        Outcome::Failed(error) => Some(format!("an error: {error}")),
    }
}

/// Adds the counts of one statement.
pub(crate) fn add(all: &mut ByRule, one: ByRule) {
    for (rule, count) in one {
        *all.entry(rule).or_default() += count;
    }
}
