//! Joins as merge joins, where these give the same rows.

use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};
use pagecast_corrections::merge_joins;

/// A session with these options.
fn under(options: impl FnOnce(SessionConfig) -> SessionConfig) -> SessionContext {
    let mut state = crate::session().unwrap().state();
    *state.config_mut() = options(state.config().clone());
    SessionContext::new_with_state(state)
}

#[tokio::test]
async fn a_join_stays_whose_rows_a_merge_join_would_not_give() {
    let (ours, theirs) =
        (under(merge_joins::all), under(|config| config.set_bool("datafusion.optimizer.prefer_hash_join", false)));
    for (key, join, and, is_merged) in [
        ("bigint", "JOIN", "", true),
        ("text", "FULL JOIN", "", true),
        ("double", "JOIN", "", false),
        ("interval", "JOIN", "", false),
        ("bigint", "JOIN", "AND a.v < b.v", true),
        ("bigint", "LEFT JOIN", "AND a.v < b.v", false),
    ] {
        let rows = format!("(SELECT arrow_cast(value, 'Utf8')::{key} AS k, value % 3 AS v FROM range(9))");
        let sql = format!("SELECT * FROM {rows} AS a {join} {rows} AS b ON a.k = b.k {and}");
        for (ctx, is_merged) in [(&ours, is_merged), (&theirs, is_merged && and.is_empty())] {
            let plan = ctx.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
            let plan = displayable(plan.as_ref()).indent(false).to_string();
            assert_eq!(plan.contains("SortMergeJoin"), is_merged, "{key} {join} {and}: {plan}");
            assert_eq!(plan.contains("HashJoin"), !is_merged, "{key} {join} {and}: {plan}");
        }
    }
}
