//! Rows of Arrow batches as the protocol has them: each column in the text or the binary format of
//! its PostgreSQL type.

mod binary;
mod numeric;

use anyhow::anyhow;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, DurationMicrosecondType, FieldRef, Float32Type, Float64Type,
    Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, SchemaRef, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use bytes::{BufMut, BytesMut};
use pgwire::messages::data::{FieldDescription, MESSAGE_TYPE_BYTE_DATA_ROW};

use pagecast_sql::values::{self, canonical, in_days, shown, text, written};

use super::types;

pub(super) use binary::{EPOCH_DAYS, EPOCH_MICROS};
pub(super) use numeric::read as numeric_text;
pub(super) use values::texts;

/// How values are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    Text,
    Binary,
}

impl Format {
    /// The format of column `column`, where a client names one for all, one for each, or none.
    pub(super) fn of(codes: &[i16], column: usize) -> Self {
        match codes {
            [] => Self::Text,
            [all] => Self::from(*all),
            each => each.get(column).map_or(Self::Text, |&code| Self::from(code)),
        }
    }
}

impl From<i16> for Format {
    fn from(code: i16) -> Self {
        if code == 1 { Self::Binary } else { Self::Text }
    }
}

/// What the rows of a statement look like.
pub(super) fn describe(schema: &SchemaRef, names: &[String], formats: &[i16]) -> Vec<FieldDescription> {
    let field = |(column, (field, name)): (usize, (&FieldRef, &String))| {
        let kind = types::of_arrow(field.data_type());
        let modifier = types::modifier(field.data_type());
        let format = Format::of(formats, column) as i16;
        FieldDescription::new(name.clone(), 0, 0, kind.oid(), types::size(&kind), modifier, format)
    };
    schema.fields().iter().zip(names).enumerate().map(field).collect()
}

/// Writes rows whose columns were described as those of `schema`.
#[derive(Debug)]
pub(super) struct Rows {
    columns: Vec<(DataType, Format)>,
}

impl Rows {
    pub(super) fn of(schema: &SchemaRef, formats: &[i16]) -> Self {
        let column = |(column, field): (usize, &FieldRef)| (canonical(field.data_type()), Format::of(formats, column));
        Self { columns: schema.fields().iter().enumerate().map(column).collect() }
    }

    /// The columns of `batch`, ready to be written.
    pub(super) fn prepare(&self, batch: &RecordBatch) -> anyhow::Result<Prepared> {
        let columns = self.columns.iter().zip(batch.columns());
        let columns = columns.map(|((kind, format), array)| Column::of(array, kind, *format));
        Ok(Prepared { columns: columns.collect::<anyhow::Result<_>>()? })
    }
}

pub(super) fn text_at(texts: &StringArray, row: usize) -> Option<&str> {
    texts.is_valid(row).then(|| texts.value(row))
}

/// A batch in the types in which it is written.
pub(super) struct Prepared {
    columns: Vec<Column>,
}

impl Prepared {
    /// Writes one row as a message, or nothing if it cannot be written.
    pub(super) fn write(&self, row: usize, out: &mut BytesMut) -> anyhow::Result<()> {
        let start = out.len();
        let written = self.write_at(start, row, out);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    fn write_at(&self, start: usize, row: usize, out: &mut BytesMut) -> anyhow::Result<()> {
        out.put_u8(MESSAGE_TYPE_BYTE_DATA_ROW);
        out.put_i32(0);
        self.values(row, out)?;
        let bytes = i32::try_from(out.len() - start - 1);
        let bytes = bytes.map_err(|_| anyhow!("a row of more than 2 GiB does not fit into a message"))?;
        out[start + 1..start + 5].copy_from_slice(&bytes.to_be_bytes());
        Ok(())
    }

    /// Writes how many values a row has, and each of them.
    pub(super) fn values(&self, row: usize, out: &mut BytesMut) -> anyhow::Result<()> {
        out.put_u16(u16::try_from(self.columns.len()).map_err(|_| anyhow!("a row has at most 65535 columns here"))?);
        self.columns.iter().try_for_each(|column| column.write(row, out))
    }
}

/// A column in the type in which it is written.
struct Column {
    array: ArrayRef,
    format: Format,
}

impl Column {
    fn of(array: &ArrayRef, kind: &DataType, format: Format) -> anyhow::Result<Self> {
        let array = written(array, kind)?;
        Ok(Self { array, format })
    }

