//! Operators that work on their rows part by part, from disk, where all of these do not fit.
//!
//! Rows of different keys have nothing to do with each other in [groups](crate::grace_groups) and
//! in [windows with PARTITION BY](crate::grace_windows). As a [grace join](crate::grace_join) does,
//! this node cuts its rows by a hash of their keys into files, and has the engine's own operators
//! work on these one after the other. Each row is written and read once.
//!
//! The paper is that of the join. Deviations: nothing of a part stays in memory while others are
//! written, and whether to cut at all is seen: as many rows as a part of the memory holds are
//! waited for. If these are all, if their keys are too few, or if no more rows are expected than
//! fit, nothing goes to disk. A part that finds no room is cut again by another hash.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, OrderingRequirements, PhysicalExpr, PhysicalExprRef};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricValue, MetricsSet, SpillMetrics};
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions,
};
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use crate::budget::{Budget, is_want_of_memory};
use crate::cut::{DEPTH, How, Part, cut, files_of, parts_of};
use crate::expected_memory::limit;
use crate::watched_rows::{WatchedExec, compacted};

/// The part of the memory for operators that rows of all partitions may take while they are
/// waited for.
const WAITING: usize = 8;
/// What those of one may take in any case: fewer say nothing.
const FEWEST: usize = 1 << 20;
/// What is expected to take less than this part of it stays in memory.
const STAYS: usize = 2;

/// Operators above each other that can work part by part.
#[derive(Clone, Debug)]
pub(crate) struct Separable {
    /// What its node is called.
    pub(crate) name: &'static str,
    /// From the highest on, each the only input of the one before.
    pub(crate) operators: Vec<Arc<dyn ExecutionPlan>>,
    /// Rows that differ in these have nothing to do with each other.
    pub(crate) keys: Vec<PhysicalExprRef>,
    pub(crate) takes: Takes,
}

/// Rows that were seen.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
    /// How many different keys they have.
    pub(crate) keys: usize,
    /// Into how many parts they would be cut.
    pub(crate) parts: usize,
}

/// Bytes that operators take for as many rows as were seen, or nothing if these must not be cut.
pub(crate) type Takes = fn(Seen) -> Option<usize>;

impl Separable {
    fn highest(&self) -> &Arc<dyn ExecutionPlan> {
        &self.operators[0]
    }

    fn lowest(&self) -> &Arc<dyn ExecutionPlan> {
        &self.operators[self.operators.len() - 1]
    }

    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        self.lowest().children()[0]
    }

    /// The same over another input.
    pub(crate) fn over(&self, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let (mut operators, mut below) = (Vec::new(), input);
        for operator in self.operators.iter().rev() {
            let recomputed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            below = Arc::clone(operator).replace_children(vec![below], recomputed)?;
            operators.push(Arc::clone(&below));
        }
        operators.reverse();
        Ok(Self { operators, ..self.clone() })
    }
}

/// Has a session plan by this rule, behind all that it has.
pub(crate) fn plan_last(ctx: &SessionContext, rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>) {
    let state = ctx.state_ref();
    let mut state = state.write();
    let builder = SessionStateBuilder::new_from_existing(state.clone()).with_session_id(state.session_id().to_owned());
    *state = builder.with_physical_optimizer_rule(rule).build();
}

/// The operators that this node has work part by part, if it does.
pub(crate) fn operators_of(node: &dyn ExecutionPlan) -> &[Arc<dyn ExecutionPlan>] {
    node.downcast_ref::<GraceExec>().map_or(&[], |grace| &grace.of.operators)
}

