//! Small tables, sessions that read them, and what queries say of them.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
use deltalake::DeltaTable;
use deltalake::parquet::file::properties::WriterProperties;
use pagecast::{Pool, PoolOptions};
use pagecast_datafusion::{Delivery, Host, HostOptions, install_with};
use url::Url;

/// Columns `id`, `part` (the thousands of `id`) and `text`, which is wide.
pub(crate) fn rows(ids: Range<i64>) -> RecordBatch {
    let text = |id: i64| format!("{:032x}", (id as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
    let columns: [(&str, ArrayRef, bool); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone())), true),
        ("part", Arc::new(Int64Array::from_iter_values(ids.clone().map(|id| id / 1000))), true),
        ("text", Arc::new(StringArray::from_iter_values(ids.map(text))), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

pub(crate) async fn open(folder: &Path) -> DeltaTable {
    DeltaTable::try_from_url(Url::from_directory_path(folder).unwrap()).await.unwrap()
}

/// A table that the crate itself writes: a file for each of these ranges, of row groups of 500
/// rows.
pub(crate) async fn written(folder: &Path, files: &[Range<i64>]) -> DeltaTable {
    let mut table = open(folder).await;
    for ids in files {
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(500)).build();
        table = table.write([rows(ids.clone())]).with_writer_properties(properties).await.unwrap();
    }
    table
}

/// A session of three partitions, which divides files of a kilobyte among them.
pub(crate) fn session() -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(3).with_batch_size(200);
    config.options_mut().optimizer.repartition_file_min_size = 1 << 10;
    SessionContext::new_with_config(config)
}

/// The same with a pool.
pub(crate) fn pooled(options: HostOptions) -> (SessionContext, Arc<Host>) {
    let ctx = session();
    let pool = Pool::new(PoolOptions::default().memory(64 << 20).page_size(4096)).unwrap();
    let host = install_with(&ctx, pool, options).unwrap();
    (ctx, host)
}

pub(crate) fn deliveries() -> [HostOptions; 3] {
    [Delivery::Stock, Delivery::InOrder, Delivery::OutOfOrder].map(|delivery| HostOptions::default().delivery(delivery))
}

/// Makes the crate's provider of the newest version the session's table `t`.
pub(crate) async fn register(ctx: &SessionContext, folder: &Path) {
    let provider = open(folder).await.table_provider().await.unwrap();
    ctx.register_table("t", provider).unwrap();
}

pub(crate) async fn try_run(ctx: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let batches = ctx.sql(sql).await?.collect().await?;
    let mut lines: Vec<_> = pretty_format_batches(&batches)?.to_string().lines().map(str::to_owned).collect();
    if !sql.contains("ORDER BY") {
        lines.sort_unstable();
    }
    Ok(lines)
}

/// The lines of the result, sorted unless the statement does it.
pub(crate) async fn run(ctx: &SessionContext, sql: &str) -> Vec<String> {
    try_run(ctx, sql).await.unwrap_or_else(|error| panic!("{error}\n{sql}"))
}
