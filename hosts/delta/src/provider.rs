//! A table as sessions have it, among others that have versions.

use std::any::Any;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_plan::ExecutionPlan;
use pagecast_tables::{Asked, TableVersion, TableVersions, VersionedTable};

use crate::error;
use crate::held::{hold, look_up};
use crate::inlet::Takes;
use crate::seen::Version;
use crate::sink::{Change, Changed, Target};
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::transaction::Transaction;

impl Table {
    /// The table to be registered with a session: its newest version, whenever a statement begins.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub fn provider(self: &Arc<Self>) -> error::Result<VersionedTable> {
        let columns = Arc::clone(self.newest()?.schema());
        Ok(VersionedTable::of_columns(versions(self), columns))
    }

    /// The same of one version for ever. It cannot be changed.
    pub fn provider_at(self: &Arc<Self>, snapshot: &Arc<Snapshot>) -> VersionedTable {
        VersionedTable::at(versions(self), Arc::new(Version { held: hold(snapshot), transaction: None }))
    }
}

impl Transaction {
    /// What it sees, to be registered with a session: the version at which it began, and its own
    /// changes. Statements of a session that has been [told](crate::install) change it.
    pub fn provider(self: &Arc<Self>) -> VersionedTable {
        VersionedTable::at(versions(self.table()), Arc::new(Version::of(self)))
    }
}

fn versions(table: &Arc<Table>) -> Arc<dyn TableVersions> {
    Arc::new(Versions(Arc::clone(table)))
}

/// The Delta table that a session's table is.
pub(crate) fn delta(table: &VersionedTable) -> Option<&Arc<Table>> {
    let versions: &dyn Any = &**table.versions();
    versions.downcast_ref().map(|Versions(table)| table)
}

/// The versions of a table, for a session.
#[derive(Debug)]
struct Versions(Arc<Table>);

impl Versions {
    fn at(&self, version: u64) -> error::Result<Version> {
        Ok(Version { held: look_up(|| self.0.at(version))?, transaction: None })
    }
}

#[async_trait]
impl TableVersions for Versions {
    async fn columns(&self) -> Result<SchemaRef> {
        Ok(Arc::clone(self.0.newest()?.schema()))
    }

    async fn newest(&self, _state: &dyn Session, asked: &Asked<'_>) -> Result<Arc<dyn TableVersion>> {
        // Its files are held before anybody agrees on it.
        let newest = Version::newest(&self.0)?;
        let number = newest.held.version();
        let agreed = asked.agreed.on(self.0.folder(), || error::Result::Ok(number as i64))? as u64;
        Ok(Arc::new(if agreed == number { newest } else { self.at(agreed)? }))
    }

    async fn named(&self, name: &str) -> Result<Option<Arc<dyn TableVersion>>> {
        let Some(version) = name.strip_prefix('v').and_then(|version| version.parse().ok()) else { return Ok(None) };
        Ok(Some(Arc::new(self.at(version)?)))
    }

    async fn insert(
        &self,
        _state: &dyn Session,
        columns: &SchemaRef,
        rows: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if op != InsertOp::Append {
            return not_impl_err!("{op} into a Delta table; delete its rows first");
        }
        let target = Target { table: Arc::clone(&self.0), seen: None, columns: Arc::clone(columns) };
        Ok(Changed { target, change: Change::Insert }.plan(rows))
    }
}
