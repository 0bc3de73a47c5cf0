//! `y <> 0 AND 10 / y > 2` divides nothing by zero.
//!
//! DataFusion evaluates both sides of AND and OR on all rows, unless few are left by the first; it
//! makes ANDs of a CASE of truth values; and where it pushes one filter into another, the outer one
//! comes first. So what may fail runs on rows that a condition beside it keeps away. `sum(10 / y)
//! FILTER (WHERE y <> 0)` divides before it filters.
//!
//! Here a condition that may fail becomes a CASE of those beside it that cannot. It holds them
//! itself, and may be pushed to wherever its columns are. SQL promises no order, but PostgreSQL
//! keeps to that of the statement, so that nobody there meets such an error.
//!
//! <https://github.com/apache/datafusion/issues/8927>, and for windows
//! <https://github.com/apache/datafusion/issues/24507>. Needed for DataFusion 55.2. It may go when
//! `BinaryExpr` evaluates the right side of AND and OR on the rows alone that its left side leaves
//! open, no rule changes their order, and aggregates and windows filter first.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, WriteOp, binary_expr, cast, lit,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Functions that refuse some values of the types that they take: DataFusion's, and a [hidden
/// cast](crate::casts).
const REFUSES: [&str; 10] =
    ["arrow_cast", "cast", "chr", "decode", "factorial", "make_date", "make_time", "substr", "to_date", "to_timestamp"];

/// Conditions that guard each other, one in the other.
const DEEPEST: usize = 16;

/// Puts what may fail behind what keeps rows away from it. Comes last of the optimizer's rules.
#[derive(Debug)]
pub(crate) struct Guards {
    fails: fn(&ScalarUDF) -> bool,
}

impl Guards {
    /// `fails` knows the functions that may fail beside DataFusion's own.
    pub(crate) fn new(fails: fn(&ScalarUDF) -> bool) -> Self {
        Self { fails }
    }
}

impl OptimizerRule for Guards {
    fn name(&self) -> &str {
        "guards"
    }

    /// A DELETE and an UPDATE hand their conditions on as they are.
    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Dml(change) if !matches!(change.op, WriteOp::Insert(_)) => Ok(Transformed::no(plan)),
            _ => plan.transform_up_with_subqueries(|plan| self.guarded(plan)),
        }
    }
}

impl Guards {
    fn guarded(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let plan = match plan {
            LogicalPlan::TableScan(mut scan) if !scan.filters.is_empty() => {
                let table = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
                let guard = Guard { fails: self.fails, schema: &table };
                let parts = std::mem::take(&mut scan.filters);
                let guarded = guard.joined(Operator::And, parts)?;
                scan.filters = guarded.data;
                let plan = LogicalPlan::TableScan(scan);
                return Ok(if guarded.transformed { Transformed::yes(plan) } else { Transformed::no(plan) });
            }
            other => other,
        };
        let schema = merge_schema(&plan.inputs());
        let guard = Guard { fails: self.fails, schema: &schema };
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(guard.over(expr)?.update_data(|expr| name.restore(expr)))
        })
    }
}

struct Guard<'a> {
    fails: fn(&ScalarUDF) -> bool,
    schema: &'a DFSchema,
}

