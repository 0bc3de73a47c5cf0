//! A statement under way, in tasks of its own: whoever waits for its rows may turn away at any
//! time.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::mem::forget;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinSet, spawn_blocking};

use crate::held::{self, Held};
use crate::long::Parts;
use crate::order::planned_in_turn;
use crate::workers::workers;
use crate::{patient, semantics, summary, tables};

/// Batches that wait to be shown: enough that the query goes on while one is printed.
const AHEAD: usize = 2;

/// How long a process waits for statements that were given up.
const SETTLE: Duration = Duration::from_millis(100);
/// The same while one of them may write a file.
const SETTLE_WRITING: Duration = Duration::from_millis(500);

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
                None => patient::execute(semantics::frame(&ctx, &sql).await?).await,
            }
        })
        .await
    }

    /// Plans something, which may take long without ever waiting for anything: in a thread of its
    /// own, so that nobody else waits for it, and in turn. Whoever turns away is free at once, and
    /// planning ends at the next rule.
    pub async fn plan<T: Send + 'static>(
        planning: impl Future<Output = Result<T, DataFusionError>> + Send + 'static,
    ) -> Result<T, Ended> {
        Self::plan_of(&Held::default(), planning).await
    }

    async fn plan_of<T: Send + 'static>(
        held: &Held,
        planning: impl Future<Output = Result<T, DataFusionError>> + Send + 'static,
    ) -> Result<T, Ended> {
        let workers = workers().map_err(|error| Ended::Failed(error.into()))?;
        let ends = EndsWithIts(held);
        let planned = beside(workers, planned_in_turn(held.counted(planning)));
        let planned = planned.await?.map_err(Ended::Failed);
        forget(ends);
        planned
    }

    /// Does something with a long text, likewise, but of short ones there may be any number.
    pub async fn read<T: Send + 'static>(reading: impl Future<Output = T> + Send + 'static) -> Result<T, Ended> {
        beside(Handle::current(), reading).await
    }

    /// Begins to execute what `planning` ends in, before whoever waits for that hears of it.
    pub async fn run(
        planning: impl Future<Output = Result<SendableRecordBatchStream, DataFusionError>> + Send + 'static,
    ) -> Result<Self, Ended> {
        let held = Held::default();
        let of_rows = held.clone();
        Self::plan_of(&held, async move { Self::of(planning.await?, of_rows) }).await
    }

    /// Begins to execute what was planned before.
    pub fn begin(stream: SendableRecordBatchStream) -> Result<Self, Ended> {
        Self::of(stream, Held::default()).map_err(Ended::Failed)
    }

    fn of(mut stream: SendableRecordBatchStream, held: Held) -> Result<Self, DataFusionError> {
        let schema = Arc::clone(&stream.schema());
        let (sender, batches) = mpsc::channel(AHEAD);
        let mut tasks = JoinSet::new();
        let rows = held.task(async move {
            while let Some(rows) = stream.next().await {
                let Ok(batch) = rows else {
                    _ = sender.send(rows).await;
                    return;
                };
                for part in Parts::of_result(batch) {
                    if sender.send(Ok(part)).await.is_err() {
                        return;
                    }
                }
            }
        });
        tasks.spawn_on(rows, &workers()?);
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

/// What `work` gives, which may compute for long. Whoever turns away is free at once.
async fn beside<T: Send + 'static>(
    runtime: Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Ended> {
    let (waits, turned_away) = oneshot::channel::<()>();
    let done = spawn_blocking(move || {
        runtime.block_on(async {
            tokio::select! {
                biased;
                _ = turned_away => None,
                done = work => Some(done),
            }
        })
    });
    let done = done.await.map_err(Ended::Lost)?;
    drop(waits);
    done.ok_or(Ended::Dropped)
}

/// Ends a statement when whoever plans it turns away.
struct EndsWithIts<'a>(&'a Held);

impl Drop for EndsWithIts<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        self.held.end();
    }
}

/// Waits until statements that were given up have ended, too, for a part of a second at most:
/// before the process ends, so that nothing is left of what they wrote.
pub fn settle() {
    held::settle(SETTLE, SETTLE_WRITING);
}

thread_local! {
    /// Whether this thread does what catches its own panics.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Does what catches its own panics, of which nothing is printed.
pub fn quietly<T>(does: impl FnOnce() -> T) -> T {
    let before = IS_QUIET.replace(true);
    let done = does();
    IS_QUIET.set(before);
    done
}

/// A panic in a task ends its query, whose error says so; nothing else is printed, unless a
/// backtrace is asked for.
pub fn tell_panics_to_their_queries() {
    let (print, backtrace) = (std::panic::take_hook(), std::env::var_os("RUST_BACKTRACE").is_some());
    let main = std::thread::current().id();
    std::panic::set_hook(Box::new(move |panic| {
        if backtrace || std::thread::current().id() == main && !IS_QUIET.get() {
            print(panic);
        }
    }));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn whoever_waits_for_a_plan_may_turn_away() {
        let (ends, ended) = mpsc::channel::<()>();
        let (says, said) = mpsc::channel();
        let planning = async move {
            // No pause in it, as in a rule that takes long.
            says.send(ended.recv_timeout(Duration::from_secs(60)).is_ok()).unwrap();
            Ok(())
        };
        // The one thread of this runtime waits, and has its turn.
        let waited = tokio::time::timeout(Duration::from_millis(20), Query::plan(planning)).await;
        assert!(waited.is_err());
        ends.send(()).unwrap();
        assert!(said.recv_timeout(Duration::from_secs(60)).unwrap());
    }

    #[tokio::test]
    async fn a_plan_that_waits_ends_with_whoever_wanted_it() {
        let (held, holder) = oneshot::channel::<()>();
        let planning = async move {
            let _held = held;
            std::future::pending::<Result<(), DataFusionError>>().await
        };
        assert!(tokio::time::timeout(Duration::from_millis(20), Query::plan(planning)).await.is_err());
        // Its end drops what it held.
        assert!(holder.await.is_err());
    }
}
