//! Results as texts, in which equal values are equal whatever their types are.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use anyhow::{Context, Result};
use arrow::array::{Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, RecordBatch, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Field, Float64Type, Int64Type, TimeUnit};
use arrow::util::display::array_value_to_string;

/// The rows of a result, a text each.
pub(crate) fn rows(batches: &[RecordBatch]) -> Result<Vec<String>> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(plain).collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            let mut text = String::new();
            for column in &columns {
                cell(column, row, &mut text)?;
                text.push('|');
            }
            rows.push(text);
        }
    }
    Ok(rows)
}

/// The column in the widest type of its kind: numbers as they are written, moments as nanoseconds;
/// and so all that is in it.
fn plain(column: &ArrayRef) -> Result<ArrayRef> {
    let column = match column.data_type() {
        DataType::Dictionary(_, values) => cast(column, values)?,
        _ => column.clone(),
    };
    let to = match column.data_type() {
        DataType::Float16 | DataType::Float32 => DataType::Float64,
        // As whole numbers of 128 bits, which hold each moment of each unit.
        DataType::Date64 => return in_nanos(&column, TimeUnit::Millisecond),
        &DataType::Timestamp(unit, _) | &DataType::Time32(unit) | &DataType::Time64(unit) => {
            return in_nanos(&column, unit);
        }
        DataType::List(_) => return plain_lists(column.as_list::<i32>()),
        DataType::LargeList(_) => return plain_lists(column.as_list::<i64>()),
        DataType::Struct(_) => return plain_structs(column.as_struct()),
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => DataType::Binary,
        _ => return Ok(column),
    };
    Ok(cast(&column, &to)?)
}

fn plain_lists<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> Result<ArrayRef> {
    let values = plain(lists.values())?;
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
    Ok(Arc::new(GenericListArray::<O>::try_new(field, offsets, values, nulls)?))
}

fn plain_structs(structs: &StructArray) -> Result<ArrayRef> {
    let columns = structs.columns().iter().map(plain).collect::<Result<Vec<_>>>()?;
    let fields = columns.iter().map(|column| Field::new("field", column.data_type().clone(), true)).collect();
    let nulls = structs.nulls().cloned();
    Ok(Arc::new(StructArray::try_new_with_length(fields, columns, nulls, structs.len())?))
}

/// Counts of a unit as nanoseconds.
fn in_nanos(column: &ArrayRef, unit: TimeUnit) -> Result<ArrayRef> {
    let factor = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    };
    let counts = match column.data_type() {
        DataType::Time32(_) => cast(&cast(column, &DataType::Int32)?, &DataType::Int64)?,
        _ => cast(column, &DataType::Int64)?,
    };
    let nanos = counts.as_primitive::<Int64Type>().unary::<_, Decimal128Type>(|count| i128::from(count) * factor);
    Ok(Arc::new(nanos.with_precision_and_scale(38, 0)?))
}

fn cell(column: &ArrayRef, row: usize, text: &mut String) -> Result<()> {
    if column.is_null(row) {
        text.push_str("NULL");
        return Ok(());
    }
    match column.data_type() {
        DataType::Float64 => {
            let value = column.as_primitive::<Float64Type>().value(row);
            // Engines differ in the sign of nothing.
            write!(text, "{}", if value == 0.0 { 0.0 } else { value })?;
        }
        DataType::Int64 => write!(text, "{}", column.as_primitive::<Int64Type>().value(row))?,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => {
            let digits = array_value_to_string(column, row)?;
            let whole = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { &digits };
            text.push_str(if whole == "-0" { "0" } else { whole });
        }
        DataType::List(_) | DataType::LargeList(_) => {
            let values = column.as_list_opt::<i32>().map(|list| list.value(row));
            let values = values.or_else(|| column.as_list_opt::<i64>().map(|list| list.value(row)));
            let values = values.context("a list of another kind")?;
            text.push('[');
            for at in 0..values.len() {
                cell(&values, at, text)?;
                text.push(',');
            }
            text.push(']');
        }
        DataType::Struct(_) => {
            text.push('{');
            for field in column.as_struct().columns() {
                cell(field, row, text)?;
                text.push(',');
            }
            text.push('}');
        }
        _ => text.push_str(&array_value_to_string(column, row)?),
    }
    Ok(())
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
