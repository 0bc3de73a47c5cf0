//! Texts that keep nothing but themselves, for windows.
//!
//! A window makes one batch of the rows that it has no value for yet and the next ones, again and
//! again. Views of texts come through that with the buffers of all rows that ever were there, so
//! that a running sum over a table holds its texts whole. Plain texts are copied and leave nothing
//! behind. So a statement that found too little memory has plain texts there: those that are keys
//! or go through. What a function of the window takes, or a key is computed from, stays as it is,
//! since functions are made for their arguments' types. No upstream issue is known; this goes when
//! DataFusion compacts what windows keep.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::equivalence::EquivalenceProperties;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{ConstExpr, PhysicalExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::BoundedWindowAggExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::StreamExt;

/// Whether a window counts some rows only. Which columns that asks of cannot be seen in its plan.
fn has_filter(logical: &LogicalPlan) -> Result<bool> {
    let has_one = |expr: &Expr| matches!(expr, Expr::WindowFunction(window) if window.params.filter.is_some());
    let mut found = false;
    logical.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.exists(|expr| Ok(has_one(expr)))?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}

/// The plan, in which windows without filters have plain texts below them.
pub(crate) fn plain(plan: Arc<dyn ExecutionPlan>, logical: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
    let has_filter = has_filter(logical)?;
    let plain = |node: Arc<dyn ExecutionPlan>| {
        if let Some(window) = node.downcast_ref::<BoundedWindowAggExec>().filter(|_| !has_filter) {
            let fixed = fixed_columns(window.window_expr());
            return over_plain_texts(&node, window.input(), &fixed, |input| {
                let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                Arc::clone(&node).replace_children(vec![input], recompute)
            });
        }
        Ok(Transformed::no(node))
    };
    plan.transform_up(plain).map(|plan| plan.data)
}

/// The node `made` over an input without views, whose rows have them again.
fn over_plain_texts(
    node: &Arc<dyn ExecutionPlan>,
    input: &Arc<dyn ExecutionPlan>,
    fixed: &HashSet<usize>,
    made: impl FnOnce(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let schema = with_plain_texts(&input.schema(), fixed);
    if schema == input.schema() {
        return Ok(Transformed::no(Arc::clone(node)));
    }
    let over = made(Arc::new(RetypedExec::new(Arc::clone(input), schema)?))?;
    Ok(Transformed::yes(Arc::new(RetypedExec::new(over, node.schema())?)))
}

/// The columns that a window's functions take, or that its keys are computed from.
fn fixed_columns(functions: &[Arc<dyn WindowExpr>]) -> HashSet<usize> {
    let mut fixed = HashSet::new();
    for function in functions {
        let all = function.all_expressions();
        all.args.iter().for_each(|taken| fix(taken, &mut fixed));
        all.partition_by_exprs.iter().chain(&all.order_by_exprs).for_each(|key| fix_computed(key, &mut fixed));
    }
    fixed
}

fn fix(expr: &Arc<dyn PhysicalExpr>, fixed: &mut HashSet<usize>) {
    fixed.extend(collect_columns(expr).iter().map(Column::index));
}

/// The same of a key, which may be a column itself.
fn fix_computed(key: &Arc<dyn PhysicalExpr>, fixed: &mut HashSet<usize>) {
    if !key.is::<Column>() {
        fix(key, fixed);
    }
}

/// The schema, whose columns but the fixed ones have no views.
fn with_plain_texts(schema: &SchemaRef, fixed: &HashSet<usize>) -> SchemaRef {
    let plain = |(number, field): (usize, &Arc<Field>)| match field.data_type() {
        DataType::Utf8View if !fixed.contains(&number) => retyped(field, DataType::LargeUtf8),
        DataType::BinaryView if !fixed.contains(&number) => retyped(field, DataType::LargeBinary),
        _ => Arc::clone(field),
    };
    let fields: Vec<_> = schema.fields().iter().enumerate().map(plain).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn retyped(field: &Arc<Field>, kind: DataType) -> Arc<Field> {
    Arc::new(field.as_ref().clone().with_data_type(kind))
}

/// The rows of its input, in their order, as another kind of texts.
#[derive(Debug)]
struct RetypedExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl RetypedExec {
    fn new(input: Arc<dyn ExecutionPlan>, schema: SchemaRef) -> Result<Self> {
        let before = input.equivalence_properties();
        let orders = before.oeq_class().iter().cloned();
        let mut known = EquivalenceProperties::new_with_orderings(Arc::clone(&schema), orders);
        let constants = before.constants().into_iter().map(|constant| ConstExpr::from(constant.expr));
        known.add_constants(constants)?;
        let properties = PlanProperties::clone(input.properties()).with_eq_properties(known);
        Ok(Self { input, properties: Arc::new(properties) })
    }
}

impl DisplayAs for RetypedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("RetypedExec")
    }
}

