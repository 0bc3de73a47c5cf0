//! EXCEPT ALL and INTERSECT ALL: how often a row comes.
//!
//! DataFusion plans them as anti and semi joins, in which one copy on the right takes or keeps all
//! copies on the left (<https://github.com/apache/datafusion/issues/12956>, and 12955). SQL wants
//! `max(m - n, 0)` and `min(m, n)` copies. So the copies of a row are numbered on both sides, and
//! the number is one more key of the join. Needed for 55.2; goes when DataFusion counts copies.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::logical_plan::{Distinct, Join};
use datafusion::logical_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

/// Numbers the copies of rows below EXCEPT ALL and INTERSECT ALL.
#[derive(Debug)]
pub(crate) struct CountedCopies;

impl AnalyzerRule for CountedCopies {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let counted = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) if is_of_all(&join) => counted(join).map(Transformed::yes),
            node => Ok(Transformed::no(node)),
        });
        counted.map(|plan| plan.data)
    }

    fn name(&self) -> &str {
        "counted_copies"
    }
}

/// Before the optimizer, nothing else has joins of all columns in which NULL equals NULL. Rows
/// that are distinct have one copy.
fn is_of_all(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && join.on.len() == join.left.schema().fields().len()
        && !matches!(join.left.as_ref(), LogicalPlan::Distinct(Distinct::All(_)))
}

fn counted(mut join: Join) -> Result<LogicalPlan> {
    let columns = join.left.schema().columns();
    join.left = numbered(&join.left, "__left_copy")?;
    join.right = numbered(&join.right, "__right_copy")?;
    let copy = |name| Expr::Column(Column::new_unqualified(name));
    join.on.push((copy("__left_copy"), copy("__right_copy")));
    let Join { left, right, on, filter, join_type, join_constraint, null_equality, null_aware, .. } = join;
    let join = Join::try_new(left, right, on, filter, join_type, join_constraint, null_equality, null_aware)?;
    LogicalPlanBuilder::from(LogicalPlan::Join(join)).project(columns.into_iter().map(Expr::Column))?.build()
}

fn numbered(plan: &Arc<LogicalPlan>, name: &str) -> Result<Arc<LogicalPlan>> {
    let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let number = row_number().partition_by(columns).build()?.alias(name);
    LogicalPlanBuilder::from(Arc::clone(plan)).window([number])?.build().map(Arc::new)
}
