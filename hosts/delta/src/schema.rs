//! Schemas and values of the log as Arrow's.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};
use datafusion::common::ScalarValue;
use serde_json::{Value, json};

use crate::error::{DeltaError, Result};

const MICROS: TimeUnit = TimeUnit::Microsecond;

/// The schema of a table.
pub(crate) fn from_log(root: &Path, text: &str) -> Result<Schema> {
    let broken = |what: String| DeltaError::broken(root, None, format!("the schema in the log {what}"));
    let schema: Value = serde_json::from_str(text).map_err(|error| broken(format!("makes no sense ({error})")))?;
    fields(&schema).map(Schema::new).map_err(|what| broken(format!("has a type that we do not know: {what}")))
}

fn fields(schema: &Value) -> std::result::Result<Fields, String> {
    let fields = schema["fields"].as_array().ok_or_else(|| schema.to_string())?;
    let field = |field: &Value| {
        let name = field["name"].as_str().ok_or_else(|| field.to_string())?;
        let kind = data_type(&field["type"]).map_err(|what| format!("{name} {what}"))?;
        Ok(Field::new(name, kind, field["nullable"].as_bool().unwrap_or(true)))
    };
    fields.iter().map(field).collect::<std::result::Result<Vec<_>, _>>().map(Fields::from)
}

fn data_type(kind: &Value) -> std::result::Result<DataType, String> {
    if let Some(name) = kind.as_str() {
        return simple(name).ok_or_else(|| name.to_owned());
    }
    let part =
        |name: &str, part: &str, nullable: bool| data_type(&kind[part]).map(|kind| Field::new(name, kind, nullable));
    let nullable = |name: &str| kind[name].as_bool().unwrap_or(true);
    Ok(match kind["type"].as_str() {
        Some("struct") => DataType::Struct(fields(kind)?),
        Some("array") => DataType::List(Arc::new(part("element", "elementType", nullable("containsNull"))?)),
        Some("map") => {
            let entry =
                vec![part("key", "keyType", false)?, part("value", "valueType", nullable("valueContainsNull"))?];
            let entries = Field::new("key_value", DataType::Struct(entry.into()), false);
            DataType::Map(Arc::new(entries), false)
        }
        _ => return Err(kind.to_string()),
    })
}

fn simple(name: &str) -> Option<DataType> {
    Some(match name {
        "string" => DataType::Utf8,
        "long" => DataType::Int64,
        "integer" => DataType::Int32,
        "short" => DataType::Int16,
        "byte" => DataType::Int8,
        "double" => DataType::Float64,
        "float" => DataType::Float32,
        "boolean" => DataType::Boolean,
        "binary" => DataType::Binary,
        "date" => DataType::Date32,
        "timestamp" => DataType::Timestamp(MICROS, Some("UTC".into())),
        "timestamp_ntz" => DataType::Timestamp(MICROS, None),
        decimal => {
            let (precision, scale) = decimal.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
            let (precision, scale) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
            (precision <= 38 && scale <= precision as i8).then_some(DataType::Decimal128(precision, scale))?
        }
    })
}

/// The schema as the log has it.
///
/// # Errors
/// The column whose type Delta does not have.
pub(crate) fn to_log(schema: &Schema) -> std::result::Result<Value, String> {
    let field = |field: &Arc<Field>| {
        let kind =
            type_name(field.data_type()).ok_or_else(|| format!("column {} is {}", field.name(), field.data_type()))?;
        Ok(json!({"name": field.name(), "type": kind, "nullable": field.is_nullable(), "metadata": {}}))
    };
    let fields = schema.fields().iter().map(field).collect::<std::result::Result<Vec<_>, String>>()?;
    Ok(json!({"type": "struct", "fields": fields}))
}

