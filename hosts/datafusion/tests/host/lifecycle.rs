//! Scans begin and end: limits, cancelled queries, errors, plans that run again.

use std::fs;
use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use pagecast::{Pool, PoolOptions, PredictorConfig};
use pagecast_datafusion::{Delivery, HostError, HostOptions, install, install_with};

use crate::data::{Session, numbers, register, write};
use crate::rows::{Row, rows, run, same_rows};
use crate::tpch::pool;

const ROWS: i64 = 20_000;

/// A session with a pool and a table `numbers` of two files in `folder`.
async fn with_numbers(folder: &std::path::Path, partitions: usize) -> (SessionContext, Pool) {
    delivered(folder, partitions, Delivery::default()).await
}

const DELIVERIES: [Delivery; 2] = [Delivery::InOrder, Delivery::OutOfOrder];

/// [`with_numbers`], whose row groups are delivered like this, however few there are.
async fn delivered(folder: &std::path::Path, partitions: usize, delivery: Delivery) -> (SessionContext, Pool) {
    write(&folder.join("0.parquet"), &numbers(0, ROWS / 2), 1000);
    write(&folder.join("1.parquet"), &numbers(ROWS / 2, ROWS / 2), 1000);
    let ctx = Session::plain(partitions).context();
    register(&ctx, "numbers", folder).await;
    let pool = pool(1 << 20);
    install_with(&ctx, pool.clone(), HostOptions::default().delivery(delivery).least_chunks(1)).unwrap();
    (ctx, pool)
}

/// Nothing of any scan is left in the pool.
fn assert_quiet(pool: &Pool) {
    assert_eq!((pool.scans().len(), pool.unordered_scans().len(), pool.pinned()), (0, 0, 0));
}

