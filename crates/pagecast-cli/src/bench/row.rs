//! One row of the bench: the query list, run once in a fresh session over a fresh device and pool.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, anyhow};
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use indicatif::ProgressBar;
use pagecast::storage::{DeclaredModel, Device, MeteredStore};
use pagecast::{Pool, PoolOptions, PrefetchOptions, Recorder};
use pagecast_core::policy::PolicySpec;
use pagecast_datafusion::{DeviceStore, Host, HostOptions};
use pagecast_sql::semantics;
use pagecast_sql::stores::Source;
use pagecast_sql::tables::{self, Table};
use tokio::task::JoinSet;

use super::floor::Requests;
use super::machine;
use super::results::{Delivery, Prefetch, QueryRun, Run, StoreRun};
use super::stage::Stage;
use super::tier::{Filling, FlashRun, Scratch, Tier};
use super::timeline::{Timeline, pause};
use super::workload::Query;
use crate::failure;
use crate::stores::Prices;
use crate::watch::Shadow;

/// What stays the same for all rows.
pub(super) struct Setting {
    pub(super) tables: Vec<Table>,
    pub(super) list: Vec<Vec<Query>>,
    pub(super) target_partitions: usize,
    /// Where the tables are, if that is an object store.
    pub(super) source: Option<Arc<Source>>,
    /// What it takes.
    pub(super) prices: Prices,
    /// Of files; `None`: the local disk as it is.
    pub(super) model: Option<DeclaredModel>,
    pub(super) pool_bytes: u64,
    /// Where tiers on flash are, if rows have some.
    pub(super) flash: Option<Tier>,
    pub(super) page_bytes: u32,
    /// Share of the frames that in-order scans may read ahead into; 0: they do not.
    pub(super) read_ahead: f64,
    pub(super) touched_bytes: u64,
    pub(super) seed: u64,
    /// Whether somebody may watch.
    pub(super) watched: bool,
    /// Where who watches sees what runs.
    pub(super) stage: Arc<Stage>,
}

/// How a row reads.
#[derive(Clone, Debug)]
pub(super) enum Reading {
    /// Plain DataFusion over the device.
    Plain,
    /// Through a pool with this policy.
    Pooled(PolicySpec, pagecast_datafusion::Delivery, Option<Filling>),
}

impl Reading {
    pub(super) fn delivery(&self) -> Delivery {
        match self {
            Self::Plain => Delivery::None,
            Self::Pooled(_, delivery, _) => Delivery::from(*delivery),
        }
    }
}

impl Reading {
    /// What fills its tier on flash, if it has one.
    fn filling(&self) -> Option<Filling> {
        match self {
            Self::Plain => None,
            Self::Pooled(_, _, filling) => *filling,
        }
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("no pool"),
            Self::Pooled(policy, _, None) => write!(f, "{} {}", self.delivery().name(), policy.name()),
            Self::Pooled(policy, _, Some(filling)) => {
                write!(f, "{} {}, flash {}", self.delivery().name(), policy.name(), filling.name())
            }
        }
    }
}

/// A session that reads as a row wants it, and what to look at afterwards.
struct Reader {
    ctx: SessionContext,
    device: Device,
    /// Where the objects are.
    objects: Option<MeteredStore>,
    store: Option<Arc<DeviceStore>>,
    host: Option<Arc<Host>>,
    requests: Arc<Requests>,
    /// A clock beside the pool, for who watches.
    shadow: Option<Arc<Shadow>>,
    /// The tier's folder, which goes when the pool has gone.
    _scratch: Option<Scratch>,
}

impl Reader {
    fn bytes_read(&self) -> u64 {
        let of_device = || self.device.stats().bytes_read;
        self.objects.as_ref().map_or_else(of_device, |objects| objects.stats().bytes_read)
    }

    fn bytes_requested(&self) -> u64 {
        let of_files = || self.store.as_ref().map_or(0, |store| store.bytes_requested());
        self.objects.as_ref().map_or_else(of_files, |objects| objects.stats().bytes_requested)
    }
}

impl Setting {
    /// A session with the tables, and the store that they are in.
    pub(super) async fn session(&self) -> anyhow::Result<(SessionContext, Option<MeteredStore>)> {
        let (ctx, store) = self.without_tables()?;
        tables::register(&ctx, &self.tables).await?;
        Ok((ctx, store))
    }

    fn without_tables(&self) -> anyhow::Result<(SessionContext, Option<MeteredStore>)> {
        // All rows plan as the command does, so that they differ in how they read.
        let config = SessionConfig::new().with_target_partitions(self.target_partitions);
        let ctx = SessionContext::new_with_config(semantics::configured(config));
        semantics::install(&ctx).map_err(|error| anyhow!(tables::message(&error)))?;
        let store = self.source.as_ref().map(|source| source.register(&ctx)).transpose()?;
        Ok((ctx, store))
    }

