//! Joins of two clustered tables in several streams: bytes that each way of joining reads.
//!
//! lineitem and orders of TPC-H in the order of their key, and the queries of Figure 6.7 of
//! Świtakowski 2011 in its two mixes: joins (CMJ1, CMJ2), and scans of one table beside (L1, O1),
//! each over 1, 10, 50 or 100 % of the keys.
//!
//! `cargo run --release -p pagecast-datafusion --example joins -- sf=1 streams=8,16 pools=20,40,60
//! bandwidth=20 json=joins.json`; what may be given, and what else it is, stands at [`Settings`].

#[path = "../tests/host/peak.rs"]
mod peak;

use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use pagecast::storage::{DeclaredModel, Device};
use pagecast::{Pool, PoolOptions};
use pagecast_core::random::Random;
use pagecast_datafusion::{Delivery, Host, HostOptions, install_with};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use tpchgen::generators::{LineItemGenerator, OrderGenerator};
use tpchgen_arrow::{LineItemArrow, OrderArrow};

use self::peak::Peak;

const QUERIES: [(&str, &str); 4] = [
    (
        "CMJ1",
        "SELECT o_orderpriority, count(*), sum(l_extendedprice) FROM orders JOIN lineitem ON o_orderkey = l_orderkey \
         WHERE l_commitdate < l_receiptdate AND {l} GROUP BY o_orderpriority",
    ),
    (
        "CMJ2",
        "SELECT l_shipmode, count(o_orderpriority), sum(o_totalprice), sum(l_discount) FROM orders \
         JOIN lineitem ON o_orderkey = l_orderkey WHERE l_commitdate < l_receiptdate AND {l} GROUP BY l_shipmode",
    ),
    (
        "L1",
        "SELECT l_returnflag, sum(l_extendedprice), sum(l_quantity), sum(l_tax) FROM lineitem \
         WHERE {l} GROUP BY l_returnflag",
    ),
    ("O1", "SELECT o_orderstatus, sum(o_totalprice) FROM orders WHERE {o} GROUP BY o_orderstatus"),
];

/// How many of the queries are in each mix.
const MIXES: [(&str, usize); 2] = [("CMJ1+CMJ2", 2), ("CMJ1+CMJ2+L1+O1", 4)];

/// Parts of the keys that a query reads, in percent.
const SHARES: [u64; 4] = [1, 10, 50, 100];

/// How queries join and are delivered.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    merge: bool,
    delivery: Delivery,
    in_chunks: bool,
}

const fn way(name: &'static str, merge: bool, delivery: Delivery, in_chunks: bool) -> Way {
    Way { name, merge, delivery, in_chunks }
}

/// Ratios are to the first of those that are measured.
const WAYS: [Way; 5] = [
    way("merge joins in order", true, Delivery::InOrder, false),
    way("hash joins in order", false, Delivery::InOrder, false),
    way("joins in chunks", true, Delivery::OutOfOrder, true),
    way("hash joins, scans in any order", false, Delivery::OutOfOrder, false),
    way("merge joins, scans in any order", true, Delivery::OutOfOrder, false),
];

/// What is measured. Each field may be given as `name=value`.
struct Settings {
    /// Scale factor of the tables.
    sf: f64,
    /// Streams at the same time.
    streams: Vec<u64>,
    /// Queries of each stream.
    queries: u64,
    /// Seeds of the streams' queries, from 1.
    seeds: u64,
    /// MB/s that the declared device gives, with 1 ms of latency.
    bandwidth: f64,
    /// Sizes of the pool, in percent of what the mix reads.
    pools: Vec<u64>,
    /// Mixes, from 1.
    mixes: Vec<u64>,
    /// Ways of joining, from 1.
    ways: Vec<u64>,
    /// Row groups of lineitem. The default is as many as at scale factor 5 with 128 Ki rows.
    groups: f64,
    /// Page size of the pool, in bytes.
    page: u64,
    /// Partitions of each query.
    partitions: u64,
    /// Whether each way also joins all keys alone: what it reserves, and what its plan says.
    alone: bool,
    /// Where the tables are kept, and taken from if they are there.
    folder: Option<PathBuf>,
    /// Where the cells are written.
    json: Option<PathBuf>,
}

