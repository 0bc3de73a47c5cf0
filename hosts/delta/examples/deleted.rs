//! What deleted and updated rows cost a scan: a table with deletion vectors against the same rows
//! compacted, in alternation, out of warm pools.
//!
//! `cargo run --release -p pagecast-delta --example deleted -- [ROWS] [ROUNDS] [JSON]`. Linux only.
//! Times are the best of the rounds. Processor time is that of all threads, which what else runs on
//! the machine disturbs little.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::common::Result;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use pagecast::{Pool, PoolOptions};
use pagecast_datafusion::{Delivery, Host, HostOptions, install_with};
use pagecast_delta::{Options, Table};
use pagecast_tables::VersionedTable;
use serde_json::json;

const SQL: &str = "SELECT count(id), sum(part), max(text) FROM t";
/// 1 % and 10 % of the rows, apart from each other and in stretches.
const ROWS: [&str; 4] = ["id % 100 = 7", "id % 10 = 7", "id % 100000 < 1000", "id % 100000 < 10000"];

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

fn external(error: impl std::error::Error + Send + Sync + 'static) -> datafusion::common::DataFusionError {
    datafusion::common::DataFusionError::External(Box::new(error))
}

/// Nanoseconds that each thread of this process was on a processor so far.
fn on_processor() -> Result<BTreeMap<PathBuf, u64>> {
    let mut threads = BTreeMap::new();
    for thread in std::fs::read_dir("/proc/self/task")? {
        let path = thread?.path();
        // A thread may end meanwhile.
        let Ok(stat) = std::fs::read_to_string(path.join("schedstat")) else { continue };
        threads.extend(stat.split(' ').next().and_then(|on_processor| Some((path, on_processor.parse().ok()?))));
    }
    Ok(threads)
}

/// Seconds on processors between two such counts; nothing if a thread has ended, whose share is not
/// known.
fn between(before: &BTreeMap<PathBuf, u64>, after: &BTreeMap<PathBuf, u64>) -> Option<f64> {
    let all = |threads: &BTreeMap<PathBuf, u64>| threads.values().sum::<u64>();
    let kept = before.keys().all(|thread| after.contains_key(thread));
    kept.then(|| (all(after) - all(before)) as f64 / 1e9)
}

/// A session that reads a version through a pool of its own, and what its scans have cost.
struct Reader {
    ctx: SessionContext,
    host: Arc<Host>,
    bytes: u64,
    wall: f64,
    processor: f64,
}

impl Reader {
    fn new(version: VersionedTable, delivery: Delivery) -> Result<Self> {
        let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
        ctx.register_table("t", Arc::new(version))?;
        pagecast_delta::install(&ctx)?;
        let pool = Pool::new(PoolOptions::default().memory(1 << 30)).map_err(external)?;
        let host = install_with(&ctx, pool, HostOptions::default().delivery(delivery)).map_err(external)?;
        Ok(Self { ctx, host, bytes: 0, wall: f64::MAX, processor: f64::MAX })
    }

    /// Scans the table once more.
    async fn scan(&mut self) -> Result<()> {
        let before = self.host.pool().stats().bytes_requested;
        let plan = self.ctx.sql(SQL).await?.create_physical_plan().await?;
        let (started, processor) = (Instant::now(), on_processor()?);
        collect(plan, self.ctx.task_ctx()).await?;
        self.wall = self.wall.min(started.elapsed().as_secs_f64());
        self.processor = self.processor.min(between(&processor, &on_processor()?).unwrap_or(f64::MAX));
        self.bytes = self.host.pool().stats().bytes_requested - before;
        Ok(())
    }
}

/// A table of four files, changed by this statement; and the version before it was compacted.
async fn changed(folder: &std::path::Path, count: i64, statement: &str) -> Result<(Arc<Table>, VersionedTable)> {
    let table = Table::create(folder, &rows(0, 1)?.schema(), &[], Options::default())?;
    let ctx = SessionContext::new();
    ctx.register_table("t", Arc::new(table.provider()?))?;
    pagecast_delta::install(&ctx)?;
    for file in 0..4 {
        let new = ctx.read_batch(rows(file * count / 4, count / 4)?)?;
        ctx.register_table("new", new.into_view())?;
        ctx.sql("INSERT INTO t SELECT * FROM new").await?.collect().await?;
        ctx.deregister_table("new")?;
    }
    ctx.sql(statement).await?.collect().await?;
    let marked = table.provider_at(&table.newest()?);
    table.compact(0.0)?;
    Ok((table, marked))
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise| arguments.next().and_then(|text| text.parse::<i64>().ok()).unwrap_or(otherwise);
    let (count, rounds) = (number(4_000_000), number(15));
    println!("{count} rows in 4 files, best of {rounds} scans out of a warm pool, over those of the compacted table");
    println!("{SQL}");
    println!("{:46} {:12} {:>10} {:>6} {:>6} {:>9} {:>6}", "", "delivery", "bytes", "", "time", "seconds", "cpu");
    let mut measured = Vec::new();
    for statement in ["DELETE FROM t", "UPDATE t SET part = part + 1"] {
        for rows in ROWS {
            let folder = tempfile::tempdir()?;
            let statement = format!("{statement} WHERE {rows}");
            let (table, marked) = changed(folder.path(), count, &statement).await?;
            for delivery in [Delivery::Stock, Delivery::InOrder, Delivery::OutOfOrder] {
                let mut marked = Reader::new(marked.clone(), delivery)?;
                let mut compacted = Reader::new(table.provider()?, delivery)?;
                for _ in 0..rounds {
                    marked.scan().await?;
                    compacted.scan().await?;
                }
                let bytes = marked.bytes as f64 / compacted.bytes as f64;
                let (wall, processor) = (marked.wall / compacted.wall, marked.processor / compacted.processor);
                let delivery = format!("{delivery:?}");
                println!(
                    "{statement:46} {delivery:12} {:10} {bytes:6.3} {wall:6.3} {:9.4} {processor:6.3}",
                    marked.bytes, marked.wall
                );
                measured.push(json!({
                    "statement": statement, "delivery": delivery,
                    "bytes": [marked.bytes, compacted.bytes],
                    "wall_s": [marked.wall, compacted.wall],
                    "processor_s": [marked.processor, compacted.processor],
                }));
            }
        }
    }
    if let Some(path) = arguments.next() {
        let all = json!({"rows": count, "rounds": rounds, "query": SQL, "marked_and_compacted": measured});
        std::fs::write(path, format!("{all:#}\n"))?;
    }
    Ok(())
}
