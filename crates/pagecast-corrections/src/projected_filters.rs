//! Filters that leave out columns, below a projection.
//!
//! A filter may hand on some of its columns only. DataFusion moves a projection below such a filter
//! as if it handed on all: places among what the filter gives are read as places among what it is
//! given. Where the names differ the statement ends with an internal error, and where they agree,
//! as above joins of tables with columns of one name, a column gets the values of another. No issue
//! was found for it; 55.2 has it. So the filter hands on all of its columns while projections are
//! moved, and a projection above it leaves them out; the rule puts that into the filter again. This
//! file goes when `FilterExec::try_swapping_with_projection` minds its own projection.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::ProjectionExec;

pub(crate) const OVER: &str = "ProjectionPushdown";

/// The rule of DataFusion that moves projections, which sees no filter that leaves out columns.
pub(crate) fn optimize(
    rule: &dyn PhysicalOptimizerRule,
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    rule.optimize(plan.transform_down(apart).map(|plan| plan.data)?, config)
}

/// A filter and what it leaves out, in two nodes; a projection above it takes that on.
fn apart(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let above = node.downcast_ref::<ProjectionExec>();
    let below = above.map_or(&node, |projection| projection.input());
    let Some(filter) = below.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(node)) };
    let Some(columns) = filter.projection().as_deref() else { return Ok(Transformed::no(node)) };
    let columns = ProjectionExprs::from_indices(columns, &filter.input().schema());
    let columns = above.map_or(Ok(columns.clone()), |above| columns.try_merge(above.projection_expr()))?;
    let filter = FilterExecBuilder::from(filter).apply_projection(None)?.build()?;
    let given =
        ProjectionExec::try_new_with_schema_metadata(columns.iter().cloned(), Arc::new(filter), &node.schema())?;
    Ok(Transformed::yes(Arc::new(given)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::prelude::SessionContext;

    #[tokio::test]
    async fn a_filter_keeps_columns_of_one_name_apart() {
        let ctx = SessionContext::new();
        crate::install(&ctx, |_| false).unwrap();
        let three = "(VALUES (1, 10, 100)) AS a (k, x, y) FULL JOIN (VALUES (1, 15)) AS b (k, x) ON a.k = b.k \
                     FULL JOIN (VALUES (1, 17)) AS c (k, x) ON a.k = c.k";
        for (sql, row) in [
            // Without the rule 110 and 15.
            ("SELECT c.x + a.y, a.x", "| 117 | 10 |"),
            // Without it an internal error, which compares the names.
            ("SELECT c.k + a.y, a.x", "| 101 | 10 |"),
            ("SELECT c.x + a.y, a.x, count(*) OVER ()", "| 117 | 10 | 1 |"),
        ] {
            let sql = format!("{sql} FROM {three} WHERE coalesce(b.x, 1) > 0");
            let rows = ctx.sql(&sql).await.unwrap().collect().await.unwrap();
            let table = pretty_format_batches(&rows).unwrap().to_string();
            let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(words(table.lines().nth(3).unwrap()), row, "{sql}");
        }
    }
}
