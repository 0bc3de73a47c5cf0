//! Arithmetic that says when a number leaves its type, and casts that round as PostgreSQL does.
//!
//! DataFusion 55.2 wraps, until <https://github.com/apache/datafusion/issues/17539> is done.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Datum, Decimal128Array, Float64Array, PrimitiveArray};
use arrow::compute::cast;
use arrow::compute::kernels::numeric;
use arrow::datatypes::{
    ArrowPrimitiveType, DECIMAL128_MAX_PRECISION, DECIMAL128_MAX_SCALE, DataType, Decimal128Type, Decimal256Type,
    DecimalType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, i256,
};
use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Expr, Operator, ScalarFunctionArgs, binary_expr, cast as cast_expr};

use super::calculation::{Gives, by_arrays, call, error};
use crate::values::canonical;

type Kernel = fn(&dyn Datum, &dyn Datum) -> std::result::Result<ArrayRef, ArrowError>;

/// PostgreSQL's name of a type of whole numbers.
fn name(kind: &DataType) -> &'static str {
    match kind {
        DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        _ => "bigint",
    }
}

fn out_of_range(kind: &DataType) -> DataFusionError {
    error("22003", format!("{} out of range", name(kind)))
}

/// A number and its type.
pub(super) type Typed<'a> = (Expr, &'a DataType);

/// A number in this type. One that has it is not cast: long sums would be twice as deep.
fn in_kind((expr, from): Typed<'_>, kind: &DataType) -> Expr {
    if from == kind { expr } else { cast_expr(expr, kind.clone()) }
}

/// Names of additions and subtractions of bigint.
pub(super) const ADD_BIGINT: &str = "add_bigint";
pub(super) const SUBTRACT_BIGINT: &str = "subtract_bigint";

/// `left op right` of whole numbers in the type `kind`. DataFusion's own sums, differences and
/// products wrap.
pub(super) fn checked(left: Typed<'_>, op: Operator, right: Typed<'_>, kind: &DataType) -> Expr {
    let (word, run): (_, fn(&ScalarFunctionArgs) -> Result<ColumnarValue>) = match op {
        Operator::Plus => ("add", |args| whole(args, numeric::add)),
        Operator::Minus => ("subtract", |args| whole(args, numeric::sub)),
        Operator::Multiply => ("multiply", |args| whole(args, numeric::mul)),
        _ => return binary_expr(in_kind(left, kind), op, in_kind(right, kind)),
    };
    let arguments = vec![in_kind(left, kind), in_kind(right, kind)];
    call(format!("{word}_{}", name(kind)), Gives::Always(kind.clone()), run, arguments)
}

fn whole(args: &ScalarFunctionArgs, kernel: Kernel) -> Result<ColumnarValue> {
    let [left, right] = args.args.as_slice() else { return Err(error("42883", "two numbers are wanted")) };
    let ran = match (left, right) {
        (ColumnarValue::Array(left), ColumnarValue::Array(right)) => kernel(left, right),
        (ColumnarValue::Array(left), ColumnarValue::Scalar(right)) => kernel(left, &right.to_scalar()?),
        (ColumnarValue::Scalar(left), ColumnarValue::Array(right)) => kernel(&left.to_scalar()?, right),
        (ColumnarValue::Scalar(left), ColumnarValue::Scalar(right)) => {
            let answer = kernel(&left.to_scalar()?, &right.to_scalar()?);
            let answer = answer.map_err(|error| plainly(error, args.return_type()))?;
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&answer, 0)?));
        }
    };
    Ok(ColumnarValue::Array(ran.map_err(|error| plainly(error, args.return_type()))?))
}

fn plainly(error: ArrowError, kind: &DataType) -> DataFusionError {
    match error {
        ArrowError::ArithmeticOverflow(_) => out_of_range(kind),
        other => other.into(),
    }
}

