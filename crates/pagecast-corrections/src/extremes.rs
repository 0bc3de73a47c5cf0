//! `min` and `max` of floats in groups.
//!
//! DataFusion 55.2 begins each group with the greatest or least finite number: the least of
//! infinities is then 1.797e308, and so is that of a group in which all is NaN. Here `min` begins
//! with NaN, which is greater than all, and `max` with the least infinity. The file goes when
//! `min_max.rs` does so (<https://github.com/apache/datafusion/issues/13415> is about NaN alone).

use std::sync::Arc;

use arrow::datatypes::{ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type};
use datafusion::common::Result;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{AggregateUDF, GroupsAccumulator};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

use crate::in_groups::InGroups;

/// The functions in the place of DataFusion's.
pub(crate) fn functions() -> [AggregateUDF; 2] {
    [InGroups::over(min_udaf(), min), InGroups::over(max_udaf(), max)]
}

fn min(inner: &Arc<AggregateUDF>, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
    extreme(inner, args, false)
}

fn max(inner: &Arc<AggregateUDF>, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
    extreme(inner, args, true)
}

fn extreme(inner: &AggregateUDF, args: AccumulatorArgs<'_>, greatest: bool) -> Result<Box<dyn GroupsAccumulator>> {
    type Half = <Float16Type as ArrowPrimitiveType>::Native;
    Ok(match args.return_field.data_type() {
        DataType::Float16 => of_floats::<Float16Type>(greatest, Half::NEG_INFINITY, Half::NAN),
        DataType::Float32 => of_floats::<Float32Type>(greatest, f32::NEG_INFINITY, f32::NAN),
        DataType::Float64 => of_floats::<Float64Type>(greatest, f64::NEG_INFINITY, f64::NAN),
        _ => return inner.create_groups_accumulator(args),
    })
}

/// Of floats of one type.
fn of_floats<T: ArrowPrimitiveType + Send>(
    greatest: bool,
    least: T::Native,
    nan: T::Native,
) -> Box<dyn GroupsAccumulator>
where
    T::Native: PartialOrd,
{
    // A float that is not equal to itself is NaN.
    #[allow(clippy::eq_op)]
    let is_nan = |value: T::Native| value != value;
    match greatest {
        true => {
            let max = move |held: &mut T::Native, new: T::Native| {
                if new > *held || is_nan(new) {
                    *held = new;
                }
            };
            Box::new(PrimitiveGroupsAccumulator::<T, _>::new(&T::DATA_TYPE, max).with_starting_value(least))
        }
        false => {
            let min = move |held: &mut T::Native, new: T::Native| {
                if new < *held || is_nan(*held) {
                    *held = new;
                }
            };
            Box::new(PrimitiveGroupsAccumulator::<T, _>::new(&T::DATA_TYPE, min).with_starting_value(nan))
        }
    }
}
