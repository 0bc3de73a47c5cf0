//! Files of one table whose columns grew: the one rule of which type holds the values of two.
//!
//! arrow-rs merges schemas only if the types of a column are the same
//! (<https://github.com/apache/arrow-rs/issues/3114>, open in 59), so that DataFusion refuses a
//! folder in which an `int32` became an `int64`. The file goes when that merges as DuckDB's
//! `union_by_name` does, whose types these are: numbers become the type that holds both, decimals
//! keep all digits, times take the finer unit, texts beside dates stay refused. Of columns with a
//! zone beside columns without one, the table has instants, and what has no zone is UTC.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use datafusion::common::{Result, plan_err};

use crate::uuid;

const UTC: &str = "UTC";

/// The type that has all values of both; none if there is none.
pub fn wider(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::{Binary, BinaryView, Date32, Date64, FixedSizeBinary, LargeBinary, Null, Timestamp};
    use DataType::{Dictionary, LargeUtf8, Utf8, Utf8View};
    if one == other {
        return Some(one.clone());
    }
    if let Some(number) = wider_number(one, other) {
        return Some(number);
    }
    match (one, other) {
        (Null, kind) | (kind, Null) => Some(kind.clone()),
        (Dictionary(_, values), kind) | (kind, Dictionary(_, values)) => wider(values, kind),
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => Some(Utf8View),
        (
            Binary | LargeBinary | BinaryView | FixedSizeBinary(_),
            Binary | LargeBinary | BinaryView | FixedSizeBinary(_),
        ) => Some(BinaryView),
        (Date32, Date64) | (Date64, Date32) => Some(Date64),
        (Date32 | Date64, Timestamp(unit, zone)) | (Timestamp(unit, zone), Date32 | Date64) => {
            Some(Timestamp(*unit, zone.clone()))
        }
        (Timestamp(unit, zone), Timestamp(other_unit, other_zone)) => {
            let zone = match zone == other_zone {
                true => zone.clone(),
                false => Some(UTC.into()),
            };
            Some(Timestamp(finer(*unit, *other_unit), zone))
        }
        _ => wider_time(one, other).or_else(|| wider_nested(one, other)),
    }
}

/// Of two units the one in which nothing of the other is lost.
fn finer(one: TimeUnit, other: TimeUnit) -> TimeUnit {
    let rank = |unit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    };
    if rank(one) < rank(other) { other } else { one }
}

fn wider_time(one: &DataType, other: &DataType) -> Option<DataType> {
    let unit = |kind: &DataType| match kind {
        DataType::Time32(unit) | DataType::Time64(unit) => Some(*unit),
        _ => None,
    };
    match finer(unit(one)?, unit(other)?) {
        unit @ (TimeUnit::Second | TimeUnit::Millisecond) => Some(DataType::Time32(unit)),
        unit => Some(DataType::Time64(unit)),
    }
}

fn wider_nested(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::{FixedSizeList, LargeList, List, Map, Struct};
    let element = |one: &FieldRef, other: &FieldRef| wider_field(one, other).map(Arc::new);
    match (one, other) {
        (Struct(one), Struct(other)) => wider_fields(one, other).map(Struct),
        (List(one) | FixedSizeList(one, _), List(other) | FixedSizeList(other, _)) => element(one, other).map(List),
        (LargeList(one) | List(one), LargeList(other) | List(other)) => element(one, other).map(LargeList),
        (Map(one, sorted), Map(other, also)) => Some(Map(element(one, other)?, *sorted && *also)),
        _ => None,
    }
}

/// The first one's field, as wide as both need.
fn wider_field(one: &Field, other: &Field) -> Option<Field> {
    let kind = wider(one.data_type(), other.data_type())?;
    let one = if uuid::is_text(other) { one.clone() } else { uuid::unmarked(one.clone()) };
    let nullable = one.is_nullable() || other.is_nullable();
    Some(one.with_data_type(kind).with_nullable(nullable))
}

