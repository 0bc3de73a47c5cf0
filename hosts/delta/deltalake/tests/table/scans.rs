//! Scans of tables with and without deletion vectors.

use std::path::Path;

use pagecast_datafusion::{Delivery, HostOptions};
use pagecast_delta::{Options, Table};

use super::data::{deliveries, pooled, register, rows, run, session, written};

/// Each reads data files. The last one has two scans.
const QUERIES: [&str; 6] = [
    "SELECT id, part, text FROM t",
    "SELECT count(text), sum(id), min(text), max(text) FROM t",
    "SELECT sum(length(text)) FROM t WHERE id BETWEEN 700 AND 5250",
    "SELECT part, count(*), min(text) FROM t WHERE text < '8' GROUP BY part ORDER BY part",
    "SELECT id, text FROM t WHERE part = 3 ORDER BY id DESC LIMIT 20",
    "SELECT a.id FROM t a JOIN t b ON a.id = b.id + 1 WHERE b.part = 4 ORDER BY a.id LIMIT 7",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_deletion_vectors_scans_are_delivered_as_those_of_files() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), &[0..6000, 6000..6001, 6001..9000]).await;
    let stock = session();
    register(&stock, folder.path()).await;
    for options in deliveries() {
        let (ctx, host) = pooled(options);
        register(&ctx, folder.path()).await;
        for sql in QUERIES {
            let before = host.pool().stats().requests;
            assert_eq!(run(&ctx, sql).await, run(&stock, sql).await, "{options:?} {sql}");
            assert!(host.pool().stats().requests > before, "{options:?} {sql}");
        }
        assert_eq!(host.refused_plans(), 0, "{options:?}");
        assert_eq!(host.out_of_order_scans() > 0, options.delivery == Delivery::OutOfOrder);
    }
}

/// A table of ours of which rows were deleted in two versions, some in whole pages.
async fn marked(folder: &Path) {
    let mut options = Options::default();
    (options.row_group_rows, options.page_rows) = (500, 100);
    let table = Table::create(folder, &rows(0..1).schema(), &[], options).unwrap();
    let ctx = session();
    pagecast_delta::install(&ctx).unwrap();
    ctx.register_table("t", std::sync::Arc::new(table.provider().unwrap())).unwrap();
    for ids in [0..6000, 6000..6001, 6001..9000] {
        ctx.register_batch("new", rows(ids)).unwrap();
        run(&ctx, "INSERT INTO t SELECT * FROM new").await;
        ctx.deregister_table("new").unwrap();
    }
    run(&ctx, "DELETE FROM t WHERE id % 7 = 3 OR id BETWEEN 1000 AND 2250").await;
    run(&ctx, "UPDATE t SET text = upper(text) WHERE id % 501 = 0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_deletion_vectors_scans_stay_as_they_are_and_read_through_the_pool() {
    let folder = tempfile::tempdir().unwrap();
    marked(folder.path()).await;
    let stock = session();
    register(&stock, folder.path()).await;
    let deleted = "SELECT count(text) FROM t WHERE id % 7 = 3 AND id % 501 <> 0 OR id BETWEEN 1010 AND 2000";
    assert!(run(&stock, deleted).await.iter().any(|line| line.trim_matches(['|', ' ']) == "0"));
    for options in deliveries() {
        let (ctx, host) = pooled(options);
        register(&ctx, folder.path()).await;
        for (i, sql) in QUERIES.into_iter().enumerate() {
            let (before, refused) = (host.pool().stats(), host.refused_plans());
            assert_eq!(run(&ctx, sql).await, run(&stock, sql).await, "{options:?} {sql}");
            let scans = if i == QUERIES.len() - 1 { 2 } else { 1 };
            assert_eq!(host.refused_plans() - refused, scans, "{options:?} {sql}");
            let after = host.pool().stats();
            assert!(after.requests > before.requests, "{options:?} {sql}");
            assert!(i > 0 || after.bytes_read > 0);
            // The first plan reads of footers what the next does not ask for, and the next the
            // rest.
            let mut again = async || {
                run(&ctx, sql).await;
                host.pool().stats().bytes_read
            };
            assert_eq!(again().await, again().await, "{sql}: all of it is in the pool");
        }
        assert_eq!(host.out_of_order_scans(), 0);
    }
}

/// Where the session's stores are left as they are, such a scan reads past the pool.
#[tokio::test]
async fn stores_may_be_left_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    marked(folder.path()).await;
    let (stock, (ctx, host)) = (session(), pooled(HostOptions::default().stores(false)));
    register(&stock, folder.path()).await;
    register(&ctx, folder.path()).await;
    assert_eq!(run(&ctx, QUERIES[0]).await, run(&stock, QUERIES[0]).await);
    assert_eq!((host.refused_plans(), host.pool().stats().requests), (1, 0));
}
