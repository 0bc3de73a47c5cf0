//! pagecast under DataFusion: SQL over Parquet through a pool that knows what the queries will
//! read.
//!
//! [`install`] puts a pool into a session. From then on every scan of Parquet files, local or in an
//! object store of the session, reads its column data through the pool, says beforehand which bytes
//! it will read, and reports how far it is. Results stay DataFusion's own: planning, pruning,
//! decoding and filtering are its code.
//!
//! ```
//! # use datafusion::prelude::{ParquetReadOptions, SessionContext};
//! # use pagecast::{Pool, PoolOptions};
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let temporary = tempfile::tempdir()?;
//! # let folder = temporary.path().to_str().ok_or("a folder with a strange name")?;
//! # let sql = format!("COPY (VALUES (1, 'high'), (2, 'low'), (3, 'high')) TO '{folder}/1.parquet' STORED AS PARQUET");
//! # SessionContext::new().sql(&sql).await?.collect().await?;
//! let ctx = SessionContext::new();
//! let pool = Pool::new(PoolOptions::default().memory(64 << 20))?;
//! pagecast_datafusion::install(&ctx, pool.clone())?;
//!
//! ctx.register_parquet("orders", folder, ParquetReadOptions::default()).await?;
//! let urgent = ctx.sql("SELECT column1 FROM orders WHERE column2 = 'high'").await?;
//! assert_eq!(urgent.count().await?, 2);
//! assert!(pool.stats().bytes_read > 0);
//! assert!(pool.scans().is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! How a scan gets from the plan to the pool:
//!
//! * `rule`, `needs`: the last physical optimizer rule exchanges the source under `DataSourceExec`,
//!   by what the plan above it needs of the order of rows.
//! * `source`, `execution`: the first partition that is polled plans what the execution reads
//!   (`read_plan`); all partitions take chunks of it: single row groups, or several small ones
//!   that are opened together (`row_groups`).
//! * `chunks`, `stream`: which chunk comes next, and a partition's loop over those that it gets.
//! * `progress`, `ticket`: an execution in order, as one scan of the pool, from its first poll
//!   until the last stream ended or was dropped, and how readers tell it what they have asked for.
//! * `cooperative`, `units`, `narrowing`: an execution out of order. Files are cut into units, the
//!   pool says which comes next, and filters that became narrower take chunks out of its plan.
//! * `merge_join`: joins of two clustered tables, whose chunks have pages of both.
//! * `stream`, `opener`: a partition's chunks, one after the other. One that is a whole row group
//!   is decoded here, others by DataFusion's opener.
//! * `reader`, `footers`: the bytes. Column data comes from the pool, footers and page indexes from
//!   memory beside it.
//! * `guard`, `naming`: broken files end their query, by name.
//! * `inspect`: looking at scans from outside, before and while they run.
//! * [`DeviceStore`]: DataFusion without a pool over the same device, to compare with.
//!
//! Local files are read past the operating system's cache, and objects with one request for each
//! run of pages, under the condition that they are what was listed. The URL of a store names one
//! store: sessions that share a pool register the same one under it.
//!
//! Whatever else DataFusion reads of object stores comes through the pool as well (`registry`):
//! ranges as they were listed last, whole objects as they are now. Local files of other formats are
//! left as they are, but for the column data of scans that another engine does not let be exchanged
//! (`local`). A reader factory that
//! somebody else put on a Parquet source is replaced. Each statement lists the files of its tables
//! anew, unless the session's cache of listings has a time to live. A file that changes while a
//! query reads it fails that query alone.

mod at_once;
mod bounds;
mod chunks;
mod cooperative;
mod error;
mod execution;
mod footers;
mod guard;
mod inspect;
mod join_kept;
mod local;
mod merge_join;
mod metrics;
mod naming;
mod narrowing;
mod needs;
mod opener;
mod progress;
mod read_plan;
mod reader;
mod recurring;
mod registry;
mod room;
mod row_groups;
mod rule;
mod scan_place;
mod source;
mod store;
mod stream;
mod ticket;
mod units;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use datafusion::common::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use object_store::ObjectMeta;
use object_store::local::LocalFileSystem;
use pagecast::storage::Objects;
use pagecast::{Pool, Relation};
use parking_lot::Mutex;

pub use error::HostError;
pub use footers::{is_encrypted, read_footer};
pub use inspect::{PlannedRead, bytes_read, expect};
pub use naming::naming_broken_files;
pub use recurring::RecurringOptions;
pub use room::{ReadRoom, Room};
pub use scan_place::ScanPlace;
pub use store::DeviceStore;

