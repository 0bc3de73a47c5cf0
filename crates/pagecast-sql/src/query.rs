//! A statement under way, in tasks of its own: whoever waits for its rows may turn away at any
//! time.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

use crate::held::Held;
use crate::{summary, tables};

/// Batches that wait to be shown: enough that the query goes on while one is printed.
const AHEAD: usize = 2;

/// The rows of a statement as they come. To drop it is to end the query.
pub struct Query {
    schema: SchemaRef,
    batches: mpsc::Receiver<Result<RecordBatch, DataFusionError>>,
    tasks: JoinSet<()>,
    held: Held,
}

/// Why a statement gives no rows, or no more of them. One line.
#[derive(Debug)]
pub enum Ended {
    /// Its error.
    Failed(DataFusionError),
    /// In a panic, of a decoder that met a broken file mostly.
    Lost(JoinError),
    /// The runtime is shutting down.
    Dropped,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => f.write_str(&tables::message(error)),
            Self::Lost(stopped) => {
                write!(f, "the query ended in a fault of its own program, perhaps over a broken file: {stopped}")
            }
            Self::Dropped => f.write_str("the statement was not planned"),
        }
    }
}

impl std::error::Error for Ended {}

impl Query {
    /// Plans `sql` and begins to execute it.
    pub async fn start(ctx: &SessionContext, sql: &str) -> Result<Self, Ended> {
        let (ctx, sql) = (ctx.clone(), sql.to_owned());
        Self::run(async move {
            match summary::described(&sql) {
                Some(described) => summary::of(&ctx, &described).await,
                None => ctx.sql(&sql).await?.execute_stream().await,
            }
        })
        .await
    }

    /// Plans something, which may take long without ever waiting for anything.
    pub async fn plan<T: Send + 'static>(
        planning: impl Future<Output = Result<T, DataFusionError>> + Send + 'static,
    ) -> Result<T, Ended> {
        let mut tasks = JoinSet::new();
        tasks.spawn(planning);
        tasks.join_next().await.ok_or(Ended::Dropped)?.map_err(Ended::Lost)?.map_err(Ended::Failed)
    }

    /// Begins to execute what `planning` ends in.
    pub async fn run(
        planning: impl Future<Output = Result<SendableRecordBatchStream, DataFusionError>> + Send + 'static,
    ) -> Result<Self, Ended> {
        let held = Held::default();
        let mut stream = Self::plan(held.counted(planning)).await?;
        let schema = Arc::clone(&stream.schema());
        let (sender, batches) = mpsc::channel(AHEAD);
        let mut tasks = JoinSet::new();
        tasks.spawn(held.counted(async move {
            while let Some(batch) = stream.next().await {
                if sender.send(batch).await.is_err() {
                    return;
                }
            }
        }));
        Ok(Self { schema, batches, tasks, held })
    }

    /// What it holds of the heap. Whoever works on its rows has that counted, too.
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// Of its rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next rows; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>, Ended> {
        match self.batches.recv().await {
            Some(Ok(batch)) => Ok(Some(batch)),
            Some(Err(error)) => Err(Ended::Failed(error)),
            None => match self.tasks.join_next().await {
                Some(Err(stopped)) => Err(Ended::Lost(stopped)),
                _ => Ok(None),
            },
        }
    }
}

/// A panic in a task ends its query, whose error says so; nothing else is printed, unless a
/// backtrace is asked for.
pub fn tell_panics_to_their_queries() {
    let (print, backtrace) = (std::panic::take_hook(), std::env::var_os("RUST_BACKTRACE").is_some());
    let main = std::thread::current().id();
    std::panic::set_hook(Box::new(move |panic| {
        if backtrace || std::thread::current().id() == main {
            print(panic);
        }
    }));
}