/// `left / right` of numbers with a floating point, where PostgreSQL divides nothing by zero.
pub(super) fn divided(left: Expr, right: Expr, kind: &DataType) -> Expr {
    let arguments = vec![cast_expr(left, kind.clone()), cast_expr(right, kind.clone())];
    let run = |args: &ScalarFunctionArgs| {
        by_arrays(args, |arrays| {
            let answer = numeric::div(&arrays[0], &arrays[1])?;
            let zero = match arrays[1].data_type() {
                DataType::Float32 => has_zero::<Float32Type>(&arrays[1], &answer),
                _ => has_zero::<Float64Type>(&arrays[1], &answer),
            };
            if zero { Err(ArrowError::DivideByZero.into()) } else { Ok(answer) }
        })
    };
    call(format!("divide_{kind}"), Gives::Always(kind.clone()), run, arguments)
}

/// Digits of a whole number or a numeric before and behind the point; those of a literal itself.
pub(super) fn digits((expr, kind): (&Expr, &DataType)) -> Option<(i16, i16)> {
    if let Expr::Literal(ScalarValue::Int64(Some(number)), _) = expr {
        return Some((number.unsigned_abs().checked_ilog10().unwrap_or(0) as i16 + 1, 0));
    }
    match kind {
        DataType::Decimal128(precision, scale) => Some((i16::from(*precision) - i16::from(*scale), i16::from(*scale))),
        DataType::Int8 | DataType::UInt8 => Some((3, 0)),
        DataType::Int16 | DataType::UInt16 => Some((5, 0)),
        DataType::Int32 | DataType::UInt32 => Some((10, 0)),
        DataType::Int64 | DataType::UInt64 => Some((20, 0)),
        _ => None,
    }
}

/// A sum, a difference or a product of numerics of so many digits. DataFusion's own may have 39, of
/// which the last is not shown.
pub(super) fn numeric(left: (Expr, (i16, i16)), op: Operator, right: (Expr, (i16, i16))) -> Expr {
    let ((left, one), (right, other)) = (left, right);
    let (digits, scale) = match op {
        Operator::Multiply => (one.0 + other.0 + 1, one.1 + other.1),
        _ => (one.0.max(other.0) + 1, one.1.max(other.1)),
    };
    // A literal is as wide as it is: with fewer digits nothing has to be looked at.
    let narrow = |expr: Expr, digits: (i16, i16)| match expr {
        Expr::Literal(ScalarValue::Int64(Some(number)), metadata) => {
            Expr::Literal(ScalarValue::Decimal128(Some(i128::from(number)), digits.0 as u8, 0), metadata)
        }
        other => other,
    };
    let answer = binary_expr(narrow(left, one), op, narrow(right, other));
    let most = i16::from(DECIMAL128_MAX_PRECISION);
    if digits + scale <= most || scale > most {
        return answer;
    }
    let kind = DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale as i8);
    let run = |args: &ScalarFunctionArgs| {
        let fits = |number: i128| Decimal128Type::is_valid_decimal_precision(number, DECIMAL128_MAX_PRECISION);
        let all = match &args.args[0] {
            ColumnarValue::Scalar(ScalarValue::Decimal128(number, ..)) => number.is_none_or(fits),
            ColumnarValue::Scalar(_) => true,
            ColumnarValue::Array(numbers) => {
                let numbers = numbers.as_primitive::<Decimal128Type>();
                numbers.values().iter().all(|&number| fits(number)) || numbers.iter().flatten().all(fits)
            }
        };
        match all {
            true => Ok(args.args[0].clone()),
            false => Err(error("22003", "numeric out of range: a number has more than 38 digits")),
        }
    };
    call("numeric", Gives::Always(kind), run, vec![answer])
}

/// Digits that a quotient of numerics has behind the point, or more.
const QUOTIENT: i8 = 16;

