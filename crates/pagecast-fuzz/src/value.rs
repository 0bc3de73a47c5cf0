//! Values as all engines must agree on them: two are equal whatever types they came in.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use anyhow::{Context, Result};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Float64Type, Int64Type, TimeUnit, UInt64Type, i256};
use arrow::util::display::array_value_to_string;
use serde::{Deserialize, Serialize};

/// Digits behind the point of an exact number.
const DIGITS: u32 = 18;
/// One, as an exact number.
pub(crate) const ONE: i128 = 10_i128.pow(DIGITS);
pub(crate) const DAY: i128 = 86_400 * 1_000_000_000;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// A whole number or a decimal, counted in the last of its [`DIGITS`].
    #[serde(with = "as_text")]
    Exact(i128),
    #[serde(with = "as_text")]
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// Nanoseconds since 1970 began in Greenwich, or where there is no zone. Days are moments.
    #[serde(with = "as_text")]
    Moment(i128),
    /// Nanoseconds of a day.
    #[serde(with = "as_text")]
    Time(i128),
    List(Vec<Value>),
    Struct(Vec<Value>),
    /// What is not computed with, as Arrow shows it.
    Other(String),
}

/// JSON has neither NaN nor numbers of 128 bits.
mod as_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>, T: FromStr>(deserializer: D) -> Result<T, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| D::Error::custom(format!("{text} is no number")))
    }
}

impl Value {
    pub(crate) fn whole(number: i64) -> Self {
        Self::Exact(i128::from(number) * ONE)
    }

    pub(crate) fn is_null(&self) -> bool {
        *self == Self::Null
    }

    /// As a condition; none if it is unknown.
    pub(crate) fn truth(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    pub(crate) fn of_truth(truth: Option<bool>) -> Self {
        truth.map_or(Self::Null, Self::Bool)
    }

    pub(crate) fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            // Read from its digits, because a division would round a second time.
            Self::Exact(_) => self.text().parse().ok(),
            _ => None,
        }
    }

    /// Which is the larger; none if one is NULL. NaN is equal to itself, and larger than all else.
    pub(crate) fn compare(&self, other: &Self) -> Option<Ordering> {
        Some(match (self, other) {
            (Self::Null, _) | (_, Self::Null) => return None,
            (Self::Bool(one), Self::Bool(other)) => one.cmp(other),
            (Self::Exact(one), Self::Exact(other)) => one.cmp(other),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Bytes(one), Self::Bytes(other)) => one.cmp(other),
            (Self::Moment(one), Self::Moment(other)) | (Self::Time(one), Self::Time(other)) => one.cmp(other),
            _ => match (self.as_float(), other.as_float()) {
                (Some(one), Some(other)) => {
                    one.partial_cmp(&other).unwrap_or_else(|| one.is_nan().cmp(&other.is_nan()))
                }
                _ => self.text().cmp(&other.text()),
            },
        })
    }

    /// The order of rows, in which NULL comes first.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        self.compare(other).unwrap_or_else(|| other.is_null().cmp(&self.is_null()))
    }

    /// A text that equal values share.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    pub(crate) fn write(&self, text: &mut String) {
        // A text takes what is written.
        _ = match self {
            Self::Null => write!(text, "NULL"),
            Self::Bool(value) => write!(text, "{value}"),
            Self::Exact(value) => {
                let (whole, part) =
                    (value.unsigned_abs() / ONE.unsigned_abs(), value.unsigned_abs() % ONE.unsigned_abs());
                let sign = if *value < 0 { "-" } else { "" };
                match part {
                    0 => write!(text, "{sign}{whole}"),
                    _ => write!(text, "{sign}{whole}.{}", format!("{part:018}").trim_end_matches('0')),
                }
            }
            // Engines differ in the sign of nothing.
            Self::Float(value) => write!(text, "{}", if *value == 0.0 { 0.0 } else { *value }),
            Self::Text(value) | Self::Other(value) => write!(text, "{value}"),
            Self::Bytes(value) => value.iter().try_for_each(|byte| write!(text, "{byte:02x}")),
            Self::Moment(value) | Self::Time(value) => write!(text, "{value}"),
            Self::List(values) | Self::Struct(values) => {
                text.push('[');
                for value in values {
                    value.write(text);
                    text.push(',');
                }
                write!(text, "]")
            }
        };
    }
}

/// The rows of a result, a text each.
pub(crate) fn texts(batches: &[RecordBatch]) -> Result<Vec<String>> {
    Ok(rows(batches)?.iter().map(|row| line(row)).collect())
}

/// A row as a text.
pub(crate) fn line(row: &[Value]) -> String {
    let mut text = String::new();
    for value in row {
        value.write(&mut text);
        text.push('|');
    }
    text
}

/// The rows of batches.
pub(crate) fn rows(batches: &[RecordBatch]) -> Result<Vec<Vec<Value>>> {
    let mut rows = Vec::new();
    for batch in batches {
        let first = rows.len();
        rows.resize_with(first + batch.num_rows(), || Vec::with_capacity(batch.num_columns()));
        for column in batch.columns() {
            rows[first..].iter_mut().zip(values(column)?).for_each(|(row, value)| row.push(value));
        }
    }
    Ok(rows)
}

