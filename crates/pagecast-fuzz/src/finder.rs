//! Rounds of random tables and statements, and what came of them.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::future::join_all;
use pagecast_core::random::Random;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::case::{Case, Difference, Expected, add, judge};
use crate::duckdb::DuckDb;
use crate::engines::{ByRule, Engine, Outcome, Setting};
use crate::files;
use crate::rows::rows;
use crate::statements::Statement;
use crate::tables::Table;
use crate::types::Kind;

/// Statements of a round, over the same tables.
const STATEMENTS: u32 = 40;
/// Statements that run at the same time, in each session.
const TOGETHER: usize = 4;
/// Sessions of pagecast in a round, each in another setting.
const SESSIONS: usize = 3;
/// How long a difference is made smaller.
const SHRINKING: Duration = Duration::from_secs(20);
/// More differences than these are counted and not kept.
const KEPT: usize = 5;

/// What to look for, and how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of the first round; a round is the same for the same seed.
    pub seed: u64,
    /// Ends after so many statements.
    pub statements: Option<u64>,
    /// Ends after so long.
    pub time: Option<Duration>,
    /// A Python that has DuckDB's wheel, if one is to answer too.
    pub python: Option<String>,
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
    /// Results that were compared with those of plain DataFusion.
    pub compared: u64,
    /// Of DuckDB with those of plain DataFusion.
    pub compared_with_duckdb: u64,
    /// Its version, if it answered.
    pub duckdb: Option<String>,
    /// Results of pagecast that are others than plain DataFusion's.
    pub differences: u64,
    /// Differences that plain DataFusion has itself, over the same files.
    pub of_datafusion: u64,
    /// Statements on which plain DataFusion and DuckDB differ.
    pub between_peers: u64,
    /// Statements that plain DataFusion does not plan, or that found no memory.
    pub refused: u64,
    /// In how many plans each rule of the host did something.
    pub by_rule: ByRule,
    /// Time that all took.
    pub seconds: f64,
    /// Where the differences are kept.
    pub kept: Vec<PathBuf>,
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
            "compared": self.compared,
            "compared_with_duckdb": self.compared_with_duckdb,
            "duckdb": self.duckdb,
            "of_datafusion": self.of_datafusion,
            "between_peers": self.between_peers,
            "seconds": self.seconds,
        })
    }
}

/// Looks for differences, and calls `tell` after each round.
pub async fn find(options: &Options, mut tell: impl FnMut(&Report)) -> Result<Report> {
    let begin = Instant::now();
    let mut duckdb = options.python.as_deref().map(DuckDb::start).transpose()?;
    let version = duckdb.as_ref().map(|duckdb| duckdb.version.clone());
    let mut report = Report { seed: options.seed, duckdb: version, ..Report::default() };
    fs::create_dir_all(&options.folder)?;
    for seed in options.seed.. {
        if options.statements.is_some_and(|most| report.statements >= most)
            || options.time.is_some_and(|most| begin.elapsed() >= most)
        {
            break;
        }
        let mut round = Round::new(seed).await.with_context(|| format!("round {seed}"))?;
        round.run(options, duckdb.as_mut(), &mut report).await.with_context(|| format!("round {seed}"))?;
        report.seconds = begin.elapsed().as_secs_f64();
        tell(&report);
    }
    Ok(report)
}

/// Tables, and sessions over them.
struct Round {
    seed: u64,
    random: Random,
    for_joins: bool,
    tables: Vec<Table>,
    folder: TempDir,
    plain: Engine,
    sessions: Vec<(Setting, Engine)>,
    /// Statements of which a difference was kept.
    kept: Vec<String>,
}

