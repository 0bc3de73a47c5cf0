//! `sum` that says when it leaves its type. DataFusion's own wraps.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature, StatisticsArgs,
};

use super::calculation::error;

/// DataFusion's function in all but the sums of bigint.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Sum {
    inner: Arc<AggregateUDF>,
}

pub(super) fn function() -> AggregateUDF {
    AggregateUDF::new_from_impl(Sum { inner: sum_udaf() })
}

fn out_of_range() -> DataFusionError {
    error("22003", "bigint out of range: write sum(x::numeric), which has 38 digits")
}

fn is_ours(args: &AccumulatorArgs<'_>) -> bool {
    !args.is_distinct && args.return_field.data_type() == &DataType::Int64
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
        if is_ours(&args) { Ok(Box::new(Total::default())) } else { self.inner.accumulator(args) }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        if is_ours(&args) { Ok(Box::new(Totals::default())) } else { self.inner.create_groups_accumulator(args) }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if is_ours(&args) { Ok(Box::new(Total::default())) } else { self.inner.create_sliding_accumulator(args) }
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
#[derive(Debug, Default)]
struct Total {
    sum: i64,
    rows: u64,
}

/// The sum of one batch.
fn sum_of(values: &ArrayRef) -> Result<(i64, u64)> {
    let values = values.as_primitive::<Int64Type>();
    let sum = arrow::compute::sum_checked(values).map_err(|_| out_of_range())?;
    Ok((sum.unwrap_or(0), (values.len() - values.null_count()) as u64))
}

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, rows) = sum_of(&values[0])?;
        self.sum = self.sum.checked_add(sum).ok_or_else(out_of_range)?;
        self.rows += rows;
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64((self.rows > 0).then_some(self.sum)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, rows) = sum_of(&values[0])?;
        self.sum = self.sum.checked_sub(sum).ok_or_else(out_of_range)?;
        self.rows -= rows;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }
}

/// A sum for each group.
#[derive(Debug, Default)]
struct Totals {
    sums: Vec<i64>,
    /// Which groups have a row.
    seen: Vec<bool>,
}

impl Totals {
    fn add(&mut self, group: usize, value: i64) -> Result<()> {
        self.sums[group] = self.sums[group].checked_add(value).ok_or_else(out_of_range)?;
        self.seen[group] = true;
        Ok(())
    }
}

impl GroupsAccumulator for Totals {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.sums.resize(count, 0);
        self.seen.resize(count, false);
        let values = values[0].as_primitive::<Int64Type>();
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
        let (sums, seen) = (emit_to.take_needed(&mut self.sums), emit_to.take_needed(&mut self.seen));
        Ok(Arc::new(Int64Array::new(sums.into(), Some(NullBuffer::from(seen)))))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.update_batch(states, groups, None, count)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let Some(filter) = filter else { return Ok(vec![Arc::clone(&values[0])]) };
        let left_out = arrow::compute::not(&arrow::compute::prep_null_mask_filter(filter))?;
        Ok(vec![arrow::compute::nullif(&values[0], &left_out)?])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i64>() + self.seen.capacity()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn groups_are_summed_apart_and_say_when_they_overflow() {
        let mut totals = Totals::default();
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(i64::MAX), Some(5)]));
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
        let mut total = Total::default();
        let batch: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), None]));
        total.update_batch(&[Arc::clone(&batch)]).unwrap();
        assert_eq!(total.evaluate().unwrap(), ScalarValue::Int64(Some(3)));
        total.retract_batch(&[batch]).unwrap();
        assert_eq!(total.evaluate().unwrap(), ScalarValue::Int64(None));
    }
}
