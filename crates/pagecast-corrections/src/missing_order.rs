//! Orders that a node needs, and DataFusion takes for given.
//!
//! `UNION ALL` ordered by a column that stands twice, `SELECT x, x AS y ... ORDER BY y`: DataFusion
//! sorts the parts by `x`, which is `y` in each. The union of the parts forgets that the two are
//! one, does not keep the order that is asked of it, and the plan is refused
//! (<https://github.com/apache/datafusion/issues/16171>, open in 55.2).
//!
//! A window by `k, n` above groups by `k` that come sorted: DataFusion concludes that no order by
//! `n` is needed, for `k` is never the same, and the window then fails, because it wants one. No
//! issue was found for it; 55.2 has it.
//!
//! Groups of which a LIMIT wants some, without an order: DataFusion tells the aggregate how many.
//! If its input comes to be sorted later (for a window below it, say), the aggregate asks in which
//! direction it may stop, and fails. No issue was found for it; 55.2 has it. Such an aggregate
//! gives all groups.
//!
//! Where a node's input does not have its order, it is sorted. The rule goes when unions know what
//! their parts are sorted by, and windows take what the planner promises them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::BoundedWindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputOrderMode};

use crate::fence::Fence;

pub(crate) const OVER: &str = "SanityCheckPlan";

/// DataFusion's last look at a plan, after what it would refuse is sorted.
pub(crate) fn optimize(
    rule: &dyn PhysicalOptimizerRule,
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    rule.optimize(plan.transform_up(sorted).map(|plan| plan.data)?, config)
}

/// The node, whose inputs have the orders that it needs.
fn sorted(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut inputs: Vec<Arc<dyn ExecutionPlan>> = node.children().into_iter().cloned().collect();
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>()
        && aggregate.limit_options().is_some_and(|limit| limit.descending().is_none())
        && aggregate.aggr_expr().is_empty()
        && !aggregate.is_unordered_unfiltered_group_by_distinct()
    {
        return Ok(Transformed::yes(Arc::new(aggregate.with_new_limit_options(None))));
    }
    let lacks = lacks_parts(&node)?;
    let mut is_sorted = false;
    for (input, needed) in inputs.iter_mut().zip(node.required_input_ordering()) {
        let Some(needed) = needed.map(|needed| needed.into_single()) else { continue };
        if lacks || !input.equivalence_properties().ordering_satisfy_requirement(needed.clone())? {
            // A sort would conclude the same, and not say how its rows are sorted.
            let unsorted = if lacks { Arc::new(Fence::of_constants(Arc::clone(input))?) } else { Arc::clone(input) };
            let sort = SortExec::new(LexOrdering::from(needed), unsorted);
            *input = Arc::new(sort.with_preserve_partitioning(true));
            is_sorted = true;
        }
    }
    Ok(if is_sorted { Transformed::yes(replace_children_if_necessary(node, inputs)?) } else { Transformed::no(node) })
}

/// Whether it is a window whose input is not sorted by all that makes a part.
fn lacks_parts(node: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let window = node.downcast_ref::<BoundedWindowAggExec>();
    let Some(window) = window.filter(|window| window.input_order_mode == InputOrderMode::Sorted) else {
        return Ok(false);
    };
    let Some(expr) = window.window_expr().first() else { return Ok(false) };
    let (_, sorted) = window.input().equivalence_properties().find_longest_permutation(expr.partition_by())?;
    Ok(sorted.len() < expr.partition_by().len())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::prelude::{SessionConfig, SessionContext};
    use datafusion::{assert_batches_eq, assert_batches_sorted_eq};

    #[tokio::test]
    async fn a_column_that_stands_twice_orders_a_union() {
        let ctx = SessionContext::new();
        crate::install(&ctx, |_| false).unwrap();
        let twice = "SELECT x, x AS y FROM (VALUES (2), (1), (5)) AS t (x)";
        for other in [twice, "SELECT 4, 4"] {
            let sql = format!("SELECT max(y) FROM (SELECT * FROM ({twice} UNION ALL {other}) ORDER BY y LIMIT 3)");
            let rows = ctx.sql(&sql).await.unwrap().collect().await.unwrap();
            let most = if other == twice { "2" } else { "4" };
            let cell = format!("| {most}      |");
            assert_batches_eq!(["+--------+", "| max(y) |", "+--------+", &cell, "+--------+"], &rows);
        }
        let sql = format!("{twice} UNION ALL SELECT 4, 4 ORDER BY y DESC");
        let rows = ctx.sql(&sql).await.unwrap().collect().await.unwrap();
        let lines =
            ["+---+---+", "| x | y |", "+---+---+", "| 5 | 5 |", "| 4 | 4 |", "| 2 | 2 |", "| 1 | 1 |", "+---+---+"];
        assert_batches_eq!(lines, &rows);
    }

    #[tokio::test]
    async fn a_window_over_sorted_groups_has_its_parts_together() {
        let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
        crate::install(&ctx, |_| false).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("t.csv");
        std::fs::write(&file, "1\n1\n2\n3\n").unwrap();
        let t = format!(
            "CREATE EXTERNAL TABLE t (k INT NOT NULL) STORED AS CSV WITH ORDER (k ASC) LOCATION '{}' \
             OPTIONS ('format.has_header' 'false')",
            file.display()
        );
        ctx.sql(&t).await.unwrap().collect().await.unwrap();
        let groups = "SELECT k, count(*) AS n FROM t GROUP BY k";
        let rows = ctx.sql(&format!("{groups} INTERSECT ALL {groups}")).await.unwrap().collect().await.unwrap();
        let lines = ["+---+---+", "| k | n |", "+---+---+", "| 1 | 2 |", "| 2 | 1 |", "| 3 | 1 |", "+---+---+"];
        assert_batches_sorted_eq!(lines, &rows);
    }

    #[tokio::test]
    async fn a_limit_of_groups_takes_sorted_ones() {
        let ctx = SessionContext::new();
        crate::install(&ctx, |_| false).unwrap();
        let t = "(VALUES (1, 1), (1, 2), (2, 3), (3, 4)) AS t (k, id)";
        let numbered = format!("SELECT k, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM {t}");
        let sql = format!("SELECT count(*) AS n FROM (SELECT k FROM ({numbered}) GROUP BY k LIMIT 2)");
        let rows = ctx.sql(&sql).await.unwrap().collect().await.unwrap();
        assert_batches_eq!(["+---+", "| n |", "+---+", "| 2 |", "+---+"], &rows);
    }
}