impl Round {
    async fn new(seed: u64) -> Result<Self> {
        // Neighbours would have streams of numbers that overlap.
        let mut random = Random::new(seed.wrapping_mul(0xd134_2543_de82_ef95));
        let for_joins = random.below(2) == 0;
        let (mut key, folder) = (Kind::key(&mut random), tempfile::tempdir()?);
        while for_joins && key.domain().1 < 1000 {
            key = Kind::key(&mut random);
        }
        let mut tables = Vec::new();
        for name in ["t0", "t1", "t2"] {
            // Keys of two types that meet, at times.
            let kind = if random.below(4) == 0 { key.of_file(&mut random) } else { key.clone() };
            tables.push(Table::any(&mut random, name, &kind, for_joins));
        }
        for table in &tables {
            files::write(table, &folder.path().join(&table.name)).await?;
        }
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            let setting = Setting::any(&mut random);
            let engine = Engine::of_pool(&tables, folder.path(), &setting).await?;
            sessions.push((setting, engine));
        }
        let plain = Engine::of_rows(&tables, None).await?;
        Ok(Self { seed, random, for_joins, tables, folder, plain, sessions, kept: Vec::new() })
    }

    async fn run(&mut self, options: &Options, mut duckdb: Option<&mut DuckDb>, report: &mut Report) -> Result<()> {
        if let Some(duckdb) = &mut duckdb {
            duckdb.load(&self.tables)?;
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
            let statement = Statement::any(&mut self.random, &self.tables, self.for_joins);
            report.statements += 1;
            writeln!(under_way, "{};", statement.sql())?;
            let Some(expected) = Expected::of(&statement, &self.plain).await else {
                report.refused += 1;
                continue;
            };
            if let Some(duckdb) = duckdb.as_mut().filter(|_| statement.is_portable())
                && let Some(found) = duckdb.run(&statement.sql())?
            {
                report.compared_with_duckdb += 1;
                if let Some(what) = expected.differs(&rows(&found)?) {
                    report.between_peers += 1;
                    eprintln!("round {}: DataFusion and DuckDB: {what}\n  {}", self.seed, statement.sql());
                }
            }
            waiting.push((statement, expected));
            if waiting.len() == TOGETHER {
                self.compare(std::mem::take(&mut waiting), options, report).await?;
            }
        }
        self.compare(waiting, options, report).await?;
        fs::remove_file(path)?;
        for (setting, engine) in &self.sessions {
            if let Some(left) = engine.left_over().await {
                report.differences += 1;
                eprintln!("round {}: {left}: {setting:?}", self.seed);
            }
        }
        Ok(())
    }

    /// Runs statements in all sessions, at the same time, beside one that is not read to its end.
    async fn compare(
        &mut self,
        statements: Vec<(Statement, Expected)>,
        options: &Options,
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
                let whose = case.blame(expected, self.folder.path()).await?;
                let difference = Difference { whose, what };
                if whose == "DataFusion" {
                    report.of_datafusion += 1;
                    let text = format!("round {}: {difference}\n  {}\n  {setting:?}\n", self.seed, statement.sql());
                    let log = options.folder.join("datafusion.log");
                    fs::OpenOptions::new().create(true).append(true).open(log)?.write_all(text.as_bytes())?;
                } else {
                    report.differences += 1;
                    self.keep(case, &difference, options, report).await?;
                }
            }
        }
        Ok(())
    }

    /// Writes a difference down, as small as it gets.
    async fn keep(
        &mut self,
        case: Case,
        difference: &Difference,
        options: &Options,
        report: &mut Report,
    ) -> Result<()> {
        // Sessions mostly differ in the same way.
        let is_known = self.kept.contains(&case.sql());
        if is_known || report.kept.len() >= KEPT {
            return Ok(());
        }
        self.kept.push(case.sql());
        eprintln!("round {}: {difference}\n  {}", self.seed, case.sql());
        let small = case.smallest(difference.whose, SHRINKING).await?;
        let path = options.folder.join(format!("{}-{}.json", self.seed, report.differences));
        fs::write(&path, serde_json::to_string_pretty(&small)?)?;
        eprintln!("  smaller: {}", small.statement.sql());
        eprintln!("  again: make fuzz-sql ARGS='--case {}'", path.display());
        report.kept.push(path);
        Ok(())
    }
}
