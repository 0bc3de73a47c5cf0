//! Nodes between which a query can be ended, by who waits for it or because it takes too much.
//!
//! A task ends where it gives way, and it does so where batches enter a plan, when its turn is
//! over. A join may make any number of batches of one, so that it would keep its thread, and Ctrl-C
//! would wait, for hours (<https://github.com/apache/datafusion/issues/19358>). So what comes out
//! of a join gives way, too, and [filters of joins](crate::watched_filter) end what hands on
//! nothing, as [functions of windows](crate::watched_windows) do. [Rules](crate::watched_plans) end
//! what is planned.
//!
//! DataFusion's own `CooperativeExec` counts batches of a task, and not of a node: of 128 of them
//! above each other the last one would never have its turn.
//!
//! Where memory has a limit, the heap is looked at between batches. And a join or an `unnest` makes
//! batches of many rows out of a few: rows so wide that a batch of them would not fit are refused
//! before.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use datafusion::prelude::SessionContext;
use futures::{Stream, StreamExt};

use crate::apart::{self, Apart};
use crate::budget::{Budget, over_alone};
use crate::held::Held;
use crate::lifted::Lift;
use crate::long::{at_once, at_once_by, long_bytes, made_of_all, rows_at_once};
use crate::order::is_turn_over;
use crate::watched_filter::with_watched_filter;
use crate::{watched_plans, watched_windows};

/// Has the plans of a session watched. What else rewrites plans comes before it.
pub(crate) fn install(ctx: &SessionContext, budget: Budget) {
    let state = ctx.state_ref();
    let mut state = state.write();
    let rules = state.physical_optimizers().iter().map(|rule| match rule.name() {
        apart::OVER => Arc::new(Apart(Arc::clone(rule))) as _,
        _ => Arc::clone(rule),
    });
    let builder = SessionStateBuilder::new_from_existing(state.clone())
        .with_session_id(state.session_id().to_owned())
        .with_optimizer_rule(Arc::new(Lift))
        .with_optimizer_rule(Arc::new(watched_windows::Watch))
        .with_physical_optimizer_rules(rules.collect())
        .with_physical_optimizer_rule(Arc::new(Watch { budget }));
    *state = watched_plans::watched(builder).build();
}

/// Puts its nodes into plans.
#[derive(Debug)]
struct Watch {
    budget: Budget,
}

impl PhysicalOptimizerRule for Watch {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let widest = self.budget.at_once() / config.execution.batch_size.get() as u64;
        let watched = plan.transform_up(|plan| {
            check_constants(&plan, widest)?;
            let makes_many = makes_many_of_one(plan.as_ref());
            let plan = if makes_many { with_watched_filter(with_narrow_inputs(plan, widest)?)? } else { plan };
            let plan = with_small_batches(plan, &self.budget)?;
            let enters = plan.children().is_empty() && !plan.is::<PlaceholderRowExec>();
            if !makes_many && !enters {
                return Ok(Transformed::no(plan));
            }
            Ok(Transformed::yes(Arc::new(WatchedExec::over(plan, &self.budget)) as _))
        });
        watched.map(|watched| watched.data)
    }

    fn name(&self) -> &'static str {
        "watch"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Fails if an expression of the node has a constant that is too wide to be there for each row.