/// The parts of both structs. What one of them lacks may be NULL.
fn wider_fields(one: &Fields, other: &Fields) -> Option<Fields> {
    let loose = |field: &FieldRef| field.as_ref().clone().with_nullable(true);
    let of_one = one.iter().map(|field| match other.find(field.name()) {
        Some((_, other)) => wider_field(field, other),
        None => Some(loose(field)),
    });
    let more = other.iter().filter(|field| one.find(field.name()).is_none());
    of_one.chain(more.map(|field| Some(loose(field)))).collect()
}

/// What is known of a type of numbers: digits before and behind the point, or bits of a float.
enum Number {
    Signed(u8),
    Unsigned(u8),
    Float(u8),
    Decimal { whole: u8, scale: i8 },
}

impl Number {
    fn of(kind: &DataType) -> Option<Self> {
        use DataType::{Decimal32, Decimal64, Decimal128, Decimal256, Float16, Float32, Float64};
        use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
        Some(match kind {
            Int8 => Self::Signed(8),
            Int16 => Self::Signed(16),
            Int32 => Self::Signed(32),
            Int64 => Self::Signed(64),
            UInt8 => Self::Unsigned(8),
            UInt16 => Self::Unsigned(16),
            UInt32 => Self::Unsigned(32),
            UInt64 => Self::Unsigned(64),
            Float16 => Self::Float(16),
            Float32 => Self::Float(32),
            Float64 => Self::Float(64),
            Decimal32(precision, scale)
            | Decimal64(precision, scale)
            | Decimal128(precision, scale)
            | Decimal256(precision, scale) => {
                Self::Decimal { whole: precision.saturating_add_signed(scale.saturating_neg()), scale: *scale }
            }
            _ => return None,
        })
    }

    /// Digits before and behind the point; none of a float.
    fn digits(&self) -> Option<(u8, i8)> {
        match *self {
            Self::Signed(bits) | Self::Unsigned(bits) => match (bits, self) {
                (8, _) => Some((3, 0)),
                (16, _) => Some((5, 0)),
                (32, _) => Some((10, 0)),
                (_, Self::Signed(_)) => Some((19, 0)),
                _ => Some((20, 0)),
            },
            Self::Decimal { whole, scale } => Some((whole, scale)),
            Self::Float(_) => None,
        }
    }
}

fn wider_number(one: &DataType, other: &DataType) -> Option<DataType> {
    use Number::{Float, Signed, Unsigned};
    let (one, other) = (Number::of(one)?, Number::of(other)?);
    let signed = |bits| match bits {
        8 => DataType::Int8,
        16 => DataType::Int16,
        32 => DataType::Int32,
        _ => DataType::Int64,
    };
    match (&one, &other) {
        (Signed(one), Signed(other)) => Some(signed(*one.max(other))),
        (Unsigned(one), Unsigned(other)) => Some(match one.max(other) {
            16 => DataType::UInt16,
            32 => DataType::UInt32,
            _ => DataType::UInt64,
        }),
        (Signed(bits), Unsigned(other)) | (Unsigned(other), Signed(bits)) if *other < 64 => {
            Some(signed(*bits.max(&(other * 2))))
        }
        (Float(16), Float(32)) | (Float(32), Float(16)) => Some(DataType::Float32),
        (Float(_), _) | (_, Float(_)) => Some(DataType::Float64),
        _ => {
            let ((one, scale), (other, other_scale)) = (one.digits()?, other.digits()?);
            let scale = scale.max(other_scale);
            match one.max(other).checked_add_signed(scale)? {
                precision @ ..=38 => Some(DataType::Decimal128(precision, scale)),
                precision @ ..=76 => Some(DataType::Decimal256(precision, scale)),
                _ => None,
            }
        }
    }
}

