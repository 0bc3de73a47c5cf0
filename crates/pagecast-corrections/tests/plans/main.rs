//! What DataFusion's planner gets wrong, in a plain session with the corrections.
#![allow(clippy::unwrap_used)]

mod casts;
mod groups;
mod joins;
mod subqueries;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::prelude::{SessionConfig, SessionContext};

type Value = Option<i64>;

fn session() -> Result<SessionContext> {
    let config = SessionConfig::new().with_target_partitions(3).with_batch_size(64);
    let ctx = SessionContext::new_with_config(pagecast_corrections::configured(config));
    pagecast_corrections::install(&ctx, |_| false)?;
    Ok(ctx)
}

async fn batches(ctx: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    let batches = async { ctx.sql(sql).await?.collect().await }.await;
    batches.unwrap_or_else(|fault| panic!("{sql}\n{fault}"))
}

/// The rows of a statement as numbers.
async fn rows(ctx: &SessionContext, sql: &str) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for batch in batches(ctx, sql).await {
        let columns: Vec<_> = batch.columns().iter().map(|column| cast(column, &DataType::Int64).unwrap()).collect();
        let columns: Vec<Vec<Value>> =
            columns.iter().map(|column| column.as_primitive::<Int64Type>().iter().collect()).collect();
        rows.extend((0..batch.num_rows()).map(|at| columns.iter().map(|column| column[at]).collect::<Vec<_>>()));
    }
    rows
}

async fn rows_in_order(ctx: &SessionContext, sql: &str) -> Vec<Vec<Value>> {
    let mut rows = rows(ctx, sql).await;
    rows.sort();
    rows
}
