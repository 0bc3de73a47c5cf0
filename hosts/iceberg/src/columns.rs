//! Columns and values of Iceberg as Arrow has them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, TimeUnit};
use datafusion::common::ScalarValue;
use iceberg::spec::{Literal, MappedField, NameMapping, NestedField, PrimitiveLiteral, PrimitiveType, Type};
use pagecast_corrections::uuid;
use pagecast_tables::{Column, TableColumns};

use crate::error::{IcebergError, Result};

/// What is wrong with a column; who calls knows the file.
type Fault<T> = std::result::Result<T, String>;

/// These columns, of which those with the ids `constant` are not looked for in files.
pub(crate) fn columns(
    at: &str,
    fields: &[&NestedField],
    names: Option<&NameMapping>,
    constant: &[i32],
) -> Result<TableColumns> {
    let broken = |fault: String| IcebergError::broken(at, fault);
    let all = fields.iter().map(|field| arrow_field(field)).collect::<Fault<Fields>>().map_err(broken)?;
    let is_constant = |field: &&&NestedField| constant.contains(&field.id);
    let partitions: Vec<&str> = fields.iter().filter(is_constant).map(|field| field.name.as_str()).collect();
    let mapped = names.map(|names| names.fields().iter().collect::<Vec<_>>());
    let in_files = fields.iter().filter(|field| !is_constant(field));
    let found = in_files.map(|field| found_as(field, mapped.as_deref())).collect::<Fault<_>>().map_err(broken)?;
    Ok(TableColumns::new(Arc::new(Schema::new(all)), &partitions)?.found_as(found))
}

fn arrow_field(field: &NestedField) -> Fault<FieldRef> {
    let kind = arrow_type(&field.field_type).map_err(|fault| format!("column {}: {fault}", field.name))?;
    let column = Field::new(&field.name, kind, !field.required);
    Ok(Arc::new(match *field.field_type {
        Type::Primitive(PrimitiveType::Uuid) => uuid::as_text(column),
        _ => column,
    }))
}

/// The type of a column.
pub(crate) fn arrow_type(kind: &Type) -> Fault<DataType> {
    Ok(match kind {
        Type::Primitive(kind) => primitive(kind)?,
        Type::Struct(parts) => {
            DataType::Struct(parts.fields().iter().map(|field| arrow_field(field)).collect::<Fault<_>>()?)
        }
        Type::List(list) => DataType::List(arrow_field(&list.element_field)?),
        Type::Map(map) => {
            let entries = Fields::from(vec![arrow_field(&map.key_field)?, arrow_field(&map.value_field)?]);
            DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
        }
    })
}

fn primitive(kind: &PrimitiveType) -> Fault<DataType> {
    let utc = || Some(Arc::from("UTC"));
    Ok(match kind {
        PrimitiveType::Boolean => DataType::Boolean,
        PrimitiveType::Int => DataType::Int32,
        PrimitiveType::Long => DataType::Int64,
        PrimitiveType::Float => DataType::Float32,
        PrimitiveType::Double => DataType::Float64,
        &PrimitiveType::Decimal { precision, scale } if (1..=38).contains(&precision) && scale <= precision => {
            DataType::Decimal128(precision as u8, scale as i8)
        }
        PrimitiveType::Date => DataType::Date32,
        PrimitiveType::Time => DataType::Time64(TimeUnit::Microsecond),
        PrimitiveType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        PrimitiveType::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, utc()),
        PrimitiveType::TimestampNs => DataType::Timestamp(TimeUnit::Nanosecond, None),
        PrimitiveType::TimestamptzNs => DataType::Timestamp(TimeUnit::Nanosecond, utc()),
        PrimitiveType::String => DataType::Utf8,
        PrimitiveType::Uuid => DataType::Utf8View,
        &PrimitiveType::Fixed(bytes) if i32::try_from(bytes).is_ok() => DataType::FixedSizeBinary(bytes as i32),
        PrimitiveType::Binary => DataType::Binary,
        other => return Err(format!("there is no type {other}")),
    })
}