impl ExecutionPlan for RetypedExec {
    fn name(&self) -> &'static str {
        "RetypedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Arc::new(Self::new(input, self.schema())?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let rows = self.input.execute(partition, context)?;
        let retyped = {
            let schema = Arc::clone(&schema);
            rows.map(move |batch| retype(&batch?, &schema))
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, retyped)))
    }
}

/// The batch with the types of `schema`.
fn retype(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type())).collect::<Result<_, _>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &rows)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::AsArray;
    use datafusion::physical_plan::collect;
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;

    const ROWS: &str = "(SELECT value AS v, value % 7 AS g, arrow_cast(repeat('x', 20) || (value % 30011), 'Utf8View') AS t, \
                        arrow_cast('y' || value, 'Utf8View') AS u FROM range(60000))";

    async fn planned(list: &str) -> Arc<dyn ExecutionPlan> {
        let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
        let sql = format!("SELECT * FROM (SELECT v, t, u, {list} AS w FROM {ROWS}) ORDER BY v");
        of(&ctx, &sql).await
    }

    async fn of(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
        ctx.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
    }

    /// Without filters in windows.
    fn plain(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        super::plain(Arc::clone(plan), &LogicalPlan::default()).unwrap()
    }

    async fn rows(plan: Arc<dyn ExecutionPlan>) -> Vec<RecordBatch> {
        collect(plan, SessionContext::new().task_ctx()).await.unwrap()
    }

    #[tokio::test]
    async fn windows_over_plain_texts_give_the_same_rows() {
        for (list, texts) in [
            ("sum(v) OVER (ORDER BY t)", 2),
            ("row_number() OVER (PARTITION BY t ORDER BY u DESC)", 2),
            ("sum(v) OVER (PARTITION BY g ORDER BY t ROWS BETWEEN 9 PRECEDING AND 3 FOLLOWING)", 2),
            ("lag(u, 3) OVER (ORDER BY t, v)", 1),
            ("first_value(t) OVER (PARTITION BY upper(t) ORDER BY v)", 1),
        ] {
            let stock = planned(list).await;
            let ours = plain(&stock);
            assert_eq!(ours.schema(), stock.schema(), "{list}");
            let mut plain = 0;
            ours.apply(|node| {
                let kinds = |node: &Arc<dyn ExecutionPlan>| {
                    node.schema().fields().iter().filter(|field| *field.data_type() == DataType::LargeUtf8).count()
                };
                plain = plain.max(kinds(node));
                Ok(TreeNodeRecursion::Continue)
            })
            .unwrap();
            assert_eq!(plain, texts, "{list}");
            assert_eq!(rows(ours).await, rows(stock).await, "{list}");
        }
    }

    #[tokio::test]
    async fn filters_of_windows_are_seen() {
        let ctx = SessionContext::new();
        for (sql, is_one) in [
            ("SELECT count(*) FILTER (WHERE value > 3) OVER () FROM range(9)", true),
            ("SELECT 1 WHERE 1 IN (SELECT count(*) FILTER (WHERE value > 3) OVER () FROM range(9))", true),
            ("SELECT sum(n) OVER () FROM (SELECT count(*) FILTER (WHERE value > 3) AS n FROM range(9))", false),
        ] {
            assert_eq!(has_filter(ctx.sql(sql).await.unwrap().logical_plan()).unwrap(), is_one, "{sql}");
        }
    }

    /// How many buffers the texts of a batch have, at most.
    fn most_buffers(batches: &[RecordBatch]) -> usize {
        batches.iter().map(|batch| batch.column(1).as_string_view().data_buffers().len()).max().unwrap()
    }

    #[tokio::test]
    async fn windows_keep_no_texts_of_rows_that_have_gone() {
        let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1).with_batch_size(1000));
        let stock = of(&ctx, &format!("SELECT v, t, sum(v) OVER (ORDER BY v) AS w FROM {ROWS}")).await;
        let (before, after) = (rows(Arc::clone(&stock)).await, rows(plain(&stock)).await);
        assert_eq!(before, after);
        let (before, after) = (most_buffers(&before), most_buffers(&after));
        assert!(before > 4 && after < 3, "{before} became {after}; it may go if there were few");
    }
}
