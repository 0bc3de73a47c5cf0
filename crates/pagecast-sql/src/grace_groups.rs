//! Groups that go to disk in parts where they are many.
//!
//! DataFusion sorts the groups that do not fit, writes them, and merges them in the end. Where
//! nearly each row is a group of its own that is a sort of all rows, in memory that two partitions
//! take from each other. As a [grace join](crate::grace_join) does, this node cuts its rows by a
//! hash of their keys into files, and groups these one after the other, by DataFusion's own
//! operator. Each row is written and read once, and nothing is sorted.
//!
//! The paper is that of the join. Deviations: the operator that groups a part is the engine's,
//! and nothing of a part stays in memory while others are written. Whether groups are many is
//! seen: as many rows as a part of the memory holds are waited for. If these are all, if most of
//! them belong to groups that are there already, or if no more rows are expected than fit,
//! nothing goes to disk. A wrong choice costs time: what is in memory then is sorted and merged
//! as before.
//!
//! It suits keys that are mostly different ones and come in any order. Where each comes again much
//! later than the first rows show, all is written for nothing.
//!
//! It goes when a released DataFusion does the same in place of sorting, which came with
//! <https://github.com/apache/datafusion/pull/7400>.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, OrderingRequirements, PhysicalExpr, PhysicalExprRef};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateOutputMode};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet, SpillMetrics};
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputOrderMode,
    PlanProperties, ReplaceChildrenOptions,
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
/// Groups that are expected to take less than this part of it stay in memory.
const STAYS: usize = 2;
/// What a group takes beside its values.
const OF_GROUP: usize = 50;
/// Has a session plan such groups where memory has a limit. It comes behind all other rules.
pub fn install(ctx: &SessionContext) {
    if limit(&ctx.runtime_env()).is_none() {
        return;
    }
    let state = ctx.state_ref();
    let mut state = state.write();
    let builder = SessionStateBuilder::new_from_existing(state.clone()).with_session_id(state.session_id().to_owned());
    *state = builder.with_physical_optimizer_rule(Arc::new(ToDisk)).build();
}

#[derive(Debug)]
struct ToDisk;

