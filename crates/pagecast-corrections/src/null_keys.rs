//! Joins of which one key is equal to NULL and another is not.
//!
//! `ON a.x IS NOT DISTINCT FROM b.x` becomes a join in which NULL equals NULL. An `a.y = b.y` that
//! comes to it, from WHERE or from ON, becomes one more key, and then NULLs of `y` match too. Here
//! such a key is not NULL on the left, and joins with that equality are not taken apart. No
//! upstream issue is known; needed for 55.2. It goes when `ExtractEquijoinPredicate` and
//! `EliminateCrossJoin` leave such conditions alone, or keys have an equality each.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// A rule of DataFusion that finds keys of joins, kept from giving them another equality.
#[derive(Debug)]
pub(crate) struct OwnEquality(pub(crate) Arc<dyn OptimizerRule + Send + Sync>);

impl OwnEquality {
    pub(crate) const OVER: [&str; 2] = ["extract_equijoin_predicate", Self::ANEW];
    /// The rule that makes joins anew.
    const ANEW: &str = "eliminate_cross_join";
}

fn equals_null(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join)
        if join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNull)
}

impl OptimizerRule for OwnEquality {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if self.0.name() == Self::ANEW && plan.exists(|plan| Ok(equals_null(plan)))? {
            return Ok(Transformed::no(plan));
        }
        let before = match &plan {
            LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull => join.on.len(),
            _ => usize::MAX,
        };
        let mut plan = self.0.rewrite(plan, config)?;
        if let LogicalPlan::Join(join) = &mut plan.data {
            let added = join.on.iter().skip(before).map(|(left, _)| left.clone().is_not_null());
            join.filter = join.filter.take().into_iter().chain(added).reduce(Expr::and);
        }
        Ok(plan)
    }
}
