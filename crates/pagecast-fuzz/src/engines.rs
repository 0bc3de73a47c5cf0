//! Sessions over the same tables: pagecast over the files, set up as people have it and in many
//! other ways; and plain DataFusion, which tells whose a difference is.

pub(crate) mod declared;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use datafusion::common::exec_err;
use datafusion::datasource::MemTable;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::error::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, displayable, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use pagecast::{Pool, PoolOptions};
use pagecast_core::policy::PolicySpec;
use pagecast_core::random::Random;
use pagecast_corrections::CorrectedParquet;
use pagecast_datafusion::{Delivery, HostOptions, install_with};
use pagecast_sql::tables::{Found, discover};
use pagecast_sql::{Options, Place, grace_join, semantics, to_disk};
use serde::{Deserialize, Serialize};

use self::declared::{declaration, declared};
use crate::naive::MOST_ROWS;
use crate::tables::{Folder, Layout, Table};
use crate::value::texts;

/// A statement that takes longer stands still, also on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(600);

/// How a session of pagecast is set up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Setting {
    /// Whether it is opened as the command opens it, and not put together here.
    pub(crate) door: bool,
    delivery: Ordering,
    policy: String,
    pool: u64,
    /// Bytes that sorts, joins and aggregates may take.
    memory: Option<u64>,
    least_chunks: usize,
    partitions: usize,
    batch: usize,
    hash_joins: bool,
    join_in_chunks: bool,
    pushdown: bool,
    /// Whether statistics leave out row groups.
    pruning: bool,
    page_index: bool,
    dynamic_filters: bool,
    /// Whether small files are divided among partitions.
    divided: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Ordering {
    Stock,
    InOrder,
    OutOfOrder,
}

impl Setting {
    pub(crate) fn any(random: &mut Random) -> Self {
        let policies = ["pbm", "pbm", "clock", "lru", "sieve"];
        Self {
            door: random.below(3) == 0,
            delivery: [Ordering::OutOfOrder, Ordering::OutOfOrder, Ordering::InOrder, Ordering::Stock]
                [random.below(4) as usize],
            policy: policies[random.below(5) as usize].to_owned(),
            pool: [64 << 10, 256 << 10, 1 << 20, 4 << 20][random.below(4) as usize],
            memory: (random.below(4) == 0).then(|| [2 << 20, 8 << 20, 64 << 20][random.below(3) as usize]),
            least_chunks: 2 + random.below(3) as usize,
            partitions: 1 + random.below(4) as usize,
            batch: [64, 1000, 8192][random.below(3) as usize],
            hash_joins: random.below(2) == 0,
            join_in_chunks: random.below(4) > 0,
            pushdown: random.below(2) == 0,
            pruning: random.below(8) > 0,
            page_index: random.below(3) > 0,
            dynamic_filters: random.below(4) > 0,
            divided: random.below(2) == 0,
        }
    }

    /// Simpler ones.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let simple = Self {
            door: false,
            delivery: Ordering::Stock,
            policy: "clock".to_owned(),
            pool: 4 << 20,
            memory: None,
            partitions: 1,
            batch: 8192,
            hash_joins: true,
            join_in_chunks: false,
            pushdown: false,
            pruning: false,
            page_index: false,
            dynamic_filters: false,
            divided: false,
            ..self.clone()
        };
        let with = |change: &dyn Fn(&mut Self)| {
            let mut other = self.clone();
            change(&mut other);
            other
        };
        let smaller = [
            with(&|other| other.door = simple.door),
            with(&|other| other.delivery = simple.delivery),
            with(&|other| other.policy = simple.policy.clone()),
            with(&|other| other.pool = simple.pool),
            with(&|other| other.memory = simple.memory),
            with(&|other| other.partitions = simple.partitions),
            with(&|other| other.batch = simple.batch),
            with(&|other| other.hash_joins = simple.hash_joins),
            with(&|other| other.join_in_chunks = simple.join_in_chunks),
            with(&|other| other.pushdown = simple.pushdown),
            with(&|other| other.pruning = simple.pruning),
            with(&|other| other.page_index = simple.page_index),
            with(&|other| other.dynamic_filters = simple.dynamic_filters),
            with(&|other| other.divided = simple.divided),
        ];
        smaller.into_iter().filter(|other| other != self).collect()
    }

    /// A session of DataFusion without tables.
    fn context(&self, config: SessionConfig) -> Result<SessionContext> {
        let mut runtime = RuntimeEnvBuilder::new();
        if let Some(memory) = self.memory {
            runtime = runtime.with_memory_limit(memory as usize, 1.0);
        }
        Ok(SessionContext::new_with_config_rt(config, runtime.build_arc()?))
    }

    fn delivery(&self) -> Delivery {
        match self.delivery {
            Ordering::Stock => Delivery::Stock,
            Ordering::InOrder => Delivery::InOrder,
            Ordering::OutOfOrder => Delivery::OutOfOrder,
        }
    }

    fn config(&self) -> SessionConfig {
        // By its name it sets those of joins, aggregates and first rows, too.
        let mut config = SessionConfig::new()
            .with_target_partitions(self.partitions)
            .with_batch_size(self.batch)
            .set_bool("datafusion.optimizer.enable_dynamic_filter_pushdown", self.dynamic_filters);
        let options = config.options_mut();
        options.execution.parquet.pushdown_filters = self.pushdown;
        options.execution.parquet.pruning = self.pruning;
        options.execution.parquet.enable_page_index = self.page_index;
        if self.divided {
            options.optimizer.repartition_file_min_size = 1 << 10;
        }
        if self.hash_joins { config } else { grace_join::preferred(config) }
    }
}