#[derive(Clone, Debug)]
pub(crate) struct GraceExec {
    of: Separable,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl GraceExec {
    pub(crate) fn new(of: Separable) -> Self {
        // Rows come part by part.
        let properties = of.highest().properties();
        let mut known = properties.equivalence_properties().clone();
        known.clear_orderings();
        let properties = PlanProperties::clone(properties).with_eq_properties(known);
        Self { of, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }

    /// Bytes that rows of a partition may take while they are waited for.
    fn waiting(&self, context: &TaskContext) -> usize {
        limit(&context.runtime_env()).map_or(usize::MAX, |most| (most / WAITING / self.partitions()).max(FEWEST))
    }

    fn partitions(&self) -> usize {
        self.of.input().output_partitioning().partition_count().max(1)
    }

    fn seen(&self, first: &[RecordBatch], bytes: usize) -> Result<Seen> {
        let (random, mut known, mut rows) = (RandomState::with_seed(0), HashSet::new(), 0);
        for batch in first {
            let keys = self.of.keys.iter().map(|key| key.evaluate(batch)?.into_array(batch.num_rows()));
            let mut hashes = vec![0; batch.num_rows()];
            create_hashes(&keys.collect::<Result<Vec<_>>>()?, &random, &mut hashes)?;
            known.extend(hashes);
            rows += batch.num_rows();
        }
        Ok(Seen { rows, bytes, keys: known.len(), parts: parts_of(self.partitions()) })
    }

    /// Whether all rows would not fit of which these were seen.
    fn are_many(&self, seen: Seen, context: &TaskContext) -> bool {
        let (Some(most), Some(taken)) = (limit(&context.runtime_env()), (self.of.takes)(seen)) else { return false };
        let (input, args) = (self.of.input().as_ref(), StatisticsArgs::new());
        let all = StatisticsContext::new().compute(input, &args).ok().and_then(|all| all.num_rows.get_value().copied());
        let expected = all.map(|all| (all / self.partitions()).saturating_mul(taken) / seen.rows.max(1));
        expected.is_none_or(|bytes| bytes > most / STAYS / self.partitions())
    }

    /// What the operators make of these rows.
    fn made_of(&self, rows: Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let made = self.of.over(Arc::new(WatchedExec::over(rows, &Budget::default())?))?;
        let stream = made.highest().execute(0, Arc::clone(context))?;
        for (below, operator) in made.operators.iter().enumerate() {
            let metrics = operator.metrics();
            let metrics = metrics.iter().flat_map(MetricsSet::iter);
            // How many rows there were, and how long it took, the highest one knows.
            let metrics = metrics.filter(|metric| below == 0 || is_of_spills(metric.value()));
            metrics.for_each(|metric| self.metrics.register(Arc::clone(metric)));
        }
        Ok(stream)
    }

    async fn made_to_fit(
        self,
        mut rows: SendableRecordBatchStream,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let held = MemoryConsumer::new(self.of.name).register(context.memory_pool());
        let (mut first, mut bytes, most) = (Vec::new(), 0, self.waiting(&context));
        while let Some(batch) = rows.try_next().await? {
            let batch = compacted(batch)?;
            bytes += batch.get_array_memory_size();
            first.push(batch);
            if bytes > most || held.try_resize(bytes).is_err() {
                let are_many = self.are_many(self.seen(&first, bytes)?, &context);
                let rows = Waiting { first: first.into(), held }.before(rows);
                if !are_many {
                    return self.made_of(once(rows)?, &context);
                }
                let on_disk = OnDisk::of(rows, self, partition, context).await?;
                let schema = on_disk.node.schema();
                let made = stream::try_unfold(on_disk, |mut on_disk| async {
                    let next = on_disk.next().await?;
                    Ok(next.map(|batch| (batch, on_disk)))
                });
                return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, made)));
            }
        }
        let rows = Waiting { first: first.into(), held }.before(rows);
        self.made_of(once(rows)?, &context)
    }
}

fn is_of_spills(metric: &MetricValue) -> bool {
    matches!(metric, MetricValue::SpillCount(_) | MetricValue::SpilledBytes(_) | MetricValue::SpilledRows(_))
}

/// Rows on disk in parts, which are worked on one after the other.
struct OnDisk {
    node: GraceExec,
    context: Arc<TaskContext>,
    files: SpillManager,
    left: Vec<Cut>,
    /// What is made of a part, and the part itself until that has given rows.
    made: Option<(SendableRecordBatchStream, Option<Cut>)>,
}

struct Cut {
    part: Part,
    /// How often its rows were cut.
    depth: u64,
}

