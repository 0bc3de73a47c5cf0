//! NaN is one value, which is equal to itself and greater than all numbers; 0 and -0 are equal.
//!
//! DataFusion 55.2 compares floats by IEEE 754's total order, in which a NaN with a sign is less
//! than all numbers and unequal to one without, and processors make such NaNs. Its operators take 0
//! for -0, but its sets of literals do not (`x IN (0.0, ..)`). So what is read has one NaN, and a
//! zero among literals stands beside the set. The file goes when arrow-rs compares floats as SQL
//! does.
//!
//! Cost: a look at each float that is read; a copy of an array that has such a NaN.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::expr::{Case, InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::{FunctionRewrite, NamePreserver};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast, lit, when};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use crate::constant;

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

/// What compares floats by their bytes, by what compares them as numbers.
#[derive(Debug)]
pub(crate) struct AsNumbers;

impl FunctionRewrite for AsNumbers {
    fn name(&self) -> &str {
        "floats are numbers"
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        let is_float = |expr: &Expr| expr.get_type(schema).is_ok_and(|kind| kind.is_floating());
        Ok(match expr {
            Expr::InList(list) if is_float(&list.expr) => in_list(list),
            // The sign would be NaN's.
            Expr::Negative(value) if is_float(&value) && !matches!(*value, Expr::Literal(..)) => {
                Transformed::yes(lit(0.0) - *value)
            }
            Expr::ScalarFunction(ScalarFunction { func, mut args })
                if func.name() == "nullif" && args.len() == 2 && args.iter().any(is_float) =>
            {
                let (other, value) = (args.pop(), args.pop());
                let (Some(value), Some(other)) = (value, other) else { return internal_err!("nullif of nothing") };
                Transformed::yes(when(value.clone().eq(other), lit(ScalarValue::Null)).otherwise(value)?)
            }
            Expr::Case(Case { expr: Some(value), when_then_expr, else_expr }) if is_float(&value) => {
                let is = |(when, then): (Box<Expr>, Box<Expr>)| (Box::new((*value).clone().eq(*when)), then);
                let when_then_expr = when_then_expr.into_iter().map(is).collect();
                Transformed::yes(Expr::Case(Case { expr: None, when_then_expr, else_expr }))
            }
            Expr::AggregateFunction(mut function) if function.params.distinct => {
                let mut changed = false;
                for value in &mut function.params.args {
                    let of_value = with_one_zero(value.clone(), schema);
                    changed |= of_value.transformed;
                    *value = of_value.data;
                }
                Transformed::new(Expr::AggregateFunction(function), changed, TreeNodeRecursion::Continue)
            }
            other => Transformed::no(other),
        })
    }
}

/// `x IN (0.0, 1.0, ..)` asks for both zeros.
fn in_list(InList { expr: value, list, negated }: InList) -> Transformed<Expr> {
    let (zeros, others): (Vec<Expr>, Vec<Expr>) = list.into_iter().partition(is_zero);
    if zeros.is_empty() {
        return Transformed::no(Expr::InList(InList { expr: value, list: others, negated }));
    }
    // As an equality it would be put back into the list.
    let zero = (*value).clone().between(lit(-0.0), lit(0.0));
    let found = match others.is_empty() {
        true => zero,
        false => zero.or(value.in_list(others, false)),
    };
    Transformed::yes(if negated { !found } else { found })
}

/// `ORDER BY x` with -0 as 0, also in windows and their partitions: rows tie that are equal.
#[derive(Debug)]
pub(crate) struct ZerosTie;

impl OptimizerRule for ZerosTie {
    fn name(&self) -> &str {
        "zeros tie"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let of_plan = matches!(plan, LogicalPlan::Sort(_));
        if !of_plan && !matches!(plan, LogicalPlan::Window(_)) {
            return Ok(Transformed::no(plan));
        }
        let schema = merge_schema(&plan.inputs());
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            if of_plan {
                return Ok(with_one_zero(expr, &schema));
            }
            let name = names.save(&expr);
            let changed = expr.transform_down(|expr| in_window(expr, &schema))?;
            Ok(if changed.transformed { changed.update_data(|expr| name.restore(expr)) } else { changed })
        })
    }
}

fn in_window(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(window) = &mut expr else { return Ok(Transformed::no(expr)) };
    let mut changed = false;
    let params = &mut window.params;
    for key in params.order_by.iter_mut().map(|key| &mut key.expr).chain(&mut params.partition_by) {
        let of_key = with_one_zero(key.clone(), schema);
        changed |= of_key.transformed;
        *key = of_key.data;
    }
    Ok(Transformed::new(expr, changed, TreeNodeRecursion::Jump))
}

/// The sum of a float and 0, which is 0 for -0.
fn with_one_zero(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let (expr, zero) = match expr.get_type(schema) {
        // The engine adds no halves.
        Ok(DataType::Float16) => (cast(expr, DataType::Float32), lit(0.0_f32)),
        Ok(DataType::Float32) => (expr, lit(0.0_f32)),
        Ok(DataType::Float64) => (expr, lit(0.0_f64)),
        _ => return Transformed::no(expr),
    };
    match &expr {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Plus, right, .. }) if **right == zero => Transformed::no(expr),
        _ => Transformed::yes(expr + zero),
    }
}

/// Whether a constant is a zero, of whatever type.
fn is_zero(item: &Expr) -> bool {
    let zero = constant(item).and_then(|value| value.cast_to(&DataType::Float64).ok());
    matches!(zero, Some(ScalarValue::Float64(Some(0.0))))
}
