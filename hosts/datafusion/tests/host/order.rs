//! Order that nobody promised, and people see.

use std::path::Path;

use datafusion::prelude::{SessionConfig, SessionContext};
use pagecast_datafusion::{HostOptions, install_with};

use crate::data::{numbers, register, write};
use crate::rows::run;
use crate::tpch::pool;

const QUERIES: [&str; 10] = [
    "SELECT first_value(id), last_value(id), nth_value(id, 3) FROM t",
    "SELECT array_agg(id) FROM t WHERE id % 97 = 5",
    "SELECT string_agg(name, ' ') FROM t WHERE id % 97 = 5",
    "SELECT even, first_value(name), last_value(name) FROM t GROUP BY even ORDER BY even",
    "SELECT even, array_agg(id) FROM t WHERE id % 97 = 5 GROUP BY even ORDER BY even",
    "SELECT id, row_number() OVER (ORDER BY even) FROM t ORDER BY id",
    "SELECT id, row_number() OVER () FROM t ORDER BY id",
    "SELECT id, sum(id) OVER (PARTITION BY even ORDER BY id % 3 ROWS UNBOUNDED PRECEDING) FROM t ORDER BY id",
    "SELECT first_value(id ORDER BY even), last_value(id ORDER BY even) FROM t",
    "SELECT array_agg(a) FROM (SELECT a.id AS a FROM t AS a JOIN t AS b ON a.id = b.id WHERE a.id % 97 = 5)",
];

async fn session(folder: &Path, partitions: usize) -> SessionContext {
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(partitions));
    register(&ctx, "t", folder).await;
    ctx
}

/// A folder of files of 4000 rows.
fn files(files: i64, row_group: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..files {
        write(&folder.path().join(format!("{file}.parquet")), &numbers(file * 4000, 4000), row_group);
    }
    folder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_that_show_the_order_of_rows_show_that_of_the_files() {
    for (number, row_group) in [(1, 4000), (1, 500), (2, 500)] {
        let folder = files(number, row_group);
        let stock = session(folder.path(), 1).await;
        for partitions in [1, number as usize] {
            let ctx = session(folder.path(), partitions).await;
            let pool = pool(1 << 20);
            install_with(&ctx, pool.clone(), HostOptions::default()).unwrap();
            for sql in QUERIES {
                let expected = run(&stock, sql).await;
                for _ in 0..3 {
                    assert_eq!(run(&ctx, sql).await, expected, "{number} files, {partitions} partitions: {sql}");
                }
                assert_eq!(pool.scans().len(), 0);
            }
            assert!(pool.stats().requests > 0);
        }
    }
}

#[tokio::test]
async fn large_files_and_sessions_that_do_not_care_are_read_by_all_streams() {
    let folder = files(2, 500);
    for (keep_order, small, plan_has) in [
        (true, 10 << 20, "delivery=in-order, streams=first"),
        (false, 10 << 20, "delivery=out-of-order"),
        (true, 1 << 10, "file_type=parquet"),
    ] {
        let ctx = session(folder.path(), 2).await;
        ctx.state_ref().write().config_mut().options_mut().optimizer.repartition_file_min_size = small;
        install_with(&ctx, pool(1 << 20), HostOptions::default().keep_order(keep_order)).unwrap();
        let plan = format!("{:?}", run(&ctx, &format!("EXPLAIN {}", QUERIES[1])).await);
        assert!(plan.contains(plan_has), "{plan}");
        assert_eq!(plan.contains("delivery="), plan_has.contains("delivery"), "{plan}");
        assert_eq!(plan.contains("streams=first"), plan_has.contains("streams"), "{plan}");
        // Nothing of it concerns functions that show no order.
        let plan = format!("{:?}", run(&ctx, "EXPLAIN SELECT sum(id), max(name) FROM t WHERE even").await);
        assert!(plan.contains("delivery=out-of-order") && !plan.contains("streams"), "{plan}");
    }
}
