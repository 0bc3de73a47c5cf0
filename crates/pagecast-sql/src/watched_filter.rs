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

use arrow::array::RecordBatch;
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
    let watched = Arc::new(Watched(Arc::clone(filter.expression())));
    JoinFilter::new(watched, filter.column_indices().to_vec(), Arc::clone(filter.schema()))
}

#[derive(Debug, Eq)]
struct Watched(Arc<dyn PhysicalExpr>);

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq(&other.0)
    }
}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PhysicalExpr for Watched {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.0.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.0.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.0.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        Held::check_turn()?;
        self.0.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.0]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self(children.pop().unwrap_or_else(|| Arc::clone(&self.0)))))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_sql(f)
    }
}
