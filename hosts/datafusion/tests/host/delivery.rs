//! Which scans are delivered in which order, and what out of order must not change.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use pagecast::{CooperationConfig, Pool, PoolOptions};
use pagecast_datafusion::{Delivery, Host, HostOptions, bytes_read, install_with};

use crate::data::{Session, numbers, register, tpch, write};
use crate::rows::{rows, run, same_rows};
use crate::tpch::pool;

const FILES: i64 = 2;
/// Rows of a file, and of a row group, which is large enough to be a chunk.
const ROWS: i64 = 60_000;
const ROW_GROUP: i64 = 6000;
/// Row groups of all files.
const CHUNKS: usize = (FILES * ROWS / ROW_GROUP) as usize;

/// A folder of two files of ten row groups.
fn files() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..FILES {
        write(&folder.path().join(format!("{file}.parquet")), &numbers(file * ROWS, ROWS), ROW_GROUP as usize);
    }
    folder
}

async fn session(folder: &Path, partitions: usize, pool: Pool, options: HostOptions) -> (SessionContext, Arc<Host>) {
    let ctx = Session::plain(partitions).context();
    register(&ctx, "t", folder).await;
    let host = install_with(&ctx, pool, options).unwrap();
    (ctx, host)
}

async fn plan(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    ctx.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
}

/// How the scans of a plan are delivered, in the order of its display.
fn deliveries(plan: &Arc<dyn ExecutionPlan>) -> Vec<&'static str> {
    let shown = displayable(plan.as_ref()).indent(false).to_string();
    let scans = shown.lines().filter(|line| line.contains("DataSourceExec")).map(|line| {
        let known = ["delivery=out-of-order", "delivery=in-order"];
        known.into_iter().find(|delivery| line.contains(delivery)).map_or("stock", |found| &found[9..])
    });
    scans.collect()
}

/// A figure that EXPLAIN ANALYZE shows, summed over the scans of an executed plan.
fn figure(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name(name)).map_or(0, |value| value.as_usize());
    own + plan.children().into_iter().map(|child| figure(child, name)).sum::<usize>()
}

/// Nothing of any scan is left in the pool.
fn assert_quiet(pool: &Pool, what: &str) {
    assert_eq!((pool.scans().len(), pool.unordered_scans().len(), pool.pinned()), (0, 0, 0), "left behind by {what}");
}

