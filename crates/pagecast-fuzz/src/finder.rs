//! Rounds of random tables and statements, and what came of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::future::join_all;
use pagecast_core::random::Random;
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::case::{Case, Expected, add, judge};
use crate::engines::{ByRule, Engine, Outcome, Setting};
use crate::faults::Fault;
use crate::files;
use crate::formats;
use crate::naive::World;
use crate::peers::Peers;
use crate::statements::Statement;
use crate::tables::{DataFile, Format, Table, Writer};
use crate::types::Kind;
use crate::value::texts;

/// Statements of a round, over the same tables.
const STATEMENTS: u32 = 40;
/// Statements that run at the same time, in each session.
const TOGETHER: usize = 4;
/// Sessions of pagecast in a round, each in another setting.
const SESSIONS: usize = 3;
/// More differences of a kind than these are counted and not kept.
const KEPT: usize = 2;

/// What to look for, and how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of the first round; a round is the same for the same seed.
    pub seed: u64,
    /// Ends after so many statements.
    pub statements: Option<u64>,
    /// Ends after so long.
    pub time: Option<Duration>,
    /// A Python that has the wheels of DuckDB and of other writers, if they are to join.
    pub python: Option<String>,
    /// Delta, Iceberg or DuckLake tables of other writers instead of files.
    pub format: Option<String>,
    /// The only kind to look for, by its name in reports.
    pub kind: Option<String>,
    /// How long a difference that is kept is made smaller.
    pub shrinking: Duration,
    /// Where differences are kept.
    pub folder: PathBuf,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// Of the first round.
    pub seed: u64,
    /// How many were made.
    pub statements: u64,
    /// Results that were compared with what the rows say.
    pub compared: u64,
    /// Those of DuckDB.
    pub compared_with_duckdb: u64,
    /// Its version, if it answered.
    pub duckdb: Option<String>,
    /// Results of pagecast that are others.
    pub differences: u64,
    /// Statements that DuckDB answers otherwise.
    pub between_peers: u64,
    /// Statements of which the answer is not computed, or that found no memory.
    pub refused: u64,
    /// Statements and differences of each kind of fault.
    pub by_kind: BTreeMap<&'static str, ByKind>,
    /// In how many plans each rule of the host did something.
    pub by_rule: ByRule,
    /// Time that all took.
    pub seconds: f64,
    /// Where the differences are kept.
    pub kept: Vec<PathBuf>,
}

/// What was asked and found of a kind.
#[derive(Debug, Default, Serialize)]
pub struct ByKind {
    /// Statements of rounds that look for it.
    pub queries: u64,
    /// Statements whose results are others in some session.
    pub differences: u64,
    /// The first round that had one, the seconds until then, and the statement.
    pub first: Option<(u64, f64, String)>,
}

impl Report {
    /// As `target/bench/fuzz-sql.json` has it.
    pub fn json(&self) -> Value {
        json!({
            "seed": self.seed,
            "queries": self.statements,
            "differences": self.differences,
            "refused": self.refused,
            "by_rule": self.by_rule,
            "by_kind": self.by_kind,
            "compared": self.compared,
            "compared_with_duckdb": self.compared_with_duckdb,
            "duckdb": self.duckdb,
            "between_peers": self.between_peers,
            "seconds": self.seconds,
        })
    }
}

/// Looks for differences, and calls `tell` after each round.
pub async fn find(options: &Options, mut tell: impl FnMut(&Report)) -> Result<Report> {
    let begin = Instant::now();
    let peers = options.python.as_deref().map(Peers::start).transpose()?;
    let version = peers.as_ref().map(|peers| peers.version.clone());
    let mut report = Report { seed: options.seed, duckdb: version, ..Report::default() };
    fs::create_dir_all(&options.folder)?;
    let only = options.kind.as_deref().map(Fault::named).transpose()?;
    let format = options.format.as_deref().map(Format::named).transpose()?;
    for seed in options.seed.. {
        if options.statements.is_some_and(|most| report.statements >= most)
            || options.time.is_some_and(|most| begin.elapsed() >= most)
        {
            break;
        }
        let mut round =
            Round::new(seed, only, format, peers.as_ref()).await.with_context(|| format!("round {seed}"))?;
        round.run(options, begin, &mut report).await.with_context(|| format!("round {seed}"))?;
        report.seconds = begin.elapsed().as_secs_f64();
        tell(&report);
    }
    Ok(report)
}