/// A session, and its pool if it has one.
pub(crate) struct Engine {
    ctx: SessionContext,
    pool: Option<Pool>,
    has_limit: bool,
    /// Why tables are missing.
    closed: Vec<String>,
    /// What the session stands on, if it was opened as the command opens it.
    _opened: Option<pagecast_sql::Engine>,
}

/// How a statement ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Rows(Vec<String>),
    /// For want of memory or room, where a limit was set.
    Refused,
    Failed(String),
}

/// How often each rule of the host changed a plan.
pub type ByRule = BTreeMap<String, u64>;

impl Engine {
    fn new(ctx: SessionContext, pool: Option<Pool>, setting: &Setting) -> Self {
        Self { ctx, pool, has_limit: setting.memory.is_some(), closed: Vec::new(), _opened: None }
    }

    /// DataFusion over the rows that the tables should have, set up as pagecast is.
    pub(crate) fn of_rows(tables: &[Table], setting: &Setting) -> Result<Self> {
        let ctx = setting.context(setting.config())?;
        for table in tables {
            ctx.register_table(table.name.as_str(), Arc::new(in_memory(table)?))?;
        }
        Ok(Self::new(ctx, None, setting))
    }

    /// DataFusion over the files without a pool, set up as pagecast is. `own`: it finds out itself
    /// what a folder holds.
    pub(crate) async fn of_files(tables: &[Table], folder: &Path, setting: &Setting, own: bool) -> Result<Self> {
        let ctx = setting.context(setting.config())?;
        let mut engine = Self::new(ctx, None, setting);
        engine.closed = register(&engine.ctx, tables, folder, own).await?;
        Ok(engine)
    }

    /// pagecast over the files.
    pub(crate) async fn of_pool(tables: &[Table], folder: &Path, setting: &Setting) -> Result<Self> {
        let is_of_command = |table: &Table| matches!(table.layout, Layout::DeclaredHive | Layout::Written { .. });
        if setting.door || tables.iter().any(is_of_command) {
            return Self::of_command(tables, folder, setting).await;
        }
        let ctx = setting.context(semantics::configured(setting.config()))?;
        semantics::install(&ctx)?;
        let policy = PolicySpec::parse(&setting.policy).map_err(|error| anyhow::anyhow!("{error}"))?;
        let pool = Pool::new(PoolOptions::default().memory(setting.pool).page_size(4096).policy(policy))?;
        pagecast_delta::install(&ctx)?;
        let options = HostOptions::default()
            .delivery(setting.delivery())
            .least_chunks(setting.least_chunks)
            .join_memory(setting.join_in_chunks.then_some(0));
        install_with(&ctx, pool.clone(), options)?;
        to_disk(&ctx);
        let mut engine = Self::new(ctx, Some(pool), setting);
        engine.closed = register(&engine.ctx, tables, folder, false).await?;
        Ok(engine)
    }

