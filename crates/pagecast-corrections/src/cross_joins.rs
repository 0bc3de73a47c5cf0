//! Joins by keys that are planned in the cube of their number.
//!
//! The rule that finds keys for joins without any takes a row of joins apart, puts it together
//! again, and then does the same with each join of the row that it has made: 240 joins by equal
//! keys take 8 s, most of their planning. Where each join has its keys there is nothing to be
//! found. No issue was found for it; 55.2 has it. The correction goes when the rule leaves such
//! plans alone.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The rule of DataFusion, for plans that have a join without keys.
#[derive(Debug)]
pub(crate) struct OnlyWithoutKeys(pub(crate) Arc<dyn OptimizerRule + Send + Sync>);

impl OnlyWithoutKeys {
    pub(crate) const OVER: &str = "eliminate_cross_join";
}

impl OptimizerRule for OnlyWithoutKeys {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match has_join_without_keys(&plan)? {
            true => self.0.rewrite(plan, config),
            false => Ok(Transformed::no(plan)),
        }
    }
}

fn has_join_without_keys(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Join(join) if join.join_type == JoinType::Inner && join.on.is_empty());
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use datafusion::common::plan_err;
    use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
    use datafusion::optimizer::{Optimizer, OptimizerContext};
    use datafusion::prelude::SessionContext;

    #[derive(Debug)]
    struct Refuses;

    impl OptimizerRule for Refuses {
        fn name(&self) -> &str {
            OnlyWithoutKeys::OVER
        }

        fn rewrite(&self, _: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
            plan_err!("asked")
        }
    }

    #[tokio::test]
    async fn the_rule_is_asked_for_joins_without_keys_alone() {
        let ctx = SessionContext::new();
        let t = "(VALUES (1), (2)) AS";
        for (sql, asked) in [
            (format!("SELECT * FROM {t} a (x) JOIN {t} b (x) ON a.x = b.x JOIN {t} c (x) ON c.x = a.x"), false),
            (format!("SELECT * FROM {t} a (x) LEFT JOIN {t} b (x) ON a.x < b.x"), false),
            (format!("SELECT * FROM {t} a (x), {t} b (x) WHERE a.x = b.x"), true),
            (format!("SELECT 1 WHERE 1 IN (SELECT a.x FROM {t} a (x), {t} b (x) WHERE a.x = b.x)"), true),
        ] {
            let plan = ctx.state().create_logical_plan(&sql).await.unwrap();
            // Keys are conditions until this rule has come, which comes before.
            let keys = Optimizer::with_rules(vec![Arc::new(ExtractEquijoinPredicate::new())]);
            let plan = keys.optimize(plan, &OptimizerContext::new(), |_, _| {}).unwrap();
            let rewritten = OnlyWithoutKeys(Arc::new(Refuses)).rewrite(plan, &OptimizerContext::new());
            assert_eq!(rewritten.is_err(), asked, "{sql}");
        }
    }
}
