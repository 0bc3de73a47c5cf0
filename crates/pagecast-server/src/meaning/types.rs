//! `pg_typeof`, and functions that give nothing.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use pgwire::api::Type;

use super::calculation::{Gives, error, function};
use crate::types::of_arrow;

/// The name in SQL of the type of a value.
pub(super) fn pg_typeof() -> ScalarUDF {
    function("pg_typeof", Gives::Always(DataType::Utf8), |args: &ScalarFunctionArgs| {
        let [field] = args.arg_fields.as_slice() else { return Err(error("42883", "pg_typeof takes one value")) };
        let kind = of_arrow(field.data_type());
        let name = match field.data_type() {
            DataType::Null => "unknown".to_owned(),
            _ => name(&kind),
        };
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(name))))
    })
}

fn name(kind: &Type) -> String {
    if let Some(element) = crate::types::element(kind) {
        return format!("{}[]", name(element));
    }
    let name = match *kind {
        Type::BOOL => "boolean",
        Type::INT2 => "smallint",
        Type::INT4 => "integer",
        Type::INT8 => "bigint",
        Type::FLOAT4 => "real",
        Type::FLOAT8 => "double precision",
        Type::TIME => "time without time zone",
        Type::TIMESTAMP => "timestamp without time zone",
        Type::TIMESTAMPTZ => "timestamp with time zone",
        ref other => other.name(),
    };
    name.to_owned()
}

/// A function whose answer is void: a text of no letters, as clients read it.
pub(super) fn nothing(name: &str) -> ScalarUDF {
    function(name, Gives::Always(DataType::Utf8), |_: &ScalarFunctionArgs| {
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(String::new()))))
    })
}
