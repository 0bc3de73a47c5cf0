//! Windows with PARTITION BY that go to disk in parts where their rows are many.
//!
//! DataFusion sorts all rows for a window, and two partitions that do take the memory from each
//! other. What is computed for a row depends on those with the same values of PARTITION BY alone,
//! so they are cut by these, and sorted and computed [part by part](crate::grace): each part fits,
//! and no run of a sort is merged. Windows above each other that have such a value in common are
//! cut once for all.
//!
//! Rows come in no order then, so it is done where nobody above relies on that of the window.
//!
//! It suits many values that come in any order. Of fewer than there are parts most parts would be
//! empty, and the rows are sorted as before.
//!
//! It goes when a released DataFusion works on windows so. Open is that they spill at all
//! (<https://github.com/apache/datafusion/issues/22946>).

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
};
use datafusion::prelude::SessionContext;

use crate::expected_memory::limit;
use crate::grace::{GraceExec, Seen, Separable, plan_last};
use crate::watched_rows::WatchedExec;

/// Has a session plan such windows where memory has a limit. It comes behind all other rules.
pub(crate) fn install(ctx: &SessionContext) {
    if limit(&ctx.runtime_env()).is_some() {
        plan_last(ctx, Arc::new(ToDisk));
    }
}

#[derive(Debug)]
struct ToDisk;

