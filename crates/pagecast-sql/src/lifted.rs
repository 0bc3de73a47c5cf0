//! What a window is to compute of long values, computed below it.
//!
//! A window evaluates its arguments and keys for all rows of a partition at once. As columns of
//! its input they come batch by batch, and are counted as rows are.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Window};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::long::{is_long, is_of_texts};

/// Computes it in a projection.
#[derive(Debug)]
pub(crate) struct Lift;

impl OptimizerRule for Lift {
    fn name(&self) -> &str {
        "lift"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Window(window) = &plan else { return Ok(Transformed::no(plan)) };
        let mut lifted = Vec::new();
        let names = NamePreserver::new_for_projection();
        let mut functions = Vec::with_capacity(window.window_expr.len());
        for function in &window.window_expr {
            let name = names.save(function);
            let below = function.clone().transform_down(|expr| match expr {
                Expr::WindowFunction(_) => {
                    let changed = expr.map_children(|given| lift(given, window.input.schema(), &mut lifted))?;
                    Ok(Transformed::new(changed.data, changed.transformed, TreeNodeRecursion::Jump))
                }
                expr => Ok(Transformed::no(expr)),
            })?;
            functions.push(name.restore(below.data));
        }
        if lifted.is_empty() {
            return Ok(Transformed::no(plan));
        }
        let all = columns(window.input.schema());
        let below =
            LogicalPlanBuilder::new_from_arc(Arc::clone(&window.input)).project(all.into_iter().chain(lifted))?;
        let above = LogicalPlan::Window(Window::try_new(functions, Arc::new(below.build()?))?);
        LogicalPlanBuilder::new(above).project(columns(&window.schema))?.build().map(Transformed::yes)
    }
}

fn columns(schema: &DFSchema) -> Vec<Expr> {
    schema.iter().map(Expr::from).collect()
}

/// The column that stands for an argument or a key, if that is made from long values. It is lifted
/// as a whole, with the conditions in it under which a part of it is evaluated.
fn lift(expr: Expr, input: &DFSchema, lifted: &mut Vec<Expr>) -> Result<Transformed<Expr>> {
    if expr.is_volatile() || !expr.exists(|part| Ok(works_on_values(part) && has_long_column(part, input)))? {
        return Ok(Transformed::no(expr));
    }
    let named = |name: &str| Expr::Column(Column::new_unqualified(name));
    let same = lifted.iter().find_map(|before| match before {
        Expr::Alias(alias) if *alias.expr == expr => Some(named(&alias.name)),
        _ => None,
    });
    Ok(Transformed::yes(same.unwrap_or_else(|| {
        let name = format!("__lifted_{}", lifted.len());
        lifted.push(expr.alias(&name));
        named(&name)
    })))
}

fn works_on_values(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(_) | Expr::Like(_) | Expr::SimilarTo(_) | Expr::Cast(_) | Expr::TryCast(_) => true,
        Expr::BinaryExpr(BinaryExpr { op, .. }) => is_of_texts(*op),
        _ => false,
    }
}

fn has_long_column(expr: &Expr, input: &DFSchema) -> bool {
    let is_one = |expr: &Expr| matches!(expr, Expr::Column(_)) && expr.get_type(input).is_ok_and(|kind| is_long(&kind));
    expr.exists(|expr| Ok(is_one(expr))).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn windows_give_the_same_rows_over_what_was_lifted() {
        let (stock, ours) = (SessionContext::new(), SessionContext::new());
        ours.add_optimizer_rule(Arc::new(Lift));
        for (list, is_lifted) in [
            ("n, sum(length(upper(s))) OVER (PARTITION BY left(s, 1) ORDER BY n)", true),
            ("n, lag(s || 'x', 1) OVER (ORDER BY lower(s), n) AS l, count(*) FILTER (WHERE s LIKE '%1') OVER ()", true),
            ("n, rank() OVER (ORDER BY upper(s)), first_value(lower(s)) OVER (ORDER BY reverse(s) DESC) || '!'", true),
            ("n, sum(CASE WHEN n > 3 THEN CAST(s AS INT) END) OVER ()", true),
            ("n, row_number() OVER (PARTITION BY s ORDER BY abs(n), s DESC)", false),
        ] {
            let rows = "(SELECT CASE WHEN value > 3 THEN '' ELSE 'x' END || CAST(value % 7 AS VARCHAR) AS s, value AS n \
                        FROM range(20))";
            let sql = format!("SELECT {list} FROM {rows} ORDER BY n");
            let rows = async |ctx: &SessionContext| ctx.sql(&sql).await.unwrap().collect().await.unwrap();
            assert_eq!(rows(&ours).await, rows(&stock).await, "{list}");
            let plan = ours.sql(&sql).await.unwrap().into_optimized_plan().unwrap().to_string();
            assert_eq!(plan.contains("__lifted_0"), is_lifted, "{plan}");
        }
    }
}
