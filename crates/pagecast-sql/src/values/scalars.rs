//! How a scalar function runs on arrays.

use arrow::array::ArrayRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

/// Runs what works on arrays: constants are arrays of one row, and give a constant.
///
/// # Errors
///
/// That of what runs.
pub fn by_arrays(
    args: &ScalarFunctionArgs,
    run: impl FnOnce(&[ArrayRef]) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let all_scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
    let rows = if all_scalar { 1 } else { args.number_rows };
    let arrays = args.args.iter().map(|value| value.to_array(rows)).collect::<Result<Vec<_>>>()?;
    let answer = run(&arrays)?;
    Ok(match all_scalar {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&answer, 0)?),
        false => ColumnarValue::Array(answer),
    })
}
