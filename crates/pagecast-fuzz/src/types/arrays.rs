//! The values of numbers, in Arrow's types.

use std::sync::Arc;

use anyhow::{Result, bail};
use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray, Float64Array, Int64Array,
    ListArray, MapArray, StringArray, StructArray, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, TimeUnit};

use super::{Container, Kind, Many};

/// Bytes of a value that all have as many.
pub(crate) const FIXED: usize = 6;
/// Days and seconds are spread, so that keys are neither all of one day nor of one second.
const SECONDS: i64 = 977;
/// Days from one age to the next: four years.
const AGE: i64 = 1461;

impl Kind {
    /// The values of these numbers.
    pub(crate) fn array(&self, numbers: &[Option<i64>]) -> Result<ArrayRef> {
        let to = self.arrow();
        let ints = |of: &dyn Fn(i64) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter(numbers.iter().map(|number| number.map(of))))
        };
        Ok(match self {
            Self::Bool => Arc::new(BooleanArray::from_iter(numbers.iter().map(|number| number.map(|n| n & 1 == 1)))),
            Self::Int(_) | Self::UInt(_) => cast(&ints(&|n| n), &to)?,
            Self::Float { odd, .. } => {
                let values = numbers.iter().map(|number| number.map(|n| float(n, *odd)));
                cast(&(Arc::new(Float64Array::from_iter(values)) as ArrayRef), &to)?
            }
            // Hundredths, where there are any.
            &Self::Decimal { scale: 0, .. } => cast(&ints(&|n| n), &to)?,
            Self::Decimal { .. } => {
                let whole = cast(&ints(&|n| n), &DataType::Decimal128(30, 0))?;
                cast(&as_hundredths(&whole)?, &to)?
            }
            Self::Date => cast(&cast(&ints(&|n| n), &DataType::Int32)?, &to)?,
            Self::DateTime => cast(&ints(&|n| n * 86_400_000), &to)?,
            Self::Time(_) => {
                let seconds = cast(&ints(&|n| n.rem_euclid(86_400)), &DataType::Int32)?;
                cast(&cast(&seconds, &DataType::Time32(TimeUnit::Second))?, &to)?
            }
            Self::Timestamp(..) | Self::Age => {
                let seconds = cast(&ints(&|n| moment(self, n)), &DataType::Timestamp(TimeUnit::Second, None))?;
                let unit = if let Self::Timestamp(unit, _) = self { unit.arrow() } else { TimeUnit::Microsecond };
                let in_unit = cast(&seconds, &DataType::Timestamp(unit, None))?;
                // The zone says how it is shown, and not what it is.
                cast(&cast(&in_unit, &DataType::Int64)?, &to)?
            }
            Self::Text(_) | Self::Digits | Self::Uuid | Self::Enum | Self::Interval => {
                let shown = |number: i64| match self {
                    Self::Digits => number.to_string(),
                    Self::Uuid => uuid(number),
                    Self::Interval => format!("{number} months 5 days"),
                    _ => text(number),
                };
                let texts = numbers.iter().map(|number| number.map(shown));
                cast(&(Arc::new(StringArray::from_iter(texts)) as ArrayRef), &to)?
            }
            Self::Bytes(Container::Fixed) => {
                let values = numbers.iter().map(|number| number.map(bytes));
                Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, FIXED as i32)?)
            }
            Self::Bytes(_) => {
                let values: Vec<Option<Vec<u8>>> = numbers.iter().map(|number| number.map(bytes)).collect();
                let values = BinaryArray::from_iter(values.iter().map(Option::as_deref));
                cast(&(Arc::new(values) as ArrayRef), &to)?
            }
            Self::Duration(_) => cast(&ints(&|n| n * SECONDS), &to)?,
            Self::List(Many::Two, of) => {
                let inner: Vec<Option<i64>> = numbers.iter().flat_map(|&number| [number, None]).collect();
                let valid = NullBuffer::from_iter(numbers.iter().map(Option::is_some));
                let item = Arc::new(Field::new_list_field(of.arrow(), true));
                Arc::new(FixedSizeListArray::try_new(item, 2, of.array(&inner)?, Some(valid))?)
            }
            Self::List(_, of) => cast(&list(of, numbers)?, &to)?,
            Self::Map(of) => map(of, numbers)?,
            Self::Struct(of) => {
                let columns = of.iter().map(|kind| kind.array(numbers)).collect::<Result<Vec<_>>>()?;
                let valid = NullBuffer::from_iter(numbers.iter().map(Option::is_some));
                Arc::new(StructArray::try_new(fields(of), columns, Some(valid))?)
            }
        })
    }
}