/// The columns of files with these names, in the order of the files. A column that a file lacks is
/// NULL in its rows, so that it may be NULL in the table, whatever the other files say.
///
/// # Errors
/// No type has the values of a column in two files; names both.
pub fn merged(files: &[(String, SchemaRef)]) -> Result<Schema> {
    let Some(((first, schema), others)) = files.split_first() else { return Ok(Schema::empty()) };
    let mut metadata = schema.metadata().clone();
    let mut columns: Vec<(Field, &str, usize)> =
        schema.fields().iter().map(|field| (field.as_ref().clone(), first.as_str(), 1)).collect();
    for (file, schema) in others {
        for (place, field) in schema.fields().iter().enumerate() {
            // Most files have the columns in the same order.
            let is_same = |(column, ..): &(Field, &str, usize)| column.name() == field.name();
            let place = columns.get(place).filter(|column| is_same(column)).map(|_| place);
            let Some((column, first, files)) =
                place.or_else(|| columns.iter().position(is_same)).and_then(|place| columns.get_mut(place))
            else {
                columns.push((field.as_ref().clone(), file, 1));
                continue;
            };
            *files += 1;
            let Some(both) = wider_field(column, field) else {
                let (name, now, before) = (field.name(), field.data_type(), column.data_type());
                return plan_err!("{file}: column {name} is {now} here and {before} in {first}");
            };
            *column = both;
        }
        for (key, value) in schema.metadata() {
            metadata.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    let fields = columns.into_iter().map(|(column, _, of)| {
        let nullable = column.is_nullable() || of < files.len();
        column.with_nullable(nullable)
    });
    Ok(Schema::new_with_metadata(fields.collect::<Vec<_>>(), metadata))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn two_types_have_one_that_holds_both() {
        use DataType::*;
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        let zone = |unit, zone: &str| Timestamp(unit, Some(zone.into()));
        let list = |kind| List(Arc::new(Field::new("element", kind, true)));
        for (one, other, both) in [
            (Int32, Int64, Some(Int64)),
            (UInt8, Int8, Some(Int16)),
            (UInt32, Int16, Some(Int64)),
            (UInt64, Int64, Some(Decimal128(20, 0))),
            (UInt8, UInt16, Some(UInt16)),
            (Int64, Float32, Some(Float64)),
            (Float32, Float64, Some(Float64)),
            (Decimal128(9, 2), Decimal128(18, 2), Some(Decimal128(18, 2))),
            (Decimal128(9, 2), Decimal128(9, 4), Some(Decimal128(11, 4))),
            (Decimal128(38, 2), Decimal128(38, 10), Some(Decimal256(46, 10))),
            (Decimal128(9, 2), Int32, Some(Decimal128(12, 2))),
            (Decimal128(9, 2), Float32, Some(Float64)),
            (Dictionary(Box::new(Int8), Box::new(Utf8)), Utf8View, Some(Utf8View)),
            (Timestamp(Millisecond, None), Timestamp(Nanosecond, None), Some(Timestamp(Nanosecond, None))),
            (Timestamp(Second, None), zone(Microsecond, "UTC"), Some(zone(Microsecond, "UTC"))),
            (zone(Microsecond, "Europe/Paris"), Timestamp(Microsecond, None), Some(zone(Microsecond, "UTC"))),
            (zone(Microsecond, "Europe/Paris"), zone(Second, "Europe/Paris"), Some(zone(Microsecond, "Europe/Paris"))),
            (Date32, Timestamp(Microsecond, None), Some(Timestamp(Microsecond, None))),
            (Time32(Millisecond), Time64(Nanosecond), Some(Time64(Nanosecond))),
            (Null, Utf8View, Some(Utf8View)),
            (list(Int32), list(Int64), Some(list(Int64))),
            (Utf8, Int64, None),
            (Boolean, Int64, None),
            (Date32, Utf8, None),
            (list(Int32), Int32, None),
        ] {
            assert_eq!(wider(&one, &other), both, "{one} and {other}");
            assert_eq!(wider(&other, &one), both, "{other} and {one}");
        }
    }

    #[test]
    fn what_does_not_fit_names_both_files() {
        let file = |name: &str, kind| (name.to_owned(), Arc::new(Schema::new(vec![Field::new("a", kind, false)])));
        let error = merged(&[file("1.parquet", DataType::Int64), file("2.parquet", DataType::Utf8)]).unwrap_err();
        assert!(error.message().contains("2.parquet: column a is Utf8 here and Int64 in 1.parquet"), "{error}");
        let empty = ("3.parquet".to_owned(), Arc::new(Schema::empty()));
        let loose = merged(&[file("1.parquet", DataType::Int8), empty, file("2.parquet", DataType::Int16)]).unwrap();
        assert_eq!(*loose.field(0), Field::new("a", DataType::Int16, true));
    }
}
