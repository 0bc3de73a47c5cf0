//! Broken files fail by name, and nothing else fails with them.

use std::fs;
use std::path::Path;

use datafusion::error::Result;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use pagecast_datafusion::{Delivery, HostOptions, install_with};

use crate::data::{Session, numbers, register, write};
use crate::rows::run;
use crate::tpch::pool;

/// A folder with that file of `tests/faults` alone, and one with a good file.
fn folders(fault: &str) -> (tempfile::TempDir, tempfile::TempDir) {
    let (broken, good) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let faults = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults");
    fs::copy(faults.join(fault), broken.path().join(fault)).unwrap();
    write(&good.path().join("good.parquet"), &numbers(0, 5000), 1000);
    (broken, good)
}

async fn query(ctx: &SessionContext, sql: &str) -> Result<()> {
    ctx.sql(sql).await?.collect().await.map(drop)
}

/// Fails unless the error is one line that names the file, and the session still answers for its
/// other table.
async fn assert_named(ctx: &SessionContext, fault: &str, result: Result<()>) {
    let error = result.unwrap_err().to_string();
    assert!(error.contains(fault), "{error}");
    assert!(!error.contains('\n'), "{error}");
    assert_eq!(run(ctx, "SELECT * FROM good").await.len(), 5000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_file_ends_its_query_only() {
    for fault in ["negative-offset.parquet", "page-out-of-bounds.parquet"] {
        for delivery in [Delivery::OutOfOrder, Delivery::InOrder, Delivery::Stock] {
            for partitions in [1, 4] {
                let (broken, good) = folders(fault);
                let ctx = Session::plain(partitions).context();
                let pool = pool(1 << 20);
                install_with(&ctx, pool.clone(), HostOptions::default().delivery(delivery).least_chunks(1)).unwrap();
                register(&ctx, "good", good.path()).await;
                register(&ctx, "broken", broken.path()).await;
                for sql in [
                    "SELECT * FROM broken",
                    "SELECT max(l) FROM (SELECT count(*) AS l FROM (SELECT DISTINCT * FROM broken))",
                ] {
                    assert_named(&ctx, fault, query(&ctx, sql).await).await;
                }
                assert_eq!((pool.scans().len(), pool.unordered_scans().len(), pool.pinned()), (0, 0, 0));
            }
        }
    }
}

#[tokio::test]
async fn a_broken_file_makes_no_table() {
    let fault = "footer-length.parquet";
    let (broken, good) = folders(fault);
    let ctx = Session::plain(2).context();
    let host = pagecast_datafusion::install(&ctx, pool(1 << 20)).unwrap();
    register(&ctx, "good", good.path()).await;
    for location in [broken.path().display().to_string(), broken.path().join(fault).display().to_string()] {
        let sql = format!("CREATE EXTERNAL TABLE broken STORED AS PARQUET LOCATION '{location}'");
        assert_named(&ctx, fault, query(&ctx, &sql).await).await;
    }
    // What is wrong with a folder without files is not that a file is broken.
    let sql = "CREATE EXTERNAL TABLE none STORED AS PARQUET LOCATION '/nowhere/at/all/'";
    assert!(!query(&ctx, sql).await.unwrap_err().to_string().contains("Parquet file"));
    for fault in ["footer-length.parquet", "negative-offset.parquet"] {
        let (broken, _good) = folders(fault);
        let error = host.check(&broken.path().join(fault)).await.unwrap_err().to_string();
        assert!(error.contains(fault) && !error.contains('\n'), "{error}");
    }
    host.check(&good.path().join("good.parquet")).await.unwrap();
}

#[tokio::test]
async fn a_file_without_bytes_fails_by_name() {
    let (_, good) = folders("footer-length.parquet");
    let ctx = Session::plain(2).context();
    pagecast_datafusion::install(&ctx, pool(1 << 20)).unwrap();
    register(&ctx, "good", good.path()).await;
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("full.parquet"), &numbers(0, 10), 10);
    ctx.register_parquet("t", folder.path().to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
    fs::write(folder.path().join("hollow.parquet"), "PAR1 is how it begins").unwrap();
    assert_named(&ctx, "hollow.parquet", query(&ctx, "SELECT sum(id) FROM t").await).await;
}
