//! Columns that are decoded once.

use std::sync::Arc;

use datafusion::prelude::SessionContext;
use futures::future::join_all;
use pagecast::{Pool, PoolOptions};
use pagecast_datafusion::{Delivery, Host, HostOptions, install_with};

use crate::data::{Session, query};
use crate::rows::{run, same_rows};

const DELIVERIES: [Delivery; 2] = [Delivery::InOrder, Delivery::OutOfOrder];

async fn session(memory: u64, delivery: Delivery) -> (SessionContext, Arc<Host>) {
    let ctx = Session::plain(2).tpch().await;
    let pool = Pool::new(PoolOptions::default().memory(memory).page_size(4096)).unwrap();
    let host = install_with(&ctx, pool, HostOptions::default().delivery(delivery).share_decoding(true)).unwrap();
    (ctx, host)
}

#[tokio::test]
async fn what_is_read_again_is_not_decoded_again_while_memory_is_free() {
    let stock = Session::plain(2).tpch().await;
    for delivery in DELIVERIES {
        let (ctx, host) = session(256 << 20, delivery).await;
        for number in [1, 6, 12, 14] {
            let sql = query(number);
            let expected = run(&stock, &sql).await;
            assert!(same_rows(&run(&ctx, &sql).await, &expected), "query {number}");
            let (before, read) = (host.shared_columns(), host.pool().stats());
            assert!(same_rows(&run(&ctx, &sql).await, &expected), "query {number} again");
            assert!(host.shared_columns() > before, "query {number}");
            assert_eq!(host.pool().stats().bytes_read, read.bytes_read);
        }
        assert!(host.decoded_memory() > 0 && host.decoded_memory() <= host.pool().memory().lent);
    }
}

/// Many at a time, of which some are given up, in pools that hold next to nothing and all.
#[tokio::test]
async fn scans_that_run_together_share_what_they_decode() {
    let numbers = [1, 3, 5, 6, 7, 10, 12, 14, 19];
    let stock = Session::plain(2).tpch().await;
    let mut expected = Vec::new();
    for number in numbers {
        expected.push(run(&stock, &query(number)).await);
    }
    for (memory, delivery) in
        [256 << 10, 1 << 20, 8 << 20].into_iter().flat_map(|memory| DELIVERIES.map(|of| (memory, of)))
    {
        let (ctx, host) = session(memory, delivery).await;
        for round in 0..3 {
            let given_up = async |number: usize| {
                let limit = std::time::Duration::from_millis(3 * number as u64);
                let _ = tokio::time::timeout(limit, run(&ctx, &query(number))).await;
            };
            let all = join_all(numbers.map(|number| {
                let (ctx, sql) = (ctx.clone(), query(number));
                async move { run(&ctx, &sql).await }
            }));
            let (rows, _) = futures::join!(all, join_all(numbers.map(given_up)));
            for (number, (rows, expected)) in numbers.iter().zip(rows.iter().zip(&expected)) {
                assert!(same_rows(rows, expected), "query {number}, {memory} bytes, {delivery:?}, round {round}");
            }
        }
        let pool = host.pool();
        assert_eq!((pool.scans().len(), pool.unordered_scans().len(), pool.pinned()), (0, 0, 0));
        assert!(pool.memory().total <= memory && pool.memory().lent <= memory * 3 / 4);
        if memory == 8 << 20 {
            assert!(host.shared_columns() > 0, "{delivery:?}");
        }
    }
}

#[tokio::test]
async fn who_does_not_share_decodes_alone() {
    let ctx = Session::plain(2).tpch().await;
    let pool = Pool::new(PoolOptions::default().memory(256 << 20).page_size(4096)).unwrap();
    let host = install_with(&ctx, pool, HostOptions::default().share_decoding(false)).unwrap();
    for _ in 0..2 {
        run(&ctx, &query(6)).await;
    }
    assert_eq!((host.shared_columns(), host.decoded_memory(), host.pool().memory().lent), (0, 0, 0));
}
