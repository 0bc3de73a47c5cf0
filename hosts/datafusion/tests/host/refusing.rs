//! Plan nodes that refuse other children keep those that they have. Readers of Delta tables have
//! such nodes.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, not_impl_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::context::SessionContext;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use pagecast_datafusion::install;

use crate::data::{Session, numbers, register, write};
use crate::rows::run;
use crate::tpch::pool;

/// Hands its child's rows on, and takes no other child.
#[derive(Debug)]
struct Refusing(Arc<dyn ExecutionPlan>);

impl DisplayAs for Refusing {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Refusing")
    }
}

impl ExecutionPlan for Refusing {
    fn name(&self) -> &str {
        "Refusing"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.0]
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!("other children")
    }

    fn with_new_children(self: Arc<Self>, _children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!("other children")
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }
}

/// Puts a refusing node over the first filter.
#[derive(Debug)]
struct Refuse;

fn refuse(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.is::<FilterExec>() {
        return Ok(Arc::new(Refusing(plan)));
    }
    let children = plan.children().into_iter().map(|child| refuse(Arc::clone(child))).collect::<Result<Vec<_>>>()?;
    if children.is_empty() {
        return Ok(plan);
    }
    plan.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

impl PhysicalOptimizerRule for Refuse {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        refuse(plan)
    }

    fn name(&self) -> &str {
        "refuse"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn who_refuses_other_children_keeps_his_plan() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("0.parquet"), &numbers(0, 10_000), 1000);
    let stock = Session::plain(2).context();
    register(&stock, "t", folder.path()).await;
    let state = SessionStateBuilder::new_from_existing(stock.state()).with_physical_optimizer_rule(Arc::new(Refuse));
    let ours = SessionContext::new_with_state(state.build());
    let host = install(&ours, pool(1 << 20)).unwrap();

    let sql = "SELECT count(*), sum(id) FROM t WHERE even AND name LIKE '%7%'";
    assert_eq!(run(&ours, sql).await, run(&stock, sql).await);
    assert_eq!(host.refused_plans(), 1);
    assert_eq!(host.pool().stats().requests, 0, "what is below the refusing node is read without the pool");

    // What is beside it is read through the pool.
    let both = format!("SELECT * FROM (SELECT sum(length(name)) FROM t) CROSS JOIN ({sql})");
    assert_eq!(run(&ours, &both).await, run(&stock, &both).await);
    assert_eq!(host.refused_plans(), 2);
    assert!(host.pool().stats().requests > 0);
}
