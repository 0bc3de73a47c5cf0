//! Schemas and values of the log as Arrow's.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};
use datafusion::common::ScalarValue;
use delta_kernel::engine::arrow_conversion::TryFromArrow;
use delta_kernel::schema::StructType;
use serde_json::Value;

const MICROS: TimeUnit = TimeUnit::Microsecond;

/// The columns as the log has them.
///
/// # Errors
/// The column whose type Delta does not have.
pub(crate) fn to_log(schema: &Schema) -> Result<StructType, String> {
    for field in schema.fields() {
        let one = Schema::new(vec![stored(field)]);
        StructType::try_from_arrow(&one).map_err(|_| format!("column {} is {}", field.name(), field.data_type()))?;
    }
    let all = Schema::new(schema.fields().iter().map(stored).collect::<Fields>());
    StructType::try_from_arrow(&all).map_err(|error| format!("the columns are not possible ({error})"))
}

/// Delta has times of microseconds, in UTC or without a zone.
fn stored(field: &Arc<Field>) -> Arc<Field> {
    let kind = match field.data_type() {
        DataType::Timestamp(_, zone) => DataType::Timestamp(MICROS, zone.as_ref().map(|_| "UTC".into())),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(stored).collect()),
        DataType::List(element) => DataType::List(stored(element)),
        other => other.clone(),
    };
    Arc::new(Field::new(field.name(), kind, field.is_nullable()))
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
    use serde_json::json;

    use super::*;

    #[test]
    fn types_that_delta_does_not_have_are_named() {
        let columns = |kind| Schema::new(vec![Field::new("a", DataType::Int64, false), Field::new("x", kind, true)]);
        for kind in [DataType::Duration(MICROS), DataType::Time64(MICROS), DataType::Decimal256(50, 2)] {
            let fault = to_log(&columns(kind)).unwrap_err();
            assert!(fault.starts_with("column x is "), "{fault}");
        }
        let zoned = DataType::Timestamp(TimeUnit::Nanosecond, Some("+02:00".into()));
        let stored = to_log(&columns(zoned)).unwrap();
        assert_eq!(stored.field("x").unwrap().data_type(), &delta_kernel::schema::DataType::TIMESTAMP);
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
