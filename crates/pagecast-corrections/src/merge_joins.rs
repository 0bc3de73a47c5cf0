//! Joins that go to disk where memory ends.
//!
//! A hash join of DataFusion has all rows of its left side in memory, and ends the statement where
//! they do not fit (<https://github.com/apache/datafusion/issues/1599>). A merge join sorts both
//! sides, and sorts go to disk. So whoever found too little memory has joins become merge
//! joins, by [`all`].
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
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, JoinOnRef, PartitionMode, SortMergeJoinExec};
use datafusion::prelude::SessionConfig;

/// The rule of DataFusion that chooses the sides of joins. What comes after it sorts and
/// partitions.
pub(crate) const OVER: &str = "join_selection";

/// The options under which all joins become merge joins that may: DataFusion's own choice of them
/// takes no account of keys, and has none in one partition.
pub fn all(config: SessionConfig) -> SessionConfig {
    let mut config = config.with_repartition_joins(false);
    config.options_mut().optimizer.prefer_hash_join = false;
    config
}

/// That rule; and where no hash joins are preferred, each join is of the kind that gives its rows.
pub(crate) fn optimize(
    rule: &dyn PhysicalOptimizerRule,
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = rule.optimize(plan, config)?;
    match config.optimizer.prefer_hash_join {
        true => Ok(plan),
        false => plan.transform_up(of_its_kind).map(|plan| plan.data),
    }
}

fn of_its_kind(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let is_bare = join.filter().is_none() || *join.join_type() == JoinType::Inner;
        let is_plain = is_bare && !join.null_aware && !join.contains_projection();
        if is_plain && are_ordered(join.on(), join.left(), join.right()) {
            return merged(join).map(Transformed::yes);
        }
    } else if let Some(join) = node.downcast_ref::<SortMergeJoinExec>()
        && (join.filter().is_some() || !are_ordered(join.on(), join.left(), join.right()))
    {
        return hashed(join).map(Transformed::yes);
    }
    Ok(Transformed::no(node))
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

fn hashed(join: &SortMergeJoinExec) -> Result<Arc<dyn ExecutionPlan>> {
    let (on, kind, filter) = (join.on().to_vec(), join.join_type(), join.filter().clone());
    let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
    let mode = PartitionMode::Partitioned;
    let hashed = HashJoinExec::try_new(left, right, on, filter, &kind, None, mode, join.null_equality(), false)?;
    Ok(Arc::new(hashed))
}

/// Whether a merge join compares the keys, as SQL does.
fn are_ordered(on: JoinOnRef, left: &Arc<dyn ExecutionPlan>, right: &Arc<dyn ExecutionPlan>) -> bool {
    let is_ordered = |kind: &DataType| {
        kind.is_integer()
            || matches!(kind, DataType::Boolean | DataType::Date32 | DataType::Date64 | DataType::Decimal128(..))
            || matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
            || matches!(kind, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
            || matches!(kind, DataType::FixedSizeBinary(_) | DataType::Timestamp(_, None))
    };
    let (left, right) = (left.schema(), right.schema());
    on.iter().all(|(one, other)| match (one.data_type(&left), other.data_type(&right)) {
        (Ok(one), Ok(other)) => one == other && is_ordered(&one),
        _ => false,
    })
}
