//! Joins that go to disk where memory ends.
//!
//! A hash join of DataFusion has all rows of its left side in memory, and ends the statement where
//! they do not fit (<https://github.com/apache/datafusion/issues/1599>). A merge join sorts both
//! sides, and sorts go to disk. So [`patient`](crate::patient) has the joins of a statement that
//! found too little memory become merge joins.
//!
//! Joins that stay: on keys that a merge join does not compare, or not as SQL does (it has no order
//! for NaN, and two zeros), `NOT IN`, and outer and semi joins with a condition beside their keys:
//! with a filter of its own a merge join of 55.2 leaves out rows, reads other columns and panics
//! (<https://github.com/apache/datafusion/issues/21197> is of that kind). The condition of an inner
//! join stands above it. Merge joins that the planner chooses, by `prefer_hash_join = false`, are
//! held to the same. All of this goes when the hash join of a released DataFusion spills.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::config::ConfigOptions;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode, SortMergeJoinExec};
use datafusion::prelude::{SessionConfig, SessionContext};

/// The rule of DataFusion that chooses the sides of joins. What comes after it sorts and
/// partitions.
const AFTER: &str = "join_selection";

/// Has joins become merge joins under the options of [`all`].
pub(crate) fn install(ctx: &SessionContext) {
    let state = ctx.state_ref();
    let mut state = state.write();
    let rules = state.physical_optimizers().iter().flat_map(|rule| match rule.name() {
        AFTER => vec![Arc::clone(rule), Arc::new(MergeJoins) as _],
        _ => vec![Arc::clone(rule)],
    });
    *state = SessionStateBuilder::new_from_existing(state.clone())
        .with_session_id(state.session_id().to_owned())
        .with_physical_optimizer_rules(rules.collect())
        .build();
}

/// The options under which all joins become merge joins that may: DataFusion's own choice of them
/// takes no account of keys, and has none in one partition.
pub(crate) fn all(config: SessionConfig) -> SessionConfig {
    let mut config = config.with_repartition_joins(false);
    config.options_mut().optimizer.prefer_hash_join = false;
    config
}

#[derive(Debug)]
struct MergeJoins;

impl PhysicalOptimizerRule for MergeJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if config.optimizer.prefer_hash_join {
            return Ok(plan);
        }
        let merged = plan.transform_up(|plan| match plan.downcast_ref::<HashJoinExec>() {
            Some(join) if may_be_merged(join) => Ok(Transformed::yes(merged(join)?)),
            Some(_) => Ok(Transformed::no(plan)),
            None => match plan.downcast_ref::<SortMergeJoinExec>() {
                Some(join) => hashed(join, &plan),
                None => Ok(Transformed::no(plan)),
            },
        });
        merged.map(|merged| merged.data)
    }

    fn name(&self) -> &'static str {
        "merge_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The join as a merge join, and its filter above it.
fn merged(join: &HashJoinExec) -> Result<Arc<dyn ExecutionPlan>> {
    let (left, right, on) = (join.left(), join.right(), join.on().to_vec());
    let (options, width) = (vec![SortOptions::default(); on.len()], left.schema().fields().len());
    let (left, right, kind) = (Arc::clone(left), Arc::clone(right), *join.join_type());
    let merged = SortMergeJoinExec::try_new(left, right, on, None, kind, options, join.null_equality())?;
    let Some(filter) = join.filter() else { return Ok(Arc::new(merged)) };
    let of_rows = |part: Arc<dyn PhysicalExpr>| match part.downcast_ref::<Column>() {
        Some(column) => {
            let found = &filter.column_indices()[column.index()];
            let at = if found.side == JoinSide::Left { found.index } else { width + found.index };
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as _))
        }
        None => Ok(Transformed::no(part)),
    };
    let condition = Arc::clone(filter.expression()).transform_up(of_rows)?.data;
    Ok(Arc::new(FilterExec::try_new(condition, Arc::new(merged))?))
}

/// A merge join that the planner chose, as it does without `prefer_hash_join`; as a hash join where
/// it would give other rows.
fn hashed(join: &SortMergeJoinExec, plan: &Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let (on, kind, filter) = (join.on().to_vec(), join.join_type(), join.filter().clone());
    let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
    let mode = PartitionMode::Partitioned;
    let hashed = HashJoinExec::try_new(left, right, on, filter, &kind, None, mode, join.null_equality(), false)?;
    Ok(match hashed.filter().is_none() && may_be_merged(&hashed) {
        true => Transformed::no(Arc::clone(plan)),
        false => Transformed::yes(Arc::new(hashed)),
    })
}