async fn plan(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    ctx.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_ends_the_scan_early() {
    for delivery in DELIVERIES {
        let folder = tempfile::tempdir().unwrap();
        let (ctx, pool) = delivered(folder.path(), 4, delivery).await;
        let all = run(&ctx, "SELECT id, name FROM numbers").await;
        let whole_table = pool.stats().bytes_requested;
        let some = run(&ctx, "SELECT id, name FROM numbers LIMIT 700").await;
        assert_eq!(some.len(), 700);
        assert!(some.iter().all(|row| all.contains(row)), "a row that is not in the table");
        assert!(pool.stats().bytes_requested - whole_table < whole_table / 2, "the limit did not stop the scan");
        assert_quiet(&pool);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_the_files_have_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (ctx, _pool) = with_numbers(folder.path(), 4).await;
    let location = folder.path().display();
    ctx.sql(&format!("CREATE EXTERNAL TABLE sorted STORED AS PARQUET WITH ORDER (id) LOCATION '{location}'"))
        .await
        .unwrap();
    let ids = run(&ctx, "SELECT id FROM sorted ORDER BY id").await;
    assert_eq!(ids, run(&ctx, "SELECT id FROM numbers ORDER BY id").await);
    let first = run(&ctx, "SELECT id FROM sorted ORDER BY id LIMIT 7").await;
    assert_eq!(first, ids[..7]);
    let of_first = run(&ctx, "SELECT sum(id) FROM (SELECT id FROM sorted ORDER BY id LIMIT 7)").await;
    assert_eq!(of_first, run(&ctx, "SELECT sum(id) FROM numbers WHERE id < 7").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_query_leaves_no_scan() {
    for delivery in DELIVERIES {
        let folder = tempfile::tempdir().unwrap();
        let (ctx, pool) = delivered(folder.path(), 1, delivery).await;
        let plan = plan(&ctx, "SELECT id, name FROM numbers").await;
        let mut stream = execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
        assert!(stream.next().await.unwrap().unwrap().num_rows() > 0);
        let scans = pool.scans();
        assert_eq!(scans.len(), 1);
        let cooperates = delivery == Delivery::OutOfOrder;
        assert_eq!(scans[0].length == ROWS as u64, !cooperates, "rows in order, else chunks: {scans:?}");
        assert_eq!(pool.unordered_scans().len(), usize::from(cooperates));
        assert!(scans[0].position < scans[0].length, "{scans:?}");
        assert!(cooperates || scans[0].position > 0, "the row group that was read is behind it: {scans:?}");
        drop(stream);
        // The plan is still there, but nobody reads.
        assert_quiet(&pool);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_are_one_scan_until_the_last_is_dropped() {
    for delivery in DELIVERIES {
        let folder = tempfile::tempdir().unwrap();
        let (ctx, pool) = delivered(folder.path(), 4, delivery).await;
        let plan = plan(&ctx, "SELECT id FROM numbers WHERE id % 3 = 1").await;
        let partitions = plan.properties().output_partitioning().partition_count();
        assert_eq!(partitions, 4);
        let mut streams: Vec<_> = (0..4).map(|i| plan.execute(i, ctx.task_ctx()).unwrap()).collect();
        for stream in &mut streams {
            assert!(stream.next().await.unwrap().is_ok());
            assert_eq!(pool.scans().len(), 1);
        }
        let first = streams.remove(0);
        drop(first);
        assert_eq!(pool.scans().len(), 1);
        drop(streams);
        assert_quiet(&pool);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_gives_its_rows_each_time_it_runs() {
    for delivery in DELIVERIES {
        let folder = tempfile::tempdir().unwrap();
        let (ctx, pool) = delivered(folder.path(), 4, delivery).await;
        let expected = run(&ctx, "SELECT * FROM numbers WHERE id > 5000").await;
        let plan = plan(&ctx, "SELECT * FROM numbers WHERE id > 5000").await;
        for _ in 0..3 {
            let again = rows(&collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap());
            assert!(same_rows(&expected, &again));
            assert_quiet(&pool);
        }
        let reset = datafusion::physical_plan::execution_plan::reset_plan_states(plan).unwrap();
        assert!(same_rows(&expected, &rows(&collect(reset, ctx.task_ctx()).await.unwrap())));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_changes_fails_the_query_by_name() {
    let half = |content: &[u8]| content[..content.len() / 2].to_vec();
    let same_size = |content: &[u8]| content.iter().map(|byte| byte ^ 1).collect();
    let changes = [half as fn(&[u8]) -> Vec<u8>, same_size];
    for (change, delivery) in changes.into_iter().flat_map(|change| DELIVERIES.map(|delivery| (change, delivery))) {
        let folder = tempfile::tempdir().unwrap();
        let (ctx, pool) = delivered(folder.path(), 1, delivery).await;
        let plan = plan(&ctx, "SELECT id, name FROM numbers").await;
        let mut stream = execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
        assert!(stream.next().await.unwrap().is_ok());
        let changed = folder.path().join("1.parquet");
        let content = fs::read(&changed).unwrap();
        fs::write(&changed, change(&content)).unwrap();
        let error = loop {
            match stream.next().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => break error.to_string(),
                None => panic!("the rows of a file that is not there any more"),
            }
        };
        assert!(error.contains("1.parquet") && error.contains("changed"), "{error}");
        assert!(!error.contains('\n'), "{error}");
        drop(stream);
        assert_quiet(&pool);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_no_parquet_any_more_fails_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (ctx, pool) = with_numbers(folder.path(), 4).await;
    let same_size = vec![7; fs::metadata(folder.path().join("0.parquet")).unwrap().len() as usize];
    fs::write(folder.path().join("0.parquet"), same_size).unwrap();
    let error = ctx.sql("SELECT sum(id) FROM numbers").await.unwrap().collect().await.unwrap_err().to_string();
    assert!(error.contains("0.parquet"), "{error}");
    assert!(!error.contains('\n'), "{error}");
    assert_eq!(pool.scans().len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_shows_the_delivery_and_the_pool() {
    let folder = tempfile::tempdir().unwrap();
    let (ctx, pool) = with_numbers(folder.path(), 2).await;
    let text = |rows: Vec<Row>| format!("{rows:?}");
    let plan = text(run(&ctx, "EXPLAIN SELECT sum(id) FROM numbers").await);
    assert!(plan.contains("delivery=out-of-order"), "{plan}");
    assert_eq!(pool.stats().bytes_requested, 0, "EXPLAIN read data");
    let analyzed = text(run(&ctx, "EXPLAIN ANALYZE SELECT sum(id) FROM numbers WHERE id >= 3000").await);
    for figure in [
        "pool_pages=",
        "pool_hits=",
        "pool_bytes_requested=",
        "pool_bytes_read=",
        "pool_bytes_planned=",
        "pool_chunks=",
    ] {
        assert!(analyzed.contains(figure), "{figure} is not in {analyzed}");
        // What the pool brings for scans that cooperate, none of them has read.
        let may_be_none = ["pool_hits=", "pool_bytes_read="].contains(&figure);
        assert!(may_be_none || !analyzed.contains(&format!("{figure}0,")), "{figure}0 in {analyzed}");
    }
    assert!(analyzed.contains("pool_chunks_shared=0"), "{analyzed}");
    assert!(analyzed.contains("output_rows=17.00 K"), "{analyzed}");
    assert!(analyzed.contains("row_groups_pruned_statistics=20 total → 17 matched"), "{analyzed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_without_room_in_the_predictor_runs_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (expected_of, _pool) = with_numbers(folder.path(), 4).await;
    let ctx = Session::plain(4).context();
    register(&ctx, "numbers", folder.path()).await;
    let predictor = Some(PredictorConfig { scans: 1, parts: 1, runs: 1, cells: 1, ..PredictorConfig::EMPTY });
    let pool = Pool::new(PoolOptions::default().memory(1 << 20).page_size(4096).predictor(predictor));
    let host = install(&ctx, pool.unwrap()).unwrap();
    let sql = "SELECT sum(id), max(even) FROM numbers";
    assert_eq!(run(&ctx, sql).await, run(&expected_of, sql).await);
    assert_eq!(host.unregistered_scans(), 1);
    assert!(host.footer_memory() > 0 && host.footer_bytes_read() > 0);
    let once = host.footer_bytes_read();
    run(&ctx, sql).await;
    assert_eq!(host.footer_bytes_read(), once, "a footer was read again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_change_between_statements_are_listed_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (ctx, _pool) = with_numbers(folder.path(), 2).await;
    let file = |number: usize| folder.path().join(format!("{number}.parquet"));
    let location = file(0).display().to_string();
    ctx.sql(&format!("CREATE EXTERNAL TABLE zero STORED AS PARQUET LOCATION '{location}'")).await.unwrap();
    let counts = async || {
        let count = async |table: &str| run(&ctx, &format!("SELECT count(*), sum(id) FROM {table}")).await;
        let text = format!("{:?} {:?}", count("numbers").await, count("zero").await);
        text.replace(|c: char| !c.is_ascii_digit() && c != ' ', "")
    };
    let sum = |rows: i64| (0..rows).sum::<i64>();
    let (all, half) = (format!("{ROWS} {}", sum(ROWS)), format!("{} {}", ROWS / 2, sum(ROWS / 2)));
    assert_eq!(counts().await, format!("{all} {half}"));
    // Touched: the same bytes at another time.
    let bytes = fs::read(file(0)).unwrap();
    fs::write(file(0), &bytes).unwrap();
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    fs::File::options().write(true).open(file(0)).unwrap().set_modified(time).unwrap();
    assert_eq!(counts().await, format!("{all} {half}"));
    // Replaced by other rows.
    write(&folder.path().join("new"), &numbers(0, 10), 1000);
    fs::rename(folder.path().join("new"), file(0)).unwrap();
    let other = format!("{} {}", ROWS / 2 + 10, sum(ROWS) - sum(ROWS / 2) + sum(10));
    assert_eq!(counts().await, format!("{other} 10 45"));
    // One goes, and one comes.
    fs::remove_file(file(1)).unwrap();
    write(&file(2), &numbers(10, 5), 1000);
    assert_eq!(counts().await, format!("15 {} 10 45", sum(15)));
}

#[tokio::test]
async fn listings_with_a_time_to_live_and_limits_of_memory_stay() {
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::prelude::SessionConfig;
    let lasting = RuntimeEnvBuilder::new().with_object_list_cache_ttl(Some(std::time::Duration::from_secs(60)));
    for (runtime, kept) in [(lasting, true), (RuntimeEnvBuilder::new(), false)] {
        let runtime = runtime.with_memory_limit(1 << 20, 1.0).build_arc().unwrap();
        let ctx = SessionContext::new_with_config_rt(SessionConfig::new(), Arc::clone(&runtime));
        install(&ctx, pool(1 << 20)).unwrap();
        let now = ctx.runtime_env();
        assert_eq!(now.cache_manager.get_list_files_cache().is_some(), kept);
        assert!(Arc::ptr_eq(&now.memory_pool, &runtime.memory_pool));
        assert!(runtime.cache_manager.get_list_files_cache().is_some(), "other sessions of the runtime are left alone");
    }
}

#[tokio::test]
async fn a_second_install_is_refused_and_the_first_pool_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (ctx, first) = with_numbers(folder.path(), 2).await;
    let second = pool(1 << 20);
    let error = install(&ctx, second.clone()).unwrap_err();
    assert!(matches!(error, HostError::Installed { .. }), "{error:?}");
    assert!(error.to_string().contains("install into a new session"), "{error}");
    assert_eq!(run(&ctx, "SELECT id FROM numbers").await.len(), ROWS as usize);
    assert!(first.stats().requests > 0);
    assert_eq!(second.stats().requests, 0, "the refused pool was read through");
    // The same pool twice is two rules, too; another session may have it.
    assert!(install(&ctx, first.clone()).is_err());
    assert!(install(&SessionContext::new(), first).is_ok());
}
