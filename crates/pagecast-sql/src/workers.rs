//! The threads that statements run on, for all sessions of the process: one for each processor, and
//! a few on which small statements do not wait for large ones.
//!
//! Whoever waits for a statement does so on threads of its own, so that sockets, timers and Ctrl-C
//! have their turn whatever a statement is at.

use std::io;
use std::mem::forget;
use std::process;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::line::processors;
use crate::shape;

/// Threads that large statements leave to others. A second one costs TPC-H three percent of its
/// processor time, and small statements answer no sooner.
const SPARED: usize = 1;

/// They end with the process. A child that was forked has none of them, and makes its own.
static WORKERS: Mutex<Option<(u32, Runtime)>> = Mutex::new(None);

/// Where statements run.
pub(crate) fn workers() -> io::Result<Handle> {
    let mut workers = WORKERS.lock();
    if let Some((process, runtime)) = &*workers
        && *process == process::id()
    {
        return Ok(runtime.handle().clone());
    }
    let mut threads = Builder::new_multi_thread();
    threads.worker_threads(processors() + SPARED).thread_name("pagecast-worker").thread_stack_size(shape::STACK);
    let runtime = threads.enable_all().build()?;
    let handle = runtime.handle().clone();
    if let Some(of_parent) = workers.replace((process::id(), runtime)) {
        // Its threads are not there to end.
        forget(of_parent);
    }
    Ok(handle)
}