/// Whether a merge join gives the same rows.
fn may_be_merged(join: &HashJoinExec) -> bool {
    let is_ordered = |kind: &DataType| {
        kind.is_integer()
            || matches!(kind, DataType::Boolean | DataType::Date32 | DataType::Date64 | DataType::Decimal128(..))
            || matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
            || matches!(kind, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
            || matches!(kind, DataType::FixedSizeBinary(_) | DataType::Timestamp(_, None))
    };
    let (left, right) = (join.left().schema(), join.right().schema());
    let are_ordered = join.on().iter().all(|(one, other)| match (one.data_type(&left), other.data_type(&right)) {
        (Ok(one), Ok(other)) => one == other && is_ordered(&one),
        _ => false,
    });
    let has_own_filter = join.filter().is_some() && *join.join_type() != JoinType::Inner;
    are_ordered && !has_own_filter && !join.null_aware && !join.contains_projection()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::displayable;
    use futures::TryStreamExt;

    use super::*;
    use crate::patient;

    /// With NULLs, and keys that come several times.
    const JOINS: [(&str, &str); 9] = [
        ("b.v", "a JOIN b ON a.k = b.k"),
        ("b.v", "a JOIN b ON a.k = b.k AND a.v < b.v"),
        ("b.v", "a JOIN b ON a.t = b.t AND a.k = b.k AND b.v + a.v < 1000"),
        ("b.v", "a LEFT JOIN b ON a.k = b.k"),
        ("b.v", "a RIGHT JOIN b ON a.k = b.k"),
        ("b.v", "a FULL JOIN b ON a.k = b.k"),
        ("b.v", "a JOIN b ON a.k IS NOT DISTINCT FROM b.k"),
        ("0", "a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)"),
        ("0", "a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)"),
    ];

    fn session(bytes: usize, partitions: usize) -> SessionContext {
        let pool = Arc::new(GreedyMemoryPool::new(bytes));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
        let config =
            SessionConfig::new().with_target_partitions(partitions).with_sort_spill_reservation_bytes(100 << 10);
        let ctx = SessionContext::new_with_config_rt(config, runtime);
        install(&ctx);
        ctx
    }

    /// Sums over a join of some rows.
    fn sums((b, join): (&str, &str), rows: usize) -> String {
        let table = |factor: usize| {
            format!(
                "SELECT CASE WHEN value % 3001 = 0 THEN NULL ELSE value * {factor} % {rows} END AS k, \
                 value * 31 % 1009 AS v, repeat('x', 20) || (value % 97)::text AS t FROM range({rows})"
            )
        };
        format!(
            "WITH a AS ({}), b AS ({}) SELECT count(*) AS n, sum(a.k) AS k, sum(a.v) AS a, sum({b}) AS b FROM {join}",
            table(1),
            table(3)
        )
    }

    async fn result(ctx: &SessionContext, sql: &str) -> Result<String> {
        let rows = patient::execute(ctx.sql(sql).await?).await?;
        let rows: Vec<_> = rows.try_collect().await?;
        Ok(pretty_format_batches(&rows)?.to_string())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn joins_of_any_kind_end_in_little_memory_with_the_same_rows() {
        for (join, partitions) in JOINS.into_iter().zip([1, 2].into_iter().cycle()) {
            let sql = sums(join, 300_000);
            let right = result(&session(1 << 30, 2), &sql).await.unwrap();
            let little = session(5 << 20, partitions);
            let stock = little.sql(&sql).await.unwrap().collect().await;
            assert!(stock.is_err(), "{join:?} fits by itself in {partitions}");
            assert_eq!(result(&little, &sql).await.unwrap(), right, "{join:?} in {partitions}");
        }
    }

    /// A session with these options.
    fn under(options: impl FnOnce(SessionConfig) -> SessionConfig) -> SessionContext {
        let mut state = session(1 << 30, 2).state();
        *state.config_mut() = options(state.config().clone());
        SessionContext::new_with_state(state)
    }

    #[tokio::test]
    async fn a_join_stays_whose_rows_a_merge_join_would_not_give() {
        let (ours, theirs) =
            (under(all), under(|config| config.set_bool("datafusion.optimizer.prefer_hash_join", false)));
        for (key, join, and, is_merged) in [
            ("bigint", "JOIN", "", true),
            ("text", "FULL JOIN", "", true),
            ("double", "JOIN", "", false),
            ("interval", "JOIN", "", false),
            ("bigint", "JOIN", "AND a.v < b.v", true),
            ("bigint", "LEFT JOIN", "AND a.v < b.v", false),
        ] {
            let rows = format!("(SELECT arrow_cast(value, 'Utf8')::{key} AS k, value % 3 AS v FROM range(9))");
            let sql = format!("SELECT * FROM {rows} AS a {join} {rows} AS b ON a.k = b.k {and}");
            for (ctx, is_merged) in [(&ours, is_merged), (&theirs, is_merged && and.is_empty())] {
                let plan = ctx.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
                let plan = displayable(plan.as_ref()).indent(false).to_string();
                assert_eq!(plan.contains("SortMergeJoin"), is_merged, "{key} {join} {and}: {plan}");
                assert_eq!(plan.contains("HashJoin"), !is_merged, "{key} {join} {and}: {plan}");
            }
        }
    }
}
