//! Multiples and parts of intervals, as `interval '5 minutes' * 3`. DataFusion refuses them while
//! it plans, so they become calls before it looks at their types.
//!
//! As in PostgreSQL, a part of a month is days of a month of 30, and a part of a day is time.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType};
use arrow::error::ArrowError;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, cast as cast_expr,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::calculation::{Gives, by_arrays, error, function};
use super::intervals::{KIND, is_interval, parts};
use crate::values::DAY;

/// `part op number`, for a part of an interval.
type Scale = fn(f64, f64) -> Result<f64>;

/// Plans products of an interval and a number, and an interval that is divided by a number.
#[derive(Debug)]
pub(super) struct Multiples;

impl ExprPlanner for Multiples {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = raw;
        let planned = match op {
            BinaryOperator::Multiply if scales(&left, &right, schema) => call("interval_multiplied", left, right),
            BinaryOperator::Multiply if scales(&right, &left, schema) => call("interval_multiplied", right, left),
            BinaryOperator::Divide if scales(&left, &right, schema) => call("interval_divided", left, right),
            _ => return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
        };
        Ok(PlannerResult::Planned(planned))
    }
}

/// Whether this is an interval, and that a number.
fn scales(interval: &Expr, number: &Expr, schema: &DFSchema) -> bool {
    is_of_intervals(interval, schema)
        && (matches!(number, Expr::Placeholder(_))
            || number.get_type(schema).is_ok_and(|kind| kind.is_numeric() || kind.is_null()))
}

fn is_of_intervals(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        // A product that is still one has no interval in it. Its type is not asked for: that of a
        // long product would be found anew at each of its levels.
        Expr::BinaryExpr(BinaryExpr { op, .. }) if !matches!(op, Operator::Plus | Operator::Minus) => false,
        other => other.get_type(schema).is_ok_and(|kind| is_interval(&kind)),
    }
}

fn call(name: &'static str, interval: Expr, number: Expr) -> Expr {
    let run: fn(&ScalarFunctionArgs) -> Result<ColumnarValue> = match name {
        "interval_divided" => |args| scaled(args, divided),
        _ => |args| scaled(args, |part, number| Ok(part * number)),
    };
    function(name, Gives::Always(KIND), run).call(vec![interval, cast_expr(number, DataType::Float64)])
}

fn divided(part: f64, number: f64) -> Result<f64> {
    if number == 0.0 { Err(ArrowError::DivideByZero.into()) } else { Ok(part / number) }
}

fn scaled(args: &ScalarFunctionArgs, scale: Scale) -> Result<ColumnarValue> {
    by_arrays(args, |arrays| {
        let (intervals, numbers) = (parts(&arrays[0])?, cast(&arrays[1], &DataType::Float64)?);
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>().iter();
        let answers = intervals.zip(numbers.as_primitive::<Float64Type>()).map(|pair| match pair {
            (Some(interval), Some(number)) => one(interval, number, scale).map(Some),
            _ => Ok(None),
        });
        Ok(Arc::new(answers.collect::<Result<IntervalMonthDayNanoArray>>()?) as ArrayRef)
    })
}

fn one(interval: IntervalMonthDayNano, number: f64, scale: Scale) -> Result<IntervalMonthDayNano> {
    let months = scale(f64::from(interval.months), number)?;
    let days = scale(f64::from(interval.days), number)?;
    let micros = scale(interval.nanoseconds as f64 / 1000.0, number)?;
    let of_months = to_millionths(months.fract() * 30.0);
    let day = DAY as f64;
    // What the parts of a day are together may be a day again.
    let of_days = (to_millionths((days.fract() + of_months.fract()) * (day / 1e6)) * 1e6).round_ties_even();
    let whole = days.trunc() + of_months.trunc() + (of_days / day).trunc();
    let nanos = (micros + of_days % day).round_ties_even() * 1000.0;
    Ok(IntervalMonthDayNano::new(
        within(months.trunc(), f64::from(i32::MAX))? as i32,
        within(whole, f64::from(i32::MAX))? as i32,
        within(nanos, i64::MAX as f64)? as i64,
    ))
}

/// Without what floating points add behind the sixth digit.
fn to_millionths(number: f64) -> f64 {
    (number * 1e6).round_ties_even() / 1e6
}

fn within(number: f64, most: f64) -> Result<f64> {
    // NaN is in no range.
    if number.abs() <= most { Ok(number) } else { Err(error("22008", "interval out of range")) }
}
