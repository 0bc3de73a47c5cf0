//! START TRANSACTION, COMMIT and ROLLBACK: a session's transaction, which sees its own changes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Statement, TransactionConclusion};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use parking_lot::Mutex;

use crate::inlet::Takes;
use crate::seen::Version;
use crate::table::Table;
use crate::transaction::Transaction;
use crate::{DeltaError, error};

/// The transaction of a session, if one is open: by the folders of the tables that it has named.
#[derive(Debug, Default)]
pub(crate) struct Open(Mutex<Option<BTreeMap<PathBuf, Arc<Transaction>>>>);

impl Open {
    /// What the session's transaction sees of a table, if one is open.
    pub(crate) fn see(&self, table: &Arc<Table>) -> error::Result<Option<Version>> {
        let mut open = self.0.lock();
        let Some(open) = open.as_mut() else { return Ok(None) };
        let folder = table.folder();
        if !open.contains_key(folder) {
            match table.begin() {
                Ok(transaction) => drop(open.insert(folder.to_owned(), transaction)),
                // Who only reads it need not be able to write it.
                Err(DeltaError::Feature { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(open.get(folder).map(Version::of))
    }

    fn begin(&self) -> Result<()> {
        let mut open = self.0.lock();
        if open.is_some() {
            return plan_err!("a transaction is open already; COMMIT or ROLLBACK ends it");
        }
        *open = Some(BTreeMap::new());
        Ok(())
    }

    /// How many versions it has made.
    fn commit(&self) -> Result<u64> {
        let mut open = self.0.lock();
        let changed = |open: &BTreeMap<PathBuf, Arc<Transaction>>| -> Vec<Arc<Transaction>> {
            open.values().filter(|transaction| transaction.has_changes()).cloned().collect()
        };
        let Some(changed) = open.as_ref().map(changed) else {
            return plan_err!("no transaction is open; START TRANSACTION opens one");
        };
        if let [one, other, ..] = &changed[..] {
            let (one, other) = (one.table().folder().display(), other.table().folder().display());
            return plan_err!(
                "a transaction can change one table, and this one has changed {one} and {other}; ROLLBACK ends it"
            );
        }
        *open = None;
        changed.first().map_or(Ok(()), |transaction| transaction.commit().map(drop))?;
        Ok(changed.len() as u64)
    }

    fn roll_back(&self) -> Result<()> {
        match self.0.lock().take() {
            Some(_) => Ok(()),
            None => plan_err!("no transaction is open; START TRANSACTION opens one"),
        }
    }
}

/// A word of a session about its transaction, which is planned as an INSERT of nothing.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    open: Arc<Open>,
    kind: Kind,
    schema: SchemaRef,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Begin,
    Commit,
    Rollback,
}

impl Word {
    /// The word that a statement is, if it is one.
    pub(crate) fn of(statement: &Statement, open: &Arc<Open>) -> Option<Self> {
        let kind = match statement {
            Statement::TransactionStart(_) => Kind::Begin,
            Statement::TransactionEnd(end) => match end.conclusion {
                TransactionConclusion::Commit => Kind::Commit,
                TransactionConclusion::Rollback => Kind::Rollback,
            },
            _ => return None,
        };
        Some(Self { open: Arc::clone(open), kind, schema: Arc::new(Schema::empty()) })
    }
}

impl Takes for Word {
    fn sink(&self, _columns: SchemaRef) -> Arc<dyn DataSink> {
        Arc::new(self.clone())
    }
}

impl DisplayAs for Word {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:?}", self.kind)
    }
}

#[async_trait]
impl DataSink for Word {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(&self, _data: SendableRecordBatchStream, _context: &Arc<TaskContext>) -> Result<u64> {
        match self.kind {
            Kind::Begin => self.open.begin().map(|()| 0),
            Kind::Commit => {
                let open = Arc::clone(&self.open);
                crate::sink::blocking(move || open.commit()).await
            }
            Kind::Rollback => self.open.roll_back().map(|()| 0),
        }
    }
}