/// In which order, and by which partition, row groups are delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Delivery {
    /// DataFusion's own: each partition reads its share of the files. Nothing is registered.
    Stock,
    /// Row groups in file order, each to the partition that asks next, registered as one scan.
    /// Where a plan relies on the order or partitioning of a scan's rows, that scan keeps stock
    /// delivery.
    InOrder,
    /// Row groups in whatever order serves all running scans best: what is in memory first, then
    /// what the pool brings for several of them. Scans that a plan wants in order come in order,
    /// and so do those of few row groups ([`HostOptions::least_chunks`]) and those that the pool
    /// has no room to coordinate.
    #[default]
    OutOfOrder,
}

/// How a session uses its pool. Start from the default and change what matters:
///
/// ```
/// use pagecast_datafusion::{Delivery, HostOptions};
/// let options = HostOptions::default().delivery(Delivery::InOrder);
/// assert!(options.register);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HostOptions {
    /// The order of delivery. Default: out of order, where the plan allows it.
    pub delivery: Delivery,
    /// Whether scans tell the pool what they will read. Off, policies see nothing but requests, and
    /// nothing is delivered out of order. Default: yes.
    pub register: bool,
    /// Whether rows come in the order of the files beneath functions whose results tell in which
    /// order they came: `first_value`, `last_value`, `nth_value`, `array_agg`, `string_agg`, and
    /// windows, where rows tie. SQL promises none, but people see it. Files of less than
    /// DataFusion's `repartition_file_min_size` together are read by one stream; larger ones by
    /// several, as DataFusion does, which promises nothing either. Off, such scans are delivered
    /// like all others. Default: yes.
    pub keep_order: bool,
    /// A scan of fewer chunks than these is delivered in order: there is little to choose from. So
    /// is one of which the pool holds fewer: what it brings would leave before it is read. A chunk
    /// is a row group, or several small neighbours. Default: 4.
    pub least_chunks: usize,
    /// Whether what DataFusion reads of object stores by itself comes through the pool, too: other
    /// formats, footers and statistics, and scans that their owner does not let be exchanged. Of
    /// local Parquet files it is the column data of such scans. Default: yes.
    pub stores: bool,
    /// Bytes of memory. A join of tables that are clustered by its key, which would take as many,
    /// is joined chunk by chunk where that is right: a hash join for its table, a sort-merge join
    /// for what it sorts. It then takes a chunk's memory for each partition, a sixteenth of a hash
    /// join's at TPC-H's scale factor 1, and may read more. Only with delivery out of order.
    /// Default: none, so that joins stay as they are planned.
    pub join_memory: Option<u64>,
    /// Whether the session plans queries, and does not only run plans that others made. Who plans
    /// reads the footers of objects, too. So they come through the pool, and are read once. Off,
    /// they are read past it, and take no frames. Default: yes.
    pub plans: bool,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            delivery: Delivery::default(),
            register: true,
            keep_order: true,
            least_chunks: 4,
            join_memory: None,
            plans: true,
            stores: true,
        }
    }
}

impl HostOptions {
    /// Sets [`HostOptions::delivery`].
    #[must_use]
    pub fn delivery(self, delivery: Delivery) -> Self {
        Self { delivery, ..self }
    }

    /// Sets [`HostOptions::register`].
    #[must_use]
    pub fn register(self, register: bool) -> Self {
        Self { register, ..self }
    }

    /// Sets [`HostOptions::keep_order`].
    #[must_use]
    pub fn keep_order(self, keep_order: bool) -> Self {
        Self { keep_order, ..self }
    }

    /// Sets [`HostOptions::least_chunks`].
    #[must_use]
    pub fn least_chunks(self, least_chunks: usize) -> Self {
        Self { least_chunks, ..self }
    }

    /// Sets [`HostOptions::stores`].
    #[must_use]
    pub fn stores(self, stores: bool) -> Self {
        Self { stores, ..self }
    }

    /// Sets [`HostOptions::join_memory`].
    #[must_use]
    pub fn join_memory(self, join_memory: Option<u64>) -> Self {
        Self { join_memory, ..self }
    }

    /// Sets [`HostOptions::plans`].
    #[must_use]
    pub fn plans(self, plans: bool) -> Self {
        Self { plans, ..self }
    }
}

