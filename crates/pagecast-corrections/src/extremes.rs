//! `min` and `max` of floats in groups.
//!
//! DataFusion 55.2 begins each group with the greatest or least finite number: the least of
//! infinities is then 1.797e308, and so is that of a group in which all is NaN. Here `min` begins
//! with NaN, which is greater than all, and `max` with the least infinity. The file goes when
//! `min_max.rs` does so (<https://github.com/apache/datafusion/issues/13415> is about NaN alone).

use std::sync::Arc;

use arrow::datatypes::{ArrowPrimitiveType, DataType, FieldRef, Float16Type, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
    Signature, StatisticsArgs,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

/// The functions in the place of DataFusion's.
pub(crate) fn functions() -> [AggregateUDF; 2] {
    [(min_udaf(), false), (max_udaf(), true)].map(|(inner, greatest)| Extreme { inner, greatest }.into())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    inner: Arc<AggregateUDF>,
    greatest: bool,
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

impl AggregateUDFImpl for Extreme {
    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        type Half = <Float16Type as ArrowPrimitiveType>::Native;
        Ok(match args.return_field.data_type() {
            DataType::Float16 => of_floats::<Float16Type>(self.greatest, Half::NEG_INFINITY, Half::NAN),
            DataType::Float32 => of_floats::<Float32Type>(self.greatest, f32::NEG_INFINITY, f32::NAN),
            DataType::Float64 => of_floats::<Float64Type>(self.greatest, f64::NEG_INFINITY, f64::NAN),
            _ => return self.inner.create_groups_accumulator(args),
        })
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.inner().reverse_expr()
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn value_from_stats(&self, statistics: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inner.value_from_stats(statistics)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn set_monotonicity(&self, of: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(of)
    }
}