    /// The same as the command opens it.
    async fn of_command(tables: &[Table], folder: &Path, setting: &Setting) -> Result<Self> {
        let options = Options {
            data: Some(Place::from(folder.to_owned())),
            bounded: false,
            allowed: Vec::new(),
            endpoint: None,
            memory: Some((setting.pool + setting.memory.unwrap_or(256 << 20)).max(32 << 20)),
            flash: None,
            policy: setting.policy.clone(),
            seed: 1,
            delivery: setting.delivery(),
            temp: None,
            max_temp: None,
            recorder: None,
        };
        let opened = match pagecast_sql::Engine::open(options, setting.config()).await {
            Ok(opened) => opened,
            // Not one table can be read.
            Err(error) => {
                let mut engine = Self::new(SessionContext::new(), None, setting);
                engine.closed = vec![format!("{error:?}")];
                return Ok(engine);
            }
        };
        let mut engine = Self::new(opened.ctx.clone(), Some(opened.pool.clone()), setting);
        // The command always has one.
        engine.has_limit = true;
        engine.closed = opened.closed.iter().map(|closed| format!("{:#}", closed.fault)).collect();
        for table in tables {
            let folder = folder.join(&table.name);
            if !matches!(table.layout, Layout::Declared { .. } | Layout::DeclaredHive) {
                continue;
            }
            engine.ctx.deregister_table(table.name.as_str())?;
            match declaration(table, &folder) {
                Some(sql) => {
                    if let Err(error) = engine.ctx.sql(&sql).await {
                        engine.closed.push(error.to_string());
                    }
                }
                None => {
                    let is_ordered = table.layout == Layout::Declared { ordered: true };
                    let declared = declared(table.schema(), &folder, is_ordered, corrected()?)?;
                    engine.ctx.register_table(table.name.as_str(), Arc::new(declared))?;
                }
            }
        }
        engine._opened = Some(opened);
        Ok(engine)
    }

    /// Whether all tables can be read.
    pub(crate) fn has_all(&self) -> bool {
        self.closed.is_empty()
    }

    /// Runs a statement in a task of its own, and counts the rules that changed its plan.
    pub(crate) async fn run(&self, sql: String) -> (Outcome, ByRule) {
        let ctx = self.ctx.clone();
        let ran = tokio::spawn(async move {
            let (plan, text) = planned(&ctx, &sql).await?;
            Ok::<_, DataFusionError>((all_rows(plan, &ctx).await, rules(&text)))
        });
        let task = ran.abort_handle();
        match tokio::time::timeout(PATIENCE, ran).await {
            Ok(Ok(Ok((Ok(rows), rules)))) => (Outcome::Rows(rows), rules),
            Ok(Ok(Ok((Err(error), rules)))) => (self.failed(&error.to_string()), rules),
            Ok(Ok(Err(error))) => (self.failed(&error.to_string()), ByRule::new()),
            Ok(Err(stopped)) => (Outcome::Failed(format!("a panic: {stopped}")), ByRule::new()),
            Err(_) => {
                task.abort();
                (Outcome::Failed(format!("no end within {} s", PATIENCE.as_secs())), ByRule::new())
            }
        }
    }

    /// How a statement is planned.
    pub(crate) async fn plan(&self, sql: &str) -> Result<String> {
        Ok(planned(&self.ctx, sql).await?.1)
    }

    /// Reads the first rows of a statement and turns away.
    pub(crate) async fn begin(&self, sql: String) {
        let ctx = self.ctx.clone();
        let began = tokio::spawn(async move {
            let Ok((plan, _)) = planned(&ctx, &sql).await else { return };
            if let Ok(mut rows) = execute_stream(plan, ctx.task_ctx()) {
                _ = rows.next().await;
            }
        });
        // A panic would show in `run`, too.
        _ = began.await;
    }

