//! TPC-H queries 1 to 22 answer on three executors what one process answers. No row comes twice.

use crate::answers::{all_queries, assert_order_of_files, assert_right};
use crate::cluster::{Cluster, Routing};
use crate::rows::{run, same_rows};
use crate::tables::{RANGE, alone};

/// Runs all queries on `cluster`, and compares.
pub(crate) async fn round(cluster: &Cluster, how: &str) {
    for (i, result) in all_queries(&cluster.ctx).await.iter().enumerate() {
        assert_right(&alone().await, i + 1, result, how).await;
    }
    cluster.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_executors_answer_as_one_process() {
    for adaptive in [true, false] {
        let cluster = Cluster::start(1 << 20, Routing::Home(RANGE)).await;
        run(&cluster.ctx, &format!("SET ballista.planner.adaptive.enabled = {adaptive}")).await;
        round(&cluster, &format!("three executors with tiny pools, adaptive planner {adaptive}")).await;
        for node in &cluster.nodes {
            let stats = node.pooled.host().pool().stats();
            assert!(
                stats.bytes_read > 0 && stats.strokes > 0,
                "{} did not read through its pool: {stats:?}",
                node.name
            );
            assert_eq!(node.pooled.host().refused_plans(), 0);
        }
    }
}

/// Rows would come twice if the pool's rule ran in the scheduler, or if a partition were cut anew
/// once a task has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_row_comes_twice_however_files_are_cut() {
    let queries = [
        "SELECT count(*), count(DISTINCT l_orderkey * 10 + l_linenumber), sum(l_orderkey), sum(l_partkey) FROM lineitem",
        "SELECT count(*), sum(k) FROM (SELECT l_orderkey k FROM lineitem UNION ALL SELECT o_orderkey FROM orders \
         UNION ALL SELECT l_partkey FROM lineitem)",
        "SELECT count(*), sum(o_orderkey + l_linenumber) FROM orders JOIN lineitem ON o_orderkey = l_orderkey",
        "SELECT count(*), sum(l_linenumber) FROM lineitem CROSS JOIN region",
    ];
    let alone = alone().await;
    for range in [20_000, 1 << 20, u64::MAX] {
        let cluster = Cluster::start(4 << 20, Routing::Home(range)).await;
        for partitions in [1, 2, 7] {
            run(&cluster.ctx, &format!("SET datafusion.execution.target_partitions = {partitions}")).await;
            for sql in queries {
                let (expected, result) = (run(&alone, sql).await, run(&cluster.ctx, sql).await);
                assert!(
                    same_rows(&expected, &result),
                    "{range} bytes, {partitions} partitions: {expected:?} {result:?}\n{sql}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_come_in_the_order_that_files_have() {
    let cluster = Cluster::start(1 << 20, Routing::Home(RANGE)).await;
    assert_order_of_files(&cluster.ctx).await;
    let read = |node: &crate::cluster::Node| node.pooled.host().pool().stats().bytes_read;
    assert!(cluster.nodes.iter().map(read).sum::<u64>() > 0, "the executors have read the table");
}
