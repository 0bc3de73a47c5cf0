//! What one process answers to the TPC-H queries 1 to 22.

use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::prelude::SessionContext;
use tokio::sync::OnceCell;

use crate::rows::{Row, run, same_order, same_rows};
use crate::tables::{alone, query};

/// What one process answers.
pub(crate) async fn expected() -> &'static [Vec<Row>] {
    static EXPECTED: OnceCell<Vec<Vec<Row>>> = OnceCell::const_new();
    EXPECTED.get_or_init(async || all_queries(&alone().await).await).await
}

pub(crate) async fn all_queries(ctx: &SessionContext) -> Vec<Vec<Row>> {
    let mut results = Vec::new();
    for number in 1..=22 {
        results.push(run(ctx, &query(number)).await);
    }
    results
}

/// The columns by which the rows of a query are sorted.
async fn ordered_by(ctx: &SessionContext, sql: &str) -> Vec<usize> {
    let plan = ctx.state().create_logical_plan(sql).await.unwrap();
    let mut at = &plan;
    loop {
        match at {
            LogicalPlan::Limit(limit) => at = &limit.input,
            LogicalPlan::Sort(sort) => {
                let columns = sort.expr.iter().filter_map(|sorted| match &sorted.expr {
                    Expr::Column(column) => plan.schema().index_of_column(column).ok(),
                    _ => None,
                });
                return columns.collect();
            }
            _ => return Vec::new(),
        }
    }
}

pub(crate) async fn assert_right(ctx: &SessionContext, number: usize, result: &[Row], how: &str) {
    let expected = &expected().await[number - 1];
    let what = format!("query {number}, {how}");
    assert!(!expected.is_empty(), "{what}: nothing to compare");
    assert!(same_rows(expected, result), "{what}: other rows\n{expected:?}\n{result:?}");
    let columns = ordered_by(ctx, &query(number)).await;
    assert!(same_order(expected, result, &columns), "{what}: other order\n{expected:?}\n{result:?}");
}
