//! Work of a runtime that a Python thread waits for, while it looks after Ctrl-C.

use pyo3::prelude::*;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// How often Ctrl-C is looked at.
const TICK: Duration = Duration::from_millis(50);

/// What `work` gives, without the interpreter's lock. After Ctrl-C, which only Python's main thread
/// sees, whoever drops `work` ends it.
pub(crate) fn until<T: Send>(
    py: Python<'_>,
    runtime: &Handle,
    mut work: Pin<&mut (impl Future<Output = T> + Send)>,
) -> PyResult<T> {
    loop {
        let work = work.as_mut();
        match py.detach(|| runtime.block_on(async { timeout(TICK, work).await })) {
            Ok(done) => return Ok(done),
            Err(_) => py.check_signals()?,
        }
    }
}
