//! What one process answers to the TPC-H queries 1 to 22, and how answers of several are compared
//! with it. The tests of all engines share it.

use std::time::Duration;

use datafusion::common::DataFusionError;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::prelude::SessionContext;
use pagecast::Pool;
use pagecast::storage::{FaultStore, ObjectFault};
use pagecast_datafusion::install;
use tokio::sync::OnceCell;

use crate::rows::{Row, rows, run, same_order, same_rows};
use crate::tables::{alone, pool_options, query};

/// A pool that holds all that the queries read.
pub(crate) const AMPLE: u64 = 64 << 20;
/// Longer than any query takes, and than those who serve it wait for each other.
const PATIENCE: Duration = Duration::from_secs(300);

/// What one process answers.
pub(crate) async fn expected() -> &'static [Vec<Row>] {
    static EXPECTED: OnceCell<Vec<Vec<Row>>> = OnceCell::const_new();
    EXPECTED.get_or_init(async || all_queries(&alone().await).await).await
}

pub(crate) async fn all_queries(ctx: &SessionContext) -> Vec<Vec<Row>> {
    let mut results = Vec::new();
    for number in 1..=22 {
        results.push(run(ctx, &query(number)).await);
    }
    results
}

/// The columns by which the rows of a query are sorted.
async fn ordered_by(ctx: &SessionContext, sql: &str) -> Vec<usize> {
    let plan = ctx.state().create_logical_plan(sql).await.unwrap();
    let mut at = &plan;
    loop {
        match at {
            LogicalPlan::Limit(limit) => at = &limit.input,
            LogicalPlan::Sort(sort) => {
                let columns = sort.expr.iter().filter_map(|sorted| match &sorted.expr {
                    Expr::Column(column) => plan.schema().index_of_column(column).ok(),
                    _ => None,
                });
                return columns.collect();
            }
            _ => return Vec::new(),
        }
    }
}

pub(crate) async fn assert_right(ctx: &SessionContext, number: usize, result: &[Row], how: &str) {
    let expected = &expected().await[number - 1];
    let what = format!("query {number}, {how}");
    assert!(!expected.is_empty(), "{what}: nothing to compare");
    assert!(same_rows(expected, result), "{what}: other rows\n{expected:?}\n{result:?}");
    let columns = ordered_by(ctx, &query(number)).await;
    assert!(same_order(expected, result, &columns), "{what}: other order\n{expected:?}\n{result:?}");
}

/// The rows of a query, or the text of its error. Panics if it does not end.
pub(crate) async fn answer(ctx: &SessionContext, number: usize) -> Result<Vec<Row>, String> {
    let answer = async {
        let batches = ctx.sql(&query(number)).await?.collect().await?;
        Ok::<_, DataFusionError>(rows(&batches))
    };
    let answer = tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| panic!("query {number} hangs"));
    answer.map_err(|error| error.to_string())
}

/// The distinct bytes that the queries read, in pages.
pub(crate) async fn touched() -> u64 {
    let (ctx, pool) = (alone().await, Pool::new(pool_options(AMPLE)).unwrap());
    install(&ctx, pool.clone()).unwrap();
    all_queries(&ctx).await;
    pool.stats().bytes_read
}

/// Lets a store give no answer to the next that asks.
pub(crate) fn silence(store: &FaultStore) {
    store.plan([ObjectFault::Silent]);
}

/// Waits until somebody waits for a store that was silenced.
pub(crate) async fn until_asked(silent: &FaultStore) {
    while silent.unplan() {
        silence(silent);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Files that `COPY` of sorted rows wrote say so, and what follows relies on it.
pub(crate) async fn assert_order_of_files(ctx: &SessionContext) {
    let folder = tempfile::tempdir().unwrap();
    let here = SessionContext::new();
    for file in 0..7 {
        let path = folder.path().join(format!("{file}.parquet"));
        let (from, to) = (file * 1000, file * 1000 + 999);
        let rows = format!("SELECT value AS id, value % 7 AS rest FROM generate_series({from}, {to})");
        run(&here, &format!("COPY ({rows}) TO '{}'", path.display())).await;
    }
    let queries = ["SELECT id FROM t ORDER BY id", "SELECT id, rest FROM t WHERE rest = 3 ORDER BY id LIMIT 700"];
    for ctx in [&here, ctx] {
        ctx.register_parquet("t", folder.path().to_str().unwrap(), Default::default()).await.unwrap();
    }
    for sql in queries {
        let (expected, found) = (run(&here, sql).await, run(ctx, sql).await);
        assert!(same_rows(&expected, &found) && same_order(&expected, &found, &[0]), "{sql}");
    }
}