fn check_constants(plan: &Arc<dyn ExecutionPlan>, widest: u64) -> Result<()> {
    let inputs = plan.children();
    if !inputs.is_empty() && inputs.into_iter().all(is_one_row) {
        return Ok(());
    }
    let mut largest = 0;
    plan.apply_expressions(&mut |root| {
        root.apply(|part| {
            let size = part.downcast_ref::<Literal>().map_or(0, |literal| literal.value().size());
            largest = largest.max(size as u64);
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    match largest > widest {
        true => Err(over_alone(format!(
            "a constant of {largest} bytes stands in each row, and with the memory there is it may have {widest}"
        ))),
        false => Ok(()),
    }
}

/// Whether a node gives one row, that of a SELECT without FROM.
fn is_one_row(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<PlaceholderRowExec>() || plan.is::<ProjectionExec>() && plan.children().into_iter().all(is_one_row)
}

/// The node over inputs of which no row has more than `widest` bytes that it would repeat.
fn with_narrow_inputs(plan: Arc<dyn ExecutionPlan>, widest: u64) -> Result<Arc<dyn ExecutionPlan>> {
    // A cross join copies each row of its left side, and others copy what is no view.
    let copies_views = plan.is::<CrossJoinExec>();
    let unnested = plan.downcast_ref::<UnnestExec>().map(UnnestExec::list_column_indices).unwrap_or_default();
    let is_unnested = |column: usize| unnested.iter().any(|list| list.index_in_input_schema == column);
    let is_repeated = |column: usize, kind: &DataType| match kind {
        DataType::Utf8View | DataType::BinaryView => copies_views,
        DataType::Boolean => false,
        kind => kind.primitive_width().is_none() && !is_unnested(column),
    };
    let narrow = |input: &Arc<dyn ExecutionPlan>| {
        let (plan, schema) = (Arc::clone(input), input.schema());
        let columns = schema.fields().iter().enumerate().filter(|(at, field)| is_repeated(*at, field.data_type()));
        let columns: Arc<[usize]> = columns.map(|(at, _)| at).collect();
        match columns.is_empty() {
            true => plan,
            false => {
                let narrow = Some(Narrow { widest, columns });
                Arc::new(WatchedExec { narrow, ..WatchedExec::over(plan, &Budget::default()) }) as _
            }
        }
    };
    let inputs = plan.children().into_iter().map(narrow).collect();
    plan.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The node over an input that comes in small batches, where it works on long values.
fn with_small_batches(plan: Arc<dyn ExecutionPlan>, budget: &Budget) -> Result<Arc<dyn ExecutionPlan>> {
    let most = at_once_by(&plan)?;
    if most == u64::MAX {
        return Ok(plan);
    }
    let copies = made_of_all(&plan);
    let small = |input: &Arc<dyn ExecutionPlan>| {
        Arc::new(WatchedExec { most, copies, ..WatchedExec::over(Arc::clone(input), budget) }) as _
    };
    let inputs = plan.children().into_iter().map(small).collect();
    plan.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
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

/// The rows of a node, with pauses between them.
#[derive(Debug)]
pub(crate) struct WatchedExec {
    plan: Arc<dyn ExecutionPlan>,
    budget: Budget,
    narrow: Option<Narrow>,
    /// Bytes of long values that come in one batch, but for one row.
    most: u64,
    /// How often all of them are copied when the last one has come.
    copies: u64,
}

/// How wide rows may be.
#[derive(Clone, Debug)]
struct Narrow {
    /// Most bytes of a row in these columns.
    widest: u64,
    columns: Arc<[usize]>,
}

impl WatchedExec {
    pub(crate) fn over(plan: Arc<dyn ExecutionPlan>, budget: &Budget) -> Self {
        Self { plan, budget: budget.clone(), narrow: None, most: u64::MAX, copies: 0 }
    }

    pub(crate) fn inner(&self) -> Arc<dyn ExecutionPlan> {
        Arc::clone(&self.plan)
    }
}

impl DisplayAs for WatchedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match &self.narrow {
            Some(narrow) => write!(f, "WatchedExec: widest={}", narrow.widest),
            None if self.most < u64::MAX => write!(f, "WatchedExec: most={}", self.most),
            None => f.write_str("WatchedExec"),
        }
    }
}

impl ExecutionPlan for WatchedExec {
    fn name(&self) -> &'static str {
        "WatchedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.plan]
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

    /// Lets through what does not work on long values.
    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let schema = self.plan.schema();
        if projection.expr().iter().any(|column| at_once(&column.expr, &schema) < u64::MAX) {
            return Ok(None);
        }
        let swapped = self.plan.try_swapping_with_projection(projection)?;
        Ok(swapped.map(|plan| Arc::new(WatchedExec::over(plan, &self.budget)) as _))
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = children.pop().unwrap_or_else(|| Arc::clone(&self.plan));
        let (narrow, over) = (self.narrow.clone(), Self::over(plan, &self.budget));
        Ok(Arc::new(Self { narrow, most: self.most, copies: self.copies, ..over }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.plan.execute(partition, context)?;
        let (budget, narrow) = (self.budget.clone(), self.narrow.clone());
        Ok(Box::pin(Watched { rows, budget, narrow, most: self.most, rest: None, copies: self.copies, gathered: 0 }))
    }
}

struct Watched {
    rows: SendableRecordBatchStream,
    budget: Budget,
    narrow: Option<Narrow>,
    most: u64,
    /// What is left of a batch, and how many rows of it come at once.
    rest: Option<(RecordBatch, usize)>,
    copies: u64,
    /// Bytes of long values that have come, where they are copied together.
    gathered: u64,
}

impl Watched {
    /// The next rows of a batch.
    fn part(&mut self, batch: RecordBatch, at_once: usize) -> RecordBatch {
        if batch.num_rows() <= at_once {
            return batch;
        }
        let part = batch.slice(0, at_once);
        self.rest = Some((batch.slice(at_once, batch.num_rows() - at_once), at_once));
        part
    }

    /// Fails if there is no room for the copies of all that has come.
    fn gather(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.copies == 0 {
            return Ok(());
        }
        self.gathered += long_bytes(batch);
        match self.gathered > self.most {
            true => self.budget.check(self.copies * self.gathered, "a window over long values"),
            false => Ok(()),
        }
    }

    /// Fails if one row is so long that there is no room for what a function may make of it.
    fn check_row(&self, part: &RecordBatch) -> Result<()> {
        if self.most == u64::MAX || part.num_rows() != 1 {
            return Ok(());
        }
        match long_bytes(part) {
            bytes if bytes > self.most => self.budget.check(2 * bytes, "a function of one row with long values"),
            _ => Ok(()),
        }
    }

    fn check(&self, batch: &RecordBatch) -> Result<()> {
        self.budget.check(0, "")?;
        let Some(Narrow { widest: most, columns }) = &self.narrow else { return Ok(()) };
        let width = columns.iter().map(|&at| widest(batch.column(at))).sum::<u64>();
        match width > *most {
            true => Err(over_alone(format!(
                "a join or unnest would repeat a row of {width} bytes, and with the memory there is it may have \
                 {most}: SET datafusion.execution.batch_size to fewer rows"
            ))),
            false => Ok(()),
        }
    }
}

/// Bytes of the longest value.
fn widest(column: &ArrayRef) -> u64 {
    let longest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0) as u64;
    match column.data_type() {
        DataType::Utf8 => longest(&mut column.as_string::<i32>().offsets().lengths()),
        DataType::LargeUtf8 => longest(&mut column.as_string::<i64>().offsets().lengths()),
        DataType::Binary => longest(&mut column.as_binary::<i32>().offsets().lengths()),
        DataType::LargeBinary => longest(&mut column.as_binary::<i64>().offsets().lengths()),
        DataType::Utf8View => longest(&mut column.as_string_view().lengths().map(|length| length as usize)),
        DataType::BinaryView => longest(&mut column.as_binary_view().lengths().map(|length| length as usize)),
        // On average, of lists and the like.
        _ => (column.to_data().get_slice_memory_size().unwrap_or(0) / column.len().max(1)) as u64,
    }
}

impl Stream for Watched {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Held::check_current()?;
        if is_turn_over() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some((batch, at_once)) = self.rest.take() {
            self.budget.check(0, "")?;
            let part = self.part(batch, at_once);
            return Poll::Ready(Some(self.check_row(&part).map(|()| part)));
        }
        let next = ready!(self.rows.poll_next_unpin(context)).transpose()?;
        Poll::Ready(next.map(|batch| {
            self.check(&batch)?;
            self.gather(&batch)?;
            let at_once = rows_at_once(&batch, self.most);
            let part = self.part(batch, at_once);
            self.check_row(&part).map(|()| part)
        }))
    }
}

impl RecordBatchStream for Watched {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::budget::tests::budget;
    use datafusion::prelude::SessionConfig;
    use futures::StreamExt;
    use std::future::poll_fn;
    use std::pin::pin;

    /// How often a query gives way until its first rows are there.
    async fn times(ctx: &SessionContext, sql: &str) -> usize {
        let mut rows = ctx.sql(sql).await.unwrap().execute_stream().await.unwrap();
        let mut first = pin!(Held::default().task(async move { rows.next().await }));
        let mut polls = 0;
        let first = poll_fn(|context| {
            polls += 1;
            first.as_mut().poll(context)
        });
        assert_eq!(first.await.unwrap().unwrap().num_rows(), 1);
        polls - 1
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_join_of_few_batches_gives_way_many_times() {
        // One partition, so that no other task is waited for.
        let config = SessionConfig::new().with_target_partitions(1).with_batch_size(100);
        let stock = SessionContext::new_with_config(config.clone());
        let ours = SessionContext::new_with_config(config);
        install(&ours, Budget::default());
        for joined in [
            "a, b",
            "a JOIN b ON a.value % 2 = b.value % 2",
            "a JOIN b ON a.value < b.value",
            "(SELECT unnest(range(1, 1000)) AS value FROM a) AS a, (SELECT 1 AS value) AS b",
        ] {
            let sql = format!(
                "WITH a AS (SELECT * FROM generate_series(1, 1000)), b AS (SELECT * FROM generate_series(1, 1000)) \
                 SELECT sum(a.value * b.value) FROM {joined}"
            );
            let (without, with) = (times(&stock, &sql).await, times(&ours, &sql).await);
            // At the end of each of its turns, and not where batches enter the plan.
            assert!(with >= 2 && without < 2, "{joined}: {with} times, and {without} by itself");
        }
    }

    /// The error of a statement in a session with so much memory.
    async fn refused(memory: Option<u64>, sql: &str) -> String {
        let ctx = SessionContext::new();
        install(&ctx, memory.map(budget).unwrap_or_default());
        let ran = async { ctx.sql(sql).await?.collect().await };
        ran.await.map_or_else(|error| error.to_string(), |_| "none".to_owned())
    }

    #[tokio::test]
    async fn rows_that_are_too_wide_to_be_repeated_are_refused() {
        const WIDE: &str = "(SELECT repeat(arrow_cast(value, 'Utf8'), 100000) AS s FROM range(1000000, 1000002)) AS w";
        for (sql, what) in [
            ("SELECT repeat('x', 1000000) AS s FROM range(10)", "a constant of 10000"),
            ("SELECT array_agg(repeat('x', 1000000)) FROM range(10)", "a constant of 10000"),
            (&format!("SELECT s, value FROM {WIDE}, range(10)"), "a row of 70000"),
            (&format!("SELECT s, value FROM {WIDE} JOIN range(10) ON length(s) > value"), "a row of 70000"),
            (&format!("SELECT s, unnest(range(0, 10)) FROM {WIDE}"), "a row of 70000"),
        ] {
            let error = refused(None, sql).await;
            assert!(error.contains(what), "{sql}: {error}");
        }
        let ctx = SessionContext::new();
        install(&ctx, budget(100 << 20));
        for sql in [
            "SELECT repeat('x', 1000000)",
            "SELECT value, repeat('x', 1000) FROM range(10), (SELECT 1)",
            "SELECT unnest(range(0, 100000))",
        ] {
            assert!(ctx.sql(sql).await.unwrap().collect().await.is_ok(), "{sql}");
        }
    }

    #[tokio::test]
    async fn functions_are_given_small_batches_of_long_values() {
        let (stock, ours) = (SessionContext::new(), SessionContext::new());
        install(&ours, Budget::default());
        let long =
            "(SELECT repeat(arrow_cast(value, 'Utf8'), 20000) AS s FROM range(100000, 100100) WHERE value % 1 = 0)";
        for (sql, batches) in [
            (format!("SELECT upper(s) AS u FROM {long} GROUP BY s"), 3),
            (format!("SELECT s FROM {long} WHERE s || 'x' ~ '1' GROUP BY s"), 1),
            (format!("SELECT levenshtein(left(s, 1000), s) AS l FROM {long} WHERE s < '100005' GROUP BY s"), 5),
        ] {
            let batches_of = async |ctx: &SessionContext| {
                let ctx = SessionContext::new_with_state(ctx.state());
                ctx.sql("SET datafusion.execution.target_partitions = 1").await.unwrap();
                ctx.sql(&sql).await.unwrap().collect().await.unwrap().len()
            };
            let (few, many) = (batches_of(&stock).await, batches_of(&ours).await);
            assert!(few == 1 && many >= batches, "{sql}: {few}, {many}");
        }
    }

    #[tokio::test]
    async fn a_scan_leaves_functions_over_long_values_to_a_projection() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet").display().to_string();
        let ctx = SessionContext::new();
        install(&ctx, Budget::default());
        let rows = "SELECT CAST(value AS VARCHAR) AS s, value AS n FROM range(10)";
        ctx.sql(&format!("COPY ({rows}) TO '{path}'")).await.unwrap().collect().await.unwrap();
        ctx.register_parquet("t", &path, Default::default()).await.unwrap();
        for (list, stays) in [("upper(s)", true), ("s || 'x', n", true), ("n + 1", false), ("abs(n), s", false)] {
            let plan = ctx.sql(&format!("SELECT {list} FROM t")).await.unwrap();
            let plan = plan.create_physical_plan().await.unwrap();
            assert_eq!(plan.is::<ProjectionExec>(), stays, "{list}: {plan:?}");
        }
    }

    #[tokio::test]
    async fn what_operators_do_not_account_for_is_counted() {
        // The texts of the aggregate are 800 MB, of which its account has 16 bytes each.
        let sql = "SELECT array_agg(repeat(arrow_cast(value::text, 'Utf8View'), 1000)) FROM range(1000000, 1100000)";
        assert!(refused(Some(16 << 20), sql).await.contains("bytes of memory; of 16777216 in all"));
        // A window holds all rows of its partition, and accounts for none.
        let sql = "SELECT sum(value) OVER () AS s, value FROM range(40000000)";
        assert!(refused(Some(16 << 20), sql).await.contains("of 16777216 in all"));
    }
}