/// A pool in the service of sessions, and what is kept beside it.
pub struct Host {
    pool: Pool,
    options: HostOptions,
    footers: footers::Footers,
    files: LocalFileSystem,
    /// The session's before the pool came: its stores are those themselves.
    runtime: Arc<RuntimeEnv>,
    recurring: recurring::Recurring,
    unregistered: AtomicU64,
    /// Executions out of order, and those that were to be and were not.
    out_of_order: AtomicU64,
    back_in_order: AtomicU64,
    /// Plan nodes that kept their children.
    refused: AtomicU64,
    /// Files of the scans below these.
    kept_files: local::KeptFiles,
    /// Scans whose files the session does not let be divided.
    undivided: AtomicU64,
    /// Outside of them no file is read.
    bounds: bounds::Bounds,
    /// Who is asked before a read.
    room: room::Asked,
    /// The executions that may be running, to be looked at; the ended ones are dropped now and
    /// then.
    running: Mutex<Vec<Weak<chunks::Chunks>>>,
}

impl Host {
    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Lets the session read no local file outside of these files or folders, which are without
    /// links: links in them that lead out are refused. The first call holds.
    pub fn keep_inside(&self, paths: Vec<PathBuf>) {
        self.bounds.set(paths);
    }

    /// Has this asked before column data is read into memory. The first call holds.
    pub fn ask_before_reads(&self, room: Arc<dyn ReadRoom>) {
        self.room.set(room);
    }

    /// Bytes of memory that footers and page indexes take, beside the pool.
    pub fn footer_memory(&self) -> u64 {
        self.footers.memory()
    }

    /// Bytes that were read from the device to load footers and page indexes of files. Not part of
    /// the pool's own count, to which those of files of one page belong, and those of objects where
    /// [`HostOptions::plans`] is on.
    pub fn footer_bytes_read(&self) -> u64 {
        self.footers.bytes_read()
    }

    /// What a query that comes back reads, in words, by its fingerprint; if it ran in this session
    /// of late.
    pub fn reads_of(&self, fingerprint: u64) -> Option<String> {
        self.recurring.reads_of(fingerprint)
    }

    /// Executions of scans that the pool's predictor had no room for. They ran without predictions.
    pub fn unregistered_scans(&self) -> u64 {
        self.unregistered.load(Relaxed)
    }

    /// Executions of scans that were delivered out of order.
    pub fn out_of_order_scans(&self) -> u64 {
        self.out_of_order.load(Relaxed)
    }

    /// Executions of scans that came in order although their plan allows another: `EXPLAIN ANALYZE`
    /// says why.
    pub fn back_in_order_scans(&self) -> u64 {
        self.back_in_order.load(Relaxed)
    }

