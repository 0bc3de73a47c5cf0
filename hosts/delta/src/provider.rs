//! A table as DataFusion's own kind of table.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, not_impl_err, plan_err};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::error;
use crate::held::{Held, hold, look_up};
use crate::scan::{View, with_position};
use crate::sink::{Change, ChangeSink};
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::transaction::Transaction;

/// A table, a version of one or what a transaction sees, to be registered with a session.
#[derive(Clone, Debug)]
pub struct DeltaTable {
    pub(crate) table: Arc<Table>,
    /// Without one each scan is of the newest version.
    pub(crate) pinned: Option<Arc<Held>>,
    pub(crate) transaction: Option<Arc<Transaction>>,
    schema: SchemaRef,
    /// Whether the hidden column is there.
    positions: bool,
}

impl DeltaTable {
    /// The newest version, whenever a statement begins.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub fn newest(table: &Arc<Table>) -> error::Result<Self> {
        let schema = Arc::clone(table.newest()?.schema());
        Ok(Self { table: Arc::clone(table), pinned: None, transaction: None, schema, positions: false })
    }

    /// One version for ever. It cannot be changed.
    pub fn version(table: &Arc<Table>, snapshot: &Arc<Snapshot>) -> Self {
        Self::held(table, hold(snapshot))
    }

    pub(crate) fn held(table: &Arc<Table>, version: Arc<Held>) -> Self {
        let schema = Arc::clone(version.schema());
        Self { table: Arc::clone(table), pinned: Some(version), transaction: None, schema, positions: false }
    }

    /// What a transaction sees: the version at which it began, and its own changes.
    pub fn transaction(transaction: &Arc<Transaction>) -> Self {
        let own = Self::held(transaction.table(), Arc::clone(transaction.held()));
        Self { transaction: Some(Arc::clone(transaction)), ..own }
    }

    /// The version that a statement which begins now sees.
    pub(crate) fn current(&self) -> error::Result<Arc<Held>> {
        self.pinned.as_ref().map_or_else(|| look_up(|| self.table.newest()), |pinned| Ok(Arc::clone(pinned)))
    }

    /// The same at this version.
    pub(crate) fn at(self, version: Arc<Held>) -> Self {
        Self { pinned: Some(version), ..self }
    }

    /// That this version has the columns that a statement was planned with.
    pub(crate) fn check_columns(&self, version: &Snapshot) -> Result<()> {
        let schema = version.schema();
        if self.schema != (if self.positions { with_position(schema) } else { Arc::clone(schema) }) {
            return plan_err!("the columns of {} have changed; plan again", self.table.folder().display());
        }
        Ok(())
    }

    pub(crate) fn check_may_change(&self) -> Result<()> {
        match &self.pinned {
            Some(old) if self.transaction.is_none() => {
                let (version, folder) = (old.version(), self.table.folder().display());
                plan_err!("version {version} of {folder} was asked for, and only the newest can be changed")
            }
            _ => Ok(()),
        }
    }

    /// The same with the column that tells where a row is.
    pub(crate) fn with_positions(&self) -> Self {
        Self { positions: true, schema: with_position(&self.schema), ..self.clone() }
    }
}

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