/// Tables, and sessions over them.
struct Round<'a> {
    seed: u64,
    random: Random,
    /// What it looks for.
    fault: Option<Fault>,
    for_joins: bool,
    tables: Vec<Table>,
    world: World,
    folder: TempDir,
    sessions: Vec<(Setting, Engine)>,
    peers: Option<&'a Peers>,
    /// Statements of which a difference was counted.
    different: Vec<String>,
}

impl<'a> Round<'a> {
    async fn new(seed: u64, only: Option<Fault>, format: Option<Format>, peers: Option<&'a Peers>) -> Result<Self> {
        // Neighbours would have streams of numbers that overlap.
        let mut random = Random::new(seed.wrapping_mul(0xd134_2543_de82_ef95));
        let fault = (random.below(3) > 0).then(|| Fault::any(&mut random));
        let has = |writer| peers.is_some_and(|peers| peers.has(writer));
        let fault = only.or(fault).filter(|fault| fault.needs().is_none_or(has));
        // Of the others files are what shows them.
        let fault = fault.filter(|fault| format.is_none() || fault.is_of_statements());
        let for_joins = fault.is_none() && format.is_none() && random.below(2) == 0;
        let mut key = match fault.filter(|_| format.is_none()) {
            Some(fault) => fault.key(&mut random),
            None => Kind::key(&mut random),
        };
        while for_joins && key.domain().1 < 1000 {
            key = Kind::key(&mut random);
        }
        let mut tables = Vec::new();
        for name in ["t0", "t1", "t2"] {
            // Keys of two types that meet, at times.
            let of_table = |random: &mut Random| if random.below(4) == 0 { key.of_file(random) } else { key.clone() };
            tables.push(match fault {
                _ if format.is_some() => formats::table(format.unwrap_or(Format::Delta), &mut random, name),
                Some(fault) => fault.table(&mut random, name, &key),
                None => {
                    let kind = of_table(&mut random);
                    Table::any(&mut random, name, &kind, for_joins)
                }
            });
        }
        // fastparquet writes a footer without row groups that arrow-rs takes for no Parquet.
        let is_odd = |file: &DataFile| file.writer == Writer::FastParquet && file.rows == 0;
        for file in tables.iter_mut().flat_map(|table| &mut table.files) {
            if !has(file.writer) || is_odd(file) {
                file.writer = Writer::Own;
            }
        }
        let folder = tempfile::tempdir()?;
        for table in &tables {
            files::write(table, &folder.path().join(&table.name), peers).await?;
        }
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            let setting = Setting::any(&mut random);
            let engine = Engine::of_pool(&tables, folder.path(), &setting).await?;
            sessions.push((setting, engine));
        }
        let world = World::of(tables.iter().map(Table::known))?;
        Ok(Self { seed, random, fault, for_joins, tables, world, folder, sessions, peers, different: Vec::new() })
    }

    async fn run(&mut self, options: &Options, begin: Instant, report: &mut Report) -> Result<()> {
        if let Some(peers) = self.peers {
            peers.load(&self.tables)?;
        }
        // What ends the process is found here.
        let path = options.folder.join("under-way.sql");
        let mut under_way = fs::File::create(&path)?;
        writeln!(under_way, "-- round {}", self.seed)?;
        for table in &self.tables {
            writeln!(under_way, "-- {}: {}", table.name, table.schema())?;
        }
        let mut waiting = Vec::new();
        for _ in 0..STATEMENTS {
            let statement = match self.fault {
                Some(fault) => fault.statement(&mut self.random, &self.tables),
                None => Statement::any(&mut self.random, &self.tables, self.for_joins),
            };
            report.statements += 1;
            let kind = self.fault.map_or("none that is known", Fault::name);
            report.by_kind.entry(kind).or_default().queries += 1;
            writeln!(under_way, "{};", statement.sql())?;
            let Ok(expected) = Expected::of(&statement, &self.world) else {
                report.refused += 1;
                continue;
            };
            self.ask_duckdb(&statement, &expected, report)?;
            waiting.push((statement, expected));
            if waiting.len() == TOGETHER {
                self.compare(std::mem::take(&mut waiting), options, begin, report).await?;
            }
        }
        self.compare(waiting, options, begin, report).await?;
        fs::remove_file(path)?;
        for (setting, engine) in &self.sessions {
            if let Some(left) = engine.left_over().await {
                report.differences += 1;
                eprintln!("round {}: {left}: {setting:?}", self.seed);
            }
        }
        Ok(())
    }

    /// Whether DuckDB agrees with what is computed here.
    fn ask_duckdb(&self, statement: &Statement, expected: &Expected, report: &mut Report) -> Result<()> {
        if let Some(peers) = self.peers.filter(|_| statement.is_portable())
            && let Some(found) = peers.run(&statement.sql())?
        {
            report.compared_with_duckdb += 1;
            if let Some(what) = expected.differs(&texts(&found)?) {
                report.between_peers += 1;
                eprintln!("round {}: DuckDB: {what}\n  {}", self.seed, statement.sql());
            }
        }
        Ok(())
    }

    /// Runs statements in all sessions, at the same time, beside one that is not read to its end.
    async fn compare(
        &mut self,
        statements: Vec<(Statement, Expected)>,
        options: &Options,
        start: Instant,
        report: &mut Report,
    ) -> Result<()> {
        let left = self.random.below(1 + statements.len() as u32) as usize;
        for session in 0..self.sessions.len() {
            let (setting, engine) = &self.sessions[session];
            let run = statements.iter().map(|(statement, _)| engine.run(statement.sql()));
            let begin = async {
                if let Some((statement, _)) = statements.get(left) {
                    engine.begin(statement.sql()).await;
                }
            };
            let (outcomes, ()) = futures::join!(join_all(run), begin);
            let setting = setting.clone();
            for ((statement, expected), (outcome, rules)) in statements.iter().zip(outcomes) {
                add(&mut report.by_rule, rules);
                if matches!(outcome, Outcome::Refused) {
                    report.refused += 1;
                    continue;
                }
                report.compared += 1;
                let Some(what) = judge(expected, outcome) else { continue };
                let case = Case { tables: self.tables.clone(), statement: statement.clone(), setting: setting.clone() };
                report.differences += 1;
                // Sessions mostly differ in the same way.
                if !self.different.contains(&case.sql()) {
                    self.different.push(case.sql());
                    self.keep(case, expected, &what, options, start, report).await?;
                }
            }
        }
        Ok(())
    }

    /// Counts a difference under its kind, and writes the first ones down, as small as they get.
    async fn keep(
        &mut self,
        case: Case,
        expected: &Expected,
        what: &str,
        options: &Options,
        start: Instant,
        report: &mut Report,
    ) -> Result<()> {
        let fault = Fault::of(self.fault, &case.statement, &case.tables);
        let kind = fault.map_or("none that is known", Fault::name);
        let counts = report.by_kind.entry(kind).or_default();
        counts.differences += 1;
        let (at, count) = (start.elapsed().as_secs_f64(), counts.differences);
        counts.first.get_or_insert_with(|| (self.seed, at, case.sql()));
        if count as usize > KEPT {
            return Ok(());
        }
        let whose = case.blame(expected, self.folder.path()).await?;
        eprintln!("round {}: {kind}: {whose}: {what}\n  {}", self.seed, case.sql());
        let small = case.smallest(options.shrinking, self.peers).await?;
        let path = options.folder.join(format!("{}-{}.json", self.seed, report.differences));
        pagecast::files::write(&path, serde_json::to_string_pretty(&small)?.as_bytes())?;
        eprintln!("  smaller: {}\n  by its looks: {}", small.statement.sql(), small.kind());
        eprintln!("  again: make fuzz-sql ARGS='--case {}'", path.display());
        report.kept.push(path);
        Ok(())
    }
}
