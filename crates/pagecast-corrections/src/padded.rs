//! Columns that an outer join fills with NULL, and a filter below it made constant.
//!
//! Of `b.w = 7` below `a LEFT JOIN b` DataFusion concludes that `b.w` is constant above the join,
//! too. `ORDER BY b.w NULLS FIRST` does not sort then, and a grouping by `b.w` ends a group with
//! each batch. No issue was found for it; 55.2 has it. What is constant stays below the join. The
//! rule goes when joins drop constants of the side that they fill.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::fence::Fence;

pub(crate) const OVER: &str = "EnsureRequirements";

/// The rule of DataFusion that leaves out sorts, which sees no constants of filled columns.
pub(crate) fn optimize(
    rule: &dyn PhysicalOptimizerRule,
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    rule.optimize(plan.transform_up(fenced).map(|plan| plan.data)?, config)
}

/// The join, whose filled sides show no constants.
fn fenced(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(kind) = kind_of(&node) else { return Ok(Transformed::no(node)) };
    let fills = match kind {
        JoinType::Left => [false, true],
        JoinType::Right => [true, false],
        JoinType::Full => [true, true],
        _ => return Ok(Transformed::no(node)),
    };
    let mut sides: Vec<Arc<dyn ExecutionPlan>> = node.children().into_iter().cloned().collect();
    let mut is_fenced = false;
    for (side, is_filled) in sides.iter_mut().zip(fills) {
        if is_filled && !side.equivalence_properties().constants().is_empty() {
            *side = Arc::new(Fence::of_constants(Arc::clone(side))?);
            is_fenced = true;
        }
    }
    Ok(if is_fenced { Transformed::yes(replace_children_if_necessary(node, sides)?) } else { Transformed::no(node) })
}

fn kind_of(node: &Arc<dyn ExecutionPlan>) -> Option<JoinType> {
    let hash = node.downcast_ref::<HashJoinExec>().map(|join| join.join_type);
    let merge = || node.downcast_ref::<SortMergeJoinExec>().map(|join| join.join_type);
    let loops = || node.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type());
    hash.or_else(merge).or_else(loops)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::assert_batches_eq;
    use datafusion::prelude::SessionContext;

    #[tokio::test]
    async fn a_filled_column_is_not_constant() {
        let ctx = SessionContext::new();
        crate::install(&ctx, |_| false).unwrap();
        let a = "(VALUES (1), (2), (3), (4)) AS a (id)";
        for b in
            ["(VALUES (1, 7), (3, 7), (4, 8)) AS b (id, w)", "(SELECT id, 7 AS w FROM (VALUES (1), (3)) AS b (id))"]
        {
            let joins = [
                format!("{a} LEFT JOIN (SELECT * FROM {b} WHERE w = 7) b ON a.id = b.id"),
                format!("(SELECT * FROM {b} WHERE w = 7) b RIGHT JOIN {a} ON a.id = b.id"),
                format!("{a} FULL JOIN (SELECT * FROM {b} WHERE w = 7) b ON a.id = b.id"),
                format!("{a} LEFT JOIN (SELECT * FROM {b} WHERE w = 7) b ON b.id BETWEEN a.id AND a.id"),
            ];
            for join in joins {
                let sorted = format!("SELECT b.w FROM {join} ORDER BY b.w NULLS FIRST");
                let rows = ctx.sql(&sorted).await.unwrap().collect().await.unwrap();
                assert_batches_eq!(["+---+", "| w |", "+---+", "|   |", "|   |", "| 7 |", "| 7 |", "+---+"], &rows);
                let grouped = format!("SELECT w, count(*) AS n FROM (SELECT b.w FROM {join}) GROUP BY w ORDER BY w");
                let rows = ctx.sql(&grouped).await.unwrap().collect().await.unwrap();
                let lines = ["+---+---+", "| w | n |", "+---+---+", "| 7 | 2 |", "|   | 2 |", "+---+---+"];
                assert_batches_eq!(lines, &rows);
            }
        }
    }
}
