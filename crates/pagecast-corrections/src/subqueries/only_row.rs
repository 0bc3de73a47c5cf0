//! The value of a scalar subquery, which has at most one row for an outer row.

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// `first` if `rows` says that there is no other.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct OnlyRow {
    signature: Signature,
}

impl Default for OnlyRow {
    fn default() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for OnlyRow {
    fn name(&self) -> &str {
        "only_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ([first, rows], length) = (&arguments.args[..], arguments.number_rows) else {
            return exec_err!("only_row takes a value and a number of rows");
        };
        let rows = rows.to_array(length)?;
        if rows.as_primitive::<Int64Type>().iter().flatten().any(|rows| rows > 1) {
            return exec_err!(
                "a subquery used as an expression returned more than one row: add LIMIT 1 or an aggregate"
            );
        }
        Ok(first.clone())
    }
}
