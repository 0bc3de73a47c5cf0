//! Tables, a pool and DataFusion over both.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use datafusion::execution::memory_pool::TrackConsumersPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use pagecast::storage::MeteredStore;
use pagecast::{FlashOptions, Pool, PoolError, PoolOptions, Recorder};
use pagecast_core::policy::PolicySpec;
use pagecast_datafusion::{Delivery, Host, HostOptions};

use crate::budget::Budget;
use crate::error::{OpenError, Setting, misuse};
use crate::expected;
use crate::held;
use crate::left_to_turn::LeftToTurn;
use crate::listed;
use crate::logs;
use crate::place::Place;
use crate::reading::Reading;
use crate::results;
use crate::semantics;
use crate::stores::{OnDemand, Source};
use crate::tables::{self, Closed, Found, Table};
use crate::temporary;
use crate::watched;
use crate::whole_files;
use crate::{grace_groups, grace_join, grace_windows};

/// After so many rows that are mostly groups of their own, they are handed on as they are.
const PROBED: &str = "datafusion.execution.skip_partial_aggregation_probe_rows_threshold";
/// Bytes for a session on a machine that does not say how many it has.
const UNKNOWN_MACHINE: u64 = 1 << 30;
/// Those that hold the most memory are named where there is too little.
const NAMED: NonZeroUsize = NonZeroUsize::new(5).unwrap();

/// Where the tables are, and the pool that they are read through.
#[derive(Clone)]
pub struct Options {
    /// A file, a Delta table, or a folder of them, or a URL; without it there are no tables at
    /// first.
    pub data: Option<Place>,
    /// Whether files that lie outside of the data are refused, also where a link leads there.
    pub bounded: bool,
    /// Folders beside the data in which logs of Delta tables may name files.
    pub allowed: Vec<PathBuf>,
    /// Where the store of the data is, if its provider has it elsewhere.
    pub endpoint: Option<String>,
    /// Bytes for pages of files and for statements together; without it, half of what the machine
    /// or the process's group has.
    pub memory: Option<u64>,
    /// A folder for what statements may not keep in memory; without it, that of the system.
    pub temp: Option<PathBuf>,
    /// Bytes of that at most; without it, 100 GiB.
    pub max_temp: Option<u64>,
    /// A tier of the pool on flash.
    pub flash: Option<FlashOptions>,
    /// Replacement policy of the pool.
    pub policy: String,
    /// Seed of the policy.
    pub seed: u64,
    /// In which order row groups are delivered, where the statement does not say.
    pub delivery: Delivery,
    /// Who hears of each request for a page of the pool.
    pub recorder: Option<Arc<dyn Recorder>>,
}

/// Tables, a pool and DataFusion over both.
pub struct Engine {
    /// Runs SQL.
    pub ctx: SessionContext,
    /// What reads go through.
    pub pool: Pool,
    /// What tells the pool of scans.
    pub host: Arc<Host>,
    /// The tables of [`Options::data`].
    pub tables: Vec<Table>,
    /// Those that cannot be read.
    pub closed: Vec<Closed>,
    /// Where the tables are, if that is an object store, and what it was asked.
    pub store: Option<MeteredStore>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("tables", &self.tables).field("closed", &self.closed).finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens the pool and the tables, in a runtime of tokio.
    ///
    /// # Errors
    ///
    /// An option that cannot be met. A table that cannot be read is closed, unless all are.
    pub async fn open(options: Options, config: SessionConfig) -> Result<Self, OpenError> {
        held::follow_tasks();
        let memory = options.memory.unwrap_or_else(half_of_the_machine);
        let pool = open_pool(&options, memory)?;
        let budget = Budget::new(memory, pool.clone());
        let operators = LeftToTurn::new(Budget::of_operators(memory) as usize, budget.clone());
        let operators = TrackConsumersPool::new(operators, NAMED);
        let mut runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(operators));
        if !options.bounded {
            let stores = OnDemand::new(options.endpoint.clone());
            runtime = runtime.with_object_store_registry(Arc::new(stores));
        }
        let config = semantics::configured(config.with_information_schema(true));
        let config = config.set_usize(PROBED, probed_rows(Budget::of_operators(memory)));
        let (files, config) = temporary::folder(options.temp.clone(), options.max_temp, config)?;
        let runtime = runtime.with_disk_manager_builder(files);
        let ctx = SessionContext::new_with_config_rt(config, runtime.build_arc().context("no runtime for SQL")?);
        semantics::install(&ctx).map_err(|error| anyhow!(tables::message(&error)))?;
        let (mut found, store) = find(&options, &ctx).await?;
        let bounds = bounds(&options)?;
        if let Some(bounds) = &bounds {
            found.close_outside(bounds);
        }
        logs::install(&ctx, &options.allowed).map_err(|error| anyhow!(tables::message(&error)))?;
        listed::install(&ctx);
        // Before the tables, so that what is read to know their columns comes once.
        let host = pagecast_datafusion::install_with(&ctx, pool.clone(), host_options(&options, memory))?;
        if let Some(bounds) = bounds {
            host.keep_inside(bounds);
        }
        expected::install(&ctx, &host);
        watched::install(&ctx, budget.clone());
        whole_files::install(&ctx);
        to_disk(&ctx);
        results::bound(&ctx, &budget).map_err(|error| anyhow!(tables::message(&error)))?;
        host.ask_before_reads(Arc::new(Reading::new(budget)));
        let (tables, mut closed) = register(&ctx, found).await;
        if tables.is_empty() && !closed.is_empty() {
            return Err(closed.swap_remove(0).fault.into());
        }
        Ok(Self { ctx, pool, host, tables, closed, store })
    }
}

