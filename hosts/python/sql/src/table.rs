//! A query as a table of the `datafusion` package, by DataFusion's own interface between
//! libraries.
//!
//! The package has a DataFusion of its own, which knows nothing of the pool. So a scan of it is a
//! query of ours, planned by this session and run with this session's context: what the package
//! sees is one leaf with rows.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session as Caller, TableProvider};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext, TaskContextProvider};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion_ffi::table_provider::FFI_TableProvider;
use futures::StreamExt;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::session::Open;

/// A query as what `SessionContext.register_table` of the package asks for.
pub(crate) fn capsule<'py>(py: Python<'py>, open: &Arc<Open>, frame: &DataFrame) -> PyResult<Bound<'py, PyCapsule>> {
    let ctx = Arc::new(open.engine.ctx.clone());
    let tasks: Arc<dyn TaskContextProvider> = Arc::clone(&ctx) as _;
    let provider = Arc::new(Pooled { open: Arc::clone(open), ctx, frame: frame.clone() });
    // The codecs are ours: what crosses is expressions, which all know.
    let table = FFI_TableProvider::new(provider, true, Some(open.runtime().clone()), &tasks, None);
    PyCapsule::new_with_value(py, table, c"datafusion_table_provider")
}

/// A query of the session as a table.
struct Pooled {
    open: Arc<Open>,
    /// Of the session; the interface between libraries does not keep it alive.
    ctx: Arc<SessionContext>,
    frame: DataFrame,
}

impl fmt::Debug for Pooled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pooled").field("frame", &self.frame).finish_non_exhaustive()
    }
}

/// `expr` with its columns by their names alone: the caller's table has a name of its own.
fn unqualified(expr: Expr) -> Result<Expr> {
    let by_name = |expr| match expr {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::from_name(column.name)))),
        other => Ok(Transformed::no(other)),
    };
    expr.transform(by_name).map(|expr| expr.data)
}

#[async_trait]
impl TableProvider for Pooled {
    fn schema(&self) -> SchemaRef {
        Arc::new(self.frame.schema().as_arrow().clone())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }

    async fn scan(
        &self,
        _: &dyn Caller,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut frame = self.frame.clone();
        for filter in filters {
            frame = frame.filter(unqualified(filter.clone())?)?;
        }
        if let Some(projection) = projection {
            let schema = self.schema();
            let column = |&index: &usize| Expr::Column(Column::from_name(schema.field(index).name()));
            frame = frame.select(projection.iter().map(column))?;
        }
        if limit.is_some() {
            frame = frame.limit(0, limit)?;
        }
        let plan = frame.create_physical_plan().await?;
        Ok(Arc::new(PooledExec { plan, tasks: self.ctx.task_ctx(), open: Arc::clone(&self.open) }))
    }
}

/// A plan that runs with the context of the session that made it, whoever runs it.
struct PooledExec {
    plan: Arc<dyn ExecutionPlan>,
    tasks: Arc<TaskContext>,
    /// The runtime must not end before the rows do.
    open: Arc<Open>,
}

impl fmt::Debug for PooledExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledExec").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl DisplayAs for PooledExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PooledExec: {}", self.plan.name())
    }
}

impl ExecutionPlan for PooledExec {
    fn name(&self) -> &'static str {
        "PooledExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    /// None: what is below is ours alone.
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (rows, open) = (self.plan.execute(partition, Arc::clone(&self.tasks))?, Arc::clone(&self.open));
        let kept = rows.inspect(move |_| _ = &open);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), kept)))
    }
}
