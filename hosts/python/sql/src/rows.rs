//! The rows of a statement as an Arrow stream, which runs as far as somebody takes them.

use std::pin::pin;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ffi_stream::FFI_ArrowArrayStream;
use datafusion::execution::SendableRecordBatchStream;
use pagecast_sql::query::{Ended, Query};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::capsule_unsafe;
use crate::errors::{SqlError, one_line};
use crate::open::Open;
use crate::wait;

/// How far a stream is.
pub(crate) enum Stage {
    /// Nothing has been read yet.
    Planned(SendableRecordBatchStream),
    Running(Query),
    /// The rows that a statement left, which has run.
    Kept(std::vec::IntoIter<RecordBatch>),
    Ended,
}

/// Rows for one consumer. To drop it is to end the query.
pub(crate) struct Rows {
    open: Arc<Open>,
    schema: SchemaRef,
    stage: Stage,
    /// The thread that asked for the stream. It may hold the interpreter's lock while another
    /// thread takes rows, so that the other must not wait for the lock.
    thread: ThreadId,
    failure: Arc<Mutex<Option<String>>>,
}

impl Rows {
    pub(crate) fn new(open: Arc<Open>, schema: SchemaRef, stage: Stage) -> Self {
        Self { open, schema, stage, thread: thread::current().id(), failure: Arc::default() }
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The next rows. What ended the query is raised as it is here, and not as streams know it.
    pub(crate) fn next_in(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        let Some(batch) = self.next() else { return Ok(None) };
        batch.map(Some).or_else(|error| {
            py.check_signals()?;
            let failure = self.failure.lock().clone();
            Err(SqlError::new_err(failure.unwrap_or_else(|| error.to_string())))
        })
    }

    /// The next rows; on the thread that asked for the stream, Ctrl-C ends it.
    fn take(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let (open, stage) = (Arc::clone(&self.open), &mut self.stage);
        let mut work = pin!(next(stage));
        let is_callers = thread::current().id() == self.thread;
        let waited = match is_callers {
            true => Python::try_attach(|py| wait::until(py, open.runtime(), work.as_mut()).map_err(|_| again(py))),
            false => None,
        };
        match waited.unwrap_or_else(|| Ok(open.runtime().block_on(work))) {
            Ok(taken) => taken.map_err(|ended| {
                let text = one_line(&ended.to_string());
                self.failure.lock().replace(text.clone());
                ArrowError::ComputeError(text)
            }),
            Err(()) => Err(ArrowError::ComputeError("Ctrl-C ended the query".into())),
        }
    }
}

/// Lets Ctrl-C be seen again when the consumer, who knows errors of streams alone, has given up.
fn again(py: Python<'_>) {
    if let Ok(thread) = py.import("_thread") {
        // There is nobody to tell: the query ends either way.
        let _ = thread.call_method0("interrupt_main");
    }
}

async fn next(stage: &mut Stage) -> Result<Option<RecordBatch>, Ended> {
    *stage = match std::mem::replace(stage, Stage::Ended) {
        Stage::Planned(rows) => Stage::Running(Query::begin(rows)?),
        other => other,
    };
    match stage {
        Stage::Running(query) => query.next().await,
        Stage::Kept(batches) => Ok(batches.next()),
        Stage::Planned(_) | Stage::Ended => Ok(None),
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let taken = self.take().transpose();
        if !matches!(taken, Some(Ok(_))) {
            self.stage = Stage::Ended;
        }
        taken
    }
}

/// Rows on their way out of the connection.
struct Outgoing(Rows);

impl Iterator for Outgoing {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.and_then(|batch| capsule_unsafe::hand_over(&batch)))
    }
}

impl RecordBatchReader for Outgoing {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

/// Rows for whoever takes them by the Arrow PyCapsule interface, once.
#[pyclass(frozen, module = "pagecast_sql._engine")]
pub(crate) struct Stream {
    rows: Mutex<Option<Rows>>,
    failure: Arc<Mutex<Option<String>>>,
}

impl Stream {
    pub(crate) fn of(rows: Rows) -> Self {
        let failure = Arc::clone(&rows.failure);
        Self { rows: Mutex::new(Some(rows)), failure }
    }
}

#[pymethods]
impl Stream {
    /// A schema that is asked for is a wish that need not be met.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let rows = self.rows.lock().take();
        let rows = rows.ok_or_else(|| PyValueError::new_err("these rows have been taken"))?;
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(Outgoing(rows))), c"arrow_array_stream")
    }

    fn __iter__(stream: PyRef<'_, Self>) -> PyRef<'_, Self> {
        stream
    }

    /// The next batch, as a stream of its own.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Self>> {
        // Not held while rows are waited for: another thread that asks finds that they are taken.
        let taken = self.rows.lock().take();
        let mut rows = taken.ok_or_else(|| PyValueError::new_err("these rows have been taken"))?;
        let Some(batch) = rows.next_in(py)? else { return Ok(None) };
        let one = Rows::new(Arc::clone(&rows.open), rows.schema(), Stage::Kept(vec![batch].into_iter()));
        self.rows.lock().replace(rows);
        Ok(Some(Self::of(one)))
    }

    /// What ended the query, if it failed.
    fn failure(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let text = self.failure.lock().clone()?;
        Some(SqlError::new_err(text).into_value(py).into_any())
    }
}