impl PhysicalOptimizerRule for ToDisk {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let to_disk = |node: Arc<dyn ExecutionPlan>| {
            Ok(match node.downcast_ref::<AggregateExec>() {
                Some(groups) if can_be_cut(groups) => Transformed::yes(Arc::new(GraceGroupsExec::of(groups)) as _),
                _ => Transformed::no(node),
            })
        };
        plan.transform_up(to_disk).map(|plan| plan.data)
    }

    fn name(&self) -> &str {
        "groups_to_disk"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether an aggregate gives all groups of its rows at once, each of one row at least, and in no
/// order.
fn can_be_cut(groups: &AggregateExec) -> bool {
    groups.mode().output_mode() == AggregateOutputMode::Final
        && groups.group_expr().is_single()
        && !groups.group_expr().is_true_no_grouping()
        && *groups.input_order_mode() == InputOrderMode::Linear
        && groups.limit_options().is_none()
}

fn with_input(groups: &AggregateExec, input: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    let recomputed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::new(groups.clone()).replace_children(input, recomputed)
}

/// The groups that this node makes.
pub(crate) fn groups_of(node: &dyn ExecutionPlan) -> Option<&AggregateExec> {
    node.downcast_ref::<GraceGroupsExec>().map(|grace| &grace.groups)
}

#[derive(Debug)]
struct GraceGroupsExec {
    groups: AggregateExec,
    metrics: ExecutionPlanMetricsSet,
}

impl GraceGroupsExec {
    fn of(groups: &AggregateExec) -> Self {
        Self { groups: groups.clone(), metrics: ExecutionPlanMetricsSet::new() }
    }

    /// Bytes that rows of a partition may take while they are waited for.
    fn waiting(&self, context: &TaskContext) -> usize {
        limit(&context.runtime_env()).map_or(usize::MAX, |most| (most / WAITING / self.partitions()).max(FEWEST))
    }

    fn partitions(&self) -> usize {
        self.groups.input().output_partitioning().partition_count().max(1)
    }

    /// Whether groups would not fit of which these are the first rows.
    fn are_many(&self, first: &[RecordBatch], bytes: usize, context: &TaskContext) -> Result<bool> {
        let (keys, random, mut known, mut rows) = (self.keys(), RandomState::with_seed(0), HashSet::new(), 0);
        for batch in first {
            let keys = keys.iter().map(|key| key.evaluate(batch)?.into_array(batch.num_rows()));
            let mut hashes = vec![0; batch.num_rows()];
            create_hashes(&keys.collect::<Result<Vec<_>>>()?, &random, &mut hashes)?;
            known.extend(hashes);
            rows += batch.num_rows();
        }
        if known.len() < rows / 2 {
            return Ok(false);
        }
        let Some(most) = limit(&context.runtime_env()) else { return Ok(false) };
        let (input, args) = (self.groups.input().as_ref(), StatisticsArgs::new());
        let all = StatisticsContext::new().compute(input, &args).ok().and_then(|all| all.num_rows.get_value().copied());
        let of_group = bytes / rows.max(1) + OF_GROUP;
        let expected = all
            .map(|all| (all / self.partitions()).saturating_mul(known.len()) / rows.max(1))
            .map(|all| all.saturating_mul(of_group));
        Ok(expected.is_none_or(|bytes| bytes > most / STAYS / self.partitions()))
    }

    fn keys(&self) -> Vec<PhysicalExprRef> {
        self.groups.group_expr().input_exprs()
    }

    /// The groups of these rows.
    fn grouped(&self, rows: Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = Arc::new(WatchedExec::over(rows, &Budget::default())?);
        let groups = with_input(&self.groups, vec![rows])?;
        let stream = groups.execute(0, Arc::clone(context))?;
        groups.metrics().iter().flat_map(MetricsSet::iter).for_each(|metric| self.metrics.register(Arc::clone(metric)));
        Ok(stream)
    }

    async fn grouped_to_fit(
        self: Arc<Self>,
        mut rows: SendableRecordBatchStream,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let held = MemoryConsumer::new("GraceGroups").register(context.memory_pool());
        let (mut first, mut bytes, most) = (Vec::new(), 0, self.waiting(&context));
        while let Some(batch) = rows.try_next().await? {
            let batch = compacted(batch)?;
            bytes += batch.get_array_memory_size();
            first.push(batch);
            if bytes > most || held.try_resize(bytes).is_err() {
                let are_many = self.are_many(&first, bytes, &context)?;
                let rows = Waiting { first: first.into(), held }.before(rows);
                if !are_many {
                    return self.grouped(once(rows)?, &context);
                }
                let on_disk = OnDisk::of(rows, self, partition, context).await?;
                let schema = on_disk.node.schema();
                let groups = stream::try_unfold(on_disk, |mut on_disk| async {
                    let next = on_disk.next().await?;
                    Ok(next.map(|batch| (batch, on_disk)))
                });
                return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, groups)));
            }
        }
        let rows = Waiting { first: first.into(), held }.before(rows);
        self.grouped(once(rows)?, &context)
    }
}

/// Rows on disk in parts, which are grouped one after the other.
struct OnDisk {
    node: Arc<GraceGroupsExec>,
    context: Arc<TaskContext>,
    files: SpillManager,
    left: Vec<Cut>,
    /// The groups of a part, and the part itself until it has given some.
    grouped: Option<(SendableRecordBatchStream, Option<Cut>)>,
}

struct Cut {
    part: Part,
    /// How often its rows were cut.
    depth: u64,
}