/// How files have a column. Those without ids have it by the names of the table's mapping; without
/// one, as writers of such files expect, by the name that it has now.
fn found_as(field: &NestedField, names: Option<&[&MappedField]>) -> Fault<Column> {
    let default = match &field.initial_default {
        None => None,
        Some(Literal::Primitive(value)) => {
            let kind = arrow_type(&field.field_type)?;
            Some(scalar(value, &kind).ok_or_else(|| format!("{value:?} is no default of column {}", field.name))?)
        }
        Some(_) => return Err(format!("column {} has a default that has parts", field.name)),
    };
    let mapped = names.map(|names| names.iter().find(|mapped| mapped.field_id() == Some(field.id)));
    let inside =
        mapped.map(|mapped| mapped.map_or_else(Vec::new, |mapped| mapped.fields().iter().map(|f| &**f).collect()));
    let inside = inside.as_deref();
    let parts = match &*field.field_type {
        Type::Primitive(_) => Vec::new(),
        Type::Struct(parts) => parts.fields().iter().map(|part| found_as(part, inside)).collect::<Fault<_>>()?,
        Type::List(list) => vec![found_as(&list.element_field, inside)?],
        Type::Map(map) => vec![found_as(&map.key_field, inside)?, found_as(&map.value_field, inside)?],
    };
    let names = match mapped {
        Some(mapped) => mapped.map_or_else(Vec::new, |mapped| mapped.names().to_vec()),
        None => vec![field.name.clone()],
    };
    Ok(Column { id: Some(field.id), names, default, parts })
}

/// A value, as this type. None if it is none of it.
pub(crate) fn scalar(value: &PrimitiveLiteral, kind: &DataType) -> Option<ScalarValue> {
    use PrimitiveLiteral as Is;
    Some(match (kind, value) {
        (DataType::Boolean, &Is::Boolean(value)) => ScalarValue::Boolean(Some(value)),
        (DataType::Int32, &Is::Int(value)) => ScalarValue::Int32(Some(value)),
        (DataType::Int64, &Is::Int(value)) => ScalarValue::Int64(Some(value.into())),
        (DataType::Int64, &Is::Long(value)) => ScalarValue::Int64(Some(value)),
        (DataType::Float32, Is::Float(value)) => ScalarValue::Float32(Some(value.0)),
        (DataType::Float64, Is::Float(value)) => ScalarValue::Float64(Some(value.0.into())),
        (DataType::Float64, Is::Double(value)) => ScalarValue::Float64(Some(value.0)),
        (&DataType::Decimal128(precision, scale), &Is::Int128(value)) => {
            ScalarValue::Decimal128(Some(value), precision, scale)
        }
        (DataType::Date32, &Is::Int(value)) => ScalarValue::Date32(Some(value)),
        (DataType::Time64(TimeUnit::Microsecond), &Is::Long(value)) => ScalarValue::Time64Microsecond(Some(value)),
        (DataType::Timestamp(TimeUnit::Microsecond, zone), &Is::Long(value)) => {
            ScalarValue::TimestampMicrosecond(Some(value), zone.clone())
        }
        (DataType::Timestamp(TimeUnit::Nanosecond, zone), &Is::Long(value)) => {
            ScalarValue::TimestampNanosecond(Some(value), zone.clone())
        }
        (DataType::Utf8, Is::String(value)) => ScalarValue::Utf8(Some(value.clone())),
        (DataType::Binary, Is::Binary(value)) => ScalarValue::Binary(Some(value.clone())),
        (&DataType::FixedSizeBinary(bytes), Is::Binary(value)) if value.len() == bytes as usize => {
            ScalarValue::FixedSizeBinary(bytes, Some(value.clone()))
        }
        (DataType::Utf8View, Is::UInt128(value)) => ScalarValue::Utf8View(Some(uuid::text(&value.to_be_bytes()))),
        _ => return None,
    })
}