#[tokio::test]
async fn a_plan_says_which_of_its_scans_may_come_out_of_order() {
    let (folder, more) = (files(), files());
    let (ctx, _host) = session(folder.path(), 2, pool(1 << 20), HostOptions::default()).await;
    register(&ctx, "u", more.path()).await;
    let location = folder.path().display();
    ctx.sql(&format!("CREATE EXTERNAL TABLE sorted STORED AS PARQUET WITH ORDER (id) LOCATION '{location}'"))
        .await
        .unwrap();
    let written = tempfile::tempdir().unwrap();
    let copy =
        format!("COPY (SELECT id FROM t WHERE even) TO '{}/x.parquet' STORED AS PARQUET", written.path().display());
    let copy_of_sums = format!(
        "COPY (SELECT even, sum(id) FROM t GROUP BY even) TO '{}/y.parquet' STORED AS PARQUET",
        written.path().display()
    );
    let (out, order, stock) = ("out-of-order", "in-order", "stock");
    let cases: &[(&str, &[&str])] = &[
        ("SELECT id, name FROM t", &[out]),
        ("SELECT even, sum(id) FROM t GROUP BY even", &[out]),
        ("SELECT id FROM t ORDER BY name", &[out]),
        ("SELECT t.id FROM t JOIN u ON t.id = u.id WHERE u.even", &[out, out]),
        ("SELECT id FROM t UNION ALL SELECT id FROM u", &[out, out]),
        // What takes the first rows that come.
        ("SELECT id FROM t LIMIT 5", &[order]),
        ("SELECT id FROM t WHERE even LIMIT 5", &[order]),
        ("SELECT id FROM t OFFSET 5", &[order]),
        ("SELECT sum(id) FROM (SELECT id FROM t WHERE even LIMIT 5)", &[order]),
        // A sort or an aggregate between them takes all rows.
        ("SELECT even, sum(id) FROM t GROUP BY even LIMIT 1", &[out]),
        ("SELECT t.id FROM t JOIN (SELECT id FROM u LIMIT 3) AS few ON t.id = few.id", &[out, order]),
        // What writes rows down as they come, and what does not see their order.
        (&copy, &[order]),
        (&copy_of_sums, &[out]),
        // A sort of few rows wants the most promising row groups first.
        ("SELECT id FROM t ORDER BY name LIMIT 3", &[stock]),
        // A declared order that somebody needs, and one that nobody does.
        ("SELECT id FROM sorted ORDER BY id", &[stock]),
        ("SELECT id, count(*) FROM sorted GROUP BY id", &[stock]),
        ("SELECT count(*) FROM sorted WHERE even", &[out]),
        // Functions that show an order; the files are too large for one stream.
        ("SELECT array_agg(id) FROM t", &[stock]),
        ("SELECT first_value(id), max(name) FROM t", &[stock]),
        ("SELECT id, row_number() OVER () FROM t", &[stock]),
    ];
    for (sql, expected) in cases {
        let mut found = deliveries(&plan(&ctx, sql).await);
        let mut expected = expected.to_vec();
        // Which side of a join comes first is the optimizer's choice.
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{sql}");
    }
    for delivery in [Delivery::InOrder, Delivery::Stock] {
        let (ctx, _host) = session(folder.path(), 2, pool(1 << 20), HostOptions::default().delivery(delivery)).await;
        let found = deliveries(&plan(&ctx, "SELECT id, name FROM t").await);
        assert_eq!(found, [if delivery == Delivery::Stock { stock } else { order }]);
    }
}

#[tokio::test]
async fn a_window_over_files_with_a_declared_order_keeps_it() {
    // Rows of both files alternate, so that only their merged order is the declared one.
    let folder = tempfile::tempdir().unwrap();
    for file in 0..2 {
        let all = numbers(0, 4000);
        let mask: arrow::array::BooleanArray = (0..4000).map(|id| Some(id % 2 == file)).collect();
        let half = arrow::compute::filter_record_batch(&all, &mask).unwrap();
        write(&folder.path().join(format!("{file}.parquet")), &half, 500);
    }
    let sql = "SELECT id, row_number() OVER (ORDER BY id) AS place FROM sorted ORDER BY place";
    let mut results = Vec::new();
    for host in [false, true] {
        let ctx = Session::plain(2).context();
        ctx.state_ref().write().config_mut().options_mut().optimizer.repartition_file_min_size = 10 << 20;
        let location = folder.path().display();
        ctx.sql(&format!("CREATE EXTERNAL TABLE sorted STORED AS PARQUET WITH ORDER (id) LOCATION '{location}'"))
            .await
            .unwrap();
        if host {
            install_with(&ctx, pool(1 << 20), HostOptions::default()).unwrap();
        }
        results.push(run(&ctx, sql).await);
    }
    assert_eq!(results[0].len(), 4000);
    assert_eq!(results[0], results[1]);
}

