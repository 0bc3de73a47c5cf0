//! What many small row groups, or many small files, cost: the same queries with the pool and in
//! plain DataFusion.
//!
//! `cargo run --release -p pagecast-datafusion --example row_groups -- FILES ROW_GROUPS plain|pool`
//!
//! Each file has that many row groups of a hundred rows. Prints the time of each query and the most
//! memory that the process had, so each side is a run of its own.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use datafusion::error::Result;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use pagecast::{Pool, PoolOptions};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

const ROWS: i64 = 100;

fn write(path: &Path, file: i64, row_groups: i64) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(ROWS as usize)).build();
    let batch = |row_group: i64| {
        let ids = || row_group * ROWS..(row_group + 1) * ROWS;
        RecordBatch::try_from_iter([
            ("id", Arc::new(Int64Array::from_iter_values(ids())) as _),
            ("value", Arc::new(Int64Array::from_iter_values(ids().map(|id| id * 7919 % 10_007))) as _),
            ("name", Arc::new(StringArray::from_iter_values(ids().map(|id| format!("number {id}")))) as _),
        ])
    };
    let mut writer = ArrowWriter::try_new(File::create(path)?, batch(0)?.schema(), Some(properties))?;
    for row_group in file * row_groups..(file + 1) * row_groups {
        writer.write(&batch(row_group)?)?;
    }
    writer.close()?;
    Ok(())
}

/// The most memory that this process had, in MiB, where the system says so.
fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    kib.and_then(|kib| kib.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) / 1024
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [files, row_groups, side] = arguments.as_slice() else { return Err("FILES ROW_GROUPS plain|pool".into()) };
    let (files, row_groups): (i64, i64) = (files.parse()?, row_groups.parse()?);
    let folder = std::env::temp_dir().join(format!("row-groups-{files}-{row_groups}"));
    if !folder.exists() {
        fs::create_dir_all(&folder)?;
        for file in 0..files {
            write(&folder.join(format!("{file:05}.parquet")), file, row_groups)?;
        }
    }
    let ctx = SessionContext::new();
    let location = folder.to_str().ok_or("a folder with a strange name")?;
    ctx.register_parquet("t", location, ParquetReadOptions::default()).await?;
    if side == "pool" {
        let pool = Pool::new(PoolOptions::default().memory(64 << 20))?;
        pagecast_datafusion::install(&ctx, pool)?;
    }
    let middle = files * row_groups * ROWS / 2;
    for sql in [
        "SELECT count(*) FROM t WHERE value > 5000".to_owned(),
        format!("SELECT max(name) FROM t WHERE id = {middle}"),
        "SELECT sum(id), max(name) FROM t".to_owned(),
        "SELECT count(*) FROM t WHERE value > 5000".to_owned(),
    ] {
        let started = Instant::now();
        let result = run(&ctx, &sql).await?;
        println!("{side}: {:.3} s, {} MiB at most: {sql}: {result}", started.elapsed().as_secs_f64(), peak_mib());
    }
    Ok(())
}

async fn run(ctx: &SessionContext, sql: &str) -> Result<String> {
    let batches = ctx.sql(sql).await?.collect().await?;
    let cells = batches.iter().flat_map(|batch| batch.columns().iter().map(|column| format!("{column:?}")));
    Ok(cells.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" "))
}
