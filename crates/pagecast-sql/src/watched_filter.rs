//! Filters of joins, between whose batches a statement can be ended.
//!
//! A nested loop works on one batch of its right side and all rows of its left side until there are
//! rows to hand on, without giving way, and a hash join does so whose keys are in many rows: where
//! the filter keeps next to nothing that is hours
//! (<https://github.com/apache/datafusion/issues/19358>). What it calls again and again is the
//! filter, each time for about a batch. So it is there that the statement ends, and that its
//! processor and its thread are left to others when its turn is over: the rest of the poll goes on
//! beside them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::compute::concat;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder};
use tokio::task::block_in_place;

use crate::held::Held;
use crate::long::{at_once, rows_at_once};
use crate::order::{is_turn_over, leave_processor};

/// The join with its filter watched, if it has one.
pub(crate) fn with_watched_filter(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>()
        && let Some(filter) = join.filter()
    {
        return Ok(Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(Some(watched(filter))).build()?));
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>()
        && let Some(filter) = join.filter()
    {
        return Ok(Arc::new(join.builder().with_filter(Some(watched(filter))).build()?));
    }
    Ok(plan)
}

fn watched(filter: &JoinFilter) -> JoinFilter {
    let expr = Arc::clone(filter.expression());
    let most = at_once(&expr, filter.schema());
    let watched = Arc::new(Watched { expr, most });
    JoinFilter::new(watched, filter.column_indices().to_vec(), Arc::clone(filter.schema()))
}

#[derive(Debug, Eq)]
struct Watched {
    expr: Arc<dyn PhysicalExpr>,
    /// Bytes of long values that it is given at once.
    most: u64,
}

impl Watched {
    fn of_part(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        Held::check_current()?;
        if !is_turn_over() {
            return self.expr.evaluate(batch);
        }
        leave_processor();
        block_in_place(|| self.expr.evaluate(batch))
    }
}

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.expr.eq(&other.expr)
    }
}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.expr.hash(state);
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt(f)
    }
}

impl PhysicalExpr for Watched {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.expr.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.expr.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.expr.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let (rows, at_once) = (batch.num_rows(), rows_at_once(batch, self.most));
        if rows <= at_once {
            return self.of_part(batch);
        }
        let part = |from: usize| {
            let part = batch.slice(from, at_once.min(rows - from));
            self.of_part(&part)?.into_array(part.num_rows())
        };
        let parts = (0..rows).step_by(at_once).map(part).collect::<Result<Vec<_>>>()?;
        let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
        Ok(ColumnarValue::Array(concat(&parts)?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.expr]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let expr = children.pop().unwrap_or_else(|| Arc::clone(&self.expr));
        Ok(Arc::new(Self { expr, most: self.most }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt_sql(f)
    }
}