impl Settings {
    fn given() -> Result<Self> {
        let mut all = Self {
            sf: 1.0,
            streams: vec![8, 16],
            queries: 4,
            seeds: 1,
            bandwidth: 20.0,
            pools: vec![20, 40, 60],
            mixes: vec![1, 2],
            ways: (1..=WAYS.len() as u64).collect(),
            groups: 229.0,
            page: 16 << 10,
            partitions: 2,
            alone: true,
            folder: None,
            json: None,
        };
        for given in std::env::args().skip(1) {
            let wrong = || DataFusionError::Configuration(format!("{given}: not NAME=VALUE of the settings"));
            let (name, value) = given.split_once('=').ok_or_else(wrong)?;
            let number = || value.parse::<f64>().ok().filter(|&number| number > 0.0).ok_or_else(wrong);
            let list = |least: u64, most: u64| {
                let numbers: Option<Vec<u64>> = value.split(',').map(|number| number.parse().ok()).collect();
                numbers.filter(|all| all.iter().all(|&number| (least..=most).contains(&number))).ok_or_else(wrong)
            };
            match name {
                "sf" => all.sf = number()?,
                "streams" => all.streams = list(1, 1000)?,
                "queries" => all.queries = number()? as u64,
                "seeds" => all.seeds = number()? as u64,
                "bandwidth" => all.bandwidth = number()?,
                "pools" => all.pools = list(1, 1000)?,
                "mixes" => all.mixes = list(1, MIXES.len() as u64)?,
                "ways" => all.ways = list(1, WAYS.len() as u64)?,
                "groups" => all.groups = number()?,
                "page" => all.page = number()? as u64,
                "partitions" => all.partitions = number()? as u64,
                "alone" => all.alone = value.parse().map_err(|_| wrong())?,
                "folder" => all.folder = Some(value.into()),
                "json" => all.json = Some(value.into()),
                _ => return Err(wrong()),
            }
        }
        Ok(all)
    }

    fn as_json(&self) -> String {
        let Self { sf, queries, seeds, bandwidth, groups, page, partitions, .. } = self;
        format!(
            "{{\"sf\": {sf}, \"queries\": {queries}, \"seeds\": {seeds}, \"mb_s\": {bandwidth}, \
             \"row_groups\": {groups}, \"page_bytes\": {page}, \"partitions\": {partitions}}}"
        )
    }
}

fn external(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Writes a table, which the generator makes in the order of its key.
fn write(path: &Path, rows: usize, batches: impl Iterator<Item = Result<RecordBatch, ArrowError>>) -> Result<()> {
    let mut batches = batches.peekable();
    let Some(Ok(first)) = batches.peek() else { return Ok(()) };
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(rows))
        .set_data_page_row_count_limit(rows.div_ceil(6))
        .set_write_batch_size(rows.div_ceil(12))
        // As large a part of a row group as a mebibyte is of 128 Ki rows.
        .set_dictionary_page_size_limit(rows * 8)
        .set_statistics_enabled(EnabledStatistics::Page)
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, first.schema(), Some(properties))?;
    for batch in batches {
        writer.write(&batch?)?;
    }
    writer.close()?;
    Ok(())
}

fn generate(folder: &Path, settings: &Settings) -> Result<()> {
    let scale = settings.sf;
    let rows = ((6_001_215.0 * scale / settings.groups).ceil() as usize).max(64);
    let (lineitem, orders) = (folder.join("lineitem.parquet"), folder.join("orders.parquet"));
    if !lineitem.exists() || !orders.exists() {
        write(&lineitem, rows, LineItemArrow::new(LineItemGenerator::new(scale, 1, 1)))?;
        write(&orders, rows, OrderArrow::new(OrderGenerator::new(scale, 1, 1)))?;
    }
    Ok(())
}

/// `text` over the keys after `from`, up to `to`.
fn over(text: &str, from: u64, to: u64) -> String {
    let range = |column: &str| format!("{column} > {from} AND {column} <= {to}");
    text.replace("{l}", &range("l_orderkey")).replace("{o}", &range("o_orderkey"))
}

/// Keys are sparse: eight of 32.
fn keys(settings: &Settings) -> u64 {
    (6_000_000.0 * settings.sf) as u64
}

/// The queries of each stream, with the part of the keys that they read.
fn lists(settings: &Settings, seed: u64, mix: usize, streams: u64) -> Vec<Vec<(u64, String)>> {
    let (mut random, keys) = (Random::new(seed), keys(settings));
    let mut query = || {
        let (_, text) = QUERIES[random.below(mix as u32) as usize];
        let share = SHARES[random.below(4) as usize];
        let length = keys * share / 100;
        let from = (random.unit() * (keys - length + 1) as f64) as u64;
        (share, over(text, from, from + length))
    };
    (0..streams).map(|_| (0..settings.queries).map(|_| query()).collect()).collect()
}

/// A pool of about so many frames.
fn pool_of(frames: u32, page: u64, device: &Device) -> Result<Pool> {
    let mut memory = u64::from(frames) * page;
    loop {
        let options = PoolOptions::default().memory(memory).page_size(page as u32).loads(512).device(device.clone());
        match Pool::new(options).map(|pool| (pool.frames(), pool)) {
            Ok((has, pool)) if has >= frames => return Ok(pool),
            Ok((has, _)) => memory += u64::from(frames - has) * page,
            Err(_) => memory += 64 * page,
        }
    }
}

