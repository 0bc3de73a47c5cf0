//! `pagecast-peers ENGINE`: DataFusion over a cache, as an engine of `make bench-peers`.
//!
//! ENGINE is `liquid-cache`, which keeps decoded columns, or `foyer`, whose hybrid cache keeps
//! blocks of the Parquet files. How it is spoken to is what engines.py says. The cache has the
//! job's memory; what statements work with comes on top, and is spilled beyond as much again.
//!
//! Start it with `MALLOC_ARENA_MAX=2`: in glibc's heaps for each thread, blocks that foyer has
//! given up stay for long, and a run took half as much memory again. mimalloc helps foyer less, and
//! harms LiquidCache.

mod blocks;
mod digest;

use std::io::stdin;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use liquid_cache_datafusion_local::LiquidCacheLocalBuilder;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

#[derive(Deserialize)]
struct Job {
    data: PathBuf,
    memory: usize,
    scratch: PathBuf,
    streams: Vec<Vec<String>>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = std::env::args().nth(1).context("ENGINE is missing")?;
    let mut lines = stdin().lines();
    let job: Job = serde_json::from_str(&lines.next().context("the job is missing")??)?;
    let (context, version) = match engine.as_str() {
        "liquid-cache" => (over_liquid_cache(&job).await?, "liquid-cache 0.1.13"),
        "foyer" => (over_foyer(&job).await?, "foyer 0.22.6"),
        other => bail!("there is no engine {other}"),
    };
    for table in ["lineitem", "orders"] {
        let file = job.data.join(format!("{table}.parquet"));
        let file = file.to_str().context("the data's path is no text")?;
        context.register_parquet(table, file, ParquetReadOptions::default()).await?;
    }
    println!("ready");
    lines.next().transpose()?;
    let mut report = run(&context, job.streams).await;
    report["version"] = format!("{version}, DataFusion {}", datafusion::DATAFUSION_VERSION).into();
    report["peak_bytes"] = peak_bytes()?.into();
    println!("{report}");
    Ok(())
}

async fn over_liquid_cache(job: &Job) -> Result<SessionContext> {
    let (context, _) = LiquidCacheLocalBuilder::new()
        .with_max_memory_bytes(job.memory)
        .with_cache_dir(job.scratch.clone())
        .build(SessionConfig::new())
        .await?;
    // Its builder takes no environment, and its rules are in the state.
    let state = SessionStateBuilder::new_from_existing(context.state());
    Ok(SessionContext::new_with_state(state.with_runtime_env(environment(job)?).build()))
}

async fn over_foyer(job: &Job) -> Result<SessionContext> {
    let environment = environment(job)?;
    let blocks = blocks::Blocks::open(job.memory, &job.scratch.join("foyer")).await?;
    environment.register_object_store(ObjectStoreUrl::local_filesystem().as_ref(), Arc::new(blocks));
    Ok(SessionContext::new_with_config_rt(SessionConfig::new(), environment))
}

fn environment(job: &Job) -> Result<Arc<RuntimeEnv>> {
    let spilled = DiskManagerMode::Directories(vec![job.scratch.clone()]);
    Ok(RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(job.memory)))
        .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(spilled))
        .build_arc()?)
}

/// All streams at once, each one statement after another.
async fn run(context: &SessionContext, streams: Vec<Vec<String>>) -> Value {
    let (mut running, mut queries, mut errors) = (JoinSet::new(), Vec::new(), Vec::new());
    let began = Instant::now();
    for (number, statements) in streams.into_iter().enumerate() {
        running.spawn(stream(context.clone(), number, statements));
    }
    while let Some(ended) = running.join_next().await {
        // A stream that panics is one that fails.
        let (done, failed) = ended.unwrap_or_else(|panic| (Vec::new(), Some(panic.into())));
        queries.extend(done);
        errors.extend(failed.map(|error| format!("{error:#}").chars().take(300).collect::<String>()));
    }
    json!({"wall_s": rounded(began, 1e3), "queries": queries, "errors": errors})
}

/// What was answered, and why no more was.
async fn stream(
    context: SessionContext,
    number: usize,
    statements: Vec<String>,
) -> (Vec<Value>, Option<anyhow::Error>) {
    let mut queries = Vec::new();
    for (position, statement) in statements.iter().enumerate() {
        match answer(&context, statement).await {
            Ok((s, rows)) => queries.push(json!({"stream": number, "position": position, "s": s, "rows": rows})),
            Err(error) => return (queries, Some(error)),
        }
    }
    (queries, None)
}

async fn answer(context: &SessionContext, statement: &str) -> Result<(f64, String)> {
    let began = Instant::now();
    let batches = context.sql(statement).await?.collect().await?;
    Ok((rounded(began, 1e4), digest::digest(&batches)?))
}

fn rounded(since: Instant, unit: f64) -> f64 {
    (since.elapsed().as_secs_f64() * unit).round() / unit
}

/// The most memory this process had, without what it had before it became this program.
fn peak_bytes() -> Result<u64> {
    let status = std::fs::read_to_string(Path::new("/proc/self/status"))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    Ok(peak.context("the kernel tells no peak")?.parse::<u64>()? << 10)
}