/// The values of a column.
pub(crate) fn values(column: &ArrayRef) -> Result<Vec<Value>> {
    let of = |value: &dyn Fn(usize) -> Value| -> Vec<Value> {
        let value = |row| if column.is_null(row) { Value::Null } else { value(row) };
        (0..column.len()).map(value).collect()
    };
    let as_type = |kind: DataType| cast(column, &kind);
    Ok(match column.data_type() {
        DataType::Null => vec![Value::Null; column.len()],
        DataType::Dictionary(_, kind) => values(&as_type(kind.as_ref().clone())?)?,
        DataType::Boolean => of(&|row| Value::Bool(column.as_boolean().value(row))),
        kind if kind.is_signed_integer() => {
            let column = as_type(DataType::Int64)?;
            of(&|row| Value::whole(column.as_primitive::<Int64Type>().value(row)))
        }
        kind if kind.is_unsigned_integer() => {
            let column = as_type(DataType::UInt64)?;
            of(&|row| Value::Exact(i128::from(column.as_primitive::<UInt64Type>().value(row)) * ONE))
        }
        kind if kind.is_floating() => {
            let column = as_type(DataType::Float64)?;
            of(&|row| Value::Float(column.as_primitive::<Float64Type>().value(row)))
        }
        &(DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale)) => {
            let column = as_type(DataType::Decimal128(38, scale))?;
            of(&|row| exact(i256::from_i128(column.as_primitive::<Decimal128Type>().value(row)), scale))
        }
        &DataType::Decimal256(_, scale) => of(&|row| exact(column.as_primitive::<Decimal256Type>().value(row), scale)),
        DataType::Date32 | DataType::Date64 => {
            let column = as_type(DataType::Date64)?;
            let column = cast(&column, &DataType::Int64)?;
            of(&|row| Value::Moment(i128::from(column.as_primitive::<Int64Type>().value(row)) * 1_000_000))
        }
        &DataType::Timestamp(unit, _) => {
            let column = as_type(DataType::Int64)?;
            of(&|row| Value::Moment(i128::from(column.as_primitive::<Int64Type>().value(row)) * nanos(unit)))
        }
        &(DataType::Time32(unit) | DataType::Time64(unit)) => {
            let column = match column.data_type() {
                DataType::Time32(_) => cast(&as_type(DataType::Int32)?, &DataType::Int64)?,
                _ => as_type(DataType::Int64)?,
            };
            of(&|row| Value::Time(i128::from(column.as_primitive::<Int64Type>().value(row)) * nanos(unit)))
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let column = as_type(DataType::Utf8)?;
            of(&|row| Value::Text(column.as_string::<i32>().value(row).to_owned()))
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let column = as_type(DataType::Binary)?;
            of(&|row| Value::Bytes(column.as_binary::<i32>().value(row).to_vec()))
        }
        DataType::List(_) => {
            let of_rows = column.as_list::<i32>().iter().map(|list| list.map(|list| values(&list)).transpose());
            of_rows.map(|list| Ok(list?.map_or(Value::Null, Value::List))).collect::<Result<_>>()?
        }
        DataType::LargeList(_) => {
            let of_rows = column.as_list::<i64>().iter().map(|list| list.map(|list| values(&list)).transpose());
            of_rows.map(|list| Ok(list?.map_or(Value::Null, Value::List))).collect::<Result<_>>()?
        }
        DataType::Map(..) => {
            let of_rows = column
                .as_map()
                .iter()
                .map(|entries| entries.map(|entries| values(&(Arc::new(entries) as ArrayRef))).transpose());
            of_rows.map(|list| Ok(list?.map_or(Value::Null, Value::List))).collect::<Result<_>>()?
        }
        DataType::FixedSizeList(item, _) => values(&as_type(DataType::List(item.clone()))?)?,
        DataType::Struct(_) => {
            let fields = column.as_struct().columns().iter().map(values).collect::<Result<Vec<_>>>()?;
            of(&|row| Value::Struct(fields.iter().map(|field| field[row].clone()).collect()))
        }
        _ => {
            let shown = (0..column.len()).map(|row| array_value_to_string(column, row)).collect::<Result<Vec<_>, _>>();
            let shown = shown.context("a value that cannot be shown")?;
            of(&|row| Value::Other(shown[row].clone()))
        }
    })
}

fn nanos(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    }
}

/// A decimal; digits that no exact number of ours has make it something else.
fn exact(value: i256, scale: i8) -> Value {
    let ten = i256::from_i128(10);
    let more = i32::from(scale) - DIGITS as i32;
    let scaled = match u32::try_from(more) {
        Ok(more) => {
            let divisor = ten.wrapping_pow(more);
            (value.wrapping_rem(divisor) == i256::ZERO).then(|| value.wrapping_div(divisor))
        }
        Err(_) => value.checked_mul(ten.wrapping_pow(more.unsigned_abs())),
    };
    match scaled.and_then(i256::to_i128) {
        Some(value) => Value::Exact(value),
        None => Value::Other(format!("{value}e-{scale}")),
    }
}

/// The product of two exact numbers.
pub(crate) fn product(one: i128, other: i128) -> Option<i128> {
    let product = i256::from_i128(one).checked_mul(i256::from_i128(other))?;
    product.checked_div(i256::from_i128(ONE))?.to_i128()
}

/// How many of each row there are more in `one` than in `other`.
pub(crate) fn surplus<'a>(one: &'a [String], other: &[String]) -> BTreeMap<&'a str, i64> {
    let mut counts = BTreeMap::new();
    one.iter().for_each(|row| *counts.entry(row.as_str()).or_insert(0) += 1);
    for row in other {
        if let Some(count) = counts.get_mut(row.as_str()) {
            *count -= 1;
        }
    }
    counts.retain(|_, count| *count > 0);
    counts
}