    /// What of ended statements is left in the pool, and stays there.
    pub(crate) async fn left_over(&self) -> Option<String> {
        let pool = self.pool.as_ref()?;
        let left = || (pool.scans().len(), pool.unordered_scans().len(), pool.pinned());
        let begin = Instant::now();
        // Tasks that were given up end when they have their turn.
        while left() != (0, 0, 0) && begin.elapsed() < PATIENCE {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let left = left();
        (left != (0, 0, 0)).then(|| format!("{left:?} scans, scans out of order and pins are left in the pool"))
    }

    fn failed(&self, error: &str) -> Outcome {
        let is_refusal = error.contains("Resources exhausted") || error.contains("Memory limit");
        // A column of intervals may be refused by name.
        let is_interval = error.to_lowercase().contains("interval") && !error.contains("Internal error");
        let is_expected = self.has_limit && is_refusal || is_interval;
        let closed = self.closed.iter().map(|closed| format!("; closed: {closed}")).collect::<String>();
        if is_expected { Outcome::Refused } else { Outcome::Failed(format!("{error}{closed}").replace('\n', " ")) }
    }
}

/// The plan of a statement, and how it reads.
async fn planned(ctx: &SessionContext, sql: &str) -> datafusion::error::Result<(Arc<dyn ExecutionPlan>, String)> {
    let plan = semantics::frame(ctx, sql).await?.create_physical_plan().await?;
    let text = displayable(plan.as_ref()).indent(false).to_string();
    Ok((plan, text))
}

/// The rows as texts, for batches may hold more than their rows: all of a dictionary, say.
async fn all_rows(plan: Arc<dyn ExecutionPlan>, ctx: &SessionContext) -> datafusion::error::Result<Vec<String>> {
    let mut stream = execute_stream(plan, ctx.task_ctx())?;
    let mut all = Vec::new();
    while let Some(batch) = stream.next().await.transpose()? {
        if all.len() + batch.num_rows() > MOST_ROWS {
            return exec_err!("more than {MOST_ROWS} rows");
        }
        all.extend(texts(&[batch]).map_err(|error| DataFusionError::External(error.into()))?);
    }
    Ok(all)
}

fn rules(plan: &str) -> ByRule {
    let mut rules = ByRule::new();
    let marks = [
        ("CooperativeMergeJoinExec", "join in chunks"),
        ("GraceJoinExec", "join by way of the disk"),
        ("delivery=out-of-order", "out of order"),
        ("delivery=in-order", "in order"),
        ("streams=first", "one stream"),
    ];
    for (mark, rule) in marks {
        if plan.contains(mark) {
            *rules.entry(rule.to_owned()).or_default() += 1;
        }
    }
    for kept in plan.split("join=as planned (").skip(1) {
        let why: String = kept.chars().take_while(|&letter| letter != ')').collect();
        // Without the numbers in it.
        let why = why.split(|letter: char| letter.is_ascii_digit()).collect::<Vec<_>>().join("N");
        *rules.entry(format!("join as planned: {why}")).or_default() += 1;
    }
    rules
}

fn in_memory(table: &Table) -> Result<MemTable> {
    let partitions = table.all_rows()?.into_iter().map(|rows| vec![rows]).collect();
    Ok(MemTable::try_new(table.schema(), partitions)?)
}

/// Whether DataFusion alone reads it: it has no Delta tables, and takes the folder of NULL for a
/// value.
fn is_read_rightly(table: &Table) -> bool {
    let has_null_folder = table.files.iter().any(|file| file.folder == Some(Folder::Null));
    let is_parquet = table.files.iter().all(|file| file.name.ends_with(".parquet"));
    !matches!(table.layout, Layout::Delta { .. } | Layout::Written { .. }) && !has_null_folder && is_parquet
}

/// The format that a program gives its tables.
fn corrected() -> Result<Arc<dyn FileFormat>> {
    CorrectedParquet::of(&ParquetFormat::default()).context("the format of Parquet is another one")
}

/// Declared tables are a program's; of the others pagecast finds out what they are. If
/// DataFusion's `own` are wanted, what it cannot read rightly is in memory. Says why tables are
/// missing.
async fn register(ctx: &SessionContext, tables: &[Table], folder: &Path, own: bool) -> Result<Vec<String>> {
    // Where nothing is a table there is no list of those that are closed.
    let Found { tables: mut found, closed } = match discover(folder) {
        Ok(found) => found,
        Err(error) => return Ok(vec![format!("{error:#}")]),
    };
    let mut closed: Vec<String> = closed.iter().map(|closed| format!("{:#}", closed.fault)).collect();
    for table in tables {
        let Some(known) = found.iter().position(|found| found.name == table.name) else { continue };
        let known = found.swap_remove(known);
        let folder = folder.join(&table.name);
        let provider = match &table.layout {
            Layout::Declared { ordered } => {
                let format = if own { Arc::new(ParquetFormat::default()) } else { corrected()? };
                Arc::new(declared(table.schema(), &folder, *ordered, format)?) as _
            }
            _ if own && !is_read_rightly(table) => Arc::new(in_memory(table)?) as _,
            _ => match known.provider(ctx).await {
                // Types decide which casts a plan has.
                Ok(provider) if own => {
                    Arc::new(declared(provider.schema(), &folder, false, Arc::new(ParquetFormat::default()))?) as _
                }
                Ok(provider) => provider,
                Err(error) => {
                    closed.push(format!("{error:#}"));
                    continue;
                }
            },
        };
        ctx.register_table(table.name.as_str(), provider)?;
    }
    Ok(closed)
}
