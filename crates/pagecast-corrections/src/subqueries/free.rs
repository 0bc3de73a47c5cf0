//! What subqueries refer to outside of themselves, and which of them DataFusion plans rightly.

use std::collections::BTreeSet;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::logical_plan::{Distinct, Subquery};
use datafusion::logical_expr::utils::{merge_schema, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

/// The subquery of an expression that is one.
pub(super) fn subquery(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::Exists(Exists { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. })
        | Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}

/// Whether an expression has a subquery.
pub(super) fn of_subqueries(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(subquery(expr).is_some())).unwrap_or(false)
}

/// The columns outside of a plan that it, or a subquery in it, refers to.
pub(super) fn of_plan(plan: &LogicalPlan) -> Result<BTreeSet<Column>> {
    let mut found = BTreeSet::new();
    plan.apply(|node| {
        for expr in node.expressions() {
            let free = of_expr(&expr)?;
            let own = merge_schema(&node.inputs());
            found.extend(free.outer);
            found.extend(free.nested.into_iter().filter(|column| !own.has_column(column)));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// What an expression refers to outside of its plan: itself, and through subqueries, whose columns
/// may also be those of its plan.
#[derive(Default)]
struct Free {
    outer: BTreeSet<Column>,
    nested: BTreeSet<Column>,
}

fn of_expr(expr: &Expr) -> Result<Free> {
    let mut free = Free::default();
    expr.apply(|expr| {
        if let Expr::OuterReferenceColumn(_, column) = expr {
            free.outer.insert(column.clone());
        }
        if let Some(subquery) = subquery(expr) {
            free.nested.extend(of_plan(&subquery.subquery)?);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(free)
}

/// The columns that an expression refers to, itself and through subqueries.
pub(super) fn references(expr: &Expr) -> Result<BTreeSet<Column>> {
    let mut columns = of_expr(expr)?.nested;
    columns.extend(expr.column_refs().into_iter().cloned());
    Ok(columns)
}

/// Whether a plan is an aggregate of all rows, which has a value for none.
pub(super) fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => plan.inputs().into_iter().all(has_one_row),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    }
}

/// Whether DataFusion may take the conditions of a correlated subquery out of it: nothing stands
/// above them that would see other rows then.
pub(super) fn is_plain(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Distinct(Distinct::All(_)) => {
            !plan.contains_outer_reference() && plan.inputs().into_iter().all(is_plain)
        }
        LogicalPlan::Filter(filter) => is_plain(&filter.input),
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            !plan.contains_outer_reference() && plan.inputs().into_iter().all(is_plain)
        }
        other => of_plan(other).is_ok_and(|free| free.is_empty()),
    }
}

/// Whether DataFusion plans a correlated scalar subquery rightly: an aggregate over all rows of
/// which columns are equal to the outer row's.
pub(super) fn is_plain_aggregate(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {
            !plan.contains_outer_reference() && plan.inputs().into_iter().all(is_plain_aggregate)
        }
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.group_expr.is_empty()
                && !plan.contains_outer_reference()
                && is_plain(&aggregate.input)
                && has_equalities_alone(&aggregate.input)
        }
        _ => false,
    }
}

fn has_equalities_alone(plan: &LogicalPlan) -> bool {
    let here = match plan {
        LogicalPlan::Filter(filter) => split_conjunction(&filter.predicate)
            .into_iter()
            .filter(|condition| condition.contains_outer())
            .all(|condition| match condition {
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                    matches!((left.as_ref(), right.as_ref()), (Expr::Column(_), other) | (other, Expr::Column(_)) if !other.any_column_refs())
                }
                _ => false,
            }),
        _ => true,
    };
    here && plan.inputs().into_iter().all(has_equalities_alone)
}
