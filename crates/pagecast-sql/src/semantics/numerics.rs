//! Numerics: sums of literals, texts, and the averages that are floating points here. Those round
//! the other way where two numbers are equally near.

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, lit};

use super::calculation::{Gives, by_arrays, call, refused};
use crate::values::decimals;

/// What an expression is looked up in: the plans below it, and the columns that they give.
pub(super) struct Below<'a> {
    pub(super) inputs: &'a [&'a LogicalPlan],
    pub(super) schema: &'a DFSchema,
}

/// Whether PostgreSQL has a numeric where we have a floating point: an average of whole numbers.
pub(super) fn is_numeric(expr: &Expr, below: &Below<'_>) -> bool {
    match expr {
        Expr::Negative(inner) => is_numeric(inner, below),
        Expr::Alias(alias) => is_numeric(&alias.expr, below),
        Expr::AggregateFunction(function) => {
            let first = function.params.args.first();
            function.func.name() == "avg" && first.is_some_and(|first| is_whole(first, below))
        }
        Expr::Column(column) => below
            .inputs
            .iter()
            .any(|input| input.schema().maybe_index_of_column(column).is_some_and(|at| column_is_numeric(input, at))),
        _ => false,
    }
}

/// The text of a number that has at most ten digits behind the point, as a numeric has here that
/// says nothing of them.
pub(super) fn in_ten_digits(text: Expr) -> Expr {
    let run = |args: &ScalarFunctionArgs| {
        by_arrays(args, |arrays| {
            let texts = cast(&arrays[0], &DataType::Utf8)?;
            match texts.as_string::<i32>().iter().flatten().find(|text| decimals::behind_the_point(text) > 10) {
                Some(text) => Err(refused(format!(
                    "numeric keeps ten digits behind the point here, and {text} has more; write numeric(38, 20)"
                ))),
                None => Ok(texts),
            }
        })
    };
    call("in_ten_digits", Gives::Always(DataType::Utf8), run, vec![text])
}

/// `0.1 + 0.2` of literals, so that a long sum of them is no deep plan.
pub(super) fn folded(left: &Expr, op: Operator, right: &Expr) -> Option<Expr> {
    if let (Expr::Literal(ScalarValue::Int64(Some(one)), _), Expr::Literal(ScalarValue::Int64(Some(other)), _)) =
        (left, right)
    {
        let whole = match op {
            Operator::Plus => one.checked_add(*other),
            Operator::Minus => one.checked_sub(*other),
            Operator::Multiply => one.checked_mul(*other),
            _ => None,
        };
        // What does not fit is an error once the statement runs.
        return whole.map(lit);
    }
    let ((one, one_scale), (other, other_scale)) = (digits(left)?, digits(right)?);
    let scale = one_scale.max(other_scale);
    let aligned = |number: i128, of: u32| number.checked_mul(10i128.checked_pow(scale - of)?);
    let (number, scale) = match op {
        Operator::Plus => (aligned(one, one_scale)?.checked_add(aligned(other, other_scale)?)?, scale),
        Operator::Minus => (aligned(one, one_scale)?.checked_sub(aligned(other, other_scale)?)?, scale),
        Operator::Multiply => (one.checked_mul(other)?, one_scale + other_scale),
        _ => return None,
    };
    Some(Expr::Literal(literal(number, scale)?, None))
}

/// A decimal with so many digits behind the point, in the narrowest type.
fn literal(number: i128, scale: u32) -> Option<ScalarValue> {
    let digits = number.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
    let precision = u8::try_from(digits.max(scale)).ok().filter(|&digits| digits <= DECIMAL128_MAX_PRECISION)?;
    Some(ScalarValue::Decimal128(Some(number), precision, i8::try_from(scale).ok()?))
}

/// The digits of a literal, and how many of them are behind the point.
fn digits(expr: &Expr) -> Option<(i128, u32)> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(number)), _) => Some((i128::from(*number), 0)),
        Expr::Literal(ScalarValue::Decimal128(Some(number), _, scale), _) => {
            Some((*number, u32::try_from(*scale).ok()?))
        }
        _ => None,
    }
}

/// A whole number, or a decimal, which PostgreSQL has too.
fn is_whole(expr: &Expr, below: &Below<'_>) -> bool {
    expr.get_type(below.schema).is_ok_and(|kind| kind.is_integer() || kind.is_decimal())
}

/// The same for a column of a plan.
fn column_is_numeric(plan: &LogicalPlan, at: usize) -> bool {
    let below = |inputs: &[&LogicalPlan], expr: Option<&Expr>| {
        let schema = inputs.first().map(|input| input.schema().as_ref());
        expr.zip(schema).is_some_and(|(expr, schema)| is_numeric(expr, &Below { inputs, schema }))
    };
    match plan {
        LogicalPlan::Projection(projection) => below(&[&projection.input], projection.expr.get(at)),
        LogicalPlan::Aggregate(aggregate) => {
            let all: Vec<&Expr> = aggregate.group_expr.iter().chain(&aggregate.aggr_expr).collect();
            let is_plain = !matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)]);
            is_plain && below(&[&aggregate.input], all.get(at).copied())
        }
        LogicalPlan::SubqueryAlias(alias) => column_is_numeric(&alias.input, at),
        LogicalPlan::Filter(filter) => column_is_numeric(&filter.input, at),
        LogicalPlan::Sort(sort) => column_is_numeric(&sort.input, at),
        LogicalPlan::Limit(limit) => column_is_numeric(&limit.input, at),
        LogicalPlan::Window(window) if at < window.input.schema().fields().len() => {
            column_is_numeric(&window.input, at)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn literals_are_added_digit_by_digit() {
        let of = |one: Expr, op, other: Expr| folded(&one, op, &other);
        let decimal = |number, scale| Expr::Literal(literal(number, scale).unwrap(), None);
        assert_eq!(of(decimal(1, 1), Operator::Plus, decimal(2, 1)), Some(decimal(3, 1)));
        assert_eq!(of(decimal(6, 2), Operator::Minus, decimal(1, 2)), Some(decimal(5, 2)));
        assert_eq!(of(lit(3i64), Operator::Multiply, decimal(11, 1)), Some(decimal(33, 1)));
        assert_eq!(of(lit(1i64), Operator::Plus, lit(1i64)), Some(lit(2i64)));
        assert_eq!(of(lit(i64::MAX), Operator::Plus, lit(1i64)), None);
        assert_eq!(of(decimal(i128::pow(10, 37), 0), Operator::Multiply, decimal(25, 1)), None);
    }
}
