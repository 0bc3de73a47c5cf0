//! TPC-H queries 1 to 22 give what stock DataFusion gives, however they are delivered and however
//! small the pool.

use datafusion::prelude::SessionContext;
use pagecast::{Pool, PoolOptions};
use pagecast_datafusion::{Delivery, HostOptions, install_with};
use tokio::sync::OnceCell;

use crate::data::{Session, query};
use crate::rows::{Row, run, same_order, same_rows};

/// The columns of each query's ORDER BY.
const ORDERED_BY: [&[usize]; 22] = [
    &[0, 1],
    &[0, 2, 1, 3],
    &[1, 2],
    &[0],
    &[1],
    &[],
    &[0, 1, 2],
    &[0],
    &[0, 1],
    &[2],
    &[1],
    &[0],
    &[1, 0],
    &[],
    &[0],
    &[3, 0, 1, 2],
    &[],
    &[4, 3],
    &[],
    &[0],
    &[1, 0],
    &[0],
];

pub(crate) fn pool(memory: u64) -> Pool {
    Pool::new(PoolOptions::default().memory(memory).page_size(4096)).unwrap()
}

/// What all queries answer over the tables of `ctx`, through a pool if there is one.
pub(crate) async fn all_queries(ctx: &SessionContext, host: Option<(Pool, HostOptions)>) -> Vec<Vec<Row>> {
    let host = host.map(|(pool, options)| install_with(ctx, pool, options).unwrap());
    let mut results = Vec::new();
    for number in 1..=22 {
        results.push(run(ctx, &query(number)).await);
        if let Some(host) = &host {
            let pool = host.pool();
            let left = (pool.scans().len(), pool.unordered_scans().len(), pool.pinned());
            assert_eq!(left, (0, 0, 0), "scans, members and pins that query {number} left behind");
        }
    }
    results
}

/// What stock DataFusion answers. Pruning and partitions change how it gets there, not what it
/// says.
pub(crate) async fn expected() -> &'static [Vec<Row>] {
    static EXPECTED: OnceCell<Vec<Vec<Row>>> = OnceCell::const_new();
    EXPECTED.get_or_init(async || all_queries(&Session::plain(4).tpch().await, None).await).await
}

/// Fails unless all queries gave what stock DataFusion gives.
pub(crate) async fn assert_expected(results: &[Vec<Row>], how: &str) {
    assert_eq!(results.len(), ORDERED_BY.len());
    for (i, (expected, result)) in expected().await.iter().zip(results).enumerate() {
        let what = format!("query {} with {how}", i + 1);
        assert!(!expected.is_empty(), "{what}: nothing to compare");
        assert!(same_rows(expected, result), "{what}: other rows\n{expected:?}\n{result:?}");
        assert!(same_order(expected, result, ORDERED_BY[i]), "{what}: other order\n{expected:?}\n{result:?}");
    }
}

async fn check(session: Session, memory: u64, delivery: Delivery) {
    let pool = pool(memory);
    let options = HostOptions::default().delivery(delivery).least_chunks(1);
    let results = all_queries(&session.tpch().await, Some((pool.clone(), options))).await;
    assert_expected(&results, &format!("{session:?}, {delivery:?}, pool of {memory} bytes")).await;
    let stats = pool.stats();
    assert!(stats.bytes_read > 0, "the queries did not read through the pool");
    assert_eq!(stats.chunks > 0, delivery == Delivery::OutOfOrder, "{delivery:?}: {stats:?}");
    assert_eq!(stats.chunks, stats.chunks_consumed + stats.chunks_returned, "{delivery:?}: {stats:?}");
}

const TINY: u64 = 1 << 20;
const AMPLE: u64 = 64 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_order_from_an_ample_pool() {
    check(Session::plain(4), AMPLE, Delivery::InOrder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_order_from_a_tiny_pool() {
    check(Session::plain(4), TINY, Delivery::InOrder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_order_in_one_partition() {
    check(Session::plain(1), TINY, Delivery::InOrder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_order_without_pruning() {
    check(Session { pruning: false, ..Session::plain(4) }, AMPLE, Delivery::InOrder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_order_with_filters_while_decoding() {
    check(Session { pushdown: true, ..Session::plain(4) }, TINY, Delivery::InOrder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out_of_order_from_an_ample_pool() {
    check(Session::plain(4), AMPLE, Delivery::OutOfOrder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out_of_order_from_a_tiny_pool() {
    check(Session::plain(4), TINY, Delivery::OutOfOrder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out_of_order_in_one_partition() {
    check(Session::plain(1), TINY, Delivery::OutOfOrder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out_of_order_without_pruning() {
    check(Session { pruning: false, ..Session::plain(4) }, AMPLE, Delivery::OutOfOrder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out_of_order_with_filters_while_decoding() {
    check(Session { pushdown: true, ..Session::plain(4) }, TINY, Delivery::OutOfOrder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stock_delivery_from_a_tiny_pool() {
    check(Session::plain(4), TINY, Delivery::Stock).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stock_delivery_with_filters_while_decoding() {
    check(Session { pushdown: true, ..Session::plain(1) }, AMPLE, Delivery::Stock).await;
}