/// `left / right` of numerics, rounded. DataFusion's quotients have four digits more than the left
/// side, and what is behind them is cut off.
pub(super) fn numeric_divided(left: Typed<'_>, right: Typed<'_>) -> Option<Expr> {
    let (one, other) = (as_numeric(left.1)?, as_numeric(right.1)?);
    let (DataType::Decimal128(digits, scale), DataType::Decimal128(_, other_scale)) = (&one, &other) else {
        return None;
    };
    // The first digit of a part of one may stand far behind the point.
    let part = if i16::from(*digits) == i16::from(*scale) { *scale } else { 0 };
    let scale = (QUOTIENT + part).max(*scale).max(*other_scale).min(DECIMAL128_MAX_SCALE);
    let kind = DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale);
    let run =
        |args: &ScalarFunctionArgs| by_arrays(args, |arrays| quotients(&arrays[0], &arrays[1], args.return_type()));
    let arguments = vec![in_kind(left, &one), in_kind(right, &other)];
    Some(call(format!("divide_{kind}"), Gives::Always(kind.clone()), run, arguments))
}

/// The type that a whole number or a numeric is divided in.
fn as_numeric(kind: &DataType) -> Option<DataType> {
    match kind {
        DataType::Decimal128(_, scale) if *scale >= 0 => Some(kind.clone()),
        DataType::Decimal32(..) | DataType::Decimal64(..) => Some(canonical(kind)),
        kind if kind.is_integer() => Some(DataType::Decimal128(20, 0)),
        _ => None,
    }
}

fn quotients(left: &ArrayRef, right: &ArrayRef, kind: &DataType) -> Result<ArrayRef> {
    let (left, right) = (left.as_primitive::<Decimal128Type>(), right.as_primitive::<Decimal128Type>());
    let DataType::Decimal128(precision, scale) = *kind else { return Err(error("XX000", "a quotient has no scale")) };
    let shift = u32::try_from(scale - left.scale() + right.scale()).unwrap_or(0);
    let by = i256::from_i128(10).wrapping_pow(shift);
    let quotient = |left: i128, right: i128| {
        if right == 0 {
            return Err(ArrowError::DivideByZero.into());
        }
        let shifted = 10i128.checked_pow(shift).and_then(|by| left.checked_mul(by));
        let quotient = match shifted {
            Some(shifted) => {
                let (whole, rest) = (shifted.checked_div(right), shifted.checked_rem(right).unwrap_or(0));
                let up = i128::from(rest.unsigned_abs() >= right.unsigned_abs().div_ceil(2) && rest != 0);
                whole.and_then(|whole| whole.checked_add(up * shifted.signum() * right.signum()))
            }
            None => wide_quotient(i256::from_i128(left).checked_mul(by), i256::from_i128(right)),
        };
        quotient.filter(|quotient| Decimal128Type::is_valid_decimal_precision(*quotient, precision)).ok_or_else(|| {
            error("22003", format!("numeric out of range: a quotient has {precision} digits, {scale} behind the point"))
        })
    };
    let answers = left.iter().zip(right).map(|pair| match pair {
        (Some(left), Some(right)) => quotient(left, right).map(Some),
        _ => Ok(None),
    });
    let answers = answers.collect::<Result<Decimal128Array>>()?;
    Ok(Arc::new(answers.with_precision_and_scale(precision, scale)?))
}

/// A quotient of what has more than 38 digits before it is divided.
fn wide_quotient(shifted: Option<i256>, right: i256) -> Option<i128> {
    let shifted = shifted?;
    let (whole, rest) = (shifted.checked_div(right)?, shifted.checked_rem(right)?);
    let is_up = rest.wrapping_abs().checked_mul(i256::from_i128(2))? >= right.wrapping_abs();
    let away = if (shifted < i256::ZERO) == (right < i256::ZERO) { i256::ONE } else { i256::MINUS_ONE };
    (if is_up { whole.checked_add(away)? } else { whole }).to_i128()
}

/// Whether a divisor is zero where there is an answer.
fn has_zero<T: ArrowPrimitiveType>(divisors: &ArrayRef, answer: &ArrayRef) -> bool {
    let divisors = divisors.as_primitive::<T>();
    let zero = T::default_value();
    divisors.values().contains(&zero)
        && (0..answer.len()).any(|row| answer.is_valid(row) && divisors.value(row) == zero)
}

