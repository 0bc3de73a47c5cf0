//! What is seen of a table: a version, or what a transaction has made of one.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use pagecast_tables::{TableVersion, VersionedTable, Wanted, with_position};

use crate::error;
use crate::held::{Held, look_up};
use crate::scan::View;
use crate::table::Table;
use crate::transaction::Transaction;

/// A version, and what a transaction that began on it has made of it.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) held: Arc<Held>,
    pub(crate) transaction: Option<Arc<Transaction>>,
}

impl Version {
    /// The newest one.
    pub(crate) fn newest(table: &Table) -> error::Result<Self> {
        Ok(Self { held: look_up(|| table.newest())?, transaction: None })
    }

    /// What a transaction sees.
    pub(crate) fn of(transaction: &Arc<Transaction>) -> Self {
        Self { held: Arc::clone(transaction.held()), transaction: Some(Arc::clone(transaction)) }
    }

    /// The one that a session's table is of for ever, if it is.
    pub(crate) fn pinned(table: &VersionedTable) -> Option<&Self> {
        let version: &dyn Any = &**table.version()?;
        version.downcast_ref()
    }

    /// A scan of these columns. With `positions` the hidden one is the last.
    pub(crate) fn scan_columns(
        &self,
        state: &dyn Session,
        columns: &[usize],
        limit: Option<usize>,
        positions: bool,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changes = self.transaction.as_ref().map(|transaction| transaction.changes());
        let (snapshot, layer, inserted) = match changes {
            Some(changes) => (Arc::clone(&changes.snapshot), changes.layer()?, changes.rows),
            None => (Arc::clone(&self.held), self.held.layer(&BTreeMap::new(), [])?, Vec::new()),
        };
        View { snapshot: &snapshot, layer, inserted }.scan(state, columns, limit, positions)
    }
}

#[async_trait]
impl TableVersion for Version {
    fn schema(&self) -> &SchemaRef {
        self.held.schema()
    }

    async fn scan(&self, state: &dyn Session, wanted: &Wanted<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        self.scan_columns(state, wanted.columns, wanted.limit, false)
    }
}

/// A version with the hidden column that tells where a row is.
#[derive(Debug)]
pub(crate) struct Positioned {
    version: Version,
    schema: SchemaRef,
}

impl Positioned {
    pub(crate) fn new(version: Version) -> Self {
        Self { schema: with_position(version.held.schema()), version }
    }
}

#[async_trait]
impl TableProvider for Positioned {
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
        let hidden = self.schema.fields().len() - 1;
        let all: Vec<usize> = (0..=hidden).collect();
        // The hidden column, where it is asked for, is the last.
        let (columns, positions) = match projection.unwrap_or(&all).split_last() {
            Some((last, columns)) if *last == hidden => (columns, true),
            _ => (&projection.unwrap_or(&all)[..], false),
        };
        self.version.scan_columns(state, columns, limit, positions)
    }
}
