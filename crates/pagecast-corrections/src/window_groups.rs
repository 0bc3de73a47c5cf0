//! ORDER BY with LIMIT over groups, where something between them sees all groups.
//!
//! `ORDER BY max(v) DESC LIMIT 2` lets an aggregate keep two groups. DataFusion looks for that
//! aggregate through all nodes that keep the number of rows, and so through windows, whose values
//! are of all groups (<https://github.com/apache/datafusion/pull/25066>). And it looks for the
//! column by its name, which a projection may have given to something else. Here the column is
//! followed by its place, and an aggregate to which that does not lead keeps all groups. Needed for
//! 55.2; the rule and this file go when DataFusion follows the column.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

pub(crate) const OVER: &str = "LimitAggregation";

/// DataFusion's rule that lets aggregates keep the first groups, kept from those that have to be
/// whole.
pub(crate) fn optimize(
    rule: &dyn PhysicalOptimizerRule,
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = rule.optimize(plan, config)?;
    let mut ordered = HashSet::new();
    plan.apply(|node| {
        if let Some(sort) = node.downcast_ref::<SortExec>()
            && sort.fetch().is_some()
            && let Some(by) = sort.expr().first().expr.downcast_ref::<Column>()
        {
            follow(sort.input(), by.index(), &mut ordered);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let whole = plan.transform_down(|node| {
        let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
        let is_ordered = aggregate.limit_options().is_some_and(|limit| limit.descending().is_some());
        if !is_ordered || ordered.contains(&address(&node)) {
            return Ok(Transformed::no(node));
        }
        Ok(Transformed::yes(Arc::new(aggregate.with_new_limit_options(None)) as Arc<dyn ExecutionPlan>))
    });
    whole.map(|plan| plan.data)
}

/// The aggregates, final and partial, of which a column comes, if all between passes rows on.
fn follow(plan: &Arc<dyn ExecutionPlan>, column: usize, ordered: &mut HashSet<usize>) {
    let [input] = plan.children()[..] else { return };
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        ordered.insert(address(plan));
        // What groups rows has other columns than its input.
        if matches!(aggregate.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned) {
            follow(input, column, ordered);
        }
        return;
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let Some(below) = projection.expr().get(column).and_then(|of| of.expr.downcast_ref::<Column>()) else { return };
        return follow(input, below.index(), ordered);
    }
    // A window has more columns than its input.
    let passes = matches!(plan.cardinality_effect(), CardinalityEffect::Equal);
    if passes && plan.schema().fields().len() == input.schema().fields().len() {
        follow(input, column, ordered);
    }
}

fn address(plan: &Arc<dyn ExecutionPlan>) -> usize {
    Arc::as_ptr(plan).cast::<()>().addr()
}
