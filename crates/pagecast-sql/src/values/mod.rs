//! Values as PostgreSQL writes and reads them: few types of Arrow, and their texts.

pub mod decimals;
mod read;
mod scalars;
mod text;
mod times;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, DurationMicrosecondType, Field, Float32Type, Float64Type,
    Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use bytes::{BufMut, BytesMut};

pub use read::{list, of_text};
pub use scalars::by_arrays;
pub(crate) use times::civil;
pub use times::{DAY, in_days};

/// The type that values are cast to before they are written. What has no PostgreSQL type stays: it
/// is written as Arrow shows it.
pub fn canonical(arrow: &DataType) -> DataType {
    match arrow {
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) => DataType::BinaryView,
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(_, zone) => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.as_ref().map(|_| Arc::from("+00:00")))
        }
        DataType::Duration(_) => DataType::Duration(TimeUnit::Microsecond),
        DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Dictionary(_, values) => canonical(values),
        DataType::RunEndEncoded(_, values) => canonical(values.data_type()),
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::FixedSizeList(element, _)
        | DataType::ListView(element)
        | DataType::LargeListView(element) => match canonical(element.data_type()) {
            // A list of lists has no name of its own: it is shown.
            DataType::List(_) => arrow.clone(),
            element => DataType::List(Arc::new(Field::new_list_field(element, true))),
        },
        other => other.clone(),
    }
}

/// A column in the type in which it is written.
///
/// # Errors
///
/// A value that this type does not have.
pub fn written(array: &ArrayRef, kind: &DataType) -> anyhow::Result<ArrayRef> {
    // Parameters are decimals with all of their digits, and so is what is made of them.
    let written = match array.data_type() == kind || decimals::are_both(array.data_type(), kind) {
        true => Arc::clone(array),
        false => cast_with_options(array, kind, &CastOptions { safe: false, ..CastOptions::default() })?,
    };
    // Files may have durations for times.
    if let Some(times) = written.as_primitive_opt::<Time64MicrosecondType>()
        && let Some(micros) = times.iter().flatten().find(|micros| !(0..=times::DAY).contains(micros))
    {
        anyhow::bail!("{micros} microseconds are no time of a day; cast the column to bigint to see them");
    }
    Ok(written)
}

/// Values as the texts that they are in the text format.
///
/// # Errors
///
/// A value that has no text.
pub fn texts(array: &ArrayRef) -> anyhow::Result<StringArray> {
    let array = written(array, &canonical(array.data_type()))?;
    let text = |row: usize| {
        // A null array has no bitmap: its values are null logically.
        if array.is_null(row) || array.data_type() == &DataType::Null {
            return Ok(None);
        }
        let mut out = BytesMut::new();
        text(&array, row, &mut out)?;
        Ok(Some(String::from_utf8(out.to_vec())?))
    };
    let texts = (0..array.len()).map(text).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(StringArray::from(texts))
}

/// A value that is not null, in the text format. Its array was [`written`].
///
/// # Errors
///
/// It has no text.
pub fn text(array: &ArrayRef, row: usize, out: &mut BytesMut) -> anyhow::Result<()> {
    match array.data_type() {
        DataType::Boolean => out.put_u8(if array.as_boolean().value(row) { b't' } else { b'f' }),
        DataType::Int16 => text::shown(array.as_primitive::<Int16Type>().value(row), out),
        DataType::Int32 => text::shown(array.as_primitive::<Int32Type>().value(row), out),
        DataType::Int64 => text::shown(array.as_primitive::<Int64Type>().value(row), out),
        DataType::Float32 => text::float4(array.as_primitive::<Float32Type>().value(row), out),
        DataType::Float64 => text::float8(array.as_primitive::<Float64Type>().value(row), out),
        DataType::Decimal128(..) => {
            text::shown(array.as_primitive::<Decimal128Type>().value_as_string(row), out);
        }
        DataType::Decimal256(..) => {
            text::shown(array.as_primitive::<Decimal256Type>().value_as_string(row), out);
        }
        DataType::Utf8View => text::plain(array.as_string_view().value(row), out)?,
        DataType::BinaryView => text::bytes(array.as_binary_view().value(row), out),
        DataType::Date32 => text::shown(times::date(array.as_primitive::<Date32Type>().value(row)), out),
        DataType::Time64(_) => text::shown(times::time(array.as_primitive::<Time64MicrosecondType>().value(row)), out),
        DataType::Timestamp(_, zone) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().value(row);
            text::shown(times::timestamp(micros, zone.is_some()), out);
        }
        DataType::Interval(_) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            text::shown(times::interval(value.months, value.days, value.nanoseconds / 1000), out);
        }
        DataType::Duration(_) => {
            let (days, micros) = times::in_days(array.as_primitive::<DurationMicrosecondType>().value(row));
            text::shown(times::interval(0, days, micros), out);
        }
        DataType::List(_) => text::list(&array.as_list::<i32>().value(row), out)?,
        _ => text::plain(&shown(array, row)?, out)?,
    }
    Ok(())
}

/// A value without a type of PostgreSQL, as Arrow shows it.
///
/// # Errors
///
/// Arrow does not show it.
pub fn shown(array: &ArrayRef, row: usize) -> anyhow::Result<String> {
    Ok(ArrayFormatter::try_new(array.as_ref(), &FormatOptions::default())?.value(row).try_to_string()?)
}
