//! `sum` that says when it leaves its type. DataFusion's own wraps in 55.2, until
//! <https://github.com/apache/datafusion/issues/17539> is done.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, DecimalType, FieldRef, Int64Type, UInt64Type,
};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature, StatisticsArgs,
};

use super::calculation::error;

/// DataFusion's function in all but the sums of whole numbers and numerics.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Sum {
    inner: Arc<AggregateUDF>,
}

pub(super) fn function() -> AggregateUDF {
    AggregateUDF::new_from_impl(Sum { inner: sum_udaf() })
}

/// A type of sums that have an end.
trait Ends: ArrowPrimitiveType + Debug + Send + Sync {
    fn out_of_range() -> DataFusionError {
        error("22003", "bigint out of range: write sum(x::numeric), which has 38 digits")
    }

    /// A sum that is shown, and not only kept.
    fn shown(sum: Self::Native) -> Result<Self::Native> {
        Ok(sum)
    }
}

impl Ends for Int64Type {}
impl Ends for UInt64Type {}
impl Ends for Decimal128Type {
    fn out_of_range() -> DataFusionError {
        error("22003", "numeric out of range: a sum has more than 38 digits")
    }

    fn shown(sum: i128) -> Result<i128> {
        let fits = Self::is_valid_decimal_precision(sum, DECIMAL128_MAX_PRECISION);
        if fits { Ok(sum) } else { Err(Self::out_of_range()) }
    }
}

/// Makes what sums up values of the type that a call gives; that of DataFusion for others.
macro_rules! of_kind {
    ($args:expr, $made:ident, $else:expr) => {{
        let kind = $args.return_field.data_type().clone();
        match kind {
            _ if $args.is_distinct => $else,
            DataType::Int64 => Ok(Box::new($made::<Int64Type>::of(kind))),
            DataType::UInt64 => Ok(Box::new($made::<UInt64Type>::of(kind))),
            DataType::Decimal128(..) => Ok(Box::new($made::<Decimal128Type>::of(kind))),
            _ => $else,
        }
    }};
}

impl AggregateUDFImpl for Sum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        of_kind!(args, Total, self.inner.accumulator(args))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        of_kind!(args, Totals, self.inner.create_groups_accumulator(args))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        of_kind!(args, Total, self.inner.create_sliding_accumulator(args))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> datafusion::logical_expr::utils::AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn value_from_stats(&self, statistics: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inner.value_from_stats(statistics)
    }
}

/// One sum, from which rows may be taken again.
#[derive(Debug)]
struct Total<T: Ends> {
    kind: DataType,
    sum: T::Native,
    rows: u64,
}

impl<T: Ends> Total<T> {
    fn of(kind: DataType) -> Self {
        Self { kind, sum: T::default_value(), rows: 0 }
    }

    /// The sum of one batch, and of how many values.
    fn of_batch(values: &ArrayRef) -> Result<(T::Native, u64)> {
        let values = values.as_primitive::<T>();
        let sum = arrow::compute::sum_checked(values).map_err(|_| T::out_of_range())?;
        Ok((sum.unwrap_or_default(), (values.len() - values.null_count()) as u64))
    }

    fn value(&self, sum: T::Native) -> Result<ScalarValue> {
        ScalarValue::new_primitive::<T>((self.rows > 0).then_some(sum), &self.kind)
    }
}

impl<T: Ends> Accumulator for Total<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, rows) = Self::of_batch(&values[0])?;
        self.sum = self.sum.add_checked(sum).map_err(|_| T::out_of_range())?;
        self.rows += rows;
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.value(T::shown(self.sum)?)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value(self.sum)?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, rows) = Self::of_batch(&values[0])?;
        self.sum = self.sum.sub_checked(sum).map_err(|_| T::out_of_range())?;
        self.rows -= rows;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }
}

/// A sum for each group.
#[derive(Debug)]
struct Totals<T: Ends> {
    kind: DataType,
    sums: Vec<T::Native>,
    /// Which groups have a row.
    seen: Vec<bool>,
    of: PhantomData<T>,
}

impl<T: Ends> Totals<T> {
    fn of(kind: DataType) -> Self {
        Self { kind, sums: Vec::new(), seen: Vec::new(), of: PhantomData }
    }

