//! `a IS DISTINCT FROM b AND c` is `(a IS DISTINCT FROM b) AND c`. sqlparser 0.62 takes all that
//! follows for the right side, as if it stood in parentheses. And `(a, b) < (c, d)` compares one
//! pair after the other, so that NULL makes it NULL; DataFusion compares structs.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

use super::ast::take;

/// The expression with what binds tighter below what binds looser; `None` if it is so.
pub(super) fn bound(expr: &mut Expr) -> Option<Expr> {
    let inner = match expr {
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => right,
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => expr,
        Expr::BinaryOp { op: BinaryOperator::And, right, .. } if is_of(right, &[BinaryOperator::Or]) => right,
        _ => return None,
    };
    if !is_of(inner, &[BinaryOperator::And, BinaryOperator::Or]) {
        return None;
    }
    let mut whole = take(inner);
    let mut first = &mut whole;
    while is_of(first, &[BinaryOperator::And, BinaryOperator::Or]) {
        let Expr::BinaryOp { left, .. } = first else { break };
        first = left;
    }
    **inner = take(first);
    *first = take(expr);
    Some(whole)
}

fn is_of(expr: &Expr, ops: &[BinaryOperator]) -> bool {
    matches!(expr, Expr::BinaryOp { op, .. } if ops.contains(op))
}

/// A comparison of rows as comparisons of their parts.
pub(super) fn of_parts(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
    let (Expr::Tuple(left), Expr::Tuple(right)) = (left, right) else { return None };
    let pairs = left.iter().zip(right).filter(|_| left.len() == right.len());
    let with = |op: &BinaryOperator, one: Expr, other: Expr| {
        let both = Expr::BinaryOp { left: Box::new(one), op: op.clone(), right: Box::new(other) };
        Expr::Nested(Box::new(both))
    };
    let of = |op: &BinaryOperator, (one, other): (&Expr, &Expr)| with(op, one.clone(), other.clone());
    match op {
        Eq => pairs.map(|pair| of(&Eq, pair)).reduce(|all, next| with(&And, all, next)),
        NotEq => pairs.map(|pair| of(&NotEq, pair)).reduce(|all, next| with(&Or, all, next)),
        Lt | LtEq | Gt | GtEq => {
            let strict = if matches!(op, Lt | LtEq) { Lt } else { Gt };
            let mut pairs: Vec<_> = pairs.collect();
            let last = of(op, pairs.pop()?);
            let before = |rest, pair| with(&Or, of(&strict, pair), with(&And, of(&Eq, pair), rest));
            Some(pairs.into_iter().rev().fold(last, before))
        }
        _ => None,
    }
}
