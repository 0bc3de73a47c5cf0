//! Functions of windows, between whose values a statement can be ended.
//!
//! A window computes the values of a batch, or of a whole partition, without giving way: a median
//! of the last 20,000 rows, for each of a million, takes minutes. What it calls again and again is
//! the function. And texts or lists of all rows so far, for each of them, are more than any memory.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunctionParams, WindowFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, LogicalPlan, ReversedUDAF, SetMonotonicity,
    Signature, WindowFunctionDefinition,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::budget::Budget;
use crate::held::Held;

/// Values between which nobody looks: most functions are quick.
const UNWATCHED: u32 = 16;
/// Bytes of a value that may stand in any number of rows.
const SHORT: usize = 256;

/// Has the functions of windows watched. It is the last rule: others know them by what they are.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) budget: Budget,
}

impl OptimizerRule for Watch {
    fn name(&self) -> &str {
        "watch_windows"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>, DataFusionError> {
        match plan {
            LogicalPlan::Window(_) => {
                plan.map_expressions(|expr| expr.transform_up(|expr| watched(expr, &self.budget)))
            }
            plan => Ok(Transformed::no(plan)),
        }
    }
}

fn watched(mut expr: Expr, budget: &Budget) -> Result<Transformed<Expr>> {
    if let Expr::WindowFunction(window) = &mut expr
        && let WindowFunctionDefinition::AggregateUDF(function) = &mut window.fun
        && !function.inner().is::<Watched>()
    {
        *function = Watched::over(function, budget);
        return Ok(Transformed::yes(expr));
    }
    Ok(Transformed::no(expr))
}

#[derive(Debug)]
struct Watched(Arc<AggregateUDF>, Budget);

impl Eq for Watched {}

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Watched {
    fn over(function: &Arc<AggregateUDF>, budget: &Budget) -> Arc<AggregateUDF> {
        Arc::new(AggregateUDF::from(Self(Arc::clone(function), budget.clone())))
    }

    fn watch(&self, accumulator: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
        Box::new(WatchedAccumulator { accumulator, budget: self.1.clone(), values: 0, rows: 0 })
    }
}

impl AggregateUDFImpl for Watched {
    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(self.watch(self.0.accumulator(args)?))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(self.watch(self.0.create_sliding_accumulator(args)?))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.0.reverse_udf() {
            ReversedUDAF::Reversed(function) => ReversedUDAF::Reversed(Self::over(&function, &self.1)),
            other => other,
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.0.schema_name(params)
    }

    fn human_display(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.0.human_display(params)
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.0.window_function_schema_name(params)
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.0.display_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.0.window_function_display_name(params)
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.0.return_type(arguments)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        self.0.return_field(arguments)
    }

    fn is_nullable(&self) -> bool {
        self.0.is_nullable()
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.0.state_fields(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.0.order_sensitivity()
    }

    fn with_beneficial_ordering(self: Arc<Self>, is_ordered: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let function = (*self.0).clone().with_beneficial_ordering(is_ordered)?;
        Ok(function.map(|function| Arc::new(Self(Arc::new(function), self.1.clone())) as _))
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(arguments)
    }

    fn is_descending(&self) -> Option<bool> {
        self.0.is_descending()
    }

    fn default_value(&self, of: &DataType) -> Result<ScalarValue> {
        self.0.default_value(of)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.0.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.0.supports_within_group_clause()
    }

    fn set_monotonicity(&self, of: &DataType) -> SetMonotonicity {
        self.0.inner().set_monotonicity(of)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}

#[derive(Debug)]
struct WatchedAccumulator {
    accumulator: Box<dyn Accumulator>,
    budget: Budget,
    values: u32,
    /// Of the frame.
    rows: usize,
}

impl Accumulator for WatchedAccumulator {
    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.values = self.values.wrapping_add(1);
        if self.values.is_multiple_of(UNWATCHED) {
            Held::check_turn()?;
        }
        let value = self.accumulator.evaluate()?;
        let bytes = value.size();
        if bytes > SHORT {
            // It, or one like it, stands in each of these rows.
            self.budget.check(bytes.saturating_mul(self.rows.max(1)) as u64, "a window of long values")?;
        }
        Ok(value)
    }

    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rows += values.first().map_or(0, |values| values.len());
        self.accumulator.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rows -= values.first().map_or(0, |values| values.len()).min(self.rows);
        self.accumulator.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.accumulator.supports_retract_batch()
    }

    fn size(&self) -> usize {
        self.accumulator.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.accumulator.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.accumulator.merge_batch(states)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::prelude::SessionContext;

    use crate::budget::tests::budget;
    use crate::watched;

    #[tokio::test]
    async fn texts_of_all_rows_for_each_of_them_are_refused() {
        let ctx = SessionContext::new();
        watched::install(&ctx, budget(256 << 20));
        let frames = ["", "ORDER BY value", "ORDER BY value ROWS BETWEEN 20000 PRECEDING AND CURRENT ROW"];
        // Of a frame whose begin moves there is no string_agg.
        for (function, frames) in [("string_agg(t, '')", &frames[..2]), ("array_agg(t)", &frames[..])] {
            for frame in frames {
                let rows = |count| format!("(SELECT value, repeat('x', 40) || value AS t FROM range({count}))");
                let sql = |count| format!("SELECT {function} OVER ({frame}) AS w FROM {}", rows(count));
                ctx.sql(&sql(100)).await.unwrap().collect().await.unwrap();
                let error = ctx.sql(&sql(300_000)).await.unwrap().collect().await.unwrap_err().to_string();
                assert!(error.contains("a window of long values"), "{function} {frame}: {error}");
            }
        }
    }
}