#[tokio::test]
async fn a_node_with_two_parents_comes_as_the_stricter_one_needs_it() {
    let folder = files();
    let stock = Session::plain(1).context();
    register(&stock, "t", folder.path()).await;
    let scan = plan(&stock, "SELECT id FROM t").await;
    assert_eq!(scan.name(), "DataSourceExec");
    let first = Arc::new(GlobalLimitExec::new(Arc::clone(&scan), 0, Some(3))) as Arc<dyn ExecutionPlan>;
    let groups = PhysicalGroupBy::new_single(vec![(
        datafusion::physical_expr::expressions::col("id", &scan.schema()).unwrap(),
        "id".to_owned(),
    )]);
    let distinct =
        AggregateExec::try_new(AggregateMode::Single, groups, vec![], vec![], Arc::clone(&scan), scan.schema())
            .unwrap();
    let distinct = Arc::new(distinct) as Arc<dyn ExecutionPlan>;
    let (ctx, _host) = session(folder.path(), 1, pool(1 << 20), HostOptions::default()).await;
    let state = ctx.state();
    let rule = state.physical_optimizers().last().unwrap();
    for inputs in [[&first, &distinct], [&distinct, &first]] {
        let both = UnionExec::try_new(inputs.into_iter().cloned().collect()).unwrap();
        let rewritten = rule.optimize(both, state.config_options()).unwrap();
        assert_eq!(deliveries(&rewritten), ["in-order", "in-order"], "the aggregate alone would not care");
        let scan_of = |i: usize| Arc::as_ptr(rewritten.children()[i].children()[0]).cast::<()>();
        assert_eq!(scan_of(0), scan_of(1), "what was shared is shared");
        let rows = collect(rewritten, ctx.task_ctx()).await.unwrap();
        assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 3 + (FILES * ROWS) as usize);
    }
    let alone = rule.optimize(distinct, state.config_options()).unwrap();
    assert_eq!(deliveries(&alone), ["out-of-order"]);
}

#[tokio::test]
async fn few_chunks_and_unregistered_scans_come_in_order() {
    let folder = files();
    for (options, cooperates) in [
        (HostOptions::default().least_chunks(CHUNKS), true),
        (HostOptions::default().least_chunks(CHUNKS + 1), false),
        (HostOptions::default().register(false), false),
    ] {
        let (ctx, host) = session(folder.path(), 2, pool(4 << 20), options).await;
        let plan = plan(&ctx, "SELECT id, name FROM t").await;
        assert_eq!(deliveries(&plan), ["out-of-order"], "the plan would allow it");
        let rows = collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
        assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), (FILES * ROWS) as usize);
        assert_eq!(figure(&plan, "pool_chunks"), if cooperates { CHUNKS } else { 0 }, "{options:?}");
        assert_eq!(deliveries(&plan), [if cooperates { "out-of-order" } else { "in-order" }], "what was done");
        assert_quiet(host.pool(), "a scan");
    }
}

#[tokio::test]
async fn a_pool_that_holds_too_few_chunks_delivers_in_order() {
    let folder = files();
    // A row group has about 70 KiB.
    for (memory, cooperates) in [(256 << 10, false), (4 << 20, true)] {
        let (ctx, host) = session(folder.path(), 2, pool(memory), HostOptions::default()).await;
        let plan = plan(&ctx, "SELECT id, name FROM t").await;
        collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
        assert_eq!(figure(&plan, "pool_chunks") > 0, cooperates, "a pool of {memory} bytes");
        assert_eq!(deliveries(&plan), [if cooperates { "out-of-order" } else { "in-order" }]);
        let why = displayable(plan.as_ref()).indent(false).to_string();
        assert_eq!(why.contains("in-order (the pool holds fewer than 4 of its chunks)"), !cooperates, "{why}");
        assert_eq!(
            [host.out_of_order_scans(), host.back_in_order_scans()],
            [u64::from(cooperates), u64::from(!cooperates)]
        );
        assert_quiet(host.pool(), "a scan");
    }
}

