//! Joins that let a query be ended.
//!
//! A task ends where it gives way, and DataFusion gives way where batches enter a plan. A join may
//! make any number of batches of one, so that it keeps its thread, and Ctrl-C waits, for hours
//! (<https://github.com/apache/datafusion/issues/19358>). So what comes out of a join gives way,
//! too. A nested loop whose filter keeps next to nothing still works on for as long as one batch
//! takes it.
//!
//! DataFusion's own `CooperativeExec` counts for a task and not for a node: of 128 of them above
//! each other the last one would never have its turn.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion::prelude::SessionContext;
use futures::{Stream, StreamExt};

/// Batches that come after each other without a pause.
const BATCHES: u32 = 128;

/// Makes joins of a session give way. What else rewrites plans comes before it.
pub(crate) fn install(ctx: &SessionContext) {
    let state = ctx.state_ref();
    let mut state = state.write();
    *state = SessionStateBuilder::new_from_existing(state.clone())
        .with_session_id(state.session_id().to_owned())
        .with_physical_optimizer_rule(Arc::new(JoinsGiveWay))
        .build();
}

/// Puts a node that gives way above each join.
#[derive(Debug)]
struct JoinsGiveWay;

impl PhysicalOptimizerRule for JoinsGiveWay {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let wrapped = plan.transform_up(|plan| match makes_many_of_one(plan.as_ref()) {
            true => Ok(Transformed::yes(Arc::new(GiveWayExec(plan)) as Arc<dyn ExecutionPlan>)),
            false => Ok(Transformed::no(plan)),
        });
        wrapped.map(|wrapped| wrapped.data)
    }

    fn name(&self) -> &'static str {
        "joins_give_way"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether a node may make many batches of one that it is given.
fn makes_many_of_one(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<CrossJoinExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<PiecewiseMergeJoinExec>()
        || plan.is::<SortMergeJoinExec>()
        || plan.is::<UnnestExec>()
}

/// The rows of a node, which give way at times.
#[derive(Debug)]
struct GiveWayExec(Arc<dyn ExecutionPlan>);

impl DisplayAs for GiveWayExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("GiveWayExec")
    }
}

impl ExecutionPlan for GiveWayExec {
    fn name(&self) -> &'static str {
        "GiveWayExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.0]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self(children.pop().unwrap_or_else(|| Arc::clone(&self.0)))))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Ok(Box::pin(GivesWay { rows: self.0.execute(partition, context)?, left: BATCHES }))
    }
}

struct GivesWay {
    rows: SendableRecordBatchStream,
    /// Batches until it gives way.
    left: u32,
}

impl Stream for GivesWay {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.left == 0 {
            self.left = BATCHES;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let next = self.rows.poll_next_unpin(context);
        self.left = if next.is_pending() { BATCHES } else { self.left - 1 };
        next
    }
}

impl RecordBatchStream for GivesWay {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use datafusion::prelude::SessionConfig;
    use futures::StreamExt;
    use std::future::poll_fn;

    /// How often a query gives way until its first rows are there.
    async fn times(ctx: &SessionContext, sql: &str) -> usize {
        let mut rows = ctx.sql(sql).await.unwrap().execute_stream().await.unwrap();
        let mut polls = 0;
        let first = poll_fn(|context| {
            polls += 1;
            rows.poll_next_unpin(context)
        });
        assert_eq!(first.await.unwrap().unwrap().num_rows(), 1);
        polls - 1
    }

    #[tokio::test]
    async fn a_join_of_few_batches_gives_way_many_times() {
        // One partition, so that no other task is waited for.
        let config = SessionConfig::new().with_target_partitions(1).with_batch_size(10);
        let stock = SessionContext::new_with_config(config.clone());
        let ours = SessionContext::new_with_config(config);
        install(&ours);
        for joined in [
            "a, b",
            "a JOIN b ON a.value % 2 = b.value % 2",
            "a JOIN b ON a.value < b.value",
            "(SELECT unnest(range(1, 200)) AS value FROM a) AS a, (SELECT 1 AS value) AS b",
        ] {
            let sql = format!(
                "WITH a AS (SELECT * FROM generate_series(1, 200)), b AS (SELECT * FROM generate_series(1, 200)) \
                 SELECT sum(a.value * b.value) FROM {joined}"
            );
            let (without, with) = (times(&stock, &sql).await, times(&ours, &sql).await);
            // Every 128 batches of the two to four thousand, and not of the forty that are read.
            assert!(with >= 10 && without < 2, "{joined}: {with} times, and {without} by itself");
        }
    }
}
