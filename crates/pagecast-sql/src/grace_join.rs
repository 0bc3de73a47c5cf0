//! Hash joins that go to disk where memory ends.
//!
//! A hash join of DataFusion has all rows of its left side in memory, and ends the statement where
//! they do not fit (<https://github.com/apache/datafusion/issues/1599>). A grace join (Kitsuregawa,
//! Tanaka and Moto-oka, "Application of Hash to Data Base Machine and Its Architecture", 1983) cuts
//! both sides by a hash of their keys into files first, so that rows that may meet are in files of
//! one number, and joins these pair by pair.
//!
//! Deviations: each pair is joined by DataFusion's own hash join, so that kinds of joins, types of
//! keys and conditions are the engine's; nothing of a side stays in memory meanwhile; a pair of
//! which neither side fits is cut again by another hash. Rows of one key are never cut: where they
//! fit on neither side the statement ends with the hash join's error.
//!
//! Whoever found too little memory has joins become such ones, and whoever sets
//! `datafusion.optimizer.prefer_hash_join` to false. They write and read each row once more than a
//! hash join does. They go when the hash join of a released DataFusion spills.

mod pairs;

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::{StreamExt, TryStreamExt, stream};

use self::pairs::Pairs;
use crate::grace::plan_last;

/// The options under which joins go to disk.
pub fn preferred(mut config: SessionConfig) -> SessionConfig {
    let optimizer = &mut config.options_mut().optimizer;
    optimizer.prefer_hash_join = false;
    // Both sides in partitions.
    optimizer.hash_join_single_partition_threshold = 0;
    optimizer.hash_join_single_partition_threshold_rows = 0;
    config
}

/// Has a session plan such joins where its options want them.
pub(crate) fn install(ctx: &SessionContext) {
    plan_last(ctx, Arc::new(ToDisk));
}

/// Has hash joins go to disk.
#[derive(Debug)]
struct ToDisk;

impl PhysicalOptimizerRule for ToDisk {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if config.optimizer.prefer_hash_join { Ok(plan) } else { to_disk(plan) }
    }

    fn name(&self) -> &str {
        "joins_to_disk"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan, in which hash joins go to disk. `NOT IN` must know of a NULL in any row, and does in
/// one partition alone.
fn to_disk(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let to_disk = |node: Arc<dyn ExecutionPlan>| {
        let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
        let alone = if join.null_aware { Some(in_one_partition(join)?) } else { None };
        let join = alone.as_ref().unwrap_or(join);
        if !is_of_pairs(join) {
            return Ok(Transformed::no(node));
        }
        let order = join.properties().output_ordering().cloned();
        let grace: Arc<dyn ExecutionPlan> = Arc::new(GraceJoinExec::of(join)?);
        Ok(Transformed::yes(match order {
            // Its rows came in the order of a side, and somebody may rely on that.
            Some(order) => Arc::new(SortExec::new(order, grace).with_preserve_partitioning(true)),
            None => grace,
        }))
    };
    plan.transform_up(to_disk).map(|plan| plan.data)
}

/// The join, whose right side is in one partition.
fn in_one_partition(join: &HashJoinExec) -> Result<HashJoinExec> {
    let right = Arc::new(CoalescePartitionsExec::new(Arc::clone(join.right())));
    join.builder().recompute_properties().with_new_children(vec![Arc::clone(join.left()), right])?.build()
}

/// Whether a partition of a join has those of its sides of the same number, and no others; and
/// whether one sort has all orders that its rows have.
fn is_of_pairs(join: &HashJoinExec) -> bool {
    if join.properties().equivalence_properties().oeq_class().len() > 1 {
        return false;
    }
    let is_alone = || join.right().output_partitioning().partition_count() == 1;
    *join.partition_mode() == PartitionMode::Partitioned || is_alone()
}

/// The hash join that goes to disk in this node.
pub(crate) fn join_of(node: &dyn ExecutionPlan) -> Option<&HashJoinExec> {
    node.downcast_ref::<GraceJoinExec>().map(|grace| grace.join.as_ref())
}

/// A join of two sides by way of the disk.
#[derive(Debug)]
struct GraceJoinExec {
    join: Arc<HashJoinExec>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl GraceJoinExec {
    fn of(join: &HashJoinExec) -> Result<Self> {
        // Its rows come in no order, file by file; what is constant stays so.
        let mut known = join.properties().equivalence_properties().clone();
        known.clear_orderings();
        let properties = PlanProperties::clone(join.properties()).with_eq_properties(known);
        let join = Arc::new(join.builder().reset_state().build()?);
        Ok(Self { join, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() })
    }
}

impl DisplayAs for GraceJoinExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        if kind == DisplayFormatType::TreeRender {
            return self.join.fmt_as(kind, f);
        }
        f.write_str("GraceJoinExec of ")?;
        self.join.fmt_as(kind, f)
    }
}