impl OnDisk {
    async fn of(
        rows: SendableRecordBatchStream,
        node: GraceExec,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<Self> {
        let spills = SpillMetrics::new(&node.metrics, partition);
        let files = files_of(&context, spills, rows.schema());
        let mut on_disk = Self { node, context, files, left: Vec::new(), made: None };
        on_disk.cut(rows, 0).await?;
        Ok(on_disk)
    }

    async fn cut(&mut self, rows: SendableRecordBatchStream, depth: u64) -> Result<()> {
        let how = How { count: parts_of(self.node.partitions()), seed: depth, without_nulls: false };
        let parts = cut(rows, &self.node.of.keys, how, &self.files).await?;
        let parts = parts.into_iter().filter(|part| part.rows > 0);
        self.left.extend(parts.map(|part| Cut { part, depth: depth + 1 }));
        Ok(())
    }

    /// The next rows. A part that finds no room, when others have given rows already, is cut again.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let Some((made, cut)) = &mut self.made else {
                let Some(cut) = self.left.pop() else { return Ok(None) };
                self.made = Some((self.node.made_of(cut.part.plan()?, &self.context)?, Some(cut)));
                continue;
            };
            match made.try_next().await {
                Ok(Some(batch)) => {
                    *cut = None;
                    return Ok(Some(batch));
                }
                Ok(None) => self.made = None,
                Err(error) if is_want_of_memory(&error) => {
                    let Some(Cut { part, depth }) = cut.take().filter(|cut| cut.depth < DEPTH) else {
                        return Err(error);
                    };
                    // What it holds is given back first.
                    self.made = None;
                    self.cut(part.rows_of()?, depth).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Rows that wait in memory.
struct Waiting {
    first: VecDeque<RecordBatch>,
    held: MemoryReservation,
}

impl Waiting {
    /// These and then others. What is handed on is no longer counted here.
    fn before(self, rest: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let schema = rest.schema();
        let first = stream::iter(std::iter::from_fn({
            let mut waiting = self;
            move || {
                let next = waiting.first.pop_front()?;
                let bytes = next.get_array_memory_size().min(waiting.held.size());
                waiting.held.shrink(bytes);
                Some(Ok(next))
            }
        }));
        Box::pin(RecordBatchStreamAdapter::new(schema, first.chain(rest)))
    }
}

/// Rows that come once.
struct Once {
    schema: SchemaRef,
    rows: Mutex<Option<SendableRecordBatchStream>>,
}

/// A plan that gives these rows.
fn once(rows: SendableRecordBatchStream) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = rows.schema();
    let once = Arc::new(Once { schema: Arc::clone(&schema), rows: Mutex::new(Some(rows)) });
    Ok(Arc::new(StreamingTableExec::try_new(schema, vec![once], None, [], false, None)?))
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}

impl PartitionStream for Once {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let none = || DataFusionError::Internal("these rows were read already".to_owned());
        self.rows.lock().take().unwrap_or_else(|| {
            let none = stream::once(async move { Err(none()) });
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), none))
        })
    }
}

impl DisplayAs for GraceExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        if kind == DisplayFormatType::TreeRender {
            return self.of.highest().fmt_as(kind, f);
        }
        let shown = self.of.operators.iter().filter(|operator| !operator.is::<WatchedExec>());
        for (below, operator) in shown.enumerate() {
            if below == 0 {
                write!(f, "{} of ", self.of.name)?;
            } else {
                f.write_str("; ")?;
            }
            operator.fmt_as(kind, f)?;
        }
        Ok(())
    }
}

impl ExecutionPlan for GraceExec {
    fn name(&self) -> &'static str {
        self.of.name
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.of.input()]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for operator in &self.of.operators {
            if operator.apply_expressions(visit)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.of.lowest().input_distribution_requirements().into_per_child()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.of.lowest().required_input_ordering()
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn with_new_children(self: Arc<Self>, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = inputs.pop().unwrap_or_else(|| Arc::clone(self.of.input()));
        Ok(Arc::new(Self::new(self.of.over(input)?)))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.of.lowest().child_stats_requests(partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let of = |inputs: &[_], operator: &Arc<dyn ExecutionPlan>| operator.statistics_from_inputs(inputs, args);
        let lowest = of(inputs, self.of.lowest());
        self.of.operators.iter().rev().skip(1).fold(lowest, |below, operator| of(&[below?], operator))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.of.input().execute(partition, Arc::clone(&context))?;
        let made = stream::once(self.clone().made_to_fit(rows, partition, context)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), made.boxed())))
    }
}

/// Statements of those whose operators work part by part.
#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::common::tree_node::TreeNode;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::{collect, displayable};
    use datafusion::prelude::SessionConfig;

    use super::*;

    pub(crate) struct Ran {
        pub(crate) rows: String,
        /// Rows that were written.
        pub(crate) written: usize,
        pub(crate) plan: String,
    }

    /// A session with so many bytes, of which each sort keeps some for its merge.
    pub(crate) fn session(bytes: usize, partitions: usize, merge: usize) -> SessionContext {
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0).build_arc().unwrap();
        let config = SessionConfig::new().with_target_partitions(partitions);
        SessionContext::new_with_config_rt(config.with_sort_spill_reservation_bytes(merge), runtime)
    }

    pub(crate) fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
        displayable(plan.as_ref()).indent(false).to_string()
    }

    pub(crate) async fn ran(ctx: &SessionContext, sql: &str) -> Ran {
        let plan = ctx.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let rows = collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
        let mut written = 0;
        plan.apply(|node| {
            written += node.metrics().and_then(|metrics| metrics.spilled_rows()).unwrap_or(0);
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
        assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0);
        Ran { rows: pretty_format_batches(&rows).unwrap().to_string(), written, plan: shown(&plan) }
    }
}
