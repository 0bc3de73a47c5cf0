//! Tables, a pool and DataFusion over both: what every verb has that runs SQL for somebody.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use pagecast::storage::MeteredStore;
use pagecast::{Pool, PoolError, PoolOptions};
use pagecast_core::policy::PolicySpec;
use pagecast_datafusion::{Delivery, Host, HostOptions};

use crate::failure::{say, usage};
use crate::flash::FlashArgs;
use crate::stores::{Prices, StoreArgs};
use crate::tables::{self, Closed, Found, Table};
use crate::units::Size;

/// Where the tables are, and the pool that they are read through.
#[derive(clap::Args, Debug)]
pub(crate) struct EngineArgs {
    /// File (Parquet, CSV, JSON, Arrow), Delta table, or folder of them; each file or subfolder is
    /// a table named by its stem. Also a URL: s3://bucket/folder, gs, az, https, file; credentials
    /// come from the usual variables, for S3 also from a profile
    #[arg(long, value_name = "PATH")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Memory of the pool
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub(crate) pool: Size,
    #[command(flatten)]
    flash: FlashArgs,
    /// Replacement policy of the pool
    #[arg(long, value_name = "P", default_value = "pbm")]
    policy: String,
    /// Seed of the policy
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// In which order row groups are delivered, where the statement does not say
    #[arg(long, value_name = "D", value_enum, default_value = "out-of-order")]
    delivery: Delivered,
}

/// In which order a scan's row groups come.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Delivered {
    /// Each thread reads its share of the files
    Stock,
    /// File order, shared by all threads
    InOrder,
    /// What is in memory first, and what serves several statements
    OutOfOrder,
}

impl From<Delivered> for Delivery {
    fn from(delivered: Delivered) -> Self {
        match delivered {
            Delivered::Stock => Self::Stock,
            Delivered::InOrder => Self::InOrder,
            Delivered::OutOfOrder => Self::OutOfOrder,
        }
    }
}

/// Tables, a pool and DataFusion over both.
pub(crate) struct Engine {
    pub(crate) ctx: SessionContext,
    pub(crate) pool: Pool,
    pub(crate) host: Arc<Host>,
    pub(crate) tables: Vec<Table>,
    pub(crate) closed: Vec<Closed>,
    /// Where the tables of --data are, if that is an object store, and what it takes.
    pub(crate) store: Option<(MeteredStore, Prices)>,
}

impl Engine {
    /// Opens the pool and the tables. `memory` is the most that DataFusion may take.
    pub(crate) async fn open(args: &EngineArgs, memory: Option<Size>, config: SessionConfig) -> anyhow::Result<Self> {
        let pool = open_pool(args)?;
        let mut runtime = RuntimeEnvBuilder::new();
        if let Some(limit) = memory_limit(memory)? {
            runtime = runtime.with_memory_limit(limit as usize, 1.0);
        }
        let config = config.with_information_schema(true);
        let ctx = SessionContext::new_with_config_rt(config, runtime.build_arc().context("no runtime for SQL")?);
        let (found, store) = find(args, &ctx).await?;
        let options = HostOptions::default().delivery(args.delivery.into());
        pagecast_delta::install(&ctx).map_err(|error| anyhow!(tables::message(&error)))?;
        // Before the tables, so that what is read to know their columns comes once.
        let host = pagecast_datafusion::install_with(&ctx, pool.clone(), options)?;
        let (tables, mut closed) = register(&ctx, found).await;
        if tables.is_empty() && !closed.is_empty() {
            return Err(closed.swap_remove(0).fault);
        }
        for closed in &closed {
            say(&anyhow!("table {} is closed: {:#}", closed.name, closed.fault));
        }
        Ok(Self { ctx, pool, host, tables, closed, store })
    }
}

/// The bytes of --memory.
fn memory_limit(memory: Option<Size>) -> anyhow::Result<Option<u64>> {
    match memory.map(|limit| bytes("--memory", limit)).transpose()? {
        Some(0) => Err(usage("--memory: no query works without memory; leave the flag out for no limit")),
        limit => Ok(limit),
    }
}

fn open_pool(args: &EngineArgs) -> anyhow::Result<Pool> {
    let policy = PolicySpec::parse(&args.policy).map_err(|error| usage(format!("--policy: {error}")))?;
    if policy.needs_trace() {
        let name = policy.name();
        return Err(usage(format!("--policy: {name} needs the future and works in `pagecast simulate`")));
    }
    let options = PoolOptions::default().memory(bytes("--pool", args.pool)?).policy(policy).seed(args.seed);
    let flag = |error: &PoolError| match error {
        PoolError::Open { .. } | PoolError::FlashTooSmall { .. } => "--flash",
        _ => "--pool",
    };
    let pool = Pool::new(options.flash(args.flash.options()?));
    pool.map_err(|error| usage(format!("{}: {error}", flag(&error))))
}

/// The tables of --data, and the store that they are in with its prices, if it is one.
async fn find(args: &EngineArgs, ctx: &SessionContext) -> anyhow::Result<(Found, Option<(MeteredStore, Prices)>)> {
    let Some(data) = &args.data else { return Ok((Found::default(), None)) };
    let Some(source) = args.store.source(data)? else { return Ok((tables::discover(data)?, None)) };
    let store = source.register(ctx)?;
    let found = source.discover().await.context("--data")?;
    Ok((found, (!source.is_local()).then_some((store, args.store.price))))
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

/// Bytes of a flag's size, which must have a unit.
pub(crate) fn bytes(flag: &str, size: Size) -> anyhow::Result<u64> {
    match size {
        Size::Bytes(bytes) => Ok(bytes),
        size => Err(usage(format!("{flag}: `{size}` is no amount of memory; write 256MiB or 1GiB"))),
    }
}
