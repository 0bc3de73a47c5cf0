//! A statement under way, in tasks of its own: whoever waits for its rows may turn away at any
//! time.

use std::sync::Arc;

use anyhow::anyhow;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

use super::summary;
use crate::tables;

/// Batches that wait to be shown: enough that the query goes on while one is printed.
const AHEAD: usize = 2;

/// The rows of a statement as they come. To drop it is to end the query.
pub(super) struct Query {
    schema: SchemaRef,
    batches: mpsc::Receiver<Result<RecordBatch, DataFusionError>>,
    tasks: JoinSet<()>,
}

impl Query {
    /// Plans `sql` and begins to execute it.
    pub(super) async fn start(ctx: &SessionContext, sql: &str) -> anyhow::Result<Self> {
        // Planning may take long without ever waiting for anything.
        let mut planning = JoinSet::new();
        let (ctx, sql) = (ctx.clone(), sql.to_owned());
        planning.spawn(async move {
            match summary::described(&sql) {
                Some(described) => summary::of(&ctx, &described).await,
                None => ctx.sql(&sql).await?.execute_stream().await,
            }
        });
        let planned: Option<Result<Result<SendableRecordBatchStream, _>, _>> = planning.join_next().await;
        let planned =
            planned.ok_or_else(|| anyhow!("the statement was not planned"))?.map_err(|stopped| lost(&stopped))?;
        let mut stream = planned.map_err(|error| anyhow!(tables::message(&error)))?;
        let schema = Arc::clone(&stream.schema());
        let (sender, batches) = mpsc::channel(AHEAD);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while let Some(batch) = stream.next().await {
                if sender.send(batch).await.is_err() {
                    return;
                }
            }
        });
        Ok(Self { schema, batches, tasks })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next rows; `None` at the end.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<RecordBatch>> {
        match self.batches.recv().await {
            Some(Ok(batch)) => Ok(Some(batch)),
            Some(Err(error)) => Err(anyhow!(tables::message(&error))),
            None => match self.tasks.join_next().await {
                Some(Err(stopped)) => Err(lost(&stopped)),
                _ => Ok(None),
            },
        }
    }
}

/// A query that ended in a panic, of a decoder that met a broken file mostly.
fn lost(stopped: &JoinError) -> anyhow::Error {
    anyhow!("the query ended in a fault of its own program, perhaps over a broken file: {stopped}")
}