async fn session(
    folder: &Path,
    settings: &Settings,
    way: Way,
    pool: Pool,
) -> Result<(SessionContext, Arc<Host>, Arc<Peak>)> {
    let mut config = SessionConfig::new().with_target_partitions(settings.partitions as usize);
    config.options_mut().optimizer.prefer_hash_join = !way.merge;
    let memory = Arc::new(Peak::default());
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&memory) as Arc<dyn MemoryPool>).build_arc()?;
    let ctx = SessionContext::new_with_config_rt(config, runtime);
    for table in ["lineitem", "orders"] {
        let path = folder.join(format!("{table}.parquet"));
        ctx.register_parquet(table, path.display().to_string(), ParquetReadOptions::default()).await?;
    }
    let options = HostOptions::default().delivery(way.delivery).join_memory(way.in_chunks.then_some(0));
    let host = install_with(&ctx, pool, options).map_err(external)?;
    Ok((ctx, host, memory))
}

async fn plan(ctx: &SessionContext, sql: &str) -> Result<Arc<dyn ExecutionPlan>> {
    ctx.sql(sql).await?.create_physical_plan().await
}

/// Distinct pages that the whole mix reads. Kept beside the tables.
async fn touched(folder: &Path, settings: &Settings, mix: usize) -> Result<u32> {
    let kept = folder.join(format!("pages-{mix}-{}", settings.page));
    if let Some(pages) = std::fs::read_to_string(&kept).ok().and_then(|text| text.parse().ok()) {
        return Ok(pages);
    }
    let bytes = ["lineitem", "orders"].map(|table| folder.join(format!("{table}.parquet")));
    let bytes = bytes.iter().map(|path| path.metadata().map(|data| data.len())).sum::<std::io::Result<u64>>()?;
    let pool = pool_of((bytes / settings.page) as u32 + 16, settings.page, &Device::local())?;
    let (ctx, host, _) = session(folder, settings, WAYS[1], pool).await?;
    for (_, text) in &QUERIES[..mix] {
        collect(plan(&ctx, &over(text, 0, keys(settings))).await?, ctx.task_ctx()).await?;
    }
    let pages = host.pool().stats().loads as u32;
    std::fs::write(kept, pages.to_string())?;
    Ok(pages)
}

/// What a way of joining needs for a join of all keys alone, in a pool of so many frames: the bytes
/// that the query reserves at most, and what its plan says of chunks.
async fn alone(folder: &Path, settings: &Settings, way: Way, frames: u32) -> Result<(usize, String)> {
    let (mut most, mut said) = (0, String::new());
    for (_, text) in &QUERIES[..2] {
        let pool = pool_of(frames, settings.page, &Device::local())?;
        let (ctx, _, memory) = session(folder, settings, way, pool).await?;
        let plan = plan(&ctx, &over(text, 0, keys(settings))).await?;
        let shown = displayable(plan.as_ref()).indent(false).to_string();
        let of = |sign: &str| shown.split_once(sign).map(|(_, rest)| rest.split([',', ')', '\n']).next());
        let chunks = of("chunks=").flatten().map(|count| format!("{count} chunks"));
        let kept = of("join=as planned (").flatten().map(|why| format!("as planned: {why}"));
        write!(said, "{}{}", if said.is_empty() { "" } else { "; " }, chunks.or(kept).unwrap_or_default()).ok();
        collect(plan, ctx.task_ctx()).await?;
        most = most.max(memory.most());
    }
    Ok((most, said))
}

/// What was measured of one way in one pool: means of the seeds.
#[derive(Clone, Copy, Default)]
struct Figures {
    megabytes: f64,
    chunks: f64,
    shared: f64,
    /// Until the last stream was done.
    seconds: f64,
    /// Mean seconds of a query, for each of [`SHARES`].
    latency: [f64; SHARES.len()],
}

impl Figures {
    fn add(&mut self, other: &Self, part: f64) {
        self.megabytes += other.megabytes * part;
        self.chunks += other.chunks * part;
        self.shared += other.shared * part;
        self.seconds += other.seconds * part;
        self.latency.iter_mut().zip(other.latency).for_each(|(sum, value)| *sum += value * part);
    }
}

