//! NaN is one value, which is equal to itself and greater than all numbers; 0 and -0 are equal.
//!
//! DataFusion 55.2 compares floats by IEEE 754's total order, in which a NaN with a sign is less
//! than all numbers and unequal to one without, and processors make such NaNs. Its operators take 0
//! for -0, but its sets of literals do not (`x IN (0.0, ..)`). So what is read has one NaN, and a zero
//! among literals stands beside the set. The file goes when arrow-rs compares floats as SQL does.
//!
//! Cost: a look at each float that is read; a copy of an array that has such a NaN.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Expr, ExprSchemable, lit};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

/// The same rows, in which every NaN is the one without a sign.
pub fn with_one_nan(rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let floats: Vec<usize> =
        (0..schema.fields().len()).filter(|&at| schema.field(at).data_type().is_floating()).collect();
    if floats.is_empty() {
        return rows;
    }
    let corrected = rows.map(move |batch| batch.and_then(|batch| in_batch(batch, &floats)));
    Box::pin(RecordBatchStreamAdapter::new(schema, corrected))
}

fn in_batch(batch: RecordBatch, floats: &[usize]) -> Result<RecordBatch> {
    let changed = |&at: &usize| Some((at, in_array(batch.column(at))?));
    let changed: Vec<(usize, ArrayRef)> = floats.iter().filter_map(changed).collect();
    if changed.is_empty() {
        return Ok(batch);
    }
    let mut columns = batch.columns().to_vec();
    changed.into_iter().for_each(|(at, column)| columns[at] = column);
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}

/// The array with one NaN, if it has others.
fn in_array(array: &ArrayRef) -> Option<ArrayRef> {
    match array.data_type() {
        DataType::Float16 => in_floats::<Float16Type>(array, |value| value.is_nan() && value.is_sign_negative()),
        DataType::Float32 => in_floats::<Float32Type>(array, |value| value.is_nan() && value.is_sign_negative()),
        DataType::Float64 => in_floats::<Float64Type>(array, |value| value.is_nan() && value.is_sign_negative()),
        _ => None,
    }
}

fn in_floats<T: ArrowPrimitiveType>(array: &ArrayRef, is_signed_nan: impl Fn(T::Native) -> bool) -> Option<ArrayRef>
where
    T::Native: std::ops::Neg<Output = T::Native>,
{
    let floats: &PrimitiveArray<T> = array.as_primitive();
    if !floats.values().iter().fold(false, |any, &value| any | is_signed_nan(value)) {
        return None;
    }
    Some(Arc::new(floats.unary::<_, T>(|value| if is_signed_nan(value) { -value } else { value })))
}

/// `x IN (0.0, 1.0, ..)` asks for both zeros.
#[derive(Debug)]
pub(crate) struct BothZeros;

impl FunctionRewrite for BothZeros {
    fn name(&self) -> &str {
        "both zeros in a list"
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        let Expr::InList(InList { expr: value, list, negated }) = expr else { return Ok(Transformed::no(expr)) };
        let is_float = value.get_type(schema).is_ok_and(|kind| kind.is_floating());
        let (zeros, others): (Vec<Expr>, Vec<Expr>) = list.into_iter().partition(|item| is_float && is_zero(item));
        if zeros.is_empty() {
            return Ok(Transformed::no(Expr::InList(InList { expr: value, list: others, negated })));
        }
        // As an equality it would be put back into the list.
        let zero = (*value).clone().between(lit(-0.0), lit(0.0));
        let found = match others.is_empty() {
            true => zero,
            false => zero.or(value.in_list(others, false)),
        };
        Ok(Transformed::yes(if negated { !found } else { found }))
    }
}

/// Whether a literal is a zero, of whatever type.
fn is_zero(item: &Expr) -> bool {
    let Expr::Literal(value, _) = item else { return false };
    matches!(value.cast_to(&DataType::Float64), Ok(ScalarValue::Float64(Some(0.0))))
}
