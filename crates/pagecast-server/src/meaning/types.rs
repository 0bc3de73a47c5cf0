//! `pg_typeof`, and functions that give nothing.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};

use super::calculation::{Gives, error, function};
use crate::catalog::in_sql;
use crate::types::of_arrow;

/// The name in SQL of the type of a value.
pub(super) fn pg_typeof() -> ScalarUDF {
    function("pg_typeof", Gives::Always(DataType::Utf8), |args: &ScalarFunctionArgs| {
        let [field] = args.arg_fields.as_slice() else { return Err(error("42883", "pg_typeof takes one value")) };
        let name = match field.data_type() {
            DataType::Null => "unknown".to_owned(),
            kind => in_sql(i64::from(of_arrow(kind).oid()), -1),
        };
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(name))))
    })
}

/// A function whose answer is void: a text of no letters, as clients read it.
pub(super) fn nothing(name: &str) -> ScalarUDF {
    function(name, Gives::Always(DataType::Utf8), |_: &ScalarFunctionArgs| {
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(String::new()))))
    })
}
