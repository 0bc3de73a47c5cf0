//! Tables in object stores: the same rows, few requests, and never two contents in one scan.

mod servers;

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use datafusion::prelude::{CsvReadOptions, JsonReadOptions, ParquetReadOptions, SessionContext};
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use pagecast::storage::{FaultStore, ObjectFault, StoreRequests};
use pagecast_datafusion::{Delivery, HostOptions, install, install_with};

use crate::data::{Session, TABLES, register, tpch, write};
use crate::rows::{Cell, run, same_rows};
use crate::tpch::{all_queries, assert_expected, pool};

/// Makes `store` known to the session by its URL.
fn add(ctx: &SessionContext, url: &str, store: &FaultStore) {
    ctx.register_object_store(&url.parse().unwrap(), Arc::new(store.clone()));
}

/// Puts a local file into the store.
async fn put(store: &FaultStore, name: &str, file: &std::path::Path) {
    store.put(&name.into(), std::fs::read(file).unwrap().into()).await.unwrap();
}

/// A store with the files of some TPC-H tables, in a folder each.
async fn with_tables(tables: &[&str]) -> FaultStore {
    with_tables_in(FaultStore::new(InMemory::new()), tables).await
}

async fn with_tables_in(store: FaultStore, tables: &[&str]) -> FaultStore {
    for table in tables {
        for entry in std::fs::read_dir(tpch().join(table)).unwrap() {
            let path = entry.unwrap().path();
            put(&store, &format!("{table}/{}", path.file_name().unwrap().to_str().unwrap()), &path).await;
        }
    }
    store
}

async fn table(ctx: &SessionContext, name: &str, url: &str) {
    ctx.register_parquet(name, url, ParquetReadOptions::default()).await.unwrap();
}

/// A session whose TPC-H tables are in the store.
async fn tpch_in(store: &FaultStore) -> SessionContext {
    let ctx = Session::plain(4).context();
    add(&ctx, "mem://tpch", store);
    for name in TABLES {
        table(&ctx, name, &format!("mem://tpch/{name}/")).await;
    }
    ctx
}

