//! Joins whose sides have columns of one name: filters above them are of the right one.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use datafusion::prelude::{SessionConfig, SessionContext};
use pagecast_datafusion::install;

use crate::data::{register, write_encoded};
use crate::rows::run;
use crate::tpch::pool;

fn table(id: i64, key: i64) -> RecordBatch {
    let column = |value| Arc::new(Int64Array::from(vec![value])) as _;
    RecordBatch::try_from_iter([("id", column(id)), ("k", column(key))]).unwrap()
}

/// DataFusion alone leaves out `b`'s only row: its `id` is not NULL.
#[tokio::test]
async fn a_filter_of_one_side_leaves_out_no_rows_of_the_other() {
    let folder = tempfile::tempdir().unwrap();
    for (name, rows) in [("a", table(755, 1)), ("b", table(1134, 2)), ("c", table(1134, 1)), ("d", table(1, 500))] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        write_encoded(&folder.path().join(name).join("0.parquet"), &rows, 100, 100, false);
    }
    for (sql, rows) in [
        ("SELECT a.id, b.id FROM a RIGHT JOIN b ON a.k = b.k WHERE a.id IS NULL", 1),
        ("SELECT a.id, b.id FROM b LEFT JOIN a ON a.k = b.k WHERE a.id IS NULL", 1),
        ("SELECT x.id, b.id FROM a x FULL JOIN b ON x.k = b.k WHERE x.id IS NULL OR b.id IS NULL", 2),
        (
            "SELECT a.id AS x, c.id AS y FROM a JOIN c ON a.k = c.k \
             EXCEPT SELECT a.id AS x, c.id AS y FROM a JOIN c ON a.k = c.k \
             WHERE a.k NOT IN (SELECT b.k FROM b WHERE b.id < 0)",
            0,
        ),
        // What `c` has for `a.k` is no filter of `d.k`.
        (
            "SELECT a.id FROM a LEFT SEMI JOIN d ON a.k = d.id AND d.k + a.id > 7 \
             WHERE a.k IN (SELECT c.k FROM c WHERE c.id > 0)",
            1,
        ),
    ] {
        for pushdown in [false, true] {
            let mut config = SessionConfig::new().with_target_partitions(2);
            config.options_mut().execution.parquet.pushdown_filters = pushdown;
            let ctx = SessionContext::new_with_config(config);
            install(&ctx, pool(1 << 20)).unwrap();
            for name in ["a", "b", "c", "d"] {
                register(&ctx, name, &folder.path().join(name)).await;
            }
            assert_eq!(run(&ctx, sql).await.len(), rows, "{sql}");
        }
    }
}
