//! A connection, as Python has it.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionConfig;
use pagecast::FlashOptions;
use pagecast_datafusion::Delivery;
use pagecast_sim::size::Size;
use pagecast_sql::{Engine, Options, Place, check, files, query, shape};
use parking_lot::Mutex;
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use tokio::runtime::Builder;

use crate::errors::{self, one_line};
use crate::open::Open;
use crate::statement::Statement;
use crate::{capsule_unsafe, statistics, wait};

/// A connection, until it is closed.
#[pyclass(frozen, module = "pagecast_sql._engine")]
pub(crate) struct Session {
    open: Mutex<Option<Arc<Open>>>,
}

/// Opens a session; also gives what is wrong with tables that are closed.
#[pyfunction]
#[pyo3(signature = (*, data, allow, endpoint, memory, temp, max_temp, flash, flash_writes, policy, seed, delivery))]
#[allow(clippy::too_many_arguments, reason = "they are those of `connect`, by name")]
pub(crate) fn open(
    py: Python<'_>,
    data: Option<PathBuf>,
    allow: Vec<PathBuf>,
    endpoint: Option<String>,
    memory: Option<&Bound<'_, PyAny>>,
    temp: Option<PathBuf>,
    max_temp: Option<&Bound<'_, PyAny>>,
    flash: Option<(PathBuf, Bound<'_, PyAny>)>,
    flash_writes: Option<&Bound<'_, PyAny>>,
    policy: String,
    seed: u64,
    delivery: &str,
) -> PyResult<(Session, Vec<String>)> {
    query::tell_panics_to_their_queries();
    let flash_writes = flash_writes.map(|rate| bytes("flash_writes", rate)).transpose()?;
    let flash = match flash {
        Some((folder, size)) => Some(FlashOptions::new(folder, bytes("flash", &size)?).writes(flash_writes)),
        None if flash_writes.is_some() => {
            return Err(PyValueError::new_err("flash_writes: there is no flash to write to"));
        }
        None => None,
    };
    let options = Options {
        data: data.map(Place::from),
        bounded: false,
        allowed: allow,
        endpoint: endpoint.clone(),
        memory: memory.map(|limit| bytes("memory", limit)).transpose()?,
        temp,
        max_temp: max_temp.map(|limit| bytes("max_temp", limit)).transpose()?,
        flash,
        policy,
        seed,
        delivery: match delivery {
            "stock" => Delivery::Stock,
            "in-order" => Delivery::InOrder,
            "out-of-order" => Delivery::OutOfOrder,
            other => {
                let known = "stock, in-order or out-of-order";
                return Err(PyValueError::new_err(format!("delivery: `{other}` is none; write {known}")));
            }
        },
        recorder: None,
    };
    let runtime =
        Builder::new_multi_thread().thread_name("pagecast").thread_stack_size(shape::STACK).enable_all().build();
    let runtime = runtime.map_err(|error| PyOSError::new_err(format!("no threads for queries: {error}")))?;
    let engine = wait::until(py, runtime.handle(), pin!(Engine::open(options, SessionConfig::new())))?;
    let engine = engine.map_err(errors::of_opening)?;
    files::install(&engine.ctx, endpoint.as_deref());
    let closed = engine.closed.iter();
    let closed = closed.map(|table| one_line(&format!("table {} is closed: {:#}", table.name, table.fault))).collect();
    let open = Open::new(engine, endpoint, runtime);
    Ok((Session { open: Mutex::new(Some(Arc::new(open))) }, closed))
}

/// Bytes of an argument: a number, or text with a unit.
fn bytes(argument: &str, amount: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Ok(bytes) = amount.extract::<u64>() {
        return Ok(bytes);
    }
    let Ok(text) = amount.extract::<String>() else {
        let kind = amount.get_type();
        return Err(PyTypeError::new_err(format!("{argument}: a number of bytes or \"4GiB\" is wanted, not {kind}")));
    };
    match text.parse() {
        Ok(Size::Bytes(bytes)) => Ok(bytes),
        Ok(_) => Err(PyValueError::new_err(format!("{argument}: `{text}` is no amount; write 256MiB or 4GiB"))),
        Err(error) => Err(PyValueError::new_err(format!("{argument}: {error}"))),
    }
}

impl Session {
    fn open(&self) -> PyResult<Arc<Open>> {
        let open = self.open.lock();
        open.clone().ok_or_else(|| PyValueError::new_err("the connection is closed"))
    }
}

#[pymethods]
impl Session {
    /// Plans a statement.
    fn sql(&self, py: Python<'_>, sql: &str) -> PyResult<Statement> {
        Statement::of(py, &self.open()?, sql)
    }

    /// The tables and views, sorted.
    fn tables(&self) -> PyResult<Vec<String>> {
        Ok(check::table_names(&self.open()?.engine.ctx))
    }

    /// Makes a table of a file, a folder or a URL, in place of one that has its name.
    fn register_place(&self, py: Python<'_>, name: &str, place: &str) -> PyResult<()> {
        let open = self.open()?;
        let ctx = &open.engine.ctx;
        let made = open.wait(py, pin!(files::table(ctx, place, open.endpoint.as_deref())))?;
        let table = made.map_err(|error| errors::of(&error))?;
        let name = TableReference::bare(name);
        let registered = ctx.deregister_table(name.clone()).and_then(|_| ctx.register_table(name, table));
        registered.map(drop).map_err(|error| errors::of_datafusion(&error))
    }

    /// Makes a table of the rows of a stream, which are kept in memory.
    fn register_rows(&self, name: &str, rows: &Bound<'_, PyCapsule>) -> PyResult<()> {
        let open = self.open()?;
        let (schema, rows) = capsule_unsafe::collect(rows)?;
        let name = TableReference::bare(name);
        let registered = MemTable::try_new(schema, vec![rows]).and_then(|table| {
            let ctx = &open.engine.ctx;
            ctx.deregister_table(name.clone())?;
            ctx.register_table(name, Arc::new(table))
        });
        registered.map(drop).map_err(|error| errors::of_datafusion(&error))
    }

    /// Counts of the pool.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let open = self.open()?;
        statistics::of(py, &open)
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.open().is_err()
    }

    /// Gives the pool back, once results that are still read have ended.
    fn close(&self, py: Python<'_>) {
        let open = self.open.lock().take();
        if let Some(open) = open {
            // The next connection finds on flash what this one has read.
            py.detach(|| {
                open.engine.pool.settle_flash();
                drop(open);
            });
        }
    }
}