pub(crate) fn fields(of: &[Kind]) -> Fields {
    of.iter().zip(["x", "y", "z"]).map(|(kind, name)| Field::new(name, kind.arrow(), true)).collect()
}

/// 1234 as 12.34.
fn as_hundredths(whole: &ArrayRef) -> Result<ArrayRef> {
    let data = whole.to_data().into_builder().data_type(DataType::Decimal128(30, 2)).build()?;
    Ok(arrow::array::make_array(data))
}

/// Lists of up to three values; some are empty, and some values in them are NULL.
fn list(of: &Kind, numbers: &[Option<i64>]) -> Result<ArrayRef> {
    let length = |number: &Option<i64>| number.map_or(0, |n| n.rem_euclid(4) as usize);
    let inner: Vec<Option<i64>> = numbers
        .iter()
        .flat_map(|number| (0..length(number)).map(|at| number.filter(|n| (n + at as i64) % 7 != 0)))
        .collect();
    let values = if inner.is_empty() { new_null_array(&of.arrow(), 0) } else { of.array(&inner)? };
    let offsets = OffsetBuffer::from_lengths(numbers.iter().map(length));
    let valid = NullBuffer::from_iter(numbers.iter().map(Option::is_some));
    let field = Arc::new(Field::new_list_field(of.arrow(), true));
    Ok(Arc::new(ListArray::try_new(field, offsets, values, Some(valid))?))
}

/// One entry each, or none.
fn map(of: &Kind, numbers: &[Option<i64>]) -> Result<ArrayRef> {
    let with_entry = |number: &Option<i64>| number.is_some_and(|n| n % 5 != 0);
    let inner: Vec<Option<i64>> = numbers.iter().copied().filter(with_entry).collect();
    let keys = StringArray::from_iter_values(inner.iter().map(|number| text(number.unwrap_or(0))));
    let DataType::Struct(parts) = entries(of).data_type().clone() else { bail!("a map of no entries") };
    let entries_array = StructArray::try_new(parts, vec![Arc::new(keys), of.array(&inner)?], None)?;
    let offsets = OffsetBuffer::from_lengths(numbers.iter().map(|number| usize::from(with_entry(number))));
    let valid = NullBuffer::from_iter(numbers.iter().map(Option::is_some));
    Ok(Arc::new(MapArray::try_new(entries(of), offsets, entries_array, Some(valid), false)?))
}

pub(crate) fn entries(of: &Kind) -> Arc<Field> {
    let parts = vec![Field::new("key", DataType::Utf8, false), Field::new("value", of.arrow(), true)];
    Arc::new(Field::new("entries", DataType::Struct(parts.into()), false))
}

/// Quarters, so that sums are exact in any order; or what floats have beside numbers.
pub(crate) fn float(number: i64, odd: bool) -> f64 {
    match number.rem_euclid(23) {
        0 if odd => f64::NAN,
        1 if odd => -0.0,
        2 if odd => f64::INFINITY,
        3 if odd => f64::NEG_INFINITY,
        4 if odd => 0.0,
        _ => number as f64 / 4.0,
    }
}

/// The seconds of a moment.
pub(crate) fn moment(kind: &Kind, number: i64) -> i64 {
    match kind {
        Kind::Age => number * AGE * 86_400 + number.rem_euclid(3) * SECONDS,
        _ => number * SECONDS,
    }
}

pub(crate) fn uuid(number: i64) -> String {
    format!("{:08x}-5cb3-41e7-907b-a6006ad3dba0", (number + 100_000) << 8)
}

pub(crate) fn hundredths(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", number.abs() / 100, number.abs() % 100)
}

/// Texts whose order is that of the numbers. Statistics may have their beginning alone, and some
/// are empty or not ASCII.
pub(crate) fn text(number: i64) -> String {
    match number {
        ..=-990 => String::new(),
        1900.. => format!("ключ {number:05}"),
        _ => format!("name of a thing {:05}", number + 10_000),
    }
}

/// Six bytes, of which the first is beyond 127 for half of them.
pub(crate) fn bytes(number: i64) -> Vec<u8> {
    let from_0 = (number + 0x0800_0000) as u64;
    (from_0 << 20).to_be_bytes()[8 - FIXED..].to_vec()
}

/// The day so many days after 1970 began.
pub(crate) fn day(days: i64) -> String {
    let days = Int64Array::from(vec![days]);
    let text = cast(&days, &DataType::Int32)
        .and_then(|days| cast(&days, &DataType::Date32))
        .and_then(|days| arrow::util::display::array_value_to_string(&days, 0));
    text.unwrap_or_default()
}

pub(crate) fn clock(seconds: i64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
