//! Where the rows of INSERT, DELETE and UPDATE end: in a transaction.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, SchemaRef};
use async_trait::async_trait;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::TryStreamExt;

use crate::data::{DataWriter, fitted};
use crate::held::look_up;
use crate::inlet::Takes;
use crate::seen::Version;
use crate::table::Table;
use crate::transaction::{Statement, Transaction};

/// What a statement does with the rows that come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// They are new.
    Insert,
    /// Each is the position of a row that goes.
    Delete,
    /// Each is a new row, and the position of the row that goes for it.
    Update,
}

impl Change {
    /// What it is called in the log.
    fn operation(self) -> &'static str {
        match self {
            Self::Insert => "WRITE",
            Self::Delete => "DELETE",
            Self::Update => "UPDATE",
        }
    }
}

/// What a statement changes.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) table: Arc<Table>,
    /// What the statement has seen of it; without it that is the newest version.
    pub(crate) seen: Option<Version>,
    /// With which the statement was planned.
    pub(crate) columns: SchemaRef,
}

impl Target {
    /// The transaction that the statement is a part of, or else is by itself.
    fn begin(&self) -> Result<Arc<Transaction>> {
        let transaction = match &self.seen {
            Some(Version { transaction: Some(open), .. }) => Arc::clone(open),
            Some(Version { held, .. }) => Transaction::new(&self.table, held)?,
            None => Transaction::new(&self.table, &look_up(|| self.table.newest())?)?,
        };
        if *transaction.base().schema() != self.columns {
            return plan_err!("the columns of {} have changed; run the statement anew", self.table.folder().display());
        }
        Ok(transaction)
    }

    fn is_in_transaction(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.transaction.is_some())
    }
}

/// A statement that changes a table by its rows.
#[derive(Debug)]
pub(crate) struct Changed {
    pub(crate) target: Target,
    pub(crate) change: Change,
}

impl Takes for Changed {
    fn sink(&self, columns: SchemaRef) -> Arc<dyn DataSink> {
        Arc::new(ChangeSink { target: self.target.clone(), change: self.change, schema: columns })
    }
}

#[derive(Debug)]
struct ChangeSink {
    target: Target,
    change: Change,
    /// Of the rows that come.
    schema: SchemaRef,
}

impl DisplayAs for ChangeSink {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "DeltaSink({}, {})", self.change.operation(), self.target.table.folder().display())
    }
}

#[async_trait]
impl DataSink for ChangeSink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Without a transaction around it, the statement is one.
    async fn write_all(&self, data: SendableRecordBatchStream, _context: &Arc<TaskContext>) -> Result<u64> {
        let transaction = self.target.begin()?;
        let (statement, count) = self.collect(data, &transaction).await?;
        if count > 0 {
            transaction.apply(statement)?;
            if !self.target.is_in_transaction() {
                blocking(move || Ok(transaction.commit()?)).await?;
            }
        }
        Ok(count)
    }
}

impl ChangeSink {
    /// What the statement changes, and how many rows it names.
    async fn collect(
        &self,
        mut data: SendableRecordBatchStream,
        transaction: &Transaction,
    ) -> Result<(Statement, u64)> {
        let columns = &transaction.base().columns;
        let table = transaction.table();
        let mut statement = Statement { operation: self.change.operation(), ..Statement::default() };
        let (mut count, mut memory, mut writer) = (0, 0, None);
        while let Some(batch) = data.try_next().await? {
            count += batch.num_rows() as u64;
            if self.change != Change::Insert {
                statement.deleted.extend(positions(&batch)?);
            }
            if self.change == Change::Delete {
                continue;
            }
            let rows = fitted(&named(&batch, columns.all())?, columns.all())?;
            memory += rows.get_array_memory_size();
            statement.rows.push(rows);
            if memory > table.options.memory {
                let writer = writer.get_or_insert_with(|| DataWriter::new(&table.root, &table.options, columns));
                statement.rows.drain(..).try_for_each(|rows| writer.write(&rows))?;
                memory = 0;
            }
        }
        if let Some(mut writer) = writer {
            statement.rows.drain(..).try_for_each(|rows| writer.write(&rows))?;
            statement.files = writer.finish()?;
        }
        Ok((statement, count))
    }
}

/// Work that waits for a disk, where it keeps no other query from going on.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = SpawnedTask::spawn_blocking(work).join_unwind().await;
    done.map_err(|error| DataFusionError::External(Box::new(error)))?
}

/// The last column.
fn positions(batch: &RecordBatch) -> Result<Vec<i64>> {
    let column = batch.columns().last().and_then(|column| column.as_primitive_opt::<Int64Type>());
    let column = column.filter(|column| column.null_count() == 0);
    let column = column.ok_or_else(|| DataFusionError::Internal("rows without positions".to_owned()))?;
    Ok(column.values().to_vec())
}

/// The first columns by the names that they have in the table.
fn named(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = &batch.columns()[..schema.fields().len().min(batch.num_columns())];
    let fields = schema.fields().iter().zip(columns);
    let fields = fields.map(|(field, column)| {
        Arc::new(field.as_ref().clone().with_data_type(column.data_type().clone()).with_nullable(true))
    });
    let schema = arrow::datatypes::Schema::new(fields.collect::<Vec<_>>());
    Ok(RecordBatch::try_new(Arc::new(schema), columns.to_vec())?)
}
