//! Statements that find too little memory because of others wait for them, and begin anew.
//!
//! A sort or a join that would fit fails when others hold the memory, and whether they do is
//! chance. So a statement that has handed on no rows is given up where it fails, and run again when
//! it has the turn of large ones: one of them runs at a time, beside small ones. Whoever needed the
//! turn once takes it at once when it comes again. The error stands where nobody else holds
//! anything.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::dataframe::DataFrame;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};

use crate::budget::OverBudget;
use crate::held;

/// How long a statement tries, and how long it waits for its turn.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first pause between two attempts; each one is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(50);
/// Statements that are known to be large; with more all are forgotten.
const MOST_KNOWN: usize = 1000;

/// The turn of large statements.
static TURN: Semaphore = Semaphore::const_new(1);
/// Those that needed it.
static LARGE: Mutex<HashSet<u64, BuildHasherDefault<DefaultHasher>>> =
    Mutex::new(HashSet::with_hasher(BuildHasherDefault::new()));

/// Plans a statement. It runs when its rows are asked for.
///
/// # Errors
///
/// It has no plan.
pub async fn execute(frame: DataFrame) -> Result<SendableRecordBatchStream> {
    let plan = frame.logical_plan();
    if matches!(plan, LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::Ddl(_) | LogicalPlan::Statement(_)) {
        return frame.execute_stream().await;
    }
    let key = BuildHasherDefault::<DefaultHasher>::default().hash_one(plan);
    let plan = frame.clone().create_physical_plan().await?;
    let schema = plan.schema();
    let patient =
        Patient { frame, key, plan, rows: None, has_handed_on: false, turn: None, failed: None, pause: PAUSE };
    let rows = stream::try_unfold(patient, |mut patient| async move {
        let next = patient.next().await?;
        Ok(next.map(|batch| (batch, patient)))
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}

struct Patient {
    frame: DataFrame,
    key: u64,
    plan: Arc<dyn ExecutionPlan>,
    /// Once it runs.
    rows: Option<SendableRecordBatchStream>,
    /// From then on there is no way back.
    has_handed_on: bool,
    turn: Option<SemaphorePermit<'static>>,
    /// When it failed first.
    failed: Option<Instant>,
    pause: Duration,
}

impl Patient {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let rows = match &mut self.rows {
                Some(rows) => rows,
                None => {
                    if LARGE.lock().contains(&self.key) {
                        self.take_turn().await;
                    }
                    self.rows.insert(execute_stream(Arc::clone(&self.plan), Arc::new(self.frame.task_ctx()))?)
                }
            };
            match rows.next().await.transpose() {
                Err(error) if !self.has_handed_on && is_want_of_memory(&error) && self.may_try_again() => {
                    // What it holds is given back before it waits.
                    self.rows = None;
                    self.wait().await;
                    self.plan = self.frame.clone().create_physical_plan().await?;
                }
                next => {
                    self.has_handed_on = true;
                    return next;
                }
            }
        }
    }

    /// Whether others may hold what it wants, and it has not waited for too long.
    fn may_try_again(&mut self) -> bool {
        held::are_others() && self.failed.get_or_insert_with(Instant::now).elapsed() < PATIENCE
    }

    /// Waits for the turn of large statements, and in it for what others hold.
    async fn wait(&mut self) {
        if self.turn.is_some() {
            sleep(self.pause).await;
            self.pause *= 2;
            return;
        }
        let mut large = LARGE.lock();
        if large.len() >= MOST_KNOWN {
            large.clear();
        }
        large.insert(self.key);
    }

    async fn take_turn(&mut self) {
        if self.turn.is_none() {
            self.turn = timeout(PATIENCE, TURN.acquire()).await.ok().and_then(Result::ok);
            self.failed = None;
        }
    }
}

fn is_want_of_memory(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => true,
        DataFusionError::External(error) => error.is::<OverBudget>(),
        _ => false,
    }
}
