//! Files of many small row groups, tables of many files, and what EXPLAIN ANALYZE counts of them.

use std::path::Path;
use std::sync::Arc;

use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use pagecast_datafusion::install;

use crate::data::{Session, numbers, register, write};
use crate::rows::{rows, run, same_rows};
use crate::tpch::pool;

const ROW_GROUPS: usize = 300;

/// A table of one file whose row groups have ten rows.
async fn with_small(ctx: &SessionContext, folder: &Path) {
    write(&folder.join("small.parquet"), &numbers(0, 10 * ROW_GROUPS as i64), 10);
    register(ctx, "t", folder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_row_groups_give_what_stock_gives() {
    let folder = tempfile::tempdir().unwrap();
    for (partitions, pushdown) in [(1, false), (4, false), (3, true)] {
        let session = Session { pushdown, ..Session::plain(partitions) };
        let (stock, ours) = (session.context(), session.context());
        with_small(&stock, folder.path()).await;
        with_small(&ours, folder.path()).await;
        let pool = pool(1 << 20);
        install(&ours, pool.clone()).unwrap();
        for sql in [
            "SELECT count(*) FROM t",
            "SELECT count(*), sum(id), max(name) FROM t WHERE even",
            "SELECT * FROM t WHERE id BETWEEN 5 AND 25 OR id > 2950",
            "SELECT id FROM t WHERE name = 'number 1777'",
            "SELECT name FROM t WHERE id < 0",
            "SELECT count(*) FROM (SELECT id FROM t LIMIT 777)",
            "SELECT max(file_row_index() - id), min(file_row_index() - id) FROM t",
            "SELECT file_row_index(), id FROM t WHERE id BETWEEN 705 AND 745 OR id > 2950 OR id = 1001",
            "SELECT file_row_index(), id FROM t WHERE id BETWEEN 705 AND 745 ORDER BY id DESC LIMIT 3",
        ] {
            let (expected, result) = (run(&stock, sql).await, run(&ours, sql).await);
            assert!(same_rows(&expected, &result), "{sql} in {partitions}: {expected:?}, but {result:?}");
            assert_eq!(pool.scans().len(), 0);
        }
    }
}

/// Counts of the plan's Parquet scans, by name.
fn counts(plan: &Arc<dyn ExecutionPlan>) -> Vec<(String, String)> {
    const NAMES: [&str; 6] = [
        "files_ranges_pruned_statistics",
        "row_groups_pruned_statistics",
        "row_groups_pruned_bloom_filter",
        "page_index_pages_pruned",
        "page_index_rows_pruned",
        "output_rows",
    ];
    let mut counts: Vec<_> = plan.children().into_iter().flat_map(counts).collect();
    let metrics = plan.downcast_ref::<DataSourceExec>().and_then(ExecutionPlan::metrics).unwrap_or_default();
    for name in NAMES {
        match sum(&metrics, name) {
            Some(MetricValue::PruningMetrics { pruning_metrics: m, .. }) => {
                counts.push((name.to_owned(), format!("{}, {}, {}", m.pruned(), m.matched(), m.fully_matched())));
                // What was not opened has no counts, or counts of nothing.
                counts.retain(|(_, count)| count != "0, 0, 0");
            }
            Some(other) => counts.push((name.to_owned(), other.to_string())),
            None => {}
        }
    }
    counts
}

fn sum(metrics: &MetricsSet, name: &str) -> Option<MetricValue> {
    metrics.aggregate_by_name().iter().map(|metric| metric.value().clone()).find(|value| value.name() == name)
}

async fn analyzed(ctx: &SessionContext, sql: &str) -> Vec<(String, String)> {
    let plan = ctx.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    rows(&collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap());
    counts(&plan)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_pruned_is_counted_once_as_stock_does() {
    let folder = tempfile::tempdir().unwrap();
    for partitions in [1, 4] {
        let (stock, ours) = (Session::plain(partitions).tpch().await, Session::plain(partitions).tpch().await);
        for ctx in [&stock, &ours] {
            with_small(ctx, folder.path()).await;
        }
        install(&ours, pool(4 << 20)).unwrap();
        for sql in [
            "SELECT count(*), sum(id) FROM t WHERE id >= 1005",
            "SELECT * FROM t WHERE id = 77",
            "SELECT * FROM t WHERE id < 0",
            "SELECT sum(id) FROM t",
            "SELECT sum(l_tax) FROM lineitem WHERE l_shipdate < DATE '1994-01-01'",
            "SELECT sum(l_tax) FROM lineitem WHERE l_shipdate = DATE '1994-01-01' AND l_orderkey = 7",
            "SELECT max(l_comment) FROM lineitem WHERE l_shipdate BETWEEN DATE '1994-01-01' AND DATE '1994-01-09'",
            "SELECT max(o_comment) FROM orders WHERE o_custkey = 37 AND o_orderdate > DATE '1995-01-01'",
        ] {
            let (expected, counted) = (analyzed(&stock, sql).await, analyzed(&ours, sql).await);
            assert!(expected.iter().any(|(name, _)| name.ends_with("pruned_statistics")), "{sql}: {expected:?}");
            assert_eq!(counted, expected, "{sql} in {partitions}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_files_than_a_process_may_open_are_one_table() {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..300 {
        write(&folder.path().join(format!("{file:03}.parquet")), &numbers(file * 10, 10), 10);
    }
    let ctx = Session::plain(2).context();
    register(&ctx, "t", folder.path()).await;
    let host = install(&ctx, pool(1 << 20)).unwrap();
    let sum: i64 = (0..3000).sum();
    for _ in 0..2 {
        assert_eq!(format!("{:?}", run(&ctx, "SELECT sum(id) FROM t").await), format!("[[Text(\"{sum}\")]]"));
    }
    let read = host.footer_bytes_read();
    run(&ctx, "SELECT name FROM t WHERE id = 77").await;
    assert_eq!(host.footer_bytes_read(), read);
    #[cfg(target_os = "linux")]
    {
        let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten().map(|entry| std::fs::read_link(entry.path()));
        let open = links.flatten().filter(|target| target.starts_with(folder.path())).count();
        assert!(open <= 128, "{open} of 300 files are open");
    }
}
