//! What is open: a pool, tables, and a runtime for queries.

use std::future::Future;
use std::pin::Pin;

use pagecast_sql::Engine;
use pyo3::prelude::*;
use tokio::runtime::{Handle, Runtime};

use crate::wait;

/// What a session and its results share.
pub(crate) struct Open {
    pub(crate) engine: Engine,
    pub(crate) endpoint: Option<String>,
    /// (R1) There until this is dropped.
    runtime: Option<Runtime>,
    handle: Handle,
}

impl Open {
    pub(crate) fn new(engine: Engine, endpoint: Option<String>, runtime: Runtime) -> Self {
        let handle = runtime.handle().clone();
        Self { engine, endpoint, runtime: Some(runtime), handle }
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.handle
    }

    /// What `work` gives; Ctrl-C raises `KeyboardInterrupt`.
    pub(crate) fn wait<T: Send>(
        &self,
        py: Python<'_>,
        work: Pin<&mut (impl Future<Output = T> + Send)>,
    ) -> PyResult<T> {
        wait::until(py, &self.handle, work)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // A query that was given up and has not noticed yet is not waited for.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
