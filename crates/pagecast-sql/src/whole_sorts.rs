//! First rows by a whole sort, which goes to disk.
//!
//! `ORDER BY ... LIMIT` keeps the first rows in memory, however many and wide they are. Where that
//! is too much the statement sorts all rows.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;

/// What such a node is called where memory is counted.
pub(crate) const TOP: &str = "TopK";

/// The plan, in which sorts sort all of their rows.
pub(crate) fn whole(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let whole = |node: Arc<dyn ExecutionPlan>| {
        let Some(sort) = node.downcast_ref::<SortExec>() else { return Ok(Transformed::no(node)) };
        let Some(rows) = sort.fetch() else { return Ok(Transformed::no(node)) };
        let all = SortExec::new(sort.expr().clone(), Arc::clone(sort.input()));
        let all = all.with_preserve_partitioning(sort.preserve_partitioning());
        Ok(Transformed::yes(Arc::new(LocalLimitExec::new(Arc::new(all), rows)) as _))
    };
    plan.transform_up(whole).map(|plan| plan.data)
}
