//! Times of two units beside each other: a column of microseconds and the literal `TIME
//! '10:00:00'`, which has nanoseconds.
//!
//! DataFusion 55 finds no common type for them and refuses the comparison. A literal becomes a time
//! of the column's unit where that loses nothing, so that bounds of files still tell; else both
//! become nanoseconds. The file goes when DataFusion's coercion has the finer unit, as it has for
//! instants (<https://github.com/apache/datafusion/pull/22759>).
//!
//! A window whose frame is a range refuses to be ordered by a time; it is ordered by the time's
//! number.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, Cast, InList};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, WindowFrameUnits, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

const FINEST: DataType = DataType::Time64(TimeUnit::Nanosecond);

#[derive(Debug)]
pub(crate) struct OneUnit;

impl FunctionRewrite for OneUnit {
    fn name(&self) -> &'static str {
        "pagecast_time_units"
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema, _config: &ConfigOptions) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::Between(Between { expr, negated, low, high }) => {
                let ([expr, low, high], changed) = in_one_unit([*expr, *low, *high], schema)?;
                let (expr, low, high) = (Box::new(expr), Box::new(low), Box::new(high));
                let expr = Expr::Between(Between { expr, negated, low, high });
                if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
            }
            Expr::InList(InList { expr, list, negated }) => {
                let (mut all, changed) = in_one_unit([vec![*expr], list].concat(), schema)?;
                let expr = Expr::InList(InList { expr: Box::new(all.remove(0)), list: all, negated });
                if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
            }
            Expr::WindowFunction(mut window) if window.params.window_frame.units == WindowFrameUnits::Range => {
                let mut changed = false;
                for key in window.params.order_by.iter_mut().map(|key| &mut key.expr) {
                    let number = match key.get_type(schema) {
                        Ok(DataType::Time32(_)) => DataType::Int32,
                        Ok(DataType::Time64(_)) => DataType::Int64,
                        _ => continue,
                    };
                    *key = cast(key.clone(), number);
                    changed = true;
                }
                Transformed::new(Expr::WindowFunction(window), changed, TreeNodeRecursion::Continue)
            }
            other => Transformed::no(other),
        })
    }
}

/// Two times are compared while a statement is planned: DataFusion asks for the comparison's type
/// before any rule of its own.
impl ExprPlanner for OneUnit {
    fn plan_binary_op(&self, mut of: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        if matches!(of.op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
            ([of.left, of.right], _) = in_one_unit([of.left, of.right], schema)?;
        }
        Ok(PlannerResult::Original(of))
    }
}

/// The same, all in one unit if they are times of several.
fn in_one_unit<T: AsMut<[Expr]>>(mut exprs: T, schema: &DFSchema) -> Result<(T, bool)> {
    let all = exprs.as_mut();
    let mut kinds = Vec::with_capacity(all.len());
    for expr in all.iter() {
        match expr.get_type(schema) {
            Ok(kind @ (DataType::Time32(_) | DataType::Time64(_))) => kinds.push(kind),
            _ => return Ok((exprs, false)),
        }
    }
    if kinds.iter().all(|kind| *kind == kinds[0]) {
        return Ok((exprs, false));
    }
    let unit = all.iter().zip(&kinds).find(|(expr, _)| literal(expr).is_none()).map(|(_, kind)| kind.clone());
    let unit = unit.unwrap_or(FINEST);
    let fitted: Option<Vec<Expr>> = all
        .iter()
        .zip(&kinds)
        .map(|(expr, kind)| if *kind == unit { Some(expr.clone()) } else { fitted(expr, &unit) })
        .collect();
    let new = fitted.unwrap_or_else(|| all.iter().map(|expr| cast(expr.clone(), FINEST)).collect());
    all.iter_mut().zip(new).for_each(|(expr, new)| *expr = new);
    Ok((exprs, true))
}

/// The value of a literal, also of one that is written as a text.
fn literal(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Cast(Cast { expr, field }) => literal(expr)?.cast_to(field.data_type()).ok(),
        _ => None,
    }
}

/// A literal in this unit, if it has the same value there.
fn fitted(expr: &Expr, unit: &DataType) -> Option<Expr> {
    let value = literal(expr)?;
    let fitted = value.cast_to(unit).ok()?;
    (fitted.cast_to(&value.data_type()).ok()? == value).then_some(Expr::Literal(fitted, None))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::assert_batches_eq;
    use datafusion::prelude::SessionContext;

    #[tokio::test]
    async fn a_window_is_ordered_by_a_time() {
        let ctx = SessionContext::new();
        crate::install(&ctx, |_| false).unwrap();
        let t = "(VALUES (2, TIME '10:00:00'), (1, TIME '09:00:00'), (3, TIME '10:00:00')) AS t (id, at)";
        let sql =
            format!("SELECT id, rank() OVER (ORDER BY at) AS r, count(*) OVER (ORDER BY at) AS n FROM {t} ORDER BY id");
        let rows = ctx.sql(&sql).await.unwrap().collect().await.unwrap();
        let lines = [
            "+----+---+---+",
            "| id | r | n |",
            "+----+---+---+",
            "| 1  | 1 | 1 |",
            "| 2  | 2 | 3 |",
            "| 3  | 2 | 3 |",
            "+----+---+---+",
        ];
        assert_batches_eq!(lines, &rows);
    }
}