#[tokio::test]
async fn a_pool_without_room_for_cooperation_delivers_in_order() {
    let folder = files();
    let options = PoolOptions::default().memory(4 << 20).page_size(4096).cooperation(CooperationConfig::EMPTY);
    let pool = Pool::new(options).unwrap();
    let (ctx, host) = session(folder.path(), 2, pool.clone(), HostOptions::default()).await;
    let plan = plan(&ctx, "SELECT id, name FROM t").await;
    collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
    assert_eq!(figure(&plan, "pool_chunks"), 0);
    assert_eq!(figure(&plan, "pool_bytes_planned"), figure(&plan, "pool_bytes_requested"));
    assert_eq!(host.unregistered_scans(), 0, "the predictor knew the scan");
    assert_quiet(&pool, "a scan in order");
}

/// Every byte that the pool has read is some query's, whoever had it loaded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_the_pool_brings_are_some_query_s() {
    let folder = files();
    let (ctx, host) = session(folder.path(), 2, pool(1 << 20), HostOptions::default()).await;
    let mut queries = tokio::task::JoinSet::new();
    for sql in ["SELECT id, name FROM t", "SELECT name FROM t", "SELECT id FROM t", "SELECT sum(id), max(name) FROM t"]
    {
        let (plan, context) = (plan(&ctx, sql).await, ctx.task_ctx());
        assert_eq!(deliveries(&plan), ["out-of-order"]);
        queries.spawn(async move {
            collect(Arc::clone(&plan), context).await.unwrap();
            (bytes_read(&plan), figure(&plan, "pool_chunks"))
        });
    }
    let read = queries.join_all().await;
    assert!(read.iter().all(|&(_, chunks)| chunks == CHUNKS), "all cooperate: {read:?}");
    assert_eq!(read.iter().map(|(bytes, _)| bytes).sum::<u64>(), host.pool().stats().bytes_read, "{read:?}");
    let stats = host.pool().stats();
    assert!(stats.hit_rate() < stats.hits as f64 / stats.requests as f64, "what was brought is no hit of a cache");
}

/// A partition of which nobody fetches, before and after its first rows: the others come to their
/// end, and what it had begun is its own.
#[tokio::test]
async fn a_partition_that_stops_holds_no_other_up() {
    let folder = files();
    for batches in 0..2 {
        let (ctx, host) = session(folder.path(), 2, pool(4 << 20), HostOptions::default()).await;
        ctx.sql("SET datafusion.execution.batch_size = 300").await.unwrap();
        let plan = plan(&ctx, "SELECT id, name FROM t").await;
        let mut stopped = plan.execute(0, ctx.task_ctx()).unwrap();
        let mut seen = Vec::new();
        let column = |batch: &arrow::array::RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
        if batches == 0 {
            // It takes a chunk, and is left where it waits for the bytes of it.
            _ = futures::poll!(stopped.next());
        } else {
            seen.extend(column(&stopped.next().await.unwrap().unwrap()));
        }
        seen.extend(ids(plan.execute(1, ctx.task_ctx()).unwrap()).await);
        let before = seen.len();
        while let Some(batch) = stopped.next().await {
            seen.extend(column(&batch.unwrap()));
        }
        assert!(batches == 0 || before < seen.len());
        let distinct: BTreeSet<i64> = seen.iter().copied().collect();
        assert_eq!((seen.len(), distinct.len()), ((FILES * ROWS) as usize, (FILES * ROWS) as usize), "each row once");
        drop(stopped);
        assert_quiet(host.pool(), "both");
    }
}

