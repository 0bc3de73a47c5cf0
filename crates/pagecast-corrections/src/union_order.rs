//! `UNION ALL` ordered by a column that stands twice: `SELECT x, x AS y ... ORDER BY y`.
//!
//! DataFusion sorts the parts by `x`, which is `y` in each. The union of the parts forgets that the
//! two are one, does not keep the order that is asked of it, and the plan is refused
//! (<https://github.com/apache/datafusion/issues/16171>, open in 55.2). Where a node's input does
//! not keep its order, it is sorted. The rule goes when unions know what their parts are sorted by.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// DataFusion's last look at a plan, after what it would refuse is sorted.
#[derive(Debug)]
pub(crate) struct SortedUnions(pub(crate) Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl SortedUnions {
    pub(crate) const OVER: &str = "SanityCheckPlan";
}

impl PhysicalOptimizerRule for SortedUnions {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.optimize(plan.transform_up(sorted).map(|plan| plan.data)?, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// The node, whose inputs have the orders that it needs.
fn sorted(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut inputs: Vec<Arc<dyn ExecutionPlan>> = node.children().into_iter().cloned().collect();
    let mut is_sorted = false;
    for (input, needed) in inputs.iter_mut().zip(node.required_input_ordering()) {
        let Some(needed) = needed.map(|needed| needed.into_single()) else { continue };
        if !input.equivalence_properties().ordering_satisfy_requirement(needed.clone())? {
            let sort = SortExec::new(LexOrdering::from(needed), Arc::clone(input));
            *input = Arc::new(sort.with_preserve_partitioning(true));
            is_sorted = true;
        }
    }
    if !is_sorted {
        return Ok(Transformed::no(node));
    }
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    node.replace_children(inputs, options).map(Transformed::yes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::assert_batches_eq;
    use datafusion::prelude::SessionContext;

    #[tokio::test]
    async fn a_column_that_stands_twice_orders_a_union() {
        let ctx = SessionContext::new();
        crate::install(&ctx).unwrap();
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
}