    /// Writes the length of a value and the value.
    fn write(&self, row: usize, out: &mut BytesMut) -> anyhow::Result<()> {
        // A null array has no bitmap: its values are null logically.
        if self.array.is_null(row) || self.array.data_type() == &DataType::Null {
            out.put_i32(-1);
            return Ok(());
        }
        let start = out.len();
        out.put_i32(0);
        match self.format {
            Format::Text => text(&self.array, row, out)?,
            Format::Binary => binary(&self.array, row, out)?,
        }
        let bytes = i32::try_from(out.len() - start - 4);
        let bytes = bytes.map_err(|_| anyhow!("a value of more than 2 GiB does not fit into a message"))?;
        out[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
        Ok(())
    }
}

/// A value that is not null, in the binary format.
fn binary(array: &ArrayRef, row: usize, out: &mut BytesMut) -> anyhow::Result<()> {
    match array.data_type() {
        DataType::Boolean => out.put_u8(u8::from(array.as_boolean().value(row))),
        DataType::Int16 => out.put_i16(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => out.put_i32(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => out.put_i64(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => out.put_f32(array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => out.put_f64(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(_, scale) => {
            numeric::write(&array.as_primitive::<Decimal128Type>().value_as_string(row), *scale, out)?;
        }
        DataType::Decimal256(_, scale) => {
            numeric::write(&array.as_primitive::<Decimal256Type>().value_as_string(row), *scale, out)?;
        }
        DataType::Utf8View => out.put_slice(array.as_string_view().value(row).as_bytes()),
        DataType::BinaryView => out.put_slice(array.as_binary_view().value(row)),
        DataType::Date32 => binary::date(array.as_primitive::<Date32Type>().value(row), out)?,
        DataType::Time64(_) => out.put_i64(array.as_primitive::<Time64MicrosecondType>().value(row)),
        DataType::Timestamp(..) => binary::timestamp(array.as_primitive::<TimestampMicrosecondType>().value(row), out)?,
        DataType::Interval(_) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            binary::interval(value.months, value.days, value.nanoseconds / 1000, out);
        }
        DataType::Duration(_) => {
            let (days, micros) = in_days(array.as_primitive::<DurationMicrosecondType>().value(row));
            binary::interval(0, days, micros, out);
        }
        DataType::List(_) => binary::list(&array.as_list::<i32>().value(row), out)?,
        _ => out.put_slice(shown(array, row)?.as_bytes()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::array::{
        Decimal128Array, DictionaryArray, Float64Array, Int8Array, Int32Array, LargeStringArray, ListArray, UInt64Array,
    };
    use arrow::datatypes::{Field, Int32Type as Int32, Schema};

    use super::*;

    /// The first value of a column on the wire, without its length.
    fn written(array: ArrayRef, format: i16) -> Vec<u8> {
        let schema = Arc::new(Schema::new(vec![Field::new("a", array.data_type().clone(), true)]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![array]).unwrap();
        let mut out = BytesMut::new();
        Rows::of(&schema, &[format]).prepare(&batch).unwrap().write(0, &mut out).unwrap();
        assert_eq!(out[0], b'D');
        out[11..].to_vec()
    }

    fn text(array: ArrayRef) -> String {
        String::from_utf8(written(array, 0)).unwrap()
    }

    #[test]
    fn columns_are_texts() {
        assert_eq!(text(Arc::new(Int8Array::from(vec![-7]))), "-7");
        assert_eq!(text(Arc::new(UInt64Array::from(vec![u64::MAX]))), u64::MAX.to_string());
        assert_eq!(text(Arc::new(LargeStringArray::from(vec!["ä"]))), "ä");
        let words: DictionaryArray<Int32> = vec!["a", "b"].into_iter().collect();
        assert_eq!(text(Arc::new(words)), "a");
        for (number, shown) in [
            (0.0, "0"),
            (-0.5, "-0.5"),
            (100_000.0, "100000"),
            (123.456, "123.456"),
            (1e15, "1e+15"),
            (-1.5e-7, "-1.5e-07"),
            (0.0001, "0.0001"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(Arc::new(Float64Array::from(vec![number]))), shown);
        }
        let list = ListArray::from_iter_primitive::<Int32, _, _>([Some([Some(1), None, Some(3)])]);
        assert_eq!(text(Arc::new(list)), "{1,NULL,3}");
    }

    #[test]
    fn numerics_have_groups_of_four_digits() {
        let numeric = |value: i128, scale: i8| {
            let array = Decimal128Array::from(vec![value]).with_precision_and_scale(38, scale).unwrap();
            written(Arc::new(array), 1)
        };
        assert_eq!(numeric(12_340, 3), [0, 2, 0, 0, 0, 0, 0, 3, 0, 12, 0x0d, 0x48]);
        assert_eq!(numeric(-70_000, 0), [0, 1, 0, 1, 0x40, 0, 0, 0, 0, 7]);
        assert_eq!(numeric(0, 2), [0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(numeric(5, 8), [0, 1, 0xff, 0xfe, 0, 0, 0, 8, 0, 5]);
        for (value, scale) in [(123_456_789_012_345_678i128, 5), (-1, 10), (i128::pow(10, 37), 0), (10_000, 4)] {
            let array = Decimal128Array::from(vec![value]).with_precision_and_scale(38, scale).unwrap();
            let (said, sent) = (text(Arc::new(array)), numeric_text(&numeric(value, scale)).unwrap());
            let digits = |text: &str| {
                let (sign, digits) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
                let trimmed = digits.trim_start_matches('0');
                format!("{sign}{}{trimmed}", if trimmed.starts_with('.') { "0" } else { "" })
            };
            assert_eq!(digits(&sent), said);
        }
    }

    #[test]
    fn arrays_have_a_header() {
        let list = ListArray::from_iter_primitive::<Int32, _, _>([Some([Some(1), None])]);
        let mut header = vec![0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0, 1];
        header.extend([0, 0, 0, 4, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(written(Arc::new(list), 1), header);
    }

    #[test]
    fn what_does_not_fit_is_an_error_and_leaves_no_part_of_a_row() {
        let schema =
            Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Utf8, true)]));
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int32Array::from(vec![1])), Arc::new(arrow::array::StringArray::from(vec!["a\0b"]))];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        let (prepared, mut out) = (Rows::of(&schema, &[]).prepare(&batch).unwrap(), BytesMut::from(&b"before"[..]));
        assert!(prepared.write(0, &mut out).is_err());
        assert_eq!(&out[..], b"before");
    }
}