/// A number with a fraction as a whole one. PostgreSQL takes the nearest; of two that are equally
/// near a numeric goes away from zero, and the others to the even one.
pub(super) fn to_whole(expr: Expr, kind: &DataType, away: bool) -> Expr {
    let run: fn(&ScalarFunctionArgs) -> Result<ColumnarValue> = match away {
        true => |args| by_arrays(args, |arrays| rounded(&arrays[0], args.return_type(), true)),
        false => |args| by_arrays(args, |arrays| rounded(&arrays[0], args.return_type(), false)),
    };
    let how = if away { "numeric" } else { "float" };
    call(format!("{}_of_{how}", name(kind)), Gives::Always(kind.clone()), run, vec![expr])
}

fn rounded(array: &ArrayRef, kind: &DataType, away: bool) -> Result<ArrayRef> {
    match kind {
        DataType::Int16 => whole_of::<Int16Type>(array, kind, away),
        DataType::Int32 => whole_of::<Int32Type>(array, kind, away),
        _ => whole_of::<Int64Type>(array, kind, away),
    }
}

fn whole_of<T>(array: &ArrayRef, kind: &DataType, away: bool) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i128>,
{
    let fits = |number: Option<i128>| {
        number.and_then(|number| T::Native::try_from(number).ok()).ok_or_else(|| out_of_range(kind))
    };
    let answer: PrimitiveArray<T> = match array.data_type() {
        DataType::Decimal256(_, scale) => {
            let unit = i128::from(*scale);
            let numbers = array.as_primitive::<Decimal256Type>();
            numbers.try_unary::<_, T, DataFusionError>(|number| {
                // Two steps: the digits behind the point go first, and the rest may fit then.
                let unit = i256::from_i128(10).wrapping_pow(u32::try_from(unit).unwrap_or(0));
                let half = unit.wrapping_div(i256::from_i128(2));
                let half = if number < i256::ZERO { half.wrapping_neg() } else { half };
                fits(number.checked_add(half).and_then(|sum| sum.wrapping_div(unit).to_i128()))
            })?
        }
        DataType::Decimal128(_, scale) => {
            let unit = 10i128.checked_pow(u32::try_from(*scale).unwrap_or(0)).unwrap_or(i128::MAX);
            let numbers = array.as_primitive::<Decimal128Type>();
            numbers.try_unary::<_, T, DataFusionError>(|number| {
                let (quotient, rest) = (number / unit, (number % unit).unsigned_abs());
                let up = i128::from(rest >= unit.unsigned_abs().div_ceil(2) && rest > 0);
                fits(quotient.checked_add(up * number.signum()))
            })?
        }
        _ => {
            let numbers = cast(array, &DataType::Float64)?;
            let round = if away { f64::round } else { f64::round_ties_even };
            numbers.as_primitive::<Float64Type>().try_unary::<_, T, DataFusionError>(|number| {
                // Beyond this no whole number of ours is, and NaN is none at all.
                fits((number.abs() < 1e30).then(|| round(number) as i128))
            })?
        }
    };
    Ok(Arc::new(answer))
}

/// `round(x)` of a float8: of two numbers that are equally near it is the even one.
pub(super) fn to_even(expr: Expr) -> Expr {
    let run = |args: &ScalarFunctionArgs| {
        by_arrays(args, |arrays| {
            let numbers = cast(&arrays[0], &DataType::Float64)?;
            let rounded: Float64Array = numbers.as_primitive::<Float64Type>().unary(f64::round_ties_even);
            Ok(Arc::new(rounded) as ArrayRef)
        })
    };
    call("round_to_even", Gives::Always(DataType::Float64), run, vec![expr])
}

/// A number of which there is a logarithm.
pub(super) fn positive(expr: Expr) -> Expr {
    let run = |args: &ScalarFunctionArgs| {
        by_arrays(args, |arrays| {
            let numbers = cast(&arrays[0], &DataType::Float64)?;
            match numbers.as_primitive::<Float64Type>().iter().flatten().find(|number| *number <= 0.0) {
                Some(0.0) => Err(error("2201E", "cannot take logarithm of zero")),
                Some(_) => Err(error("2201E", "cannot take logarithm of a negative number")),
                None => Ok(numbers),
            }
        })
    };
    call("positive", Gives::Always(DataType::Float64), run, vec![expr])
}
