//! Projections that stay apart from the scans below them.
//!
//! DataFusion has a scan evaluate the projection above it, for a batch of the file, and nobody
//! comes between. So one whose functions are to be given little at once stays a node.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::budget::Budget;
use crate::long::{at_once, at_once_by};
use crate::watched_rows::{WatchedExec, reads};

/// The rule of DataFusion that hands projections down.
pub(crate) const OVER: &str = "ProjectionPushdown";

/// Whether a node evaluates what should be given little at once, or has it evaluated below it.
fn works_on_long_values(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(filter) = plan.downcast_ref::<NestedLoopJoinExec>().and_then(NestedLoopJoinExec::filter) {
        return at_once(filter.expression(), filter.schema()) < u64::MAX;
    }
    plan.is::<ProjectionExec>() && at_once_by(plan).is_ok_and(|most| most.is_some())
}

/// That rule, while whatever reads is watched: no such projection comes through.
#[derive(Debug)]
pub(crate) struct Apart(pub(crate) Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for Apart {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !plan.exists(|plan| Ok(works_on_long_values(plan)))? {
            return self.0.optimize(plan, config);
        }
        let plan = plan.transform_up(|plan| {
            Ok(match reads(&plan) {
                true => Transformed::yes(Arc::new(WatchedExec::over(plan, &Budget::default())?) as _),
                false => Transformed::no(plan),
            })
        })?;
        let plan = self.0.optimize(plan.data, config)?;
        let plan = plan.transform_up(|plan| {
            Ok(match plan.downcast_ref::<WatchedExec>() {
                Some(watched) => Transformed::yes(watched.inner()),
                None => Transformed::no(plan),
            })
        });
        plan.map(|plan| plan.data)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
