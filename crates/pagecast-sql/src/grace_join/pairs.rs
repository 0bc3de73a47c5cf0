//! Pairs of parts, which are joined one after the other.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, RecordOutput, SpillMetrics};
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::TryStreamExt;

use crate::budget::is_want_of_memory;
use crate::cut::{DEPTH, How, Part, cut, files_of, parts_of};
use crate::watched_joins::watched_join;

/// Parts of both sides in which rows may meet.
struct Pair {
    sides: [Part; 2],
    /// How often their rows were cut.
    depth: u64,
}

/// The join of one partition.
pub(super) struct Pairs {
    join: Arc<HashJoinExec>,
    context: Arc<TaskContext>,
    files: [SpillManager; 2],
    keys: [Vec<PhysicalExprRef>; 2],
    count: usize,
    left: Vec<Pair>,
    /// The rows of the pair that is joined, and the pair itself until it has given some.
    joined: Option<(SendableRecordBatchStream, Option<Pair>)>,
    /// Rows that are still wanted.
    wanted: usize,
    output: BaselineMetrics,
}

impl Pairs {
    /// Cuts both sides, one after the other.
    pub(super) async fn of(
        sides: [SendableRecordBatchStream; 2],
        join: Arc<HashJoinExec>,
        context: Arc<TaskContext>,
        (metrics, partition): (&ExecutionPlanMetricsSet, usize),
    ) -> Result<Self> {
        let spills = SpillMetrics::new(metrics, partition);
        let files = [join.left(), join.right()].map(|side| files_of(&context, spills.clone(), side.schema()));
        let (one, other) = join.on().iter().cloned().unzip();
        let count = parts_of(join.right().output_partitioning().partition_count());
        let (wanted, output) = (join.fetch().unwrap_or(usize::MAX), BaselineMetrics::new(metrics, partition));
        let mut pairs =
            Self { join, context, files, keys: [one, other], count, left: Vec::new(), joined: None, wanted, output };
        pairs.cut(sides, 0).await?;
        Ok(pairs)
    }

    /// The next rows, if there are some.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.wanted > 0 {
            let Some((rows, pair)) = &mut self.joined else {
                let Some(pair) = self.left.pop() else { break };
                self.joined = Some((self.join_of(&pair)?.execute(0, Arc::clone(&self.context))?, Some(pair)));
                continue;
            };
            match rows.try_next().await {
                Ok(Some(batch)) => {
                    *pair = None;
                    let batch = batch.slice(0, batch.num_rows().min(self.wanted));
                    self.wanted -= batch.num_rows();
                    return Ok(Some(batch.record_output(&self.output)));
                }
                Ok(None) => self.joined = None,
                Err(error) if is_want_of_memory(&error) => {
                    let Some(pair) = pair.take().filter(|pair| pair.depth < DEPTH) else { return Err(error) };
                    // What it holds is given back first.
                    self.joined = None;
                    let before = pair.sides.each_ref().map(|side| side.rows);
                    let rows = [pair.sides[0].rows_of()?, pair.sides[1].rows_of()?];
                    self.cut(rows, pair.depth).await?;
                    if self.left.last().is_some_and(|cut| cut.sides.each_ref().map(|side| side.rows) == before) {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        self.output.done();
        Ok(None)
    }

    async fn cut(&mut self, [one, other]: [SendableRecordBatchStream; 2], depth: u64) -> Result<()> {
        let [of_one, of_other] = &self.keys;
        let mut how = How { count: self.count, seed: depth, without_nulls: false };
        let other = cut(other, of_other, how, &self.files[1]).await?;
        if self.join.null_aware {
            // Nothing is NOT IN rows of which one is NULL, and NULL is it in no rows alone.
            if other.iter().any(|part| part.has_null) {
                return Ok(());
            }
            how.without_nulls = depth == 0 && other.iter().any(|part| part.rows > 0);
        }
        let one = cut(one, of_one, how, &self.files[0]).await?;
        let pairs = one.into_iter().zip(other).map(|(one, other)| Pair { sides: [one, other], depth: depth + 1 });
        self.left.extend(pairs.filter(|pair| pair.sides.iter().any(|side| side.rows > 0)));
        Ok(())
    }

    /// A hash join that holds the smaller side, and that can be ended.
    fn join_of(&self, pair: &Pair) -> Result<Arc<dyn ExecutionPlan>> {
        let [one, other] = &pair.sides;
        let mode = PartitionMode::CollectLeft;
        let join = self.join.builder().reset_state().recompute_properties().with_partition_mode(mode);
        let join = join.with_null_aware(false);
        let join = join.with_new_children(vec![one.plan()?, other.plan()?])?.build()?;
        let join = match other.bytes < one.bytes && join.join_type().supports_swap() {
            true => join.swap_inputs(mode)?,
            false => Arc::new(join),
        };
        join.transform_up(|node| watched_join(&node).map(Transformed::yes)).map(|join| join.data)
    }
}
