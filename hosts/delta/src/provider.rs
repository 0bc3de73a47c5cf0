//! A table as DataFusion's own kind of table.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, not_impl_err};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::scan::View;
use crate::seen::DeltaTable;
use crate::sink::{Change, ChangeSink};

#[async_trait]
impl TableProvider for DeltaTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let projection = projection.unwrap_or(&all);
        // The hidden column, where it is asked for, is the last.
        let hidden = self.positions.then(|| self.schema.fields().len() - 1);
        let positions = hidden.is_some() && projection.last().copied() == hidden;
        let columns = if positions { &projection[..projection.len() - 1] } else { projection };
        let (snapshot, changes) = match &self.transaction {
            Some(transaction) => {
                let changes = transaction.changes();
                (Arc::clone(&changes.snapshot), Some(changes))
            }
            None => (self.current()?, None),
        };
        self.check_columns(&snapshot)?;
        let (layer, inserted) = match changes {
            Some(changes) => (changes.layer()?, changes.rows),
            None => (snapshot.layer(&BTreeMap::new(), [])?, Vec::new()),
        };
        View { snapshot: &snapshot, layer, inserted }.scan(state, columns, limit, positions)
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if op != InsertOp::Append {
            return not_impl_err!("{op} into a Delta table; delete its rows first");
        }
        self.check_may_change()?;
        self.change(input, Change::Insert)
    }
}

impl DeltaTable {
    fn change(&self, input: Arc<dyn ExecutionPlan>, change: Change) -> Result<Arc<dyn ExecutionPlan>> {
        let sink = ChangeSink { target: self.clone(), change, schema: input.schema() };
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }
}

/// Takes the rows of a DELETE or UPDATE, as if they were inserted here.
#[derive(Debug)]
pub(crate) struct Changed {
    pub(crate) target: DeltaTable,
    pub(crate) change: Change,
    pub(crate) schema: SchemaRef,
}

#[async_trait]
impl TableProvider for Changed {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!("reading what is changed")
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        _op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.target.change(input, self.change)
    }
}
