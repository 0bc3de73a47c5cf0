//! Filters above joins whose two sides have a column of one name.
//!
//! DataFusion hands a filter down from node to node and finds its columns in the next node by their
//! names. Of two columns of one name that is the first, and the filter then leaves out row groups
//! and rows by the other column: an outer join's `WHERE a.id IS NULL` by `b.id`, say
//! (<https://github.com/apache/datafusion/issues/25262>). So a filter stops above a node in which
//! a name of it is not the only one.
//!
//! A filter by a key of a semi join goes to the side that gives no rows, too, for its key is the
//! same there; but it goes by the name. So it stops above that side, unless the key has that name
//! there as well. The rule and this file go when DataFusion finds columns by place.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{JoinType, Result};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::HashJoinExec;

use crate::around::Around;
use crate::fence::Fence;

/// The rules of a session, of which those that hand filters down keep columns of one name apart.
pub fn apart(
    rules: &[Arc<dyn PhysicalOptimizerRule + Send + Sync>],
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let apart = |rule: &Arc<dyn PhysicalOptimizerRule + Send + Sync>| match rule.name().starts_with("FilterPushdown") {
        true => Around::new(rule, keep_apart) as _,
        false => Arc::clone(rule),
    };
    rules.iter().map(apart).collect()
}

/// The rule of DataFusion that hands filters down, kept from what it would confuse.
fn keep_apart(
    rule: &dyn PhysicalOptimizerRule,
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    Fence::while_filters_go_down(rule, plan, config, fenced)
}

/// The node, above which stop filters that name what is not one column's name alone.
fn fenced(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let apart = with_keys_apart(Arc::clone(&node))?;
    let is_apart = !Arc::ptr_eq(&apart, &node);
    let alone = alone(&node.schema());
    Ok(match alone.len() == node.schema().fields().len() {
        true => Transformed::new(apart, is_apart, TreeNodeRecursion::Continue),
        false => Transformed::yes(Arc::new(Fence::of_filters(apart, alone))),
    })
}

/// The node; if it is a semi join, its other side takes no filter by a name of one of its keys
/// that is another column there.
fn with_keys_apart(node: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(node) };
    let is_left = match join.join_type() {
        JoinType::LeftSemi => true,
        JoinType::RightSemi => false,
        _ => return Ok(node),
    };
    let (mut sides, other) = ([Arc::clone(join.left()), Arc::clone(join.right())], usize::from(is_left));
    let schema = sides[other].schema();
    let mut let_through: HashSet<usize> = (0..schema.fields().len()).collect();
    for (left, right) in join.on() {
        let (of_rows, of_other) = if is_left { (left, right) } else { (right, left) };
        let Some(key) = of_rows.downcast_ref::<Column>() else { continue };
        let same = of_other.downcast_ref::<Column>().map(Column::index);
        let_through.retain(|&at| schema.field(at).name() != key.name() || same == Some(at));
    }
    if let_through.len() == schema.fields().len() {
        return Ok(node);
    }
    sides[other] = Arc::new(Fence::of_filters(Arc::clone(&sides[other]), let_through));
    replace_children_if_necessary(node, sides.into())
}

/// The columns whose name no other column has.
fn alone(schema: &Schema) -> HashSet<usize> {
    let mut places = HashMap::<&str, Vec<usize>>::new();
    for (place, field) in schema.fields().iter().enumerate() {
        places.entry(field.name()).or_default().push(place);
    }
    places.into_values().filter(|places| places.len() == 1).flatten().collect()
}