/// Runs the lists of queries, each one in a stream of its own.
async fn measure(
    folder: &Path,
    settings: &Settings,
    way: Way,
    frames: u32,
    lists: &[Vec<(u64, String)>],
) -> Result<Figures> {
    let bandwidth = (settings.bandwidth * 1e6) as u64;
    let model = DeclaredModel { bandwidth, latency: Duration::from_millis(1), outstanding: DeclaredModel::OUTSTANDING };
    let pool = pool_of(frames, settings.page, &Device::declared(model))?;
    let (ctx, host, _) = session(folder, settings, way, pool).await?;
    let started = Instant::now();
    let stream = |queries: Vec<(u64, String)>| {
        let ctx = ctx.clone();
        async move {
            let mut latencies = Vec::new();
            for (share, sql) in queries {
                let began = Instant::now();
                collect(plan(&ctx, &sql).await?, ctx.task_ctx()).await?;
                latencies.push((share, began.elapsed().as_secs_f64()));
            }
            Ok::<_, DataFusionError>(latencies)
        }
    };
    let running: Vec<_> = lists.iter().cloned().map(|queries| tokio::spawn(stream(queries))).collect();
    let mut latencies = Vec::new();
    for stream in running {
        latencies.extend(stream.await.map_err(external)??);
    }
    let seconds = started.elapsed().as_secs_f64();
    let latency = SHARES.map(|share| {
        let of_share = latencies.iter().filter(|(other, _)| *other == share);
        of_share.clone().map(|(_, seconds)| seconds).sum::<f64>() / of_share.count().max(1) as f64
    });
    let stats = host.pool().stats();
    let (chunks, shared) = (stats.chunks as f64, stats.chunks_shared as f64);
    Ok(Figures { megabytes: stats.bytes_read as f64 / 1e6, chunks, shared, seconds, latency })
}

/// A line of the table, and its JSON.
fn show(cell: &str, as_json: &str, way: Way, figures: &Figures, ratio: f64) -> String {
    let Figures { megabytes, chunks, shared, seconds, latency } = figures;
    let each: Vec<String> = latency.iter().map(|seconds| format!("{seconds:7.2}")).collect();
    println!(
        "{cell}  {:32} {megabytes:8.1} {ratio:6.2} {chunks:7.0} {shared:7.0} {seconds:7.1} {}",
        way.name,
        each.join(" ")
    );
    format!(
        "{{{as_json}, \"way\": \"{}\", \"mb_read\": {megabytes:.3}, \"ratio\": {ratio:.4}, \"chunks\": {chunks:.1}, \
         \"chunks_shared\": {shared:.1}, \"wall_s\": {seconds:.3}, \"latency_s\": [{}]}}",
        way.name,
        each.join(",")
    )
}

#[tokio::main]
async fn main() -> Result<()> {
    let settings = Settings::given()?;
    let temporary = tempfile::tempdir()?;
    let folder = settings.folder.clone().unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&folder)?;
    generate(&folder, &settings)?;
    println!("{}", settings.as_json());
    let ways: Vec<Way> = settings.ways.iter().map(|&number| WAYS[number as usize - 1]).collect();
    let mut rows = Vec::new();
    for &number in &settings.mixes {
        let (name, mix) = MIXES[number as usize - 1];
        let pages = touched(&folder, &settings, mix).await?;
        println!("\n{name}: {:.1} MB", f64::from(pages) * settings.page as f64 / 1e6);
        let pools = if settings.alone { &settings.pools[..] } else { &[] };
        for (&share, way) in pools.iter().flat_map(|share| ways.iter().map(move |way| (share, way))) {
            let (most, said) = alone(&folder, &settings, *way, pages * share as u32 / 100).await?;
            println!(
                "{share:4}%  {:32} all keys alone: reserves {:8.2} MB at most  {said}",
                way.name,
                most as f64 / 1e6
            );
        }
        println!(
            "streams pool  {:32} {:>8} {:>6} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}",
            "way", "MB", "ratio", "chunks", "shared", "s", "1 %", "10 %", "50 %", "100 %"
        );
        for (&streams, &share) in settings.streams.iter().flat_map(|s| settings.pools.iter().map(move |p| (s, p))) {
            let mut first = 0.0;
            for way in &ways {
                let mut figures = Figures::default();
                for seed in 1..=settings.seeds {
                    let lists = lists(&settings, seed, mix, streams);
                    let found = measure(&folder, &settings, *way, pages * share as u32 / 100, &lists).await?;
                    figures.add(&found, 1.0 / settings.seeds as f64);
                }
                first = if first > 0.0 { first } else { figures.megabytes };
                let as_json = format!("\"mix\": \"{name}\", \"streams\": {streams}, \"pool\": {share}");
                let ratio = figures.megabytes / first;
                rows.push(show(&format!("{streams:7} {share:3}%"), &as_json, *way, &figures, ratio));
            }
        }
    }
    if let Some(path) = &settings.json {
        let text = format!("{{\"config\": {},\n\"rows\": [\n{}\n]}}\n", settings.as_json(), rows.join(",\n"));
        std::fs::write(path, text)?;
    }
    Ok(())
}
