//! `pg_typeof`.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};

use super::calculation::{Gives, error, function};
use crate::values::canonical;

/// The name in SQL of the type of a value.
pub(super) fn pg_typeof() -> ScalarUDF {
    function("pg_typeof", Gives::Always(DataType::Utf8), |args: &ScalarFunctionArgs| {
        let [field] = args.arg_fields.as_slice() else { return Err(error("42883", "pg_typeof takes one value")) };
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(name(field.data_type())))))
    })
}

fn name(kind: &DataType) -> String {
    let name = match canonical(kind) {
        DataType::Null => "unknown",
        DataType::Boolean => "boolean",
        DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        DataType::Int64 => "bigint",
        DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Decimal128(..) | DataType::Decimal256(..) => "numeric",
        DataType::BinaryView => "bytea",
        DataType::Date32 => "date",
        DataType::Time64(_) => "time without time zone",
        DataType::Timestamp(_, None) => "timestamp without time zone",
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
        DataType::Interval(_) | DataType::Duration(_) => "interval",
        DataType::List(element) => return format!("{}[]", name(element.data_type())),
        _ => "text",
    };
    name.to_owned()
}
