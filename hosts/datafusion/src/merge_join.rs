//! Cooperative Merge Join: two tables that are clustered by their key are joined chunk by chunk,
//! in whatever order suits all scans.
//!
//! Source: Świtakowski 2011, chapter 5. There a chunk of each table with the same keys are loaded
//! together, and a merge join is restarted for each pair. Here a chunk is what both tables have
//! between two cuts ([`cuts`]); it is one registration with the pool, and a fresh join runs over
//! it.
//!
//! Deviations, and why:
//! * The join of a chunk is DataFusion's hash join. Its left side is a chunk and no more, rows
//!   need no order inside a chunk, and all kinds of joins are right. So nothing relies on a
//!   declared order: cuts come of statistics, and rows beside them are filtered away.
//! * `PartitionSplit`, `PartitionRestart` and the synchronization of two scans are not needed: one
//!   chunk has both sides.
//! * A plan of two merge joins in a row is cut at the lower one.
//!
//! Cost: beside the joins, for each chunk two openings without I/O when it is planned, and two
//! when it is read. Memory: for each partition the left side of a chunk, which the hash join
//! reserves.

pub(crate) mod choice;
mod chunks;
mod cuts;
mod in_file;
mod key;
mod side;

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, apply_expression_roots};
use futures::{StreamExt, TryStreamExt, stream};

use self::chunks::JointChunks;
use self::cuts::{Alone, Both, Joint};
use self::key::Key;
use self::side::Side;
use crate::chunks::Handed;
use crate::execution::Executions;
use crate::metrics::ScanMetrics;
use crate::stream::{Batches, Opened, rows};
use crate::{Delivery, Host};

/// Joins two scans chunk by chunk. Each partition takes chunks until there are no more.
#[derive(Debug)]
pub(crate) struct CooperativeMergeJoinExec {
    parts: Parts,
    properties: Arc<PlanProperties>,
    metrics: Arc<ScanMetrics>,
    executions: Executions<JointChunks>,
}

/// What a join of chunks is made of.
#[derive(Clone, Debug)]
struct Parts {
    host: Arc<Host>,
    /// The join of a chunk. Its children are the sides, down to the scans.
    join: Arc<HashJoinExec>,
    sides: Arc<Both<Side>>,
    joints: Arc<[Joint<Key>]>,
    alone: Alone,
    delivery: Delivery,
    partitions: usize,
}

impl CooperativeMergeJoinExec {
    fn new(parts: Parts) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(parts.join.schema()),
            Partitioning::UnknownPartitioning(parts.partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let executions = Executions::new(parts.partitions);
        Self { parts, properties: Arc::new(properties), metrics: Arc::default(), executions }
    }
}

impl DisplayAs for CooperativeMergeJoinExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let Parts { join, sides, joints, delivery, .. } = &self.parts;
        let delivery = match (delivery, self.metrics.back_in_order()) {
            (Delivery::OutOfOrder, None) => "out-of-order".to_owned(),
            (Delivery::OutOfOrder, Some(why)) => format!("in-order ({why})"),
            _ => "in-order".to_owned(),
        };
        if t == DisplayFormatType::TreeRender {
            writeln!(f, "chunks={}", joints.len())?;
            return writeln!(f, "delivery={delivery}");
        }
        let on: Vec<String> = join.on().iter().map(|(left, right)| format!("({left}, {right})")).collect();
        let (on, kind) = (on.join(", "), join.join_type());
        let [left, right] = &**sides;
        write!(f, "CooperativeMergeJoinExec: join_type={kind:?}, on=[{on}]")?;
        if let Some(filter) = join.filter() {
            write!(f, ", filter={}", filter.expression())?;
        }
        write!(f, ", cut=({}, {}), chunks={}, delivery={delivery}", left.key, right.key, joints.len())
    }
}

impl ExecutionPlan for CooperativeMergeJoinExec {
    fn name(&self) -> &'static str {
        "CooperativeMergeJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.parts.join.children()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false; 2]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; 2]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let join = &self.parts.join;
        let keys = join.on().iter().flat_map(|(left, right)| [Arc::clone(left), Arc::clone(right)]);
        let filter = join.filter().map(|filter| Arc::clone(filter.expression()));
        apply_expression_roots(keys.chain(filter), f)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let join = self.parts.join.builder().reset_state().with_new_children(children)?.build()?;
        Ok(Arc::new(Self::new(Parts { join: Arc::new(join), ..self.parts.clone() })))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(self.parts.clone())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let attendance = self.executions.join(partition, &context);
        let (parts, metrics, schema) = (self.parts.clone(), Arc::clone(&self.metrics), self.schema());
        let baseline = BaselineMetrics::new(metrics.planned(), partition);
        let joined = stream::once(async move {
            let plan = {
                let (parts, context) = (parts.clone(), Arc::clone(&context));
                async move { JointChunks::plan(&parts, &context, &metrics).await }
            };
            let chunks = attendance.chunks(plan).await?;
            let batches = rows(Joins { parts, chunks, context });
            // The stream carries its attendance to its end or its drop, whichever comes first.
            Ok::<_, DataFusionError>(batches.inspect(move |batch| {
                _ = &attendance;
                if let Ok(batch) = batch {
                    baseline.record_output(batch.num_rows());
                }
            }))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, joined.try_flatten())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.with(&ExecutionPlanMetricsSet::new()).clone_inner())
    }
}

/// The chunks of a join, each joined by itself.
struct Joins {
    parts: Parts,
    chunks: JointChunks,
    context: Arc<TaskContext>,
}

impl Opened for Joins {
    async fn next(&mut self) -> Result<Option<(Batches, Handed)>> {
        // What is in memory makes nobody wait. A join would run to its end, and those with whom it
        // could have shared begin when it has done; short ones wait for all of it.
        tokio::task::yield_now().await;
        let Some((number, files, handed)) = self.chunks.next().await else { return Ok(None) };
        let batches = self.chunks.open(number, files, &self.parts, &self.context)?;
        Ok(Some((batches.boxed(), handed)))
    }
}
