//! Joins of two clustered tables in several streams: bytes that each way of joining reads.
//!
//! lineitem and orders of TPC-H in the order of their key, and the queries of Figure 6.7 of
//! Świtakowski 2011 in its two mixes: joins (CMJ1, CMJ2), and scans of one table beside (L1, O1),
//! each over 1, 10, 50 or 100 % of the keys.
//!
//! `cargo run --release -p pagecast-datafusion --example joins -- [SF] [STREAMS] [QUERIES] [SEEDS]
//! [MB/s]`

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result};
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

const MIXES: [(&str, usize); 2] = [("CMJ1+CMJ2", 2), ("CMJ1+CMJ2+L1+O1", 4)];

/// Row groups of lineitem, as many as at scale factor 5 with 128 Ki rows.
const ROW_GROUPS: f64 = 229.0;
/// Small, so that a small row group has many.
const PAGE: u32 = 4096;

/// How queries join and are delivered.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    merge: bool,
    delivery: Delivery,
    in_strokes: bool,
}

const WAYS: [Way; 4] = [
    Way { name: "merge joins in order", merge: true, delivery: Delivery::InOrder, in_strokes: false },
    Way { name: "hash joins in order", merge: false, delivery: Delivery::InOrder, in_strokes: false },
    Way { name: "hash joins, scans in any order", merge: false, delivery: Delivery::OutOfOrder, in_strokes: false },
    Way { name: "joins in strokes", merge: true, delivery: Delivery::OutOfOrder, in_strokes: true },
];

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

fn generate(folder: &Path, scale: f64) -> Result<()> {
    let rows = |of: f64| (of * scale / ROW_GROUPS).ceil() as usize;
    let of_lineitem = rows(6_001_215.0).max(64);
    let lineitem = LineItemArrow::new(LineItemGenerator::new(scale, 1, 1));
    write(&folder.join("lineitem.parquet"), of_lineitem, lineitem)?;
    write(&folder.join("orders.parquet"), of_lineitem, OrderArrow::new(OrderGenerator::new(scale, 1, 1)))
}

/// The queries of each stream.
fn streams(random: &mut Random, scale: f64, mix: usize, streams: usize, queries: usize) -> Vec<Vec<String>> {
    // Keys are sparse: eight of 32.
    let keys = (6_000_000.0 * scale) as u64;
    let mut query = || {
        let (_, text) = QUERIES[random.below(mix as u32) as usize];
        let share = [1, 10, 50, 100][random.below(4) as usize];
        let length = keys * share / 100;
        let from = (random.unit() * (keys - length + 1) as f64) as u64;
        let range = |column: &str| format!("{column} > {from} AND {column} <= {}", from + length);
        text.replace("{l}", &range("l_orderkey")).replace("{o}", &range("o_orderkey"))
    };
    (0..streams).map(|_| (0..queries).map(|_| query()).collect()).collect()
}

/// A pool of about so many frames.
fn pool_of(frames: u32, device: &Device) -> Result<Pool> {
    let mut memory = u64::from(frames) * u64::from(PAGE);
    loop {
        let options = PoolOptions::default().memory(memory).page_size(PAGE).loads(512).device(device.clone());
        match Pool::new(options).map(|pool| (pool.frames(), pool)) {
            Ok((has, pool)) if has >= frames => return Ok(pool),
            Ok((has, _)) => memory += u64::from(frames - has) * u64::from(PAGE),
            Err(_) => memory += 64 * u64::from(PAGE),
        }
    }
}

async fn session(folder: &Path, way: Way, pool: Pool) -> Result<(SessionContext, Arc<Host>)> {
    let mut config = SessionConfig::new().with_target_partitions(2);
    config.options_mut().optimizer.prefer_hash_join = !way.merge;
    let ctx = SessionContext::new_with_config(config);
    for table in ["lineitem", "orders"] {
        let path = folder.join(format!("{table}.parquet"));
        ctx.register_parquet(table, path.display().to_string(), ParquetReadOptions::default()).await?;
    }
    let options = HostOptions::default().delivery(way.delivery).join_in_strokes(way.in_strokes);
    let host = install_with(&ctx, pool, options).map_err(external)?;
    Ok((ctx, host))
}