impl Guard<'_> {
    /// An expression in which what may fail is guarded.
    fn over(&self, expr: Expr) -> Result<Transformed<Expr>> {
        expr.transform_down(|expr| {
            Ok(match expr {
                Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
                    let mut parts = Vec::new();
                    split(*left, op, &mut parts);
                    split(*right, op, &mut parts);
                    let joined = self.joined(op, parts)?;
                    let all = joined.data.into_iter().reduce(|left, right| binary_expr(left, op, right));
                    let all = all.unwrap_or_else(|| lit(op == Operator::And));
                    Transformed::new(all, joined.transformed, TreeNodeRecursion::Jump)
                }
                Expr::Case(case) if is_guarded(&case) => {
                    Transformed::new(Expr::Case(case), false, TreeNodeRecursion::Jump)
                }
                Expr::AggregateFunction(mut function) => {
                    let params = &mut function.params;
                    let changed = self.filtered(params.filter.as_deref(), &mut params.args);
                    let function = Expr::AggregateFunction(function);
                    if changed { Transformed::yes(function) } else { Transformed::no(function) }
                }
                Expr::WindowFunction(mut function) => {
                    let params = &mut function.params;
                    let changed = self.filtered(params.filter.as_deref(), &mut params.args);
                    let function = Expr::WindowFunction(function);
                    if changed { Transformed::yes(function) } else { Transformed::no(function) }
                }
                other => Transformed::no(other),
            })
        })
    }

    /// The parts of an AND or an OR: those that cannot fail, and what may fail behind them.
    fn joined(&self, op: Operator, parts: Vec<Expr>) -> Result<Transformed<Vec<Expr>>> {
        let mut changed = false;
        let mut each = Vec::with_capacity(parts.len());
        for part in parts {
            let part = self.over(part)?;
            changed |= part.transformed;
            each.push(part.data);
        }
        let (risky, safe): (Vec<_>, Vec<_>) = each.iter().partition(|part| self.may_fail(part));
        // What is asked twice has one answer.
        let again = |part: &&&Expr| !part.is_volatile() && !has_subquery(part);
        let guard =
            safe.iter().filter(again).map(|part| (*part).clone()).reduce(|one, more| binary_expr(one, op, more));
        let chained = chained(op, &risky);
        if risky.is_empty() || (guard.is_none() && chained.len() == risky.len()) {
            return Ok(Transformed::new(each, changed, TreeNodeRecursion::Continue));
        }
        let mut joined: Vec<Expr> = safe.into_iter().cloned().collect();
        joined.extend(match guard {
            Some(guard) => {
                let rest = chained.into_iter().reduce(|one, more| binary_expr(one, op, more));
                rest.map(|rest| only_where(guard, op, rest)).into_iter().collect()
            }
            None => chained,
        });
        Ok(Transformed::yes(joined))
    }

    /// Has the arguments of an aggregate computed for rows alone that its filter keeps.
    fn filtered(&self, filter: Option<&Expr>, arguments: &mut [Expr]) -> bool {
        let Some(filter) = filter else { return false };
        let mut changed = false;
        for argument in arguments {
            if self.may_fail(argument) && !matches!(argument, Expr::Case(_)) {
                let kept = (Box::new(filter.clone()), Box::new(std::mem::take(argument)));
                *argument = Expr::Case(Case { expr: None, when_then_expr: vec![kept], else_expr: None });
                changed = true;
            }
        }
        changed
    }

    /// Whether there may be an error in an expression for some rows. What is behind a condition of
    /// its own is guarded by that. Constants fail at once, or never.
    fn may_fail(&self, expr: &Expr) -> bool {
        let mut found = false;
        _ = expr.apply(|expr| {
            Ok(match expr {
                Expr::Case(case) => {
                    let first = case.when_then_expr.first().map(|(when, _)| &**when);
                    found |= case.expr.as_deref().into_iter().chain(first).any(|expr| self.may_fail(expr));
                    TreeNodeRecursion::Jump
                }
                expr if self.fails_itself(expr) => {
                    found = true;
                    TreeNodeRecursion::Stop
                }
                _ => TreeNodeRecursion::Continue,
            })
        });
        found
    }

    fn fails_itself(&self, expr: &Expr) -> bool {
        let is_constant = |expr: &Expr| !expr.any_column_refs();
        match expr {
            Expr::BinaryExpr(BinaryExpr { right, op: Operator::Divide | Operator::Modulo, .. }) => {
                !is_constant(right) || matches!(&**right, Expr::Literal(value, _) if is_zero(value))
            }
            Expr::Cast(cast) => {
                let from = cast.expr.get_type(self.schema);
                !is_constant(&cast.expr) && from.is_ok_and(|from| may_not_fit(&from, cast.field.data_type()))
            }
            Expr::ScalarFunction(function) => {
                let fails = (self.fails)(&function.func) || REFUSES.contains(&function.name());
                let varies = if function.name() == "substr" { &function.args[1..] } else { &function.args[..] };
                fails && !varies.iter().all(is_constant)
            }
            _ => false,
        }
    }
}

fn is_zero(value: &ScalarValue) -> bool {
    ScalarValue::new_zero(&value.data_type()).is_ok_and(|zero| zero == *value)
}

/// Whether a cast has values that it refuses.
fn may_not_fit(from: &DataType, to: &DataType) -> bool {
    let is_text = |kind: &DataType| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let bytes = |kind: &DataType| kind.primitive_width().unwrap_or(0);
    match (from, to) {
        (from, to) if is_text(from) => !is_text(to) && !matches!(to, DataType::Dictionary(..)),
        (from, to) if from.is_numeric() && to.is_integer() => !from.is_integer() || bytes(to) < bytes(from),
        _ => false,
    }
}

fn split(expr: Expr, op: Operator, parts: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: of, right }) if of == op => {
            split(*left, op, parts);
            split(*right, op, parts);
        }
        other => parts.push(other),
    }
}

fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_));
    expr.exists(|expr| Ok(is_one(expr))).unwrap_or(true)
}

