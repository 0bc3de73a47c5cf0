//! Filters and keys of joins, between whose batches a statement can be ended.
//!
//! A nested loop works on one batch of its right side and all rows of its left side until there are
//! rows to hand on, without giving way, and so do a hash join and a merge join whose keys are in
//! many rows: where the filter keeps next to nothing that is hours
//! (<https://github.com/apache/datafusion/issues/19358>). What they call again and again is the
//! filter, each time for about a batch. So it is there that the statement ends, and that it steps
//! aside when its turn is over. A hash join makes its table of all left rows without a pause, too,
//! and calls the keys for each batch of them.

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

/// The join as it is executed: its filter is watched, and the keys of which a hash join makes its
/// table. A plan keeps the join as it is, whose partitions and order are known by its keys.
pub(crate) fn watched_join(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let keys = join.on().iter().map(|(key, other)| (key_watched(key), Arc::clone(other)));
        return join.builder().with_on(keys.collect()).with_filter(join.filter().map(watched)).build_exec();
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>()
        && let Some(filter) = join.filter()
    {
        return Ok(Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(Some(watched(filter))).build()?));
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
    Ok(Arc::clone(plan))
}

fn key_watched(key: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    Arc::new(Watched { expr: Arc::clone(key), most: u64::MAX })
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
        let parts: Vec<_> = Parts::of(batch.clone(), self.most, 0).collect();
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use datafusion::prelude::SessionContext;

    #[tokio::test]
    async fn a_statement_ends_between_the_batches_of_which_a_table_is_made() {
        let ctx = SessionContext::new();
        let plan = ctx.sql("SELECT 1 FROM range(9) a JOIN range(9) b ON a.value = b.value").await.unwrap();
        let mut plan = plan.create_physical_plan().await.unwrap();
        while !plan.is::<HashJoinExec>() {
            plan = Arc::clone(plan.children()[0]);
        }
        let executed = watched_join(&plan).unwrap();
        let join = executed.downcast_ref::<HashJoinExec>().unwrap();
        let (key, batch) = (&join.on()[0].0, RecordBatch::new_empty(join.left().schema()));
        key.evaluate(&batch).unwrap();
        let ended = Held::default();
        ended.end();
        ended.counted(async { key.evaluate(&batch).unwrap_err() }).await;
    }
}
