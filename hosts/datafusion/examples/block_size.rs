//! What pages of a fixed size cost under Parquet: bytes read for bytes asked, and the copy into
//! contiguous memory.
//!
//! `cargo run --release -p pagecast-datafusion --example block_size -- FOLDER`, where FOLDER holds
//! TPC-H lineitem in Parquet (`pagecast bench` leaves one in its cache). Linux only. Times are
//! processor time of all threads, which what else runs on the machine disturbs little.
//!
//! `memory` is stock DataFusion over a store that hands out slices of the whole file without
//! copying: what caching column chunks as they are could reach at best. The other rows are pools
//! that hold everything: `cold` reads each page once, `warm` is the cheapest of nine runs that find
//! every page resident, in stock delivery. What it takes above `memory` is the price of pages:
//! finding, pinning and copying them. What `in order` takes above `warm` is the price of planning
//! the reads and of opening row groups one by one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use pagecast::{Pool, PoolOptions};
use pagecast_datafusion::{Delivery, HostOptions};

const RUNS: usize = 9;

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
    ("keys", "SELECT sum(l_orderkey + l_partkey) FROM lineitem"),
];

fn session() -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1))
}

/// Milliseconds that all threads of this process were on a processor so far.
fn processor_ms() -> Result<f64> {
    let mut nanoseconds = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let stat = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        nanoseconds += stat.split(' ').next().and_then(|on_processor| on_processor.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(nanoseconds as f64 / 1e6)
}

async fn time(ctx: &SessionContext, sql: &str) -> Result<f64> {
    let before = processor_ms()?;
    ctx.sql(sql).await?.collect().await?;
    Ok(processor_ms()? - before)
}

async fn cheapest(ctx: &SessionContext, sql: &str) -> Result<f64> {
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

fn large_pool(page_size: u32, memory: u64) -> Result<Pool> {
    Pool::new(PoolOptions::default().memory(memory).page_size(page_size))
        .map_err(|error| datafusion::error::DataFusionError::External(Box::new(error)))
}

async fn through(pool: &Pool, delivery: Delivery, folder: &str) -> Result<SessionContext> {
    let ctx = session();
    let options = HostOptions::default().delivery(delivery);
    pagecast_datafusion::install_with(&ctx, pool.clone(), options)?;
    ctx.register_parquet("lineitem", folder, ParquetReadOptions::default()).await?;
    Ok(ctx)
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
    println!("{} files, {size} bytes; warm times are the cheapest of {RUNS}", files.len());
    println!(
        "{:8} {:>9} {:>10} {:>10} {:>10} {:>12} {:>12} {:>9}",
        "query", "pages", "cold ms", "warm ms", "in order", "asked", "read", "read/ask"
    );
    let memory = in_memory(&files).await?;
    for (name, sql) in QUERIES {
        println!("{name:8} {:>9} {:>10} {:>10.1}", "memory", "", cheapest(&memory, sql).await?);
        for page_size in [16 << 10, 64 << 10, 256 << 10, 1 << 20] {
            let pool = large_pool(page_size, 2 * size + (64 << 20))?;
            let ctx = through(&pool, Delivery::Stock, &folder).await?;
            let cold = time(&ctx, sql).await?;
            let stats = pool.stats();
            let warm = cheapest(&ctx, sql).await?;
            let in_order = cheapest(&through(&pool, Delivery::InOrder, &folder).await?, sql).await?;
            assert_eq!(pool.stats().bytes_read, stats.bytes_read, "a warm run read from the device");
            let ratio = stats.bytes_read as f64 / stats.bytes_requested as f64;
            let pages = format!("{} KiB", page_size >> 10);
            let (asked, read) = (stats.bytes_requested, stats.bytes_read);
            println!(
                "{name:8} {pages:>9} {cold:>10.1} {warm:>10.1} {in_order:>10.1} {asked:>12} {read:>12} {ratio:>9.3}"
            );
        }
    }
    Ok(())
}