impl ExecutionPlan for GraceJoinExec {
    fn name(&self) -> &'static str {
        "GraceJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.join.left(), self.join.right()]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.join.apply_expressions(visit)
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.join.input_distribution_requirements().into_per_child()
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.join.cardinality_effect()
    }

    fn fetch(&self) -> Option<usize> {
        self.join.fetch()
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn with_new_children(self: Arc<Self>, sides: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let join = self.join.builder().recompute_properties().with_new_children(sides)?.build()?;
        Ok(Arc::new(Self::of(&join)?))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.join.child_stats_requests(partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.join.statistics_from_inputs(inputs, args)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let sides = [self.join.left(), self.join.right()].map(|side| side.execute(partition, Arc::clone(&context)));
        let [left, right] = sides;
        let (sides, join, metrics) = ([left?, right?], Arc::clone(&self.join), self.metrics.clone());
        let rows = stream::once(async move {
            let pairs = Pairs::of(sides, join, context, (&metrics, partition)).await?;
            Ok::<_, DataFusionError>(stream::try_unfold(pairs, |mut pairs| async {
                let next = pairs.next().await?;
                Ok(next.map(|batch| (batch, pairs)))
            }))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows.try_flatten().boxed())))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{AsArray, RecordBatch};
    use arrow::datatypes::Int64Type;
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::{collect, displayable};

    use super::*;

    /// Rows of a statement under a limit, and its plan.
    async fn rows(sql: &str, bytes: usize, config: SessionConfig) -> Result<(Vec<RecordBatch>, String)> {
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0).build_arc()?;
        let ctx = SessionContext::new_with_config_rt(config, runtime);
        pagecast_corrections::install(&ctx, |_| false)?;
        install(&ctx);
        let plan = ctx.sql(sql).await?.create_physical_plan().await?;
        let shown = displayable(plan.as_ref()).indent(false).to_string();
        Ok((collect(plan, ctx.task_ctx()).await?, shown))
    }

    async fn in_little(sql: &str, bytes: usize, partitions: usize) -> Result<Vec<RecordBatch>> {
        let config = preferred(SessionConfig::new().with_target_partitions(partitions));
        let (rows, plan) = rows(sql, bytes, config).await?;
        assert!(plan.contains("GraceJoinExec of HashJoinExec"), "{plan}");
        Ok(rows)
    }

    fn joined(what: &str, left: &str, kind: &str, right: &str) -> String {
        format!(
            "SELECT {what} FROM (SELECT {left} AS k, repeat('x', 20) || value AS t FROM range(100000)) AS a \
             {kind} JOIN (SELECT {right} AS k, repeat('y', 20) || value AS t FROM range(100000)) AS b ON a.k = b.k"
        )
    }

    #[tokio::test]
    async fn parts_that_do_not_fit_are_cut_again() {
        for (kind, partitions) in [("FULL", 1), ("FULL", 2), ("", 1), ("LEFT", 2)] {
            // A part has 1,600 rows of both sides, and a hash join of that takes more than this.
            let sql = joined("count(*) AS n, max(a.t) AS a, max(b.t) AS b", "value * 3", kind, "value * 7");
            let little = in_little(&sql, 64 << 10, partitions).await.unwrap();
            let right = rows(&sql, 1 << 30, SessionConfig::new()).await.unwrap().0;
            assert_eq!(
                pretty_format_batches(&little).unwrap().to_string(),
                pretty_format_batches(&right).unwrap().to_string(),
                "{kind} in {partitions}"
            );
        }
    }

    #[tokio::test]
    async fn not_in_knows_of_a_null_in_any_row() {
        let right = |with: &str| {
            format!(
                "(SELECT CASE WHEN value = {with} THEN NULL ELSE value * 3 END FROM range(100000) WHERE value < {with} + 9)"
            )
        };
        for (with, count) in [("200000", 133_333), ("99990", 0), ("-9", 200_000)] {
            let sql = format!("SELECT count(*) FROM range(200000) WHERE value NOT IN {}", right(with));
            for partitions in [1, 3] {
                let little = in_little(&sql, 1 << 20, partitions).await.unwrap();
                assert_eq!(
                    little[0].column(0).as_primitive::<Int64Type>().values()[..],
                    [count],
                    "{with} in {partitions}"
                );
            }
        }
    }

    #[tokio::test]
    async fn the_side_is_held_that_fits() {
        // All rows of a side have one key, and one of the other has it.
        for (left, right) in [("7", "value"), ("value", "7")] {
            let little = in_little(&joined("count(*)", left, "LEFT", right), 100 << 10, 1).await.unwrap();
            let right = rows(&joined("count(*)", left, "LEFT", right), 1 << 30, SessionConfig::new()).await.unwrap();
            assert_eq!(little, right.0);
        }
        let error = in_little(&joined("count(a.t || b.t)", "7", "", "7"), 100 << 10, 1).await.unwrap_err();
        assert!(error.to_string().contains("HashJoinInput"), "{error}");
    }

    #[tokio::test]
    async fn no_more_rows_come_than_are_wanted() {
        let sql = joined("a.t, b.t AS u", "value", "", "value") + " LIMIT 2000";
        for partitions in [1, 3] {
            let little = in_little(&sql, 1 << 20, partitions).await.unwrap();
            assert_eq!(little.iter().map(RecordBatch::num_rows).sum::<usize>(), 2000, "{partitions}");
        }
    }

    #[tokio::test]
    async fn what_is_constant_counts_as_ordered() {
        let sql = "SELECT b.value, row_number() OVER (PARTITION BY b.value % 5 ORDER BY b.value) AS n \
                   FROM range(1000) AS a RIGHT JOIN (SELECT value FROM range(2000) WHERE value = 992) AS b \
                   ON a.value = b.value";
        for partitions in [1, 4] {
            let little = in_little(sql, 1 << 20, partitions).await.unwrap();
            assert_eq!(little.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
        }
    }

    #[tokio::test]
    async fn the_order_of_a_side_is_kept() {
        let sql = "SELECT a.value, b.value AS w FROM range(50000) AS b \
                   JOIN (SELECT value FROM range(100000) ORDER BY value LIMIT 90000) AS a ON a.value = b.value \
                   ORDER BY a.value";
        let alone = || SessionConfig::new().with_target_partitions(1);
        let (little, plan) = rows(sql, 1 << 30, preferred(alone())).await.unwrap();
        let (right, usual) = rows(sql, 1 << 30, alone()).await.unwrap();
        assert!(!usual.contains("SortExec: expr=[value@0 ASC NULLS LAST], preserve"), "nobody relies on it: {usual}");
        assert!(plan.contains("SortExec: expr=[value@0 ASC NULLS LAST], preserve"), "{plan}");
        let text = |rows: &[RecordBatch]| pretty_format_batches(rows).unwrap().to_string();
        assert!(text(&little) == text(&right), "in another order");
    }
}