/// Has joins, groups and windows of a session go to disk where they do not fit its memory. What
/// else rewrites plans comes before it.
pub fn to_disk(ctx: &SessionContext) {
    grace_join::install(ctx);
    grace_groups::install(ctx);
    grace_windows::install(ctx);
}

/// A join that would take much of the memory is done in chunks, where its tables are clustered.
fn host_options(options: &Options, memory: u64) -> HostOptions {
    HostOptions::default().delivery(options.delivery).join_memory(Some(memory / 4))
}

/// A sixteenth of the memory may go into groups until then, if each takes a kilobyte: lists and
/// texts take as much. DataFusion's own number is the most.
fn probed_rows(memory: u64) -> usize {
    (memory / 16 / 1024).clamp(10_000, 100_000) as usize
}

fn half_of_the_machine() -> u64 {
    pagecast::memory_of_machine().map_or(UNKNOWN_MACHINE, |bytes| bytes / 2)
}

/// The files or folders outside of which no file is read, if there are such bounds.
fn bounds(options: &Options) -> Result<Option<Vec<PathBuf>>, OpenError> {
    let Some(data) = options.data.as_ref().filter(|_| options.bounded) else { return Ok(None) };
    let folder = match data.url() {
        None => data.to_path_buf(),
        Some(Ok(url)) if url.scheme() == "file" => match url.to_file_path() {
            Ok(path) => path,
            Err(()) => return Err(OpenError::of(Setting::Data, misuse(format!("{} is no path", data.display())))),
        },
        // No file of this machine is among what lies elsewhere.
        Some(_) => PathBuf::from("/dev/null/nothing"),
    };
    let folders = std::iter::once(&folder).chain(&options.allowed);
    Ok(Some(folders.map(|folder| folder.canonicalize().unwrap_or_else(|_| folder.clone())).collect()))
}

fn open_pool(options: &Options, memory: u64) -> Result<Pool, OpenError> {
    let at_fault = |fault: String| OpenError::of(Setting::Policy, misuse(fault));
    let policy = PolicySpec::parse(&options.policy).map_err(|error| at_fault(error.to_string()))?;
    if policy.needs_trace() {
        let name = policy.name();
        return Err(at_fault(format!("{name} needs the future and works in the simulator")));
    }
    let mut pool = PoolOptions::default().memory(memory).policy(policy).seed(options.seed);
    pool.recorder = options.recorder.clone();
    Pool::new(pool.flash(options.flash.clone())).map_err(|error| {
        let setting = match error {
            PoolError::Open { .. } | PoolError::FlashTooSmall { .. } => Setting::Flash,
            _ => Setting::Memory,
        };
        OpenError::of(setting, misuse(error.to_string()))
    })
}

/// The tables of the data, and the store that they are in, if it is one.
async fn find(options: &Options, ctx: &SessionContext) -> Result<(Found, Option<MeteredStore>), OpenError> {
    let Some(data) = &options.data else { return Ok((Found::default(), None)) };
    let of_data = |error| OpenError::of(Setting::Data, error);
    let Some(source) = Source::of(data, options.endpoint.as_deref())? else {
        return Ok((tables::discover_allowing(data, &options.allowed).map_err(of_data)?, None));
    };
    let store = source.register(ctx)?;
    let found = source.discover_allowing(&options.allowed).await.map_err(of_data)?;
    Ok((found, (!source.is_local()).then_some(store)))
}

/// Makes what was found known to SQL. What DataFusion cannot read is closed, too.
async fn register(ctx: &SessionContext, found: Found) -> (Vec<Table>, Vec<Closed>) {
    let Found { mut tables, mut closed } = found;
    let mut faults = Vec::new();
    for table in &tables {
        let (ctx, table) = (ctx.clone(), table.clone());
        // A task of its own: a decoder that panics over a footer ends that task.
        let registered = tokio::spawn(async move { table.register(&ctx).await }).await;
        faults.push(registered.unwrap_or_else(|stopped| Err(anyhow!("its files make no sense: {stopped}"))).err());
    }
    let mut faults = faults.into_iter();
    tables.retain(|table| match faults.next().flatten() {
        Some(fault) => {
            closed.push(Closed { name: table.name.clone(), fault });
            false
        }
        None => true,
    });
    (tables, closed)
}