/// Parts of which each may fail, where one guards the next if they have a column in common.
fn chained(op: Operator, parts: &[&Expr]) -> Vec<Expr> {
    let mut chained: Vec<Expr> = Vec::new();
    for (number, part) in parts.iter().enumerate().rev() {
        let columns = part.column_refs();
        let meets = |later: &Expr| later.column_refs().iter().any(|column| columns.contains(column));
        let guards = number + DEEPEST > parts.len() && !part.is_volatile() && !has_subquery(part);
        let (met, others): (Vec<_>, Vec<_>) = chained.into_iter().partition(|later| guards && meets(later));
        let met = met.into_iter().reduce(|one, more| binary_expr(one, op, more));
        let part = match met {
            Some(met) => only_where((*part).clone(), op, binary_expr((*part).clone(), op, met)),
            None => (*part).clone(),
        };
        chained = std::iter::once(part).chain(others).collect();
    }
    chained
}

/// The right side of an AND or an OR, which is not evaluated where its left side decides. A CASE of
/// truth values would become an AND again.
fn only_where(left: Expr, op: Operator, right: Expr) -> Expr {
    let (open, decided) = match op {
        Operator::And => (left.is_not_false(), 0i8),
        _ => (left.is_not_true(), 1),
    };
    let right = (Box::new(open), Box::new(cast(right, DataType::Int8)));
    let case = Case { expr: None, when_then_expr: vec![right], else_expr: Some(Box::new(lit(decided))) };
    Expr::Case(case).not_eq(lit(0i8))
}

/// Whether a CASE is one of ours.
fn is_guarded(case: &Case) -> bool {
    let then = |then: &Expr| matches!(then, Expr::Cast(cast) if cast.field.data_type() == &DataType::Int8);
    let decided = |expr: &Expr| matches!(expr, Expr::Literal(ScalarValue::Int8(Some(0 | 1)), _));
    matches!(case.when_then_expr.as_slice(), [(_, only)] if then(only))
        && case.else_expr.as_deref().is_some_and(decided)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;

    async fn count(sql: &str) -> Result<usize> {
        let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
        ctx.add_optimizer_rule(Arc::new(Guards::new(|_| false)));
        let rows = "CREATE TABLE t AS SELECT value AS x, value % 3 AS y, CASE WHEN value % 5 > 0 THEN value % 5 END AS n, \
                    CASE WHEN value % 2 = 0 THEN 'x' ELSE '7' END AS s FROM generate_series(0, 99)";
        ctx.sql(rows).await?.collect().await?;
        let batches = ctx.sql(sql).await?.collect().await?;
        Ok(batches.iter().map(|batch| batch.num_rows()).sum())
    }

    #[tokio::test]
    async fn what_may_fail_runs_where_it_is_asked_for() {
        for (sql, rows) in [
            ("SELECT x FROM t WHERE y <> 0 AND 10 / y > 5", 33),
            ("SELECT x FROM t WHERE y = 0 OR 10 / y > 5", 67),
            ("SELECT x FROM t WHERE NOT (y = 0 OR 10 / y <= 5)", 33),
            ("SELECT x FROM t WHERE 10 / y > 5 AND y <> 0", 33),
            ("SELECT x FROM t WHERE CASE WHEN y <> 0 THEN 10 / y > 5 ELSE false END", 33),
            ("SELECT x FROM (SELECT x, 10 / y AS z FROM t WHERE y <> 0) WHERE z > 5", 33),
            ("SELECT x FROM t WHERE s <> 'x' AND s::int > 6", 50),
            ("SELECT x FROM t WHERE y <> 0 AND 10 % y = 0 AND 20 / y > 10 AND x > 50", 16),
            ("SELECT x FROM t WHERE y <> 0 AND 10 / y > 5 AND 1 / (10 / y - 5) > 0", 0),
            ("SELECT x FROM t WHERE x % (y + 1) <> 0 AND 10 / (x % (y + 1)) > 0", 50),
            ("SELECT y <> 0 AND 10 / y > 5 FROM t", 100),
            // Unknown AND false is false.
            ("SELECT x FROM t WHERE NOT (n > 0 AND y <> 0 AND 10 / y > 100)", 100),
            ("SELECT x FROM t WHERE (n > 0 AND y <> 0 AND 10 / y > 0) IS NULL", 13),
            ("SELECT sum(10 / y) FILTER (WHERE y <> 0) FROM t", 1),
            ("SELECT sum(10 / y) FILTER (WHERE y <> 0) OVER (ORDER BY x) FROM t", 100),
            ("SELECT y FROM t GROUP BY y HAVING y <> 0 AND count(*) / y > 20", 1),
            ("SELECT a.x FROM t a JOIN t b ON a.x = b.x AND b.y <> 0 AND 10 / b.y > 5", 33),
        ] {
            assert_eq!(count(sql).await.map_err(|error| error.to_string()), Ok(rows), "{sql}");
        }
        assert!(count("SELECT x FROM t WHERE 10 / y > 5").await.is_err());
    }
}