impl PhysicalOptimizerRule for ToDisk {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        // Whether the statement wants an order is not known here any more.
        to_disk(plan, true)
    }

    fn name(&self) -> &str {
        "windows_to_disk"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan, in which windows go to disk, where nobody relies on their order.
fn to_disk(node: Arc<dyn ExecutionPlan>, is_order_kept: bool) -> Result<Arc<dyn ExecutionPlan>> {
    if !is_order_kept && let Some(windows) = separable(&node) {
        let input = to_disk(Arc::clone(windows.input()), false)?;
        return Ok(Arc::new(GraceExec::new(windows.over(input)?)));
    }
    let (required, kept) = (node.required_input_ordering(), node.maintains_input_order());
    let of = |(at, input): (usize, &&Arc<dyn ExecutionPlan>)| {
        let is_required = required.get(at).is_some_and(Option::is_some);
        to_disk(Arc::clone(input), is_required || is_order_kept && kept.get(at).is_none_or(|&kept| kept))
    };
    let before = node.children();
    let inputs = before.iter().enumerate().map(of).collect::<Result<Vec<_>>>()?;
    if inputs.iter().zip(before).all(|(input, before)| Arc::ptr_eq(input, before)) {
        return Ok(node);
    }
    node.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The windows that begin with this node, down to the last sort that keeps rows together which one
/// of them needs together.
fn separable(node: &Arc<dyn ExecutionPlan>) -> Option<Separable> {
    windows_of(node.as_ref())?;
    let (mut operators, mut keys, mut found, mut next) = (Vec::new(), None, None, Some(node));
    while let Some(node) = next.take() {
        let Some(below) = keys_below(node, keys.as_deref()).filter(|keys| !keys.is_empty()) else { break };
        operators.push(Arc::clone(node));
        next = node.children().first().copied();
        if let Some(input) = next.filter(|_| node.is::<SortExec>()) {
            let column = |at: &usize| Column::new(input.schema().field(*at).name(), *at);
            let columns = below.iter().map(|at| Arc::new(column(at)) as PhysicalExprRef);
            found = Some((operators.len(), columns.collect()));
        }
        keys = Some(below);
    }
    let (lowest, keys) = found?;
    operators.truncate(lowest);
    let windows = Separable { name: "GraceWindowsExec", operators, keys, takes };
    is_sorted_by_itself(&windows).then_some(windows)
}

/// Whether the sorts alone tell where one PARTITION BY ends. What else is known of the input, as
/// that two of its columns are one, is not known of a part.
fn is_sorted_by_itself(windows: &Separable) -> bool {
    let known = windows.input().equivalence_properties();
    known.eq_group().iter().next().is_none() && known.constraints().iter().next().is_none()
}

/// Columns of the input of a node whose values the node and those above it need together, if it
/// can work part by part.
fn keys_below(node: &Arc<dyn ExecutionPlan>, above: Option<&[usize]>) -> Option<Vec<usize>> {
    let index = |key: &PhysicalExprRef| Some(key.downcast_ref::<Column>()?.index());
    if let Some(windows) = windows_of(node.as_ref()) {
        let of_input = node.children().first()?.schema().fields().len();
        let of_all = |key: &&PhysicalExprRef| windows.iter().all(|window| window.partition_by().contains(key));
        let own = windows.first()?.partition_by().iter().filter(of_all).filter_map(index).filter(|&at| at < of_input);
        return Some(own.filter(|at| above.is_none_or(|above| above.contains(at))).collect());
    }
    let above = above?.iter();
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        return Some(above.filter_map(|&at| index(&projection.expr().get(at)?.expr)).collect());
    }
    let keeps_columns = node.is::<WatchedExec>() || node.downcast_ref::<SortExec>()?.fetch().is_none();
    keeps_columns.then(|| above.copied().collect())
}

fn windows_of(node: &dyn ExecutionPlan) -> Option<&[Arc<dyn WindowExpr>]> {
    let bounded = node.downcast_ref::<BoundedWindowAggExec>().map(BoundedWindowAggExec::window_expr);
    bounded.or_else(|| node.downcast_ref::<WindowAggExec>().map(WindowAggExec::window_expr))
}

fn takes(Seen { bytes, keys, parts, .. }: Seen) -> Option<usize> {
    (keys >= parts).then_some(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::grace::tests::{self, Ran, shown};

    fn session(bytes: usize, partitions: usize) -> SessionContext {
        let ctx = tests::session(bytes, partitions, bytes / partitions / 5);
        install(&ctx);
        ctx
    }

    async fn ran(sql: &str, bytes: usize, partitions: usize) -> Ran {
        tests::ran(&session(bytes, partitions), sql).await
    }

    const ROWS: &str = "(SELECT CASE WHEN value % 11 = 0 THEN NULL ELSE value * 7919 % 20011 END AS k, value % 3 AS l, \
                        value * 31 % 1000003 AS v, 'text ' || value::text AS t FROM range(300000))";

    #[tokio::test(flavor = "multi_thread")]
    async fn rows_are_those_of_one_sort() {
        for (nodes, windows) in [
            (1, "row_number() OVER (PARTITION BY k ORDER BY v, t)"),
            (1, "count(l) OVER (PARTITION BY k) + lag(v) OVER (PARTITION BY k ORDER BY v, t)"),
            (2, "sum(v) OVER (PARTITION BY k, l) + count(*) OVER (PARTITION BY k)"),
            (
                1,
                "sum(v) OVER (PARTITION BY k, l ORDER BY t ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) \
                 + first_value(v) OVER (PARTITION BY k, l ORDER BY v DESC, t)",
            ),
        ] {
            let of = |what: &str| format!("SELECT {what} FROM (SELECT {windows} AS w, k, v, t FROM {ROWS})");
            let sql = of("count(*), sum(w), sum(w * v), sum(w * (k % 17)), max(t)");
            let right = ran(&sql, 1 << 30, 2).await;
            let cuts = right.plan.matches("GraceWindowsExec").count();
            assert!(right.written == 0 && cuts == nodes, "{}", right.plan);
            for (partitions, megabytes) in [(1, 10), (2, 10), (5, 20)] {
                let little = ran(&sql, megabytes << 20, partitions).await;
                assert_eq!(little.rows, right.rows, "{windows} in {partitions}");
                // Once for each node, and none in a sort. One partition needs no other node.
                let nodes = little.plan.matches("GraceWindowsExec").count();
                assert_eq!(little.written, nodes * 300_000, "{windows} in {partitions}");
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_known_of_the_input_alone_is_not_needed() {
        let twice = format!("(SELECT k, coalesce(k, k) AS j, k AS i, v FROM {ROWS} WHERE v > 7)");
        for windows in ["row_number() OVER (PARTITION BY k, i ORDER BY v)", "sum(v) OVER (PARTITION BY i, j, k)"] {
            let sql = format!("SELECT count(*), sum(w) FROM (SELECT {windows} AS w FROM {twice})");
            assert_eq!(ran(&sql, 25 << 20, 2).await.rows, ran(&sql, 1 << 30, 2).await.rows, "{windows}");
        }
        let sql = format!("SELECT sum(w) FROM (SELECT count(*) OVER (PARTITION BY k, l) AS w FROM {ROWS} WHERE l = 2)");
        assert_eq!(ran(&sql, 25 << 20, 2).await.rows, ran(&sql, 1 << 30, 2).await.rows);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn few_values_are_sorted() {
        let sql = format!("SELECT sum(w) FROM (SELECT sum(v) OVER (PARTITION BY l ORDER BY t) AS w FROM {ROWS})");
        let (right, little) = (ran(&sql, 1 << 30, 1).await, ran(&sql, 15 << 20, 1).await);
        assert_eq!(little.rows, right.rows);
        assert!(little.written > 0 && little.plan.contains("GraceWindowsExec"), "{}", little.plan);
    }

    #[tokio::test]
    async fn an_order_that_somebody_relies_on_is_kept() {
        let window = format!("SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v) AS w FROM {ROWS}");
        for (sql, is_cut) in [
            (format!("{window} ORDER BY k, v"), false),
            (format!("SELECT * FROM ({window}) WHERE w < 3 ORDER BY k, v LIMIT 10"), false),
            (format!("SELECT k, array_agg(w ORDER BY v) AS a, max(v) FROM ({window}) GROUP BY k"), false),
            (format!("SELECT k, lag(w) OVER (ORDER BY k, v) FROM ({window})"), false),
            (format!("SELECT * FROM ({window}) ORDER BY v"), true),
            (format!("SELECT w, count(*) FROM ({window}) GROUP BY w"), true),
            (format!("SELECT k, lag(w) OVER (ORDER BY v, k) FROM ({window})"), true),
        ] {
            let plan = session(1 << 30, 2).sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
            let plan = shown(&plan);
            assert_eq!(plan.contains("GraceWindowsExec"), is_cut, "{sql}: {plan}");
        }
    }
}