/// Distinct pages that the whole mix reads.
async fn touched(folder: &Path, scale: f64, mix: usize) -> Result<u32> {
    let (ctx, host) = session(folder, WAYS[1], pool_of(200_000, &Device::local())?).await?;
    for (_, text) in &QUERIES[..mix] {
        let all = format!("<= {}", 6_000_001.0 * scale);
        let sql = text.replace("{l}", &format!("l_orderkey {all}")).replace("{o}", &format!("o_orderkey {all}"));
        ctx.sql(&sql).await?.collect().await?;
    }
    Ok(host.pool().stats().loads as u32)
}

/// MB read, strokes, seconds until all streams were done, and the mean of each stream's queries.
async fn measure(folder: &Path, way: Way, frames: u32, list: &[Vec<String>], bandwidth: u64) -> Result<[f64; 4]> {
    let model = DeclaredModel { bandwidth, latency: Duration::from_millis(1), outstanding: DeclaredModel::OUTSTANDING };
    let (ctx, host) = session(folder, way, pool_of(frames, &Device::declared(model))?).await?;
    let started = Instant::now();
    let running: Vec<_> = list
        .iter()
        .cloned()
        .map(|queries| {
            let ctx = ctx.clone();
            tokio::spawn(async move {
                for sql in queries {
                    ctx.sql(&sql).await?.collect().await?;
                }
                Ok::<_, DataFusionError>(started.elapsed().as_secs_f64())
            })
        })
        .collect();
    let mut seconds = Vec::new();
    for stream in running {
        seconds.push(stream.await.map_err(external)??);
    }
    let stats = host.pool().stats();
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    Ok([stats.bytes_read as f64 / 1e6, stats.strokes as f64, seconds.into_iter().fold(0.0, f64::max), mean])
}

#[tokio::main]
async fn main() -> Result<()> {
    let given: Vec<f64> = std::env::args().skip(1).map(|text| text.parse().unwrap_or(0.0)).collect();
    let number = |at: usize, default: f64| given.get(at).copied().filter(|&number| number > 0.0).unwrap_or(default);
    let (scale, count, queries) = (number(0, 1.0), number(1, 16.0) as usize, number(2, 4.0) as usize);
    let (seeds, bandwidth) = (number(3, 3.0) as u64, (number(4, 60.0) * 1e6) as u64);
    let folder = tempfile::tempdir()?;
    generate(folder.path(), scale)?;
    println!("scale factor {scale}, {count} streams of {queries}, seeds 1 to {seeds}, {} MB/s", bandwidth as f64 / 1e6);
    println!(
        "{:16} {:>5}  {:32} {:>8} {:>6} {:>7} {:>8} {:>8}",
        "mix", "pool", "way", "MB", "ratio", "strokes", "s", "mean s"
    );
    for (name, mix) in MIXES {
        let pages = touched(folder.path(), scale, mix).await?;
        for share in [20, 40, 60] {
            let mut first = 0.0;
            for way in WAYS {
                let mut sums = [0.0; 4];
                for seed in 1..=seeds {
                    let list = streams(&mut Random::new(seed), scale, mix, count, queries);
                    let found = measure(folder.path(), way, pages * share / 100, &list, bandwidth).await?;
                    sums.iter_mut().zip(found).for_each(|(sum, value)| *sum += value / seeds as f64);
                }
                let [megabytes, strokes, total, mean] = sums;
                first = if first > 0.0 { first } else { megabytes };
                let ratio = megabytes / first;
                println!(
                    "{name:16} {share:4}%  {:32} {megabytes:8.2} {ratio:6.2} {strokes:7.0} {total:8.1} {mean:8.1}",
                    way.name
                );
            }
        }
    }
    Ok(())
}
