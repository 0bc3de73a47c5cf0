//! Days, moments and intervals: their parts, their sums, and their zones.

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::functions::datetime::to_local_time;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, cast, lit};

use super::arithmetic;
use super::calculation::call_again;
use super::intervals;

/// Parts of a moment with the digits behind the point, and of an interval with its days.
pub(super) fn date_part(function: &ScalarFunction, part: &Expr, moment: &Expr, kind: &DataType) -> Option<Expr> {
    let Expr::Literal(ScalarValue::Utf8(Some(word)) | ScalarValue::Utf8View(Some(word)), _) = part else { return None };
    if matches!(kind, DataType::Duration(_)) {
        let again = call_again(function, vec![part.clone(), intervals::in_days(moment.clone())]);
        let in_days = DataType::Interval(IntervalUnit::MonthDayNano);
        return match again {
            Expr::ScalarFunction(function) => {
                let moment = function.args[1].clone();
                date_part(&function, part, &moment, &in_days).or(Some(Expr::ScalarFunction(function)))
            }
            other => Some(other),
        };
    }
    let micros_of = |divisor: f64| {
        let part = lit("microsecond");
        let micros = cast(call_again(function, vec![part, moment.clone()]), DataType::Float64);
        micros / lit(divisor)
    };
    match word.to_ascii_lowercase().as_str() {
        "second" | "seconds" if !matches!(kind, DataType::Date32) => Some(micros_of(1e6)),
        "millisecond" | "milliseconds" if !matches!(kind, DataType::Date32) => Some(micros_of(1e3)),
        "epoch" if matches!(kind, DataType::Timestamp(..)) => {
            let micros = DataType::Timestamp(TimeUnit::Microsecond, zone_of(kind));
            let micros = cast(cast(cast(moment.clone(), micros), DataType::Int64), DataType::Float64);
            Some(micros / lit(1e6))
        }
        _ => None,
    }
}

fn zone_of(kind: &DataType) -> Option<std::sync::Arc<str>> {
    match kind {
        DataType::Timestamp(_, Some(_)) => Some("+00:00".into()),
        _ => None,
    }
}

/// Days and intervals that are added to days. A day and an interval are a moment in PostgreSQL.
pub(super) fn of_days(left: &Expr, one: &DataType, op: Operator, right: &Expr, other: &DataType) -> Option<Expr> {
    use DataType::{Date32, Interval};
    let number = |value: &Expr| (cast(value.clone(), DataType::Int32), &DataType::Int32);
    match (one, op, other) {
        (Date32, Operator::Minus, Date32) => {
            Some(arithmetic::checked(number(left), op, number(right), &DataType::Int32))
        }
        (Date32, Operator::Plus | Operator::Minus, days) if days.is_integer() => {
            let sum = arithmetic::checked(number(left), op, number(right), &DataType::Int32);
            Some(cast(sum, Date32))
        }
        (days, Operator::Plus, Date32) if days.is_integer() => {
            let sum = arithmetic::checked(number(left), op, number(right), &DataType::Int32);
            Some(cast(sum, Date32))
        }
        (Date32, Operator::Plus | Operator::Minus, Interval(_)) => Some(moved(left, op, right, right)),
        (Interval(_), Operator::Plus, Date32) => Some(moved(right, op, left, left)),
        _ => None,
    }
}

/// A day that an interval moves, as a moment.
fn moved(day: &Expr, op: Operator, interval: &Expr, literal: &Expr) -> Expr {
    let moment = DataType::Timestamp(TimeUnit::Microsecond, None);
    let add = |left: Expr| Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(interval.clone()) });
    match is_of_days(literal) {
        // The day it moves to is exact; as a moment it is that day's midnight.
        true => cast(add(day.clone()), moment),
        false => add(cast(day.clone(), moment)),
    }
}

/// Whether an interval that the statement names has whole days.
fn is_of_days(expr: &Expr) -> bool {
    let Expr::Literal(value, _) = expr else { return false };
    match value {
        ScalarValue::IntervalMonthDayNano(Some(value)) => value.nanoseconds == 0,
        ScalarValue::IntervalDayTime(Some(value)) => value.milliseconds == 0,
        ScalarValue::IntervalYearMonth(_) => true,
        _ => false,
    }
}

pub(super) fn is_midnight(cast: &Cast) -> bool {
    matches!(cast.field.data_type(), DataType::Timestamp(_, None))
}

/// `moment AT TIME ZONE zone`, which the planner writes as a cast. What has a zone loses it, and
/// what has none gets one.
pub(super) fn at_time_zone(moment: Expr, from: &DataType, to: &DataType) -> Option<Expr> {
    match from {
        DataType::Timestamp(_, Some(_)) => {
            let there = cast(moment, to_micros(to));
            Some(cast(to_local_time().call(vec![there]), DataType::Timestamp(TimeUnit::Microsecond, None)))
        }
        DataType::Timestamp(_, None) | DataType::Date32 => {
            let here = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
            let local = cast(moment, DataType::Timestamp(TimeUnit::Microsecond, None));
            Some(cast(cast(local, to_micros(to)), here))
        }
        _ => None,
    }
}

fn to_micros(kind: &DataType) -> DataType {
    match kind {
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        other => other.clone(),
    }
}
