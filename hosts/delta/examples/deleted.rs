//! What deleted rows cost a scan: a table with deletion vectors against the same rows compacted.
//!
//! `cargo run --release -p pagecast-delta --example deleted -- [ROWS] [ROUNDS]`

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::common::Result;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use pagecast::{Pool, PoolOptions};
use pagecast_datafusion::{Delivery, Host, HostOptions, install_with};
use pagecast_delta::{DeltaTable, Options, Table};

const SQL: &str = "SELECT count(id), sum(part), max(text) FROM t";

/// So many rows, from this one on.
fn rows(from: i64, count: i64) -> Result<RecordBatch> {
    let ids = from..from + count;
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
        ("part", Arc::new(Int64Array::from_iter_values(ids.clone().map(|id| id * 7919 % 1000)))),
        ("text", Arc::new(StringArray::from_iter_values(ids.map(|id| format!("{:x}", id.wrapping_mul(0x9e37_79b9)))))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// A session that reads the table through an empty pool.
fn session(table: &Arc<Table>, delivery: Delivery) -> Result<(SessionContext, Arc<Host>)> {
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    ctx.register_table("t", Arc::new(DeltaTable::newest(table)?))?;
    pagecast_delta::install(&ctx)?;
    let pool = Pool::new(PoolOptions::default().memory(1 << 30)).map_err(external)?;
    let host = install_with(&ctx, pool, HostOptions::default().delivery(delivery)).map_err(external)?;
    Ok((ctx, host))
}

fn external(error: impl std::error::Error + Send + Sync + 'static) -> datafusion::common::DataFusionError {
    datafusion::common::DataFusionError::External(Box::new(error))
}

/// Bytes that one scan asks the pool for, and the best seconds of several.
async fn scan(table: &Arc<Table>, delivery: Delivery, rounds: usize) -> Result<(u64, f64)> {
    let (mut bytes, mut best) = (0, f64::MAX);
    let (ctx, host) = session(table, delivery)?;
    for _ in 0..rounds {
        let before = host.pool().stats().bytes_requested;
        let plan = ctx.sql(SQL).await?.create_physical_plan().await?;
        let started = Instant::now();
        collect(plan, ctx.task_ctx()).await?;
        best = best.min(started.elapsed().as_secs_f64());
        bytes = host.pool().stats().bytes_requested - before;
    }
    Ok((bytes, best))
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<i64>().unwrap_or(0));
    let (count, rounds) = (numbers.next().unwrap_or(4_000_000), numbers.next().unwrap_or(5) as usize);
    println!("{count} rows in 4 files, best of {rounds} scans out of a warm pool; {SQL}");
    println!("{:24} {:12} {:>10} {:>10} {:>7} {:>7}", "deleted", "delivery", "bytes", "compacted", "bytes", "time");
    for deleted in ["id % 100 = 7", "id % 10 = 7", "id % 100000 < 1000", "id % 100000 < 10000"] {
        let folder = tempfile::tempdir()?;
        let table = Table::create(folder.path(), &rows(0, 1)?.schema(), &[], Options::default())?;
        let (ctx, _) = session(&table, Delivery::Stock)?;
        for file in 0..4 {
            let new = ctx.read_batch(rows(file * count / 4, count / 4)?)?;
            ctx.register_table("new", new.into_view())?;
            ctx.sql("INSERT INTO t SELECT * FROM new").await?.collect().await?;
            ctx.deregister_table("new")?;
        }
        ctx.sql(&format!("DELETE FROM t WHERE {deleted}")).await?.collect().await?;
        let deliveries = [Delivery::Stock, Delivery::InOrder, Delivery::OutOfOrder];
        let mut marked = Vec::new();
        for delivery in deliveries {
            marked.push(scan(&table, delivery, rounds).await?);
        }
        table.compact(0.0)?;
        for (delivery, (bytes, seconds)) in deliveries.into_iter().zip(marked) {
            let (least, peer) = scan(&table, delivery, rounds).await?;
            let (more, longer) = (bytes as f64 / least as f64, seconds / peer);
            println!("{deleted:24} {delivery:12?} {bytes:10} {least:10} {more:7.3} {longer:7.3}");
        }
    }
    Ok(())
}