impl OnDisk {
    async fn of(
        rows: SendableRecordBatchStream,
        node: Arc<GraceGroupsExec>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<Self> {
        let spills = SpillMetrics::new(&node.metrics, partition);
        let files = files_of(&context, spills, rows.schema());
        let mut on_disk = Self { node, context, files, left: Vec::new(), grouped: None };
        on_disk.cut(rows, 0).await?;
        Ok(on_disk)
    }

    async fn cut(&mut self, rows: SendableRecordBatchStream, depth: u64) -> Result<()> {
        let how = How { count: parts_of(self.node.partitions()), seed: depth, without_nulls: false };
        let parts = cut(rows, &self.node.keys(), how, &self.files).await?;
        let parts = parts.into_iter().filter(|part| part.rows > 0);
        self.left.extend(parts.map(|part| Cut { part, depth: depth + 1 }));
        Ok(())
    }

    /// The next groups. A part that finds no room, when others have given rows already, is cut
    /// again.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let Some((groups, cut)) = &mut self.grouped else {
                let Some(cut) = self.left.pop() else { return Ok(None) };
                self.grouped = Some((self.node.grouped(cut.part.plan()?, &self.context)?, Some(cut)));
                continue;
            };
            match groups.try_next().await {
                Ok(Some(batch)) => {
                    *cut = None;
                    return Ok(Some(batch));
                }
                Ok(None) => self.grouped = None,
                Err(error) if is_want_of_memory(&error) => {
                    let Some(Cut { part, depth }) = cut.take().filter(|cut| cut.depth < DEPTH) else {
                        return Err(error);
                    };
                    // What it holds is given back first.
                    self.grouped = None;
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

impl DisplayAs for GraceGroupsExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        if kind != DisplayFormatType::TreeRender {
            f.write_str("GraceGroupsExec of ")?;
        }
        self.groups.fmt_as(kind, f)
    }
}

impl ExecutionPlan for GraceGroupsExec {
    fn name(&self) -> &'static str {
        "GraceGroupsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.groups.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.groups.children()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.groups.apply_expressions(visit)
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.groups.input_distribution_requirements().into_per_child()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.groups.required_input_ordering()
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let groups = with_input(&self.groups, children)?;
        Ok(match groups.downcast_ref::<AggregateExec>() {
            Some(groups) => Arc::new(Self::of(groups)),
            None => groups,
        })
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.groups.child_stats_requests(partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.groups.statistics_from_inputs(inputs, args)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.groups.input().execute(partition, Arc::clone(&context))?;
        let node = Arc::new(Self { groups: self.groups.clone(), metrics: self.metrics.clone() });
        let groups = stream::once(node.grouped_to_fit(rows, partition, context)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), groups.boxed())))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::collect;
    use datafusion::prelude::SessionConfig;

    use super::*;

    /// The rows of a statement under a limit, and how often something was written.
    async fn rows(sql: &str, bytes: usize, partitions: usize) -> (String, usize) {
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0).build_arc().unwrap();
        let config = SessionConfig::new().with_target_partitions(partitions);
        let config = config.with_sort_spill_reservation_bytes(100 << 10);
        let ctx = SessionContext::new_with_config_rt(config, runtime);
        install(&ctx);
        let plan = ctx.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let rows = collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
        let mut written = 0;
        let mut nodes = 0;
        plan.apply(|node| {
            nodes += usize::from(groups_of(node.as_ref()).is_some());
            written += node.metrics().and_then(|metrics| metrics.spilled_rows()).unwrap_or(0);
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
        assert!(nodes > 0, "nothing of it can be cut: {sql}");
        assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0);
        (pretty_format_batches(&rows).unwrap().to_string(), written)
    }

    /// Groups of 300,000 rows: nearly all are of their own, with NULLs, or few.
    fn grouped(keys: &str, values: &str) -> String {
        let of_values = "count(*) AS n, sum(v) AS s, min(v) AS l, max(t) AS h";
        format!(
            "SELECT count(*), sum(n), sum(s), min(l), max(h), count(k) FROM (SELECT {keys}, {of_values} FROM \
             (SELECT {values} AS k, value * 31 % 1009 AS v, 'text ' || (value % 77)::text AS t FROM range(300000)) GROUP BY k)"
        )
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn many_groups_go_to_disk_and_few_do_not() {
        for (values, are_many) in [
            ("value * 7 % 300007", true),
            ("'a long text of a key ' || (value * 7 % 299993)::text", true),
            ("CASE WHEN value % 3 = 0 THEN NULL ELSE value * 7 END", true),
            ("value % 1000", false),
        ] {
            let sql = grouped("k", values);
            let (right, written) = rows(&sql, 1 << 30, 2).await;
            assert_eq!(written, 0, "{values}");
            for (partitions, megabytes) in [(1, 6), (1, 3), (2, 6), (5, 6)] {
                let (little, written) = rows(&sql, megabytes << 20, partitions).await;
                assert_eq!(little, right, "{values} in {partitions}");
                // Each once, but for those of a part that found no room when its turn came.
                let most = if are_many { 1..600_000 } else { 0..1 };
                assert!(most.contains(&written), "{values} in {partitions}: {written} rows");
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn groups_of_several_sets_come_once() {
        let sql = "SELECT count(*), sum(n), sum(a), sum(b) FROM (SELECT a, b, count(*) AS n FROM \
                   (SELECT value * 7 % 200003 AS a, value % 7 AS b FROM range(200000)) GROUP BY ROLLUP (a, b))";
        assert_eq!(rows(sql, 12 << 20, 3).await.0, rows(sql, 1 << 30, 3).await.0);
    }
}
