//! What is seen of a table: its newest version, an old one, or what a transaction has made of it.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, plan_err};
use pagecast_tables::with_position;

use crate::error;
use crate::held::{Held, hold, look_up};
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
    pub(crate) schema: SchemaRef,
    /// Whether the hidden column is there.
    pub(crate) positions: bool,
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