    /// A fresh device with counters at 0. Of a store, its own model is the only one.
    pub(super) fn device(&self) -> Device {
        let model = self.model.filter(|_| self.source.is_none());
        model.map_or_else(Device::local, Device::declared)
    }

    async fn reader(&self, reading: &Reading) -> anyhow::Result<Reader> {
        let (ctx, objects) = self.without_tables()?;
        let (device, requests) = (self.device(), Arc::<Requests>::default());
        let mut reader =
            Reader { ctx, device, objects, requests, shadow: None, store: None, host: None, _scratch: None };
        match reading {
            Reading::Plain if self.source.is_some() => {}
            Reading::Plain => {
                let store = Arc::new(DeviceStore::new(reader.device.clone()));
                let files = "file:///".parse().context("the scheme of local files")?;
                reader.ctx.register_object_store(&files, store.clone());
                reader.store = Some(store);
            }
            Reading::Pooled(policy, delivery, filling) => {
                let (scratch, flash) = Tier::begin(self.flash.as_ref(), *filling)?.unzip();
                reader._scratch = scratch;
                reader.shadow = self.watched.then(|| Shadow::new(Some(reader.requests.clone())));
                let recorder: Arc<dyn Recorder> = match &reader.shadow {
                    Some(shadow) => shadow.clone(),
                    None => reader.requests.clone(),
                };
                let pool = make_pool(
                    PoolOptions::default()
                        .memory(self.pool_bytes)
                        .page_size(self.page_bytes)
                        .policy(policy.clone())
                        .seed(self.seed)
                        .device(reader.device.clone())
                        .prefetch(PrefetchOptions::default().share(self.read_ahead).read_ahead(self.read_ahead > 0.0))
                        .recorder(recorder)
                        .flash(flash),
                )?;
                if let Some(shadow) = &reader.shadow {
                    shadow.start(&pool)?;
                }
                let options = HostOptions::default().delivery(*delivery);
                reader.host = Some(pagecast_datafusion::install_with(&reader.ctx, pool, options)?);
            }
        }
        tables::register(&reader.ctx, &self.tables).await?;
        Ok(reader)
    }

    /// Runs all streams side by side, each its queries one after the other.
    pub(super) async fn run(&self, reading: &Reading, repetition: usize, bar: &ProgressBar) -> anyhow::Result<Run> {
        let reader = self.reader(reading).await?;
        let _shown =
            reader.host.as_ref().map(|host| self.stage.show(host.pool(), reader.shadow.clone(), reading.to_string()));
        machine::reset_peak_rss();
        let processors = machine::cpu_time();
        let (started, mut timeline) = (Instant::now(), Timeline::default());
        let mut streams = JoinSet::new();
        for (number, queries) in self.list.iter().enumerate() {
            let stage = reader.host.is_some().then(|| Arc::clone(&self.stage));
            let work = Work { number, queries: queries.clone(), begun: started };
            streams.spawn(stream(reader.ctx.clone(), work, stage, bar.clone()));
        }
        let mut queries = Vec::new();
        // The first failure ends the run: dropping the set cancels the other streams.
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause(started.elapsed())) => timeline.sample(started, reader.bytes_read(), reader.host.as_deref()),
                ended = streams.join_next() => match ended {
                    Some(ended) => queries.extend(ended.context("a stream was lost")??),
                    None => break,
                },
            }
        }
        let wall_s = started.elapsed().as_secs_f64();
        timeline.sample(started, reader.bytes_read(), reader.host.as_deref());
        queries.sort_by_key(|query| query.stream);
        let cpu_s = machine::cpu_time().zip(processors).map(|(now, then)| (now - then).as_secs_f64());
        let peak_rss_bytes = machine::peak_rss();
        let measured = Measured { repetition, wall_s, cpu_s, queries, timeline, peak_rss_bytes };
        self.result(reading, &reader, measured)
    }

    fn result(&self, reading: &Reading, reader: &Reader, measured: Measured) -> anyhow::Result<Run> {
        let device = reader.device.stats();
        let store = reader.objects.as_ref().map(|objects| self.asked(objects, reader.host.as_deref()));
        let run = Run {
            policy: "none".into(),
            params: String::new(),
            delivery: Delivery::None,
            seed: self.seed,
            repetition: measured.repetition,
            streams: self.list.len(),
            pool_bytes: 0,
            touched_bytes: self.touched_bytes,
            page_requests: 0,
            joined_requests: 0,
            scans_out_of_order: 0,
            scans_back_in_order: 0,
            hit_rate: None,
            bytes_requested: reader.bytes_requested(),
            bytes_read: reader.bytes_read(),
            bypassed_bytes: 0,
            belady_bytes_read: None,
            evictions: 0,
            prefetch: Prefetch::default(),
            wall_s: measured.wall_s,
            cpu_s: measured.cpu_s,
            processors_busy: measured.cpu_s.map(|cpu| cpu / (measured.wall_s * machine::processors() as f64)),
            queries: measured.queries,
            storage_requests: store.map_or(device.requests, |store| store.gets),
            store,
            flash: None,
            pool_memory_bytes: 0,
            footer_bytes: 0,
            peak_rss_bytes: measured.peak_rss_bytes,
            timeline: measured.timeline,
        };
        let (Reading::Pooled(policy, _, _), Some(host)) = (reading, &reader.host) else { return Ok(run) };
        let (pool, stats) = (host.pool(), host.pool().stats());
        let footers_read = host.footer_bytes_read();
        Ok(Run {
            policy: policy.name().to_owned(),
            params: policy.params(),
            delivery: reading.delivery(),
            pool_bytes: self.pool_bytes,
            page_requests: stats.requests,
            joined_requests: stats.waits,
            scans_out_of_order: host.out_of_order_scans(),
            scans_back_in_order: host.back_in_order_scans(),
            hit_rate: Some(stats.hit_rate()),
            bytes_requested: stats.bytes_requested + footers_read,
            bypassed_bytes: stats.bypassed_bytes,
            belady_bytes_read: Some(reader.requests.belady_bytes(pool)? + footers_read),
            evictions: stats.evictions,
            prefetch: Prefetch::from(&stats),
            flash: FlashRun::of(pool, reading.filling()),
            pool_memory_bytes: pool.memory().total,
            footer_bytes: host.footer_memory(),
            ..run
        })
    }
}

