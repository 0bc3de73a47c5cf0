//! Nodes between which a query can be ended, by who waits for it or because it takes too much.
//!
//! A task ends where it gives way, and it does so where batches enter a plan, when its turn is
//! over. A join may make any number of batches of one, so that it would keep its thread, and Ctrl-C
//! would wait, for hours (<https://github.com/apache/datafusion/issues/19358>). So what comes out
//! of a join gives way, too, and [filters and keys of joins](crate::watched_joins) end what hands
//! on nothing, as [functions of windows](crate::watched_windows) do. [Rules](crate::watched_plans)
//! end what is planned.
//!
//! DataFusion's own `CooperativeExec` counts batches of a task, and not of a node: of 128 of them
//! above each other the last one would never have its turn.
//!
//! Where memory has a limit, the heap is looked at between batches. And a join or an `unnest` makes
//! batches of many rows out of a few: rows so wide that a batch of them would not fit are refused
//! before.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
};
use datafusion::prelude::SessionContext;

use crate::apart::{self, Apart};
use crate::budget::{Budget, over_alone};
use crate::late_columns::{self, Late};
use crate::lifted::Lift;
use crate::long::{at_once_by, is_long, made_of_all};
use crate::watched_rows::{WatchedExec, reads};
use crate::{watched_plans, watched_windows};

/// Has the plans of a session watched. What else rewrites plans comes before it.
pub(crate) fn install(ctx: &SessionContext, budget: Budget) {
    let state = ctx.state_ref();
    let mut state = state.write();
    let rules = state.physical_optimizers().iter().map(|rule| match rule.name() {
        apart::OVER => Arc::new(Apart(Arc::clone(rule))) as _,
        late_columns::OVER => Arc::new(Late(Arc::clone(rule))) as _,
        _ => Arc::clone(rule),
    });
    let builder = SessionStateBuilder::new_from_existing(state.clone())
        .with_session_id(state.session_id().to_owned())
        .with_optimizer_rule(Arc::new(Lift))
        .with_optimizer_rule(Arc::new(watched_windows::Watch { budget: budget.clone() }))
        .with_physical_optimizer_rules(rules.collect())
        .with_physical_optimizer_rule(Arc::new(Watch { budget: budget.clone() }));
    *state = watched_plans::watched(builder, &budget).build();
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
            let plan = if makes_many { with_narrow_inputs(plan, widest)? } else { plan };
            let plan = with_compact_input(with_small_batches(plan, &self.budget)?, &self.budget)?;
            if !makes_many && !reads(&plan) {
                return Ok(Transformed::no(plan));
            }
            Ok(Transformed::yes(Arc::new(WatchedExec::over(plan, &self.budget)?) as _))
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
        kind => is_long(kind) && !is_unnested(column),
    };
    let narrow = |input: &Arc<dyn ExecutionPlan>| {
        let (plan, schema) = (Arc::clone(input), input.schema());
        let columns = schema.fields().iter().enumerate().filter(|(at, field)| is_repeated(*at, field.data_type()));
        let columns: Arc<[usize]> = columns.map(|(at, _)| at).collect();
        Ok(match columns.is_empty() {
            true => plan,
            false => {
                let watched = WatchedExec::over(plan, &Budget::default())?;
                Arc::new(watched.with_rows_of_at_most(widest, columns)) as _
            }
        })
    };
    let inputs = plan.children().into_iter().map(narrow).collect::<Result<_>>()?;
    plan.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The node over an input that comes in small batches, where it works on long values.