    /// Plan nodes that refused to have the scans below them replaced, in all plans. Those scans
    /// stay as they are. They read through the session's stores, and so through the pool unless
    /// [`HostOptions::stores`] is off.
    pub fn refused_plans(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Scans that are delivered as DataFusion does because the session does not let files be
    /// divided among partitions (`datafusion.optimizer.repartition_file_scans` is off), in all
    /// plans. They read through the pool.
    pub fn undivided_scans(&self) -> u64 {
        self.undivided.load(Relaxed)
    }

    /// Reads the footer of a file and checks that all it speaks of lies inside the file.
    ///
    /// # Errors
    ///
    /// It is no whole Parquet file, or cannot be read.
    pub async fn check(&self, path: &Path) -> std::result::Result<(), HostError> {
        let relation = self.pool.open(path)?;
        self.footers.load(&relation).await.map(drop)
    }

    /// A file of this machine.
    fn open_local(&self, path: &Path) -> std::result::Result<Relation, HostError> {
        let relation = self.pool.open(path)?;
        self.bounds.check_open(&relation)?;
        Ok(relation)
    }

    /// What the plan was made for: the object as it was listed in the store of `url`, of which
    /// nothing is asked, or the file that stands there now, if it is still the one that was listed.
    fn open(&self, url: &ObjectStoreUrl, listed: &ObjectMeta) -> Result<Relation> {
        if !is_local(url) {
            let store = self.runtime.object_store(url)?;
            let object = Objects::shared()?.storage(&store, url.as_str(), listed);
            return Ok(self.pool.open_storage(&object).map_err(HostError::from)?);
        }
        let path = self.files.path_to_filesystem(&listed.location)?;
        let relation = self.open_local(&path)?;
        let what = if relation.len() != listed.size {
            format!("{} bytes then, {} now", listed.size, relation.len())
        } else if listed.last_modified.timestamp_nanos_opt().is_some_and(|listed| {
            // A plan that was built by hand need not know the time; it is 0 then.
            listed != 0 && i128::from(listed) != relation.generation().modified()
        }) {
            "same size, but it was written to".to_owned()
        } else {
            return Ok(relation);
        };
        Err(HostError::Relisted { path, what }.into())
    }
}

/// Whether objects of this store are files of this machine, which are read without the store.
fn is_local(url: &ObjectStoreUrl) -> bool {
    url.as_str() == "file:///"
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Puts `pool` under every scan of Parquet files that `ctx` plans from now on: registered,
/// and out of order where a plan allows it.
///
/// Tables may be registered before or after. `min` and `max` tell scans no longer what they have
/// seen (`datafusion.optimizer.enable_aggregate_dynamic_filter_pushdown`), for DataFusion 55.2 then
/// leaves out rows.
///
/// # Errors
///
/// The session has a pool already ([`HostError::Installed`]). It keeps that one.
pub fn install(ctx: &SessionContext, pool: Pool) -> std::result::Result<Arc<Host>, HostError> {
    install_with(ctx, pool, HostOptions::default())
}

/// [`install`] with a choice of delivery.
///
/// # Errors
///
/// As [`install`].
pub fn install_with(
    ctx: &SessionContext,
    pool: Pool,
    options: HostOptions,
) -> std::result::Result<Arc<Host>, HostError> {
    let state = ctx.state_ref();
    let mut state = state.write();
    // A second rule would exchange sources that the first one has exchanged already.
    if state.physical_optimizers().iter().any(|rule| rule.name() == rule::NAME) {
        return Err(HostError::Installed { session: state.session_id().to_owned() });
    }
    let host = Arc::new(Host {
        footers: footers::Footers::new(options.plans, footers::most_bytes(&pool)),
        pool,
        options,
        files: LocalFileSystem::new(),
        runtime: Arc::clone(state.runtime_env()),
        recurring: recurring::Recurring::default(),
        unregistered: AtomicU64::new(0),
        out_of_order: AtomicU64::new(0),
        back_in_order: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        kept_files: local::KeptFiles::default(),
        undivided: AtomicU64::new(0),
        bounds: bounds::Bounds::default(),
        room: room::Asked::default(),
        running: Mutex::default(),
    });
    let rule = Arc::new(rule::PoolUnderParquet::new(Arc::clone(&host)));
    let planner = naming::NamingPlanner { inner: Arc::clone(state.query_planner()), host: Arc::clone(&host) };
    let mut with_rule = SessionStateBuilder::new_from_existing(state.clone())
        .with_session_id(state.session_id().to_owned())
        .with_runtime_env(runtime_over(&host)?)
        .with_query_planner(Arc::new(planner))
        .with_physical_optimizer_rules(pagecast_corrections::namesakes::apart(state.physical_optimizers()))
        .with_physical_optimizer_rule(rule);
    if let Some(inner) = state.table_factories().get(PARQUET).cloned() {
        let factory = naming::NamingFactory { inner, host: Arc::clone(&host) };
        with_rule = with_rule.with_table_factory(PARQUET.to_owned(), Arc::new(factory));
    }
    *state = with_rule.build();
    // Tables that list files name broken ones by it.
    state.config_mut().set_extension(Arc::clone(&host));
    let options = state.config_mut().options_mut();
    pagecast_corrections::settings::without_filters_of_aggregates(options);
    options.extensions.insert(RecurringOptions::default());
    Ok(host)
}

/// The file type whose tables the host reads.
const PARQUET: &str = "PARQUET";

/// The host's runtime with its stores over the pool, and without its cache of listings. A listing
/// that stays for as long as the session lives would name files that have changed since, and a pool
/// does not read another file than the one that was listed. Who gave listings a time to live keeps
/// them.
fn runtime_over(host: &Arc<Host>) -> std::result::Result<Arc<RuntimeEnv>, HostError> {
    let mut runtime = RuntimeEnvBuilder::from_runtime_env(&host.runtime);
    if host.runtime.cache_manager.get_list_files_cache_ttl().is_none() {
        runtime = runtime.with_object_list_cache_limit(0);
    }
    if host.options.stores {
        let stores = Arc::clone(&host.runtime.object_store_registry);
        let pooled = registry::PooledRegistry::new(stores, Arc::downgrade(host));
        runtime = runtime.with_object_store_registry(Arc::new(pooled));
    }
    runtime.build_arc().map_err(|error| HostError::Runtime { source: Arc::new(error) })
}