/// What the store was asked meanwhile.
fn since(before: StoreRequests, store: &FaultStore) -> StoreRequests {
    let now = store.requests();
    StoreRequests { gets: now.gets - before.gets, heads: now.heads - before.heads, lists: now.lists - before.lists }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpch_is_answered_from_a_store_as_from_files() {
    answers_tpch(&with_tables(&TABLES).await).await;
}

/// TPC-H 1 to 22 over the tables in the store are what stock DataFusion says of files.
async fn answers_tpch(store: &FaultStore) {
    for (memory, delivery) in [
        (64 << 20, Delivery::OutOfOrder),
        (1 << 20, Delivery::OutOfOrder),
        (1 << 20, Delivery::InOrder),
        (1 << 20, Delivery::Stock),
    ] {
        let (ctx, pool) = (tpch_in(store).await, pool(memory));
        let options = HostOptions::default().delivery(delivery).least_chunks(1);
        let results = all_queries(&ctx, Some((pool.clone(), options))).await;
        assert_expected(&results, &format!("{delivery:?} from a store, pool of {memory} bytes")).await;
        assert!(pool.stats().bytes_read > 0, "the queries did not read through the pool");
        pool.check();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_memory_holds_is_not_asked_for_again() {
    let store = with_tables(&TABLES).await;
    let (ctx, pool) = (tpch_in(&store).await, pool(64 << 20));
    let before = store.requests();
    let first = all_queries(&ctx, Some((pool.clone(), HostOptions::default()))).await;
    let cold = since(before, &store);

    // Beside DataFusion alone, that reads everything each time.
    let alone = with_tables(&TABLES).await;
    let stock = tpch_in(&alone).await;
    let before = alone.requests();
    all_queries(&stock, None).await;
    let stock = since(before, &alone);
    println!("22 queries: {cold:?} through a pool, {stock:?} without");
    // DataFusion alone keeps its listings for as long as the session lives.
    assert!(cold.gets <= stock.gets && cold.heads <= stock.heads);

    let (before, read) = (store.requests(), pool.stats().bytes_read);
    let again = all_queries(&ctx, None).await;
    let asked = since(before, &store);
    assert_eq!((asked.gets, pool.stats().bytes_read - read), (0, 0), "{asked:?}");
    assert_expected(&again, "what memory holds").await;
    assert_eq!(first.len(), again.len());

    // One look at each table, whatever it has of row groups and files, for a plan that reads it.
    for (sql, tables) in [
        ("SELECT sum(l_quantity), max(l_comment) FROM lineitem WHERE l_tax > 0.01", 1),
        ("SELECT max(o_comment) FROM orders, lineitem WHERE o_orderkey = l_orderkey AND l_tax > 0.07", 2),
    ] {
        run(&ctx, sql).await;
        let before = store.requests();
        run(&ctx, sql).await;
        let asked = since(before, &store);
        assert_eq!((asked.gets, asked.heads + asked.lists), (0, tables), "{sql}: {asked:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_footer_comes_once_also_from_a_cold_store() {
    let store = with_tables(&["orders"]).await;
    let (ctx, pool) = (Session::plain(2).context(), pool(64 << 20));
    install(&ctx, pool.clone()).unwrap();
    add(&ctx, "mem://tpch", &store);
    let (before, files) = (store.requests(), std::fs::read_dir(tpch().join("orders")).unwrap().count() as u64);
    // DataFusion reads the footers for the schema and for statistics, and files as small as these
    // are whole in what it reads.
    table(&ctx, "orders", "mem://tpch/orders/").await;
    run(&ctx, "SELECT max(o_comment) FROM orders WHERE o_totalprice > 1").await;
    let asked = since(before, &store);
    assert_eq!((asked.gets, asked.heads), (files, 0), "{files} files: {asked:?}");
    assert!(asked.lists <= 2, "one for the table and one for the plan: {asked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_plan_reads_three_stores() {
    let sql = "SELECT n_name, count(*), max(s_comment) FROM supplier, nation, region \
               WHERE s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA' GROUP BY n_name";
    let expected = run(&Session::plain(2).tpch().await, sql).await;
    let (one, other) = (with_tables(&["supplier"]).await, with_tables(&["nation"]).await);
    let (ctx, pool) = (Session::plain(2).context(), pool(8 << 20));
    let host = install(&ctx, pool.clone()).unwrap();
    add(&ctx, "mem://one", &one);
    add(&ctx, "mem://other", &other);
    table(&ctx, "supplier", "mem://one/supplier/").await;
    table(&ctx, "nation", "mem://other/nation/").await;
    register(&ctx, "region", &tpch().join("region")).await;
    assert!(same_rows(&expected, &run(&ctx, sql).await));
    let snapshot = pool.snapshot();
    let mut names: Vec<_> = snapshot.relations.iter().map(|relation| relation.path.to_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(names[1..], ["mem://one/supplier/0.parquet", "mem://other/nation/0.parquet"]);
    assert_eq!(host.footer_bytes_read(), 0, "files of one page are read through the pool");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_formats_are_read_through_the_pool() {
    let text: String = (0..20_000).map(|id| format!("{id},name {id},{}.5\n", id % 97)).collect();
    let lines: String = (0..20_000).map(|id| format!("{{\"id\": {id}, \"name\": \"number {id}\"}}\n")).collect();
    let folder = tempfile::tempdir().unwrap();
    let store = FaultStore::new(InMemory::new());
    for (name, text) in [("a.csv", format!("id,name,price\n{text}")), ("a.json", lines)] {
        std::fs::write(folder.path().join(name), &text).unwrap();
        store.put(&name.into(), text.into_bytes().into()).await.unwrap();
    }
    let sql = "SELECT c.name, j.name, sum(price) FROM c JOIN j ON c.id = j.id WHERE c.id % 17 = 3 GROUP BY 1, 2";
    let local = folder.path().to_str().unwrap();
    let stock = Session::plain(4).context();
    let (ours, pool) = (Session::plain(4).context(), pool(64 << 20));
    install(&ours, pool.clone()).unwrap();
    add(&ours, "mem://formats", &store);
    for (ctx, root) in [(&stock, local), (&ours, "mem://formats")] {
        ctx.register_csv("c", format!("{root}/a.csv"), CsvReadOptions::default()).await.unwrap();
        ctx.register_json("j", format!("{root}/a.json"), JsonReadOptions::default()).await.unwrap();
    }
    let expected = run(&stock, sql).await;
    assert!(same_rows(&expected, &run(&ours, sql).await));
    let (before, read) = (store.requests(), pool.stats().bytes_read);
    assert!(read > 1 << 20, "both files came through the pool: {read}");
    assert!(same_rows(&expected, &run(&ours, sql).await));
    let asked = since(before, &store);
    assert_eq!((asked.gets, pool.stats().bytes_read - read), (0, 0), "{asked:?}");
    assert!(asked.heads + asked.lists <= 2, "{asked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_can_be_left_as_they_are() {
    let store = with_tables(&["orders"]).await;
    let (ctx, pool) = (Session::plain(2).context(), pool(8 << 20));
    install_with(&ctx, pool.clone(), HostOptions::default().stores(false)).unwrap();
    add(&ctx, "mem://tpch", &store);
    table(&ctx, "orders", "mem://tpch/orders/").await;
    assert_eq!(pool.stats().requests, 0, "what DataFusion reads for itself goes past the pool");
    run(&ctx, "SELECT max(o_comment) FROM orders WHERE o_totalprice > 1").await;
    assert!(pool.stats().requests > 0);
}

/// A table of one object, whose rows all tell which content they are of.
fn content(number: i64) -> Vec<u8> {
    let ids = Int64Array::from_iter_values(0..8000);
    let of = Int64Array::from_iter_values((0..8000).map(|_| 1_000_000 + number));
    let rows = RecordBatch::try_from_iter([("id", Arc::new(ids) as _), ("of", Arc::new(of) as _)]).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    write(file.path(), &rows, 1000);
    std::fs::read(file.path()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_is_overwritten_under_a_scan_is_named_and_never_mixed() {
    let sql = "SELECT min(of), max(of), count(*) FROM t WHERE id % 7 < 6";
    for (ignores_conditions, delivery) in [
        (false, Delivery::OutOfOrder),
        (true, Delivery::OutOfOrder),
        (false, Delivery::InOrder),
        (true, Delivery::Stock),
    ] {
        let store = FaultStore::new(InMemory::new());
        if ignores_conditions {
            store.ignore_conditions();
        }
        let contents: Vec<_> = (0..4).map(content).collect();
        store.put(&"t.parquet".into(), contents[0].clone().into()).await.unwrap();
        let ctx = Session::plain(2).context();
        add(&ctx, "mem://t", &store);
        table(&ctx, "t", "mem://t/t.parquet").await;
        let pool = pool(4 << 20);
        install_with(&ctx, pool.clone(), HostOptions::default().delivery(delivery).least_chunks(1)).unwrap();
        let (mut whole, mut ended) = (0, 0);
        for round in 0..50_usize {
            let new = contents[(round + 1) % contents.len()].clone();
            let faults = std::iter::repeat_n(ObjectFault::None, round % 12);
            store.plan(faults.chain([ObjectFault::Overwritten(new.into())]));
            let rows = ctx.sql(sql).await.unwrap().collect().await;
            match rows {
                Ok(batches) => {
                    whole += 1;
                    let rows = crate::rows::rows(&batches);
                    assert_eq!(rows[0][0], rows[0][1], "two contents in one scan: {rows:?}");
                    assert_eq!(rows[0][2], Cell::Text("6858".to_owned()), "{rows:?}");
                }
                Err(error) => {
                    ended += 1;
                    let text = error.to_string();
                    assert!(text.contains("mem://t/t.parquet") && text.contains("changed"), "{text}");
                }
            }
            while store.unplan() {}
        }
        assert!(whole > 0 && ended > 0, "{whole} were whole, {ended} ended");
        assert_eq!((pool.scans().len(), pool.unordered_scans().len(), pool.pinned()), (0, 0, 0));
        pool.check();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_object_is_named() {
    let store = with_tables(&["orders"]).await;
    let (ctx, pool) = (Session::plain(2).context(), pool(8 << 20));
    add(&ctx, "mem://tpch", &store);
    table(&ctx, "orders", "mem://tpch/orders/").await;
    install(&ctx, pool).unwrap();
    store.put(&"orders/1.parquet".into(), vec![7; 5000].into()).await.unwrap();
    let error = ctx.sql("SELECT max(o_comment) FROM orders").await.unwrap().collect().await.unwrap_err().to_string();
    assert!(error.contains("mem://tpch/orders/1.parquet"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_fails_fails_the_query_by_the_objects_name() {
    let store = with_tables(&["orders"]).await;
    let (ctx, pool) = (Session::plain(2).context(), pool(8 << 20));
    add(&ctx, "mem://tpch", &store);
    table(&ctx, "orders", "mem://tpch/orders/").await;
    install(&ctx, pool.clone()).unwrap();
    let sql = "SELECT max(o_comment) FROM orders WHERE o_totalprice > 1";
    let plan = ctx.sql(sql).await.unwrap();
    store.plan(std::iter::repeat_n(ObjectFault::Unavailable, 100));
    let error = plan.collect().await.unwrap_err().to_string();
    assert!(error.contains("mem://tpch/orders/") && error.contains("SlowDown"), "{error}");
    while store.unplan() {}
    let stock = run(&Session::plain(2).tpch().await, sql).await;
    assert!(same_rows(&stock, &run(&ctx, sql).await), "the next one is answered");
}
