//! Filters of joins, between whose batches a statement can be ended.
//!
//! A nested loop works on one batch of its right side and all rows of its left side until there are
//! rows to hand on, without giving way, and so do a hash join and a merge join whose keys are in
//! many rows: where the filter keeps next to nothing that is hours
//! (<https://github.com/apache/datafusion/issues/19358>). What they call again and again is the
//! filter, each time for about a batch. So it is there that the statement ends, and that it steps
//! aside when its turn is over.

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
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};

use crate::held::Held;
use crate::long::{Parts, at_once};

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
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>()
        && let Some(filter) = join.filter()
    {
        let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
        let (on, options) = (join.on().to_vec(), join.sort_options().to_vec());
        let filter = Some(watched(filter));
        let equality = join.null_equality();
        return Ok(Arc::new(SortMergeJoinExec::try_new(left, right, on, filter, join.join_type(), options, equality)?));
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
        Held::check_turn()?;
        self.expr.evaluate(batch)
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
        let parts: Vec<_> = Parts::of(batch.clone(), self.most).collect();
        if let [whole] = &parts[..] {
            return self.of_part(whole);
        }
        let of_part = |part: &RecordBatch| self.of_part(part)?.into_array(part.num_rows());
        let parts = parts.iter().map(of_part).collect::<Result<Vec<_>>>()?;
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
