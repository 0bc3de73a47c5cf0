//! Joins are hash joins, whatever is preferred.

use datafusion::physical_plan::displayable;
use datafusion::prelude::SessionContext;

#[tokio::test]
async fn no_join_is_a_merge_join() {
    let mut state = crate::session().unwrap().state();
    state.config_mut().options_mut().optimizer.prefer_hash_join = false;
    let ctx = SessionContext::new_with_state(state);
    for (key, join, and) in [
        ("bigint", "JOIN", ""),
        ("double", "FULL JOIN", ""),
        ("bigint", "JOIN", "AND a.v < b.v"),
        ("bigint", "LEFT JOIN", "AND a.v < b.v"),
    ] {
        let rows = format!("(SELECT arrow_cast(value, 'Utf8')::{key} AS k, value % 3 AS v FROM range(9))");
        let sql = format!("SELECT * FROM {rows} AS a {join} {rows} AS b ON a.k = b.k {and}");
        let plan = ctx.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
        let plan = displayable(plan.as_ref()).indent(false).to_string();
        assert!(plan.contains("HashJoinExec") && !plan.contains("SortMergeJoin"), "{key} {join} {and}: {plan}");
    }
}
