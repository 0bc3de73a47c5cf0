//! The same over S3 servers on loopback.

#[path = "../../../../../crates/pagecast/servers/tests/s3/server.rs"]
mod server;

use super::*;
use crate::data::numbers;
use server::{Kind, Server};

/// What runs here, right about conditions or not.
fn servers() -> impl Iterator<Item = (Kind, Server)> {
    [Kind::Versitygw, Kind::S3sFs].into_iter().filter_map(|kind| Some((kind, Server::start(kind)?)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpch_is_answered_from_a_server_as_from_files() {
    for (kind, server) in servers() {
        let store = with_tables_in(server.store("not-to-be-shown"), &TABLES).await;
        answers_tpch(&store).await;
        println!("{kind:?}: 4 times 22 queries, {:?}", store.requests());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_not_asked_for_what_is_pruned() {
    for (kind, server) in servers() {
        let store = with_tables_in(server.store("not-to-be-shown"), &["lineitem"]).await;
        let wanted = Int64Array::from(vec![7100, 7200, 90_000]);
        let wanted = RecordBatch::try_from_iter([("wanted", Arc::new(wanted) as _)]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (name, rows) in [("few.parquet", wanted), ("many.parquet", numbers(0, 30_000))] {
            write(&folder.path().join(name), &rows, 1000);
            put(&store, name, &folder.path().join(name)).await;
        }
        let (ctx, pool) = (Session::plain(2).context(), pool(16 << 20));
        add(&ctx, "s3://bucket", &store);
        for name in ["lineitem/", "few.parquet", "many.parquet"] {
            table(&ctx, name.split(['/', '.']).next().unwrap(), &format!("s3://bucket/{name}")).await;
        }
        install(&ctx, pool.clone()).unwrap();
        let asked = async |sql: &str| {
            let before = pool.stats().bytes_requested;
            assert!(!run(&ctx, sql).await.is_empty(), "{sql}");
            pool.stats().bytes_requested - before
        };
        let month = asked("SELECT max(l_comment) FROM lineitem WHERE l_shipdate < DATE '1992-03-01'").await;
        let years = asked("SELECT max(l_comment) FROM lineitem WHERE l_shipdate > DATE '1992-03-01'").await;
        assert!(month < years / 4, "{kind:?}, by statistics: {month} and {years} bytes");
        // What the join's other side has is known when the scan has begun.
        let joined = asked("SELECT id, name FROM few JOIN many ON wanted = id").await;
        let whole = asked("SELECT sum(id), max(length(name)) FROM many").await;
        assert!(joined < whole / 4, "{kind:?}, by a dynamic filter: {joined} and {whole} bytes");
        println!("{kind:?}: {month} of {years} bytes by statistics, {joined} of {whole} by a join");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_plan_reads_files_memory_and_a_server() {
    let sql = "SELECT n_name, count(*), max(s_comment) FROM supplier, nation, region \
               WHERE s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA' GROUP BY n_name";
    let expected = run(&Session::plain(2).tpch().await, sql).await;
    for (kind, server) in servers() {
        let far = with_tables_in(server.store("not-to-be-shown"), &["supplier"]).await;
        let near = with_tables(&["nation"]).await;
        let (ctx, pool) = (Session::plain(2).context(), pool(8 << 20));
        install(&ctx, pool.clone()).unwrap();
        add(&ctx, "s3://bucket", &far);
        add(&ctx, "mem://near", &near);
        table(&ctx, "supplier", "s3://bucket/supplier/").await;
        table(&ctx, "nation", "mem://near/nation/").await;
        register(&ctx, "region", &tpch().join("region")).await;
        assert!(same_rows(&expected, &run(&ctx, sql).await), "{kind:?}");
        let mut names: Vec<_> =
            pool.snapshot().relations.iter().map(|relation| relation.path.display().to_string()).collect();
        names.sort_unstable();
        assert_eq!(names[1..], ["mem://near/nation/0.parquet", "s3://bucket/supplier/0.parquet"]);
        let (before, read) = (far.requests(), pool.stats().bytes_read);
        assert!(same_rows(&expected, &run(&ctx, sql).await), "{kind:?}");
        assert_eq!((since(before, &far).gets, pool.stats().bytes_read - read), (0, 0), "{kind:?}");
    }
}