/// A stream of which nobody fetches in the middle of its scan.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_nobody_fetches_from_keeps_nobody_and_goes_on_later() {
    let folder = files();
    let (ctx, host) = session(folder.path(), 2, pool(1 << 20), HostOptions::default()).await;
    let stopped = plan(&ctx, "SELECT id, name FROM t").await;
    let mut stopped = datafusion::physical_plan::execute_stream(stopped, ctx.task_ctx()).unwrap();
    let first = stopped.next().await.unwrap().unwrap();
    for _ in 0..4 {
        let other = plan(&ctx, "SELECT id, name FROM t").await;
        let rows = collect(Arc::clone(&other), ctx.task_ctx()).await.unwrap();
        assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), (FILES * ROWS) as usize);
        assert_eq!(figure(&other, "pool_chunks"), CHUNKS);
    }
    let mut seen: BTreeSet<i64> = first.column(0).as_primitive::<Int64Type>().values().iter().copied().collect();
    let mut rows = first.num_rows();
    while let Some(batch) = stopped.next().await {
        let batch = batch.unwrap();
        rows += batch.num_rows();
        seen.extend(batch.column(0).as_primitive::<Int64Type>().values());
    }
    assert_eq!((rows, seen.len()), ((FILES * ROWS) as usize, (FILES * ROWS) as usize), "each row once");
    drop(stopped);
    while host.pool().pinned() > 0 || !host.pool().scans().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_quiet(host.pool(), "one that had stopped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_memory_comes_first_and_others_reads_are_counted() {
    let folder = files();
    let pool = Pool::new(PoolOptions::default().memory(64 << 20).page_size(4096)).unwrap();
    // One partition: of two, the one that waits for storage might all the same come first.
    let (ctx, _host) = session(folder.path(), 1, pool.clone(), HostOptions::default().least_chunks(1)).await;
    // A scan that still runs has brought the last row groups of the second file.
    let last = FILES * ROWS - 2 * ROW_GROUP;
    let other = ctx.sql(&format!("SELECT id, name FROM t WHERE id >= {last}")).await.unwrap();
    let mut other = other.execute_stream().await.unwrap();
    other.next().await.unwrap().unwrap();
    let plan = plan(&ctx, "SELECT id, name FROM t").await;
    let mut streams = datafusion::physical_plan::execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
    let first = streams.next().await.unwrap().unwrap();
    let id = first.column(0).as_primitive::<Int64Type>().value(0);
    assert!(id >= last, "row {id} came first, though later ones were in memory");
    let rest: usize = streams.map(|batch| batch.unwrap().num_rows()).fold(0, async |sum, rows| sum + rows).await;
    assert_eq!(first.num_rows() + rest, (FILES * ROWS) as usize);
    assert_eq!(figure(&plan, "pool_chunks"), CHUNKS);
    assert!((1..=2).contains(&figure(&plan, "pool_chunks_shared")), "{}", figure(&plan, "pool_chunks_shared"));
    drop(other);
    while !pool.scans().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_quiet(&pool, "two scans");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_that_becomes_narrower_takes_chunks_out_of_the_plan() {
    let folder = files();
    let (ctx, host) = session(folder.path(), 2, pool(1 << 20), HostOptions::default()).await;
    let stock = Session::plain(1).context();
    register(&stock, "t", folder.path()).await;
    // The least number so far rules out all row groups of larger ones, where that is asked for.
    run(&ctx, "SET datafusion.optimizer.enable_aggregate_dynamic_filter_pushdown = true").await;
    let sql = "SELECT min(id) FROM t WHERE name LIKE '%7%'";
    let least = plan(&ctx, sql).await;
    let found = rows(&collect(Arc::clone(&least), ctx.task_ctx()).await.unwrap());
    assert_eq!(found, run(&stock, sql).await);
    let (taken, left_out) = (figure(&least, "pool_chunks"), figure(&least, "pool_row_groups_left_out"));
    assert!(left_out > 0 && taken + left_out <= CHUNKS, "{taken} chunks were taken, {left_out} row groups left out");
    assert_quiet(host.pool(), sql);
}

/// Ids that a stream gives from now on.
async fn ids(stream: datafusion::execution::SendableRecordBatchStream) -> Vec<i64> {
    let of = |batch: datafusion::common::Result<arrow::array::RecordBatch>| {
        batch.unwrap().column(0).as_primitive::<Int64Type>().values().to_vec()
    };
    stream.map(of).collect::<Vec<_>>().await.concat()
}

#[tokio::test]
async fn a_chunk_that_was_read_in_part_goes_to_nobody_else() {
    let folder = files();
    // Batches are smaller than row groups.
    let (ctx, host) = session(folder.path(), 2, pool(4 << 20), HostOptions::default()).await;
    ctx.sql("SET datafusion.execution.batch_size = 300").await.unwrap();
    let plan = plan(&ctx, "SELECT id, name FROM t").await;
    let mut first = plan.execute(0, ctx.task_ctx()).unwrap();
    let batch = first.next().await.unwrap().unwrap();
    let seen: BTreeSet<i64> = batch.column(0).as_primitive::<Int64Type>().values().iter().copied().collect();
    assert_eq!(seen.len(), 300);
    drop(first);
    assert_quiet(host.pool(), "the only stream that had begun");
    // The other partition registers what is left, and does not see the row group that was begun.
    let rest = ids(plan.execute(1, ctx.task_ctx()).unwrap()).await;
    let distinct: BTreeSet<i64> = rest.iter().copied().collect();
    assert_eq!(distinct.len(), rest.len(), "rows came twice");
    assert_eq!(rest.len(), (FILES * ROWS - ROW_GROUP) as usize);
    assert!(distinct.is_disjoint(&seen));
    assert_quiet(host.pool(), "both");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_queries_at_once_in_a_tiny_pool_leave_nothing_behind() {
    let pool = Pool::new(PoolOptions::default().memory(512 << 10).page_size(4096)).unwrap();
    let stock = Session::plain(2).tpch().await;
    let ctx = Session::plain(2).tpch().await;
    let host = install_with(&ctx, pool.clone(), HostOptions::default()).unwrap();
    let queries = [
        "SELECT l_returnflag, count(*), sum(l_orderkey) FROM lineitem GROUP BY l_returnflag",
        "SELECT max(l_comment) FROM lineitem WHERE l_shipdate < DATE '1995-01-01'",
        "SELECT count(*) FROM lineitem JOIN orders ON l_orderkey = o_orderkey WHERE o_orderdate > DATE '1996-01-01'",
        "SELECT l_orderkey, l_comment FROM lineitem WHERE l_linenumber = 7",
    ];
    let mut streams = tokio::task::JoinSet::new();
    for stream in 0..8 {
        let (ctx, stock) = (ctx.clone(), stock.clone());
        streams.spawn(async move {
            for turn in 0..4 {
                let sql = queries[(stream + turn) % queries.len()];
                if (stream + turn) % 3 == 0 {
                    // Given up in the middle.
                    let mut rows = ctx.sql(sql).await.unwrap().execute_stream().await.unwrap();
                    _ = tokio::time::timeout(Duration::from_millis(20), rows.next()).await;
                } else {
                    assert!(same_rows(&run(&ctx, sql).await, &run(&stock, sql).await), "{sql}");
                }
            }
        });
    }
    streams.join_all().await;
    // Tasks of queries that were given up end a moment later.
    while !pool.scans().is_empty() || !pool.unordered_scans().is_empty() || pool.pinned() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(host.sharing(), [0; 5]);
}

#[tokio::test]
async fn an_error_gives_the_lease_back() {
    let folder = tempfile::tempdir().unwrap();
    let source = tpch().join("orders/0.parquet");
    let mut bytes = std::fs::read(source).unwrap();
    // The pages of the first half make no sense, the footer does.
    let half = bytes.len() / 2;
    bytes[4..half].fill(0xff);
    std::fs::write(folder.path().join("broken.parquet"), bytes).unwrap();
    let (ctx, host) = session(folder.path(), 2, pool(4 << 20), HostOptions::default()).await;
    let failed = ctx.sql("SELECT max(o_comment), sum(o_custkey) FROM t").await.unwrap().collect().await;
    assert!(failed.is_err(), "{failed:?}");
    while host.pool().pinned() > 0 {
        tokio::task::yield_now().await;
    }
    assert_quiet(host.pool(), "a query that failed");
}
