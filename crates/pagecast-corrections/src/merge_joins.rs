//! Merge joins, of which none is planned.
//!
//! With a filter of its own a merge join of 55.2 leaves out rows, reads other columns and panics
//! (<https://github.com/apache/datafusion/issues/21197> is of that kind), and it has no order for
//! NaN and for two zeros. Only `prefer_hash_join = false` brings it. What it is chosen for, joins
//! that do not fit in memory, is left to whoever runs a plan. This file goes when the joins of
//! random statements have the same rows with and without that option.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode, SortMergeJoinExec};

/// The rule of DataFusion that chooses the sides of joins. What comes after it sorts and
/// partitions.
pub(crate) const OVER: &str = "join_selection";

/// That rule, behind which each merge join is a hash join.
pub(crate) fn optimize(
    rule: &dyn PhysicalOptimizerRule,
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = rule.optimize(plan, config)?;
    match config.optimizer.prefer_hash_join {
        true => Ok(plan),
        false => plan.transform_up(hashed).map(|plan| plan.data),
    }
}

fn hashed(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(join) = node.downcast_ref::<SortMergeJoinExec>() else { return Ok(Transformed::no(node)) };
    let (on, kind, filter) = (join.on().to_vec(), join.join_type(), join.filter().clone());
    let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
    let mode = PartitionMode::Partitioned;
    let hashed = HashJoinExec::try_new(left, right, on, filter, &kind, None, mode, join.null_equality(), false)?;
    Ok(Transformed::yes(Arc::new(hashed)))
}
