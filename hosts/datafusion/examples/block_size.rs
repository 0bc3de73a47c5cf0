//! What pages of a fixed size cost under Parquet: bytes read for bytes asked, and the copy into contiguous memory.
//!
//! `cargo run --release -p pagecast-datafusion --example block_size -- FOLDER`, where FOLDER holds TPC-H lineitem in
//! Parquet (`pagecast bench` leaves one in its cache). One partition, so that times are those of one core.
//!
//! `memory` is stock DataFusion over a store that hands out slices of the whole file without copying: what caching
//! column chunks as they are could reach at best. The other rows are pools that hold everything: `cold` reads each
//! page once, `warm` is the fastest of seven runs that find every page resident. What warm takes above `memory` is the
//! price of pages: finding, pinning and copying them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::error::Result;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use pagecast::{Pool, PoolOptions};

const RUNS: usize = 7;

const QUERIES: [(&str, &str); 3] = [
    (
        "Q1-like",
        "SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
         avg(l_discount), count(*) FROM lineitem WHERE l_shipdate BETWEEN DATE '1994-01-01' AND DATE '1996-01-01'
         GROUP BY l_returnflag, l_linestatus",
    ),
    (
        "Q6-like",
        "SELECT sum(l_extendedprice * l_discount) FROM lineitem
         WHERE l_shipdate BETWEEN DATE '1994-01-01' AND DATE '1996-01-01' AND l_quantity < 24",
    ),
    ("count", "SELECT count(l_comment) FROM lineitem"),
];

fn session() -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1))
}

async fn time(ctx: &SessionContext, sql: &str) -> Result<Duration> {
    let started = Instant::now();
    ctx.sql(sql).await?.collect().await?;
    Ok(started.elapsed())
}

async fn fastest(ctx: &SessionContext, sql: &str) -> Result<Duration> {
    let mut best = time(ctx, sql).await?;
    for _ in 1..RUNS {
        best = best.min(time(ctx, sql).await?);
    }
    Ok(best)
}

async fn in_memory(files: &[PathBuf]) -> Result<SessionContext> {
    let store = InMemory::new();
    for (i, file) in files.iter().enumerate() {
        store.put(&format!("lineitem/{i}.parquet").into(), std::fs::read(file)?.into()).await?;
    }
    let ctx = session();
    let url = "memory://here".parse().map_err(|error| datafusion::error::DataFusionError::External(Box::new(error)))?;
    ctx.register_object_store(&url, Arc::new(store));
    ctx.register_parquet("lineitem", "memory://here/lineitem/", ParquetReadOptions::default()).await?;
    Ok(ctx)
}

async fn through_pool(folder: &str, page_size: u32, memory: u64) -> Result<(SessionContext, Pool)> {
    let pool = Pool::new(PoolOptions { memory, page_size, ..PoolOptions::default() })
        .map_err(|error| datafusion::error::DataFusionError::External(Box::new(error)))?;
    let ctx = session();
    pagecast_datafusion::install(&ctx, pool.clone());
    ctx.register_parquet("lineitem", folder, ParquetReadOptions::default()).await?;
    Ok((ctx, pool))
}

fn parquet_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    let parquet = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "parquet");
    Ok(entries.iter().map(std::fs::DirEntry::path).filter(parquet).collect())
}

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> Result<()> {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("block_size: name the folder that holds lineitem in Parquet");
        std::process::exit(2);
    };
    let files = parquet_files(Path::new(&folder))?;
    let size: u64 = files.iter().map(|file| file.metadata().map(|file| file.len())).sum::<std::io::Result<u64>>()?;
    println!("{} files, {size} bytes; warm times are the fastest of {RUNS}", files.len());
    println!(
        "{:8} {:>9} {:>10} {:>10} {:>12} {:>12} {:>9}",
        "query", "pages", "cold ms", "warm ms", "asked", "read", "read/ask"
    );
    let memory = in_memory(&files).await?;
    for (name, sql) in QUERIES {
        println!("{name:8} {:>9} {:>10} {:>10.1}", "memory", "", 1e3 * fastest(&memory, sql).await?.as_secs_f64());
        for page_size in [16 << 10, 64 << 10, 256 << 10, 1 << 20] {
            let (ctx, pool) = through_pool(&folder, page_size, 2 * size + (64 << 20)).await?;
            let cold = time(&ctx, sql).await?;
            let stats = pool.stats();
            let warm = fastest(&ctx, sql).await?;
            assert_eq!(pool.stats().bytes_read, stats.bytes_read, "a warm run read from the device");
            let [cold, warm] = [cold, warm].map(|time| 1e3 * time.as_secs_f64());
            let ratio = stats.bytes_read as f64 / stats.bytes_requested as f64;
            let pages = format!("{} KiB", page_size >> 10);
            let (asked, read) = (stats.bytes_requested, stats.bytes_read);
            println!("{name:8} {pages:>9} {cold:>10.1} {warm:>10.1} {asked:>12} {read:>12} {ratio:>9.3}");
        }
    }
    Ok(())
}
