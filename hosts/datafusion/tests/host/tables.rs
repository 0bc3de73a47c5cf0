//! Tables of every shape give what stock DataFusion gives.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use datafusion::prelude::{SessionConfig, SessionContext};
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use pagecast::storage::Device;
use pagecast_datafusion::{DeviceStore, install};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::data::{Session, numbers, register, tpch, write, write_encoded};
use crate::rows::{Cell, run, same_rows};
use crate::tpch::pool;

/// Runs `queries` on stock and through a pool, over a table that `define` makes.
async fn compare<F: AsyncFn(&SessionContext)>(define: F, queries: &[&str]) {
    for partitions in [1, 4] {
        let (stock, ours) = (Session::plain(partitions).context(), Session::plain(partitions).context());
        define(&stock).await;
        define(&ours).await;
        let pool = pool(1 << 20);
        install(&ours, pool.clone()).unwrap();
        for sql in queries {
            let (expected, result) = (run(&stock, sql).await, run(&ours, sql).await);
            assert!(same_rows(&expected, &result), "{sql} in {partitions}: {expected:?}, but {result:?}");
            assert_eq!(pool.scans().len(), 0);
        }
        assert!(pool.stats().requests > 0, "nothing was read through the pool");
    }
}

async fn hive(ctx: &SessionContext, folder: &Path) {
    let location = folder.display();
    let columns = "id BIGINT, even BOOLEAN, name VARCHAR, half INT";
    let sql =
        format!("CREATE EXTERNAL TABLE t ({columns}) STORED AS PARQUET PARTITIONED BY (half) LOCATION '{location}'");
    ctx.sql(&sql).await.unwrap();
}

#[tokio::test]
async fn partitioned_by_folder() {
    let folder = tempfile::tempdir().unwrap();
    for half in 0..2 {
        let dir = folder.path().join(format!("half={half}"));
        std::fs::create_dir(&dir).unwrap();
        write(&dir.join("a.parquet"), &numbers(i64::from(half) * 5000, 5000), 700);
    }
    let queries = [
        "SELECT half, count(*), sum(id), max(name) FROM t GROUP BY half",
        "SELECT id, half FROM t WHERE half = 1 AND id % 100 = 3",
        "SELECT half FROM t WHERE id < 20",
        "SELECT count(*) FROM t WHERE even AND half = 0",
    ];
    compare(async |ctx| hive(ctx, folder.path()).await, &queries).await;
}

#[tokio::test]
async fn files_of_an_older_schema() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("new.parquet"), &numbers(1000, 3000), 700);
    // Columns in another order, one narrower, one missing.
    let old = RecordBatch::try_from_iter([
        ("name", numbers(0, 1000).column_by_name("name").unwrap().clone()),
        ("id", Arc::new(Int32Array::from_iter_values(0..1000)) as _),
    ]);
    write(&folder.path().join("old.parquet"), &old.unwrap(), 300);
    let define = async |ctx: &SessionContext| {
        let location = folder.path().display();
        let columns = "id BIGINT, even BOOLEAN, name VARCHAR";
        let sql = format!("CREATE EXTERNAL TABLE t ({columns}) STORED AS PARQUET LOCATION '{location}'");
        ctx.sql(&sql).await.unwrap();
    };
    let queries = [
        "SELECT * FROM t",
        "SELECT even, count(*), sum(id) FROM t GROUP BY even",
        "SELECT name FROM t WHERE id BETWEEN 950 AND 1050",
        "SELECT id FROM t WHERE even IS NULL AND id > 500",
    ];
    compare(define, &queries).await;
}

#[tokio::test]
async fn files_with_hardly_a_row() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("empty.parquet"), &numbers(0, 0), 700);
    write(&folder.path().join("two.parquet"), &numbers(0, 2), 700);
    let queries = ["SELECT * FROM t WHERE id > 0", "SELECT count(*) FROM t", "SELECT name FROM t"];
    compare(async |ctx| register(ctx, "t", folder.path()).await, &queries).await;
}

#[tokio::test]
async fn joins_whose_build_side_narrows_the_scan() {
    let folder = tempfile::tempdir().unwrap();
    let few = tempfile::tempdir().unwrap();
    write(&folder.path().join("a.parquet"), &numbers(0, 30_000), 1000);
    let wanted = RecordBatch::try_from_iter([("wanted", Arc::new(Int64Array::from(vec![7100, 7200, 90_000])) as _)]);
    write(&few.path().join("few.parquet"), &wanted.unwrap(), 1000);
    let define = async |ctx: &SessionContext| {
        register(ctx, "t", folder.path()).await;
        register(ctx, "few", few.path()).await;
    };
    let sql = "SELECT id, name FROM few JOIN t ON wanted = id";
    compare(define, &[sql, "SELECT count(*) FROM t WHERE id NOT IN (SELECT wanted FROM few)"]).await;

    // The dynamic filter reaches the in-order scan: most row groups are planned or opened, and not
    // read.
    let ctx = Session::plain(2).context();
    define(&ctx).await;
    let pool = pool(4 << 20);
    install(&ctx, pool.clone()).unwrap();
    run(&ctx, "SELECT id, name FROM t").await;
    let whole = pool.stats().bytes_requested;
    assert_eq!(run(&ctx, sql).await.len(), 2);
    let joined = pool.stats().bytes_requested - whole;
    assert!(joined < whole / 4, "the join read {joined} of {whole} bytes");
}