fn type_name(kind: &DataType) -> Option<Value> {
    let name = match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string",
        DataType::Int64 => "long",
        DataType::Int32 => "integer",
        DataType::Int16 => "short",
        DataType::Int8 => "byte",
        DataType::Float64 => "double",
        DataType::Float32 => "float",
        DataType::Boolean => "boolean",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "binary",
        DataType::Date32 => "date",
        DataType::Timestamp(_, Some(_)) => "timestamp",
        DataType::Timestamp(_, None) => "timestamp_ntz",
        DataType::Decimal128(precision, scale) if *scale >= 0 => {
            return Some(format!("decimal({precision},{scale})").into());
        }
        DataType::Struct(fields) => return to_log(&Schema::new(fields.clone())).ok(),
        DataType::List(element) => {
            let kind = type_name(element.data_type())?;
            return Some(json!({"type": "array", "elementType": kind, "containsNull": element.is_nullable()}));
        }
        _ => return None,
    };
    Some(name.into())
}

/// A value of a partition column, which the log has as a text.
pub(crate) fn partition_value(text: Option<&str>, kind: &DataType) -> Option<ScalarValue> {
    match text {
        None | Some("") => ScalarValue::try_new_null(kind).ok(),
        Some(text) => ScalarValue::try_from_string(text.to_owned(), kind).ok(),
    }
}

/// A bound of a column's values, from the statistics of a file. Nothing where it cannot be relied
/// on.
pub(crate) fn bound(value: &Value, kind: &DataType, upper: bool) -> Option<ScalarValue> {
    // Numbers of JSON have 53 bits. Longer decimals would be rounded.
    if matches!(kind, DataType::Decimal128(precision, _) if *precision > 15) {
        return None;
    }
    let text = match (value, kind) {
        (Value::Number(number), _) => number.to_string(),
        (Value::String(text), _) => text.clone(),
        (Value::Bool(bool), DataType::Boolean) => bool.to_string(),
        _ => return None,
    };
    let bound = ScalarValue::try_from_string(text, kind).ok().filter(|bound| !bound.is_null())?;
    Some(match bound {
        // Writers cut times to milliseconds.
        ScalarValue::TimestampMicrosecond(Some(at), zone) if upper => {
            ScalarValue::TimestampMicrosecond(Some(at.checked_add(999)?), zone)
        }
        bound => bound,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn schemas_go_both_ways_and_unknown_types_have_their_names() {
        let text = r#"{"type":"struct","fields":[
            {"name":"a","type":"long","nullable":false,"metadata":{}},
            {"name":"b","type":"decimal(12,2)","nullable":true,"metadata":{}},
            {"name":"c","type":{"type":"array","elementType":"string","containsNull":true},"nullable":true,"metadata":{}},
            {"name":"d","type":{"type":"struct","fields":[{"name":"e","type":"date","nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}},
            {"name":"f","type":"timestamp","nullable":true,"metadata":{}}]}"#;
        let schema = from_log(Path::new("t"), text).unwrap();
        assert_eq!(schema.field(1).data_type(), &DataType::Decimal128(12, 2));
        assert_eq!(to_log(&schema).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        for (kind, name) in [("\"variant\"", "x variant"), ("\"decimal(50,2)\"", "decimal"), ("{}", "{}")] {
            let text = format!(r#"{{"type":"struct","fields":[{{"name":"x","type":{kind}}}]}}"#);
            let fault = from_log(Path::new("t"), &text).unwrap_err().to_string();
            assert!(fault.contains(name), "{fault}");
        }
    }

    #[test]
    fn bounds_that_were_cut_are_widened() {
        let kind = DataType::Timestamp(MICROS, Some("UTC".into()));
        let at = |upper| bound(&json!("2024-01-02T03:04:05.678Z"), &kind, upper).unwrap();
        let (low, high) = (at(false), at(true));
        assert!(low < high && format!("{high:?}").contains("678999"), "{low:?} {high:?}");
        assert_eq!(bound(&json!(1), &DataType::Decimal128(20, 2), true), None);
        assert_eq!(bound(&json!({"a": 1}), &DataType::Int64, true), None);
        assert_eq!(bound(&json!(7), &DataType::Int64, true), Some(ScalarValue::Int64(Some(7))));
    }
}