impl Setting {
    fn asked(&self, objects: &MeteredStore, host: Option<&Host>) -> StoreRun {
        let stats = objects.stats();
        StoreRun {
            gets: stats.requests.gets,
            heads: stats.requests.heads,
            lists: stats.requests.lists,
            refused: stats.refused,
            gap_bytes: host.map(|host| host.pool().stats().gap_bytes),
            cost_usd: self.prices.of(&stats),
        }
    }
}

fn make_pool(options: PoolOptions) -> anyhow::Result<Pool> {
    Pool::new(options).map_err(|error| failure::usage(format!("--pool: {error}")))
}

/// Fails if the pool that `row` wants cannot be made of `memory` bytes.
pub(super) fn check_pool(row: &Reading, memory: u64, page_size: u32) -> anyhow::Result<()> {
    match row {
        Reading::Plain => Ok(()),
        Reading::Pooled(policy, _, _) => {
            make_pool(PoolOptions::default().memory(memory).page_size(page_size).policy(policy.clone())).map(drop)
        }
    }
}

/// What only the run itself could see.
struct Measured {
    repetition: usize,
    wall_s: f64,
    cpu_s: Option<f64>,
    queries: Vec<QueryRun>,
    timeline: Timeline,
    peak_rss_bytes: Option<u64>,
}

/// What a stream is to do.
struct Work {
    number: usize,
    queries: Vec<Query>,
    /// When all streams began.
    begun: Instant,
}

/// One stream; on the stage, if it reads through a pool.
async fn stream(
    ctx: SessionContext,
    Work { number: stream, queries, begun }: Work,
    stage: Option<Arc<Stage>>,
    bar: ProgressBar,
) -> anyhow::Result<Vec<QueryRun>> {
    let mut done = Vec::with_capacity(queries.len());
    for query in queries {
        tokio::time::sleep_until((begun + query.at).into()).await;
        let started = Instant::now();
        if let Some(stage) = &stage {
            stage.begin(stream, &query.name, &query.sql);
        }
        let executed = async {
            let plan = semantics::frame(&ctx, &query.sql).await?.create_physical_plan().await?;
            collect(Arc::clone(&plan), ctx.task_ctx()).await.map(|batches| (plan, batches))
        };
        let executed = executed.await.map_err(|error| anyhow::anyhow!("{}", tables::message(&error)));
        let (plan, batches) = executed.with_context(|| format!("stream {stream}, query {}", query.name))?;
        let wall_s = started.elapsed().as_secs_f64();
        let rows = batches.iter().map(|batch| batch.num_rows()).sum();
        let bytes_read = stage.as_ref().map(|_| pagecast_datafusion::bytes_read(&plan));
        let (name, selectivity) = (query.name, query.selectivity);
        done.push(QueryRun { name, selectivity, stream, wall_s, rows, bytes_read });
        bar.inc(1);
    }
    if let Some(stage) = &stage {
        stage.end(stream);
    }
    Ok(done)
}