fn with_small_batches(plan: Arc<dyn ExecutionPlan>, budget: &Budget) -> Result<Arc<dyn ExecutionPlan>> {
    let Some((most, beside)) = at_once_by(&plan)? else { return Ok(plan) };
    let copies = made_of_all(&plan);
    let small = |input: &Arc<dyn ExecutionPlan>| {
        Ok(Arc::new(WatchedExec::over(Arc::clone(input), budget)?.with_at_most(most, beside, copies)) as _)
    };
    let inputs = plan.children().into_iter().map(small).collect::<Result<_>>()?;
    plan.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The node over an input of compact texts, where it keeps these. Joins keep their first one.
fn with_compact_input(plan: Arc<dyn ExecutionPlan>, budget: &Budget) -> Result<Arc<dyn ExecutionPlan>> {
    let keeps = makes_many_of_one(plan.as_ref()) && !plan.is::<UnnestExec>()
        || plan.is::<SortExec>()
        || plan.is::<WindowAggExec>()
        || plan.is::<BoundedWindowAggExec>();
    let is_view = |field: &FieldRef| matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView);
    let mut inputs: Vec<_> = plan.children().into_iter().cloned().collect();
    match inputs.first_mut().filter(|first| keeps && first.schema().fields().iter().any(is_view)) {
        Some(first) => {
            let passing = plan.downcast_ref::<SortExec>().map_or(Ok(None), passing_of)?;
            *first = Arc::new(WatchedExec::compact(Arc::clone(first), budget)?.with_passing(passing));
        }
        None => return Ok(plan),
    }
    plan.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The filter by which a sort for its first rows knows those that may still be among them. There is
/// none where its input comes in the order of its first key: such a sort ends with the first row
/// that is too late, and must see it.
fn passing_of(sort: &SortExec) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let key = sort.expr().first().clone();
    let is_begun = sort.input().equivalence_properties().ordering_satisfy([key])?;
    Ok(sort.dynamic_expressions_produced().pop().filter(|_| !is_begun))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::budget::tests::budget;
    use crate::held::Held;
    use arrow::array::RecordBatch;
    use datafusion::physical_plan::collect;
    use datafusion::physical_plan::execution_plan::reset_plan_states;
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
        install(&ctx, budget(1 << 30));
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
        let columns: Vec<_> = (0..1500).map(|at| format!("value + {at}")).collect();
        for (sql, batches) in [
            (format!("SELECT upper(s) AS u FROM {long} GROUP BY s"), 3),
            (format!("SELECT s FROM {long} WHERE s || 'x' ~ '1' GROUP BY s"), 1),
            // The long text is a constant, and rows are short.
            ("SELECT repeat('x', 100000) || value AS u FROM range(1000) WHERE value % 1 = 0".to_owned(), 20),
            ("SELECT regexp_replace(value::text, '0', repeat('x', 100000)) AS u FROM range(1000)".to_owned(), 20),
            (format!("SELECT {} FROM range(8000)", columns.join(", ")), 20),
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
    async fn first_rows_keep_no_texts_of_others() {
        let config = SessionConfig::new().with_target_partitions(1).with_batch_size(5000);
        let (stock, ours) = (SessionContext::new_with_config(config.clone()), SessionContext::new_with_config(config));
        install(&ours, Budget::default());
        let texts = "arrow_cast(repeat('x', 20) || (value % 30011), 'Utf8View') AS t";
        for order in ["t, v DESC", "v * 7919 % 60001"] {
            let sql =
                format!("SELECT v, t FROM (SELECT value AS v, {texts} FROM range(60000)) ORDER BY {order} LIMIT 100");
            let rows = async |ctx: &SessionContext| ctx.sql(&sql).await.unwrap().collect().await.unwrap();
            let kept = |rows: &[RecordBatch]| rows[0].column(1).get_buffer_memory_size();
            let (before, after) = (rows(&stock).await, rows(&ours).await);
            assert_eq!(before, after, "{sql}");
            let (before, after) = (kept(&before), kept(&after));
            assert!(before > 3 * after, "{sql}: {before} became {after}; it may go if there was little");
        }
    }

    #[tokio::test]
    async fn first_rows_are_found_anew_by_a_plan_that_runs_again() {
        // The last of a partition's rows does not pass its own filter.
        let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
        install(&ctx, Budget::default());
        let texts = "arrow_cast(repeat('x', 20) || (value % 30011), 'Utf8View') AS t";
        let sql = format!("SELECT value, t FROM (SELECT value, {texts} FROM range(60000)) ORDER BY t, value LIMIT 100");
        let plan = ctx.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
        let first = collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
        let again = collect(reset_plan_states(plan).unwrap(), ctx.task_ctx()).await.unwrap();
        assert_eq!(first.iter().map(RecordBatch::num_rows).sum::<usize>(), 100);
        assert_eq!(first, again);
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
