//! Rows that an aggregate hands on as groups of one row each.
//!
//! Where nearly each row is a group of its own, DataFusion 55.2 stops to group rows before it hands
//! them to other partitions, and makes of each row the state that its group would have. That of
//! `percentile_cont` panics, since it counts the percentile among its values. That of variances and
//! standard deviations says of an infinity that it varies by 0: beside other values the result was
//! infinite, or NaN as it should be, by chance. No issue is known of either. The file goes when
//! `convert_to_state` in `percentile_cont.rs` and `variance.rs` is right.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Float64Array};
use arrow::datatypes::Float64Type;
use datafusion::common::{Result, internal_err};
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion::functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{AggregateUDF, EmitTo, GroupsAccumulator};

use crate::in_groups::InGroups;

/// The functions in the place of DataFusion's.
pub(crate) fn functions() -> [AggregateUDF; 5] {
    let [of_sample, of_all] = [stddev_udaf(), stddev_pop_udaf()].map(|inner| InGroups::over(inner, variance));
    let [var_of_sample, var_of_all] = [var_samp_udaf(), var_pop_udaf()].map(|inner| InGroups::over(inner, variance));
    [InGroups::over(percentile_cont_udaf(), percentile), of_sample, of_all, var_of_sample, var_of_all]
}

fn percentile(inner: &Arc<AggregateUDF>, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
    let state = |groups: &dyn GroupsAccumulator, values: &[ArrayRef], filter: Option<&BooleanArray>| {
        groups.convert_to_state(&values[..values.len().min(1)], filter)
    };
    Ok(Box::new(Corrected { groups: inner.create_groups_accumulator(args)?, state }))
}

fn variance(inner: &Arc<AggregateUDF>, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
    let state = |groups: &dyn GroupsAccumulator, values: &[ArrayRef], filter: Option<&BooleanArray>| {
        let mut state = groups.convert_to_state(values, filter)?;
        let [_, means, squares] = state.as_mut_slice() else { return internal_err!("a variance has another state") };
        let (of, varied) = (means.as_primitive::<Float64Type>(), squares.as_primitive::<Float64Type>());
        if of.values().iter().any(|mean| !mean.is_finite()) {
            let varied = of.values().iter().zip(varied.values());
            let varied = varied.map(|(mean, &varied)| if mean.is_finite() { varied } else { f64::NAN });
            *squares = Arc::new(Float64Array::from_iter_values(varied));
        }
        Ok(state)
    };
    Ok(Box::new(Corrected { groups: inner.create_groups_accumulator(args)?, state }))
}

type State = fn(&dyn GroupsAccumulator, &[ArrayRef], Option<&BooleanArray>) -> Result<Vec<ArrayRef>>;

/// Groups that make another state of a row.
struct Corrected {
    groups: Box<dyn GroupsAccumulator>,
    state: State,
}

impl GroupsAccumulator for Corrected {
    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        (self.state)(self.groups.as_ref(), values, filter)
    }

    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.groups.update_batch(values, groups, filter, count)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.groups.merge_batch(states, groups, count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.groups.evaluate(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.groups.state(emit_to)
    }

    fn size(&self) -> usize {
        self.groups.size()
    }
}
