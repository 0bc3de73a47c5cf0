//! Where rows of statements go that DataFusion plans as INSERTs, and that are none.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, not_impl_err};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

/// What takes the rows of a statement.
pub(crate) trait Takes: Debug + Send + Sync + 'static {
    /// Takes rows of these columns.
    fn sink(&self, columns: SchemaRef) -> Arc<dyn DataSink>;

    /// A plan in which it takes the rows of `input`.
    fn plan(&self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let sink = self.sink(input.schema());
        Arc::new(DataSinkExec::new(input, sink, None))
    }
}

/// A table into which rows go that a statement has for something.
#[derive(Debug)]
pub(crate) struct Inlet<T> {
    takes: T,
    columns: SchemaRef,
}

impl<T: Takes> Inlet<T> {
    pub(crate) fn new(takes: T, columns: SchemaRef) -> Arc<Self> {
        Arc::new(Self { takes, columns })
    }
}

#[async_trait]
impl<T: Takes> TableProvider for Inlet<T> {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.columns)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!("reading what takes rows")
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        _op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.takes.plan(input))
    }
}