    fn add(&mut self, group: usize, value: T::Native) -> Result<()> {
        self.sums[group] = self.sums[group].add_checked(value).map_err(|_| T::out_of_range())?;
        self.seen[group] = true;
        Ok(())
    }

    fn take(&mut self, emit_to: EmitTo) -> PrimitiveArray<T> {
        let (sums, seen) = (emit_to.take_needed(&mut self.sums), emit_to.take_needed(&mut self.seen));
        PrimitiveArray::new(sums.into(), Some(NullBuffer::from(seen))).with_data_type(self.kind.clone())
    }
}

impl<T: Ends> GroupsAccumulator for Totals<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.sums.resize(count, T::default_value());
        self.seen.resize(count, false);
        let values = values[0].as_primitive::<T>();
        if filter.is_none() && values.null_count() == 0 {
            return groups.iter().zip(values.values()).try_for_each(|(&group, &value)| self.add(group, value));
        }
        let is_in = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        for (row, &group) in groups.iter().enumerate() {
            if values.is_valid(row) && is_in(row) {
                self.add(group, values.value(row))?;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = self.take(emit_to);
        sums.iter().flatten().try_for_each(|sum| T::shown(sum).map(drop))?;
        Ok(Arc::new(sums))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(self.take(emit_to))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.update_batch(states, groups, None, count)
    }

    /// A state has the type of the sum, which may have more digits than what is summed up.
    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<T>().clone().with_data_type(self.kind.clone());
        let Some(filter) = filter else { return Ok(vec![Arc::new(values)]) };
        let taken: BooleanArray = filter.iter().map(|taken| Some(taken == Some(true))).collect();
        Ok(vec![arrow::compute::nullif(&values, &arrow::compute::not(&taken)?)?])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<T::Native>() + self.seen.capacity()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn groups_are_summed_apart_and_say_when_they_overflow() {
        let mut totals = Totals::<Int64Type>::of(DataType::Int64);
        let values: ArrayRef =
            Arc::new(PrimitiveArray::<Int64Type>::from(vec![Some(1), None, Some(i64::MAX), Some(5)]));
        let filter = BooleanArray::from(vec![Some(true), Some(true), Some(true), None]);
        totals.update_batch(&[Arc::clone(&values)], &[0, 1, 2, 0], Some(&filter), 3).unwrap();
        assert!(totals.update_batch(&[Arc::clone(&values)], &[1, 1, 2, 1], None, 3).is_err());
        let sums = totals.evaluate(EmitTo::First(1)).unwrap();
        assert_eq!(sums.as_primitive::<Int64Type>().value(0), 1);
        let state = totals.convert_to_state(&[values], Some(&filter)).unwrap();
        assert_eq!(state[0].null_count(), 2);
    }

    #[test]
    fn rows_are_taken_from_a_sum_again() {
        let mut total = Total::<Int64Type>::of(DataType::Int64);
        let batch: ArrayRef = Arc::new(PrimitiveArray::<Int64Type>::from(vec![Some(3), None]));
        total.update_batch(&[Arc::clone(&batch)]).unwrap();
        assert_eq!(total.evaluate().unwrap(), ScalarValue::Int64(Some(3)));
        total.retract_batch(&[batch]).unwrap();
        assert_eq!(total.evaluate().unwrap(), ScalarValue::Int64(None));
    }

    #[test]
    fn numerics_have_38_digits() {
        let kind = DataType::Decimal128(38, 2);
        let most: ArrayRef = Arc::new(PrimitiveArray::<Decimal128Type>::from(vec![i128::pow(10, 38) - 1]));
        let mut total = Total::<Decimal128Type>::of(kind.clone());
        total.update_batch(&[Arc::clone(&most)]).unwrap();
        assert_eq!(total.evaluate().unwrap().data_type(), kind);
        let mut totals = Totals::<Decimal128Type>::of(kind);
        assert!(total.update_batch(&[Arc::clone(&most)]).is_err() || total.evaluate().is_err());
        totals.update_batch(&[Arc::clone(&most)], &[0], None, 1).unwrap();
        assert!(totals.update_batch(&[most], &[0], None, 1).is_err() || totals.evaluate(EmitTo::All).is_err());
    }
}