#[tokio::test]
async fn bloom_filters_prune_what_was_planned() {
    let folder = tempfile::tempdir().unwrap();
    let properties =
        WriterProperties::builder().set_max_row_group_row_count(Some(1000)).set_bloom_filter_enabled(true).build();
    let (to, rows) = (File::create(folder.path().join("a.parquet")).unwrap(), numbers(0, 20_000));
    let mut writer = ArrowWriter::try_new(to, rows.schema(), Some(properties)).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    let define = async |ctx: &SessionContext| register(ctx, "t", folder.path()).await;
    let absent = "SELECT count(*), sum(id) FROM t WHERE name = 'number 1x'";
    compare(define, &["SELECT id FROM t WHERE name = 'number 15001'", absent]).await;

    let ctx = Session::plain(2).context();
    define(&ctx).await;
    install(&ctx, pool(4 << 20)).unwrap();
    let analyzed = format!("{:?}", run(&ctx, &format!("EXPLAIN ANALYZE {absent}")).await);
    let figure = |name: &str| {
        let (_, rest) = analyzed.split_once(&format!("{name}=")).unwrap_or_else(|| panic!("no {name} in {analyzed}"));
        rest.split_once([',', ']']).unwrap().0.to_owned()
    };
    assert_ne!(figure("pool_bytes_planned"), "0 B", "{analyzed}");
    assert!(figure("row_groups_pruned_bloom_filter").ends_with("→ 0 matched"), "{analyzed}");
}

#[tokio::test]
async fn a_store_that_is_registered_before_the_pool_is_read_through_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path, &numbers(0, 100), 50);
    let store = Arc::new(InMemory::new());
    store.put(&"a.parquet".into(), std::fs::read(&path).unwrap().into()).await.unwrap();
    let ctx = Session::plain(1).context();
    ctx.register_object_store(&"memory://here".parse().unwrap(), store);
    let pool = pool(1 << 20);
    install(&ctx, pool.clone()).unwrap();
    ctx.sql("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'memory://here/a.parquet'").await.unwrap();
    let total = run(&ctx, "SELECT sum(id) FROM t").await;
    assert_eq!(format!("{total:?}"), r#"[[Text("4950")]]"#);
    assert!(pool.stats().requests > 0);
}

#[tokio::test]
async fn without_a_pool_the_device_counts() {
    let device = Device::local();
    let ctx = Session::plain(4).context();
    ctx.register_object_store(&"file:///".parse().unwrap(), Arc::new(DeviceStore::new(device.clone())));
    register(&ctx, "lineitem", &tpch().join("lineitem")).await;
    let stock = Session::plain(4).tpch().await;
    let sql = "SELECT l_returnflag, sum(l_tax), max(l_comment) FROM lineitem GROUP BY l_returnflag";
    let footers = device.stats();
    assert!(same_rows(&run(&stock, sql).await, &run(&ctx, sql).await));
    let once = device.stats();
    assert!(once.bytes_read > footers.bytes_read + (100 << 10), "{once:?} after {footers:?}");
    run(&ctx, sql).await;
    let twice = device.stats();
    assert!(twice.bytes_read - once.bytes_read > 100 << 10, "a second run was served from somewhere else");
}

/// DataFusion alone takes the first file's 46 for a bound of all that is asked for.
#[tokio::test]
async fn an_aggregate_that_has_seen_nulls_alone_gets_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    for (name, id, value) in [("0.parquet", 46, None), ("1.parquet", 18, Some(5))] {
        let column = |value| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
        let rows =
            RecordBatch::try_from_iter_with_nullable([("id", column(Some(id)), true), ("v", column(value), true)]);
        write_encoded(&folder.path().join(name), &rows.unwrap(), 100, 100, false);
    }
    for partitions in [1, 2] {
        let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(partitions));
        install(&ctx, pool(1 << 20)).unwrap();
        register(&ctx, "t", folder.path()).await;
        let found = run(&ctx, "SELECT max(id), max(v) FROM t WHERE id > 1").await;
        assert_eq!(found, [[Cell::Text("46".to_owned()), Cell::Text("5".to_owned())]]);
    }
}
