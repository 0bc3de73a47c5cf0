//! Groups above which ORDER BY and LIMIT show a few: the same as without LIMIT, cut.

use crate::rows;

#[tokio::test]
async fn what_stands_between_groups_and_limit_sees_all_groups() {
    let ctx = crate::session().unwrap();
    ctx.sql("CREATE TABLE t AS SELECT value % 25 AS k, value AS v FROM generate_series(0, 999)").await.unwrap();
    let between = [
        "SELECT k, max(v) AS m, count(*) OVER () AS n FROM t GROUP BY k",
        "SELECT k, min(v) AS m, rank() OVER (ORDER BY min(v) DESC) AS n FROM t GROUP BY k",
        "SELECT k, max(v) AS m, sum(max(v)) OVER () AS n FROM t GROUP BY k",
        "SELECT k, k AS m, lead(k) OVER (ORDER BY k) AS n FROM t GROUP BY k",
        "SELECT DISTINCT k, k AS m, count(*) OVER () AS n FROM t",
        "SELECT k, max(v) AS m, last_value(k) OVER (ORDER BY k ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS n \
         FROM t GROUP BY k",
        // A column that has the name of the group and is another.
        "SELECT k % 7 * 100 + k AS k, k AS m FROM (SELECT k FROM t GROUP BY k) q",
        "SELECT 0 - k AS k, 0 - m AS m FROM (SELECT k, max(v) AS m FROM t GROUP BY k) q",
    ];
    for statement in between {
        for order in ["k", "k DESC", "m", "m DESC"] {
            let all = rows(&ctx, &format!("{statement} ORDER BY {order}")).await;
            let sql = format!("{statement} ORDER BY {order} LIMIT 3");
            assert_eq!(rows(&ctx, &sql).await, all[..3], "{sql}");
        }
    }
}

#[tokio::test]
async fn groups_of_which_nothing_else_is_asked_are_still_cut() {
    let ctx = crate::session().unwrap();
    ctx.sql("CREATE TABLE t AS SELECT value % 25 AS k, value AS v FROM generate_series(0, 999)").await.unwrap();
    let sql = "SELECT k AS g, m FROM (SELECT k, max(v) AS m FROM t GROUP BY k) q ORDER BY m DESC LIMIT 3";
    let plan = crate::batches(&ctx, &format!("EXPLAIN {sql}")).await;
    let plan = datafusion::arrow::util::pretty::pretty_format_batches(&plan).unwrap().to_string();
    assert!(plan.contains("lim=[3]"), "{plan}");
}
