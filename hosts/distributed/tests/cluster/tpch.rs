//! TPC-H queries 1 to 22 answer on three workers what one process answers, and no row comes twice.

use crate::answers::{all_queries, assert_order_of_files, assert_right};
use crate::cluster::{Cluster, Routing, coordinator};
use crate::rows::{run, same_rows};
use crate::tables::{RANGE, alone};

/// Runs all queries on `cluster`, and compares.
pub(crate) async fn round(cluster: &Cluster, how: &str) {
    for (i, result) in all_queries(&cluster.ctx).await.iter().enumerate() {
        assert_right(&cluster.ctx, i + 1, result, how).await;
    }
    cluster.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_workers_answer_as_one_process() {
    let cluster = Cluster::start(3, 1 << 20, Routing::Home(RANGE)).await;
    round(&cluster, "three workers with tiny pools").await;
    for node in &cluster.nodes {
        let stats = node.pooled.host().pool().stats();
        assert!(stats.bytes_read > 0 && stats.chunks > 0, "{} did not read through its pool: {stats:?}", node.url);
        assert_eq!(node.pooled.host().refused_plans(), 0);
        assert!(node.pooled.host().footer_bytes_read() > 0, "footers take no frames");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn task_counts_found_while_running_change_nothing() {
    let cluster = Cluster::start(3, 4 << 20, Routing::Home(RANGE)).await;
    run(&cluster.ctx, "SET distributed.dynamic_task_count = true").await;
    round(&cluster, "dynamic tasks").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_row_comes_twice_however_files_are_cut() {
    let cluster = Cluster::start(3, 4 << 20, Routing::Home(RANGE)).await;
    let queries = [
        "SELECT count(*), count(DISTINCT l_orderkey * 10 + l_linenumber), sum(l_orderkey), sum(l_partkey) FROM lineitem",
        "SELECT count(*), sum(k) FROM (SELECT l_orderkey k FROM lineitem UNION ALL SELECT o_orderkey FROM orders \
         UNION ALL SELECT l_partkey FROM lineitem)",
        "SELECT count(*), sum(o_orderkey + l_linenumber) FROM orders JOIN lineitem ON o_orderkey = l_orderkey",
    ];
    let alone = alone().await;
    // Plans of thousands of ranges take a starved machine longer than a worker waits for one.
    for range in [50_000, 1 << 20, u64::MAX] {
        let ctx = coordinator(&cluster.members, Routing::Home(range)).await;
        for tasks in [0, 1, 2, 5] {
            run(&ctx, &format!("SET distributed.max_tasks_per_stage = {tasks}")).await;
            for sql in queries {
                let (expected, result) = (run(&alone, sql).await, run(&ctx, sql).await);
                assert!(same_rows(&expected, &result), "{range} bytes, {tasks} tasks: {expected:?} {result:?}\n{sql}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_come_in_the_order_that_files_have() {
    let cluster = Cluster::start(3, 1 << 20, Routing::Home(RANGE)).await;
    assert_order_of_files(&cluster.ctx).await;
    let read = |node: &crate::cluster::Node| node.pooled.host().pool().stats().bytes_read;
    assert!(cluster.nodes.iter().map(read).sum::<u64>() > 0, "the workers have read the table");
}
