//! Chunks that are whole row groups, which the host opens by itself.

use futures::future::join_all;
use pagecast::{Pool, PoolOptions};
use pagecast_datafusion::{Delivery, HostOptions, install_with};

use crate::data::{Session, query};
use crate::rows::{run, same_rows};

/// Many at a time, of which some are given up, in pools that hold next to nothing and all.
#[tokio::test]
async fn queries_that_run_together_and_are_given_up_leave_nothing() {
    let numbers = [1, 3, 5, 6, 7, 10, 12, 14, 19];
    let stock = Session::plain(2).tpch().await;
    let mut expected = Vec::new();
    for number in numbers {
        expected.push(run(&stock, &query(number)).await);
    }
    let deliveries = [Delivery::InOrder, Delivery::OutOfOrder];
    for (memory, delivery) in
        [256 << 10, 1 << 20, 8 << 20].into_iter().flat_map(|memory| deliveries.map(|of| (memory, of)))
    {
        let ctx = Session::plain(2).tpch().await;
        let pool = Pool::new(PoolOptions::default().memory(memory).page_size(4096)).unwrap();
        install_with(&ctx, pool.clone(), HostOptions::default().delivery(delivery)).unwrap();
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
        assert_eq!((pool.scans().len(), pool.unordered_scans().len(), pool.pinned()), (0, 0, 0));
    }
}
