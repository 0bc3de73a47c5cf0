//! What operators are expected to keep until their input has ended, by what is known of it.
//!
//! Two ask: a statement whose join would have a table that is larger than all memory has joins go
//! to disk at once, and not after it has failed; and EXPLAIN shows it. What files say of themselves
//! is believed, and what a filter leaves is guessed by DataFusion. A guess that is too small is
//! found out while the statement runs, and one that is too large costs time.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNode;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

/// What a row takes in the table of a hash join or of groups, beside its values.
const OF_ROW: usize = 20;
/// What a text or a list is taken to have, where nothing is known of it.
const OF_TEXT: usize = 32;

/// Bytes that a node is expected to keep, if it keeps rows and is known to have some. The `context`
/// is one for a plan, in which joins share what they stand on.
pub(crate) fn kept(node: &dyn ExecutionPlan, context: &StatisticsContext) -> Option<usize> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return bytes(join.left().as_ref(), OF_ROW, context);
    }
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        return bytes(join.left().as_ref(), 0, context);
    }
    if let Some(join) = node.downcast_ref::<CrossJoinExec>() {
        return bytes(join.left().as_ref(), 0, context);
    }
    if let Some(sort) = node.downcast_ref::<SortExec>() {
        let (rows, of_row) = rows(sort.input().as_ref(), context)?;
        return Some(rows.min(sort.fetch().unwrap_or(usize::MAX)).saturating_mul(of_row));
    }
    // Of its groups no number is known but where DataFusion guesses one.
    let groups = node.downcast_ref::<AggregateExec>()?;
    if groups.group_expr().is_empty() { None } else { bytes(node, OF_ROW, context) }
}

/// Whether a hash join of the plan would have a table that does not fit, even by itself.
pub(crate) fn has_join_beyond(plan: &Arc<dyn ExecutionPlan>, runtime: &RuntimeEnv) -> Result<bool> {
    let Some(most) = limit(runtime) else { return Ok(false) };
    let context = StatisticsContext::new();
    let is_beyond = |node: &Arc<dyn ExecutionPlan>| kept(node.as_ref(), &context).is_some_and(|bytes| bytes > most);
    plan.exists(|node| Ok(node.is::<HashJoinExec>() && is_beyond(node)))
}

/// Bytes that operators may have.
pub(crate) fn limit(runtime: &RuntimeEnv) -> Option<usize> {
    match runtime.memory_pool.memory_limit() {
        MemoryLimit::Finite(most) => Some(most),
        MemoryLimit::Infinite | MemoryLimit::Unknown => None,
    }
}

/// Bytes of a node's rows, of which each takes so many more.
fn bytes(node: &dyn ExecutionPlan, more: usize, context: &StatisticsContext) -> Option<usize> {
    let (rows, of_row) = rows(node, context)?;
    Some(rows.saturating_mul(of_row + more))
}

/// How many rows a node gives, and how many bytes one has.
fn rows(node: &dyn ExecutionPlan, context: &StatisticsContext) -> Option<(usize, usize)> {
    let known = context.compute(node, &StatisticsArgs::new()).ok()?;
    let rows = *known.num_rows.get_value()?;
    let all = known.total_byte_size.get_value().map(|&all| all / rows.max(1));
    Some((rows, all.unwrap_or_default().max(width(&node.schema()))))
}

/// Bytes of a row of a schema, about.
fn width(schema: &Schema) -> usize {
    let of =
        |kind: &DataType| kind.primitive_width().unwrap_or(if kind.is_nested() || is_text(kind) { OF_TEXT } else { 1 });
    schema.fields().iter().map(|field| of(field.data_type())).sum()
}

fn is_text(kind: &DataType) -> bool {
    kind.is_string() || kind.is_binary()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::prelude::{SessionConfig, SessionContext};
    use futures::TryStreamExt;

    use crate::grace_join;
    use crate::patient::execute;

    /// What a session with so many bytes says of a join of two tables of 100,000 rows.
    async fn explained(bytes: usize, how: &str) -> String {
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0).build_arc().unwrap();
        let ctx = SessionContext::new_with_config_rt(SessionConfig::new(), runtime);
        pagecast_corrections::install(&ctx, |_| false).unwrap();
        grace_join::install(&ctx);
        for (table, column) in [("a", "x"), ("b", "y")] {
            let sql = format!("CREATE TABLE {table} AS SELECT value AS k, value * 3 AS {column} FROM range(100000)");
            ctx.sql(&sql).await.unwrap().collect().await.unwrap();
        }
        let sql = format!("EXPLAIN {how} SELECT a.k, x + y AS s FROM a JOIN b ON a.k = b.k ORDER BY s");
        let rows: Vec<_> = execute(ctx.sql(&sql).await.unwrap()).await.unwrap().try_collect().await.unwrap();
        pretty_format_batches(&rows).unwrap().to_string()
    }

    #[tokio::test]
    async fn a_join_that_is_expected_not_to_fit_goes_to_disk_at_once() {
        // 16 bytes of values and 20 of the table, each 100,000 times.
        let (little, much) = (explained(1 << 20, "FORMAT INDENT").await, explained(1 << 30, "FORMAT INDENT").await);
        assert!(little.contains("goes to disk where a table keeps about 3.4 MB of 1024.0 KB"), "{little}");
        assert!(!much.contains("to disk") && much.contains("keeps about 3.4 MB of 1024.0 MB"), "{much}");
        for plan in [little, much] {
            assert!(plan.lines().any(|line| line.contains("SortExec") && line.contains("keeps about")), "{plan}");
        }
    }

    #[tokio::test]
    async fn json_says_the_same() {
        let (little, much) = (explained(1 << 20, "FORMAT PGJSON").await, explained(1 << 30, "FORMAT PGJSON").await);
        assert!(little.contains("\"Table Bytes Spared\": 3600000") && little.contains("GraceJoinExec"), "{little}");
        assert!(much.contains("\"Kept Bytes\": 3600000") && much.contains("\"Most Bytes\": 1073741824"), "{much}");
    }
}
