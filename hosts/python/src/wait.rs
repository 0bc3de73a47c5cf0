//! Work on other threads, while Python looks after Ctrl-C.

use pagecast_sim::watch::Watch;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How often Ctrl-C and progress are looked at.
const TICK: Duration = Duration::from_millis(50);
/// How long threads that were stopped are waited for. Then they are left to end by themselves.
const PATIENCE: Duration = Duration::from_millis(400);

/// Runs `work` on `threads` threads without the interpreter's lock and waits for all of them.
/// `tick` is called now and then, on this thread. Ctrl-C, or an error of `tick`, stops `watch`.
pub(crate) fn on_threads<W: Send + Sync + 'static>(
    py: Python<'_>,
    work: &Arc<W>,
    threads: usize,
    watch: &Watch,
    run: fn(&W),
    mut tick: impl FnMut() -> PyResult<()>,
) -> PyResult<()> {
    // Each thread has a sender until it ends, so that the channel closes when all have ended.
    let (sender, mut ended) = channel::<()>();
    let start = |_| {
        let (work, sender) = (Arc::clone(work), sender.clone());
        std::thread::spawn(move || {
            run(&work);
            drop(sender);
        })
    };
    let threads: Vec<_> = (0..threads.max(1)).map(start).collect();
    drop(sender);
    while !have_ended(py, &mut ended, TICK) {
        if let Err(error) = py.check_signals().and_then(|()| tick()) {
            watch.stop();
            have_ended(py, &mut ended, PATIENCE);
            return Err(error);
        }
    }
    let panicked = py.detach(|| threads.into_iter().map(std::thread::JoinHandle::join).any(|ended| ended.is_err()));
    match panicked {
        true => Err(PyRuntimeError::new_err("a replay failed; what it said stands on stderr. This is a defect")),
        false => Ok(()),
    }
}

fn have_ended(py: Python<'_>, ended: &mut Receiver<()>, within: Duration) -> bool {
    py.detach(move || ended.recv_timeout(within)) == Err(RecvTimeoutError::Disconnected)
}

/// What `make` gives, made on a thread of its own; Ctrl-C stops `watch`, which `make` looks at.
pub(crate) fn made<T: Send + 'static>(
    py: Python<'_>,
    watch: &Arc<Watch>,
    make: impl FnOnce(&Arc<Watch>) -> PyResult<T> + Send + 'static,
) -> PyResult<T> {
    let (sender, mut made) = channel();
    let shared = Arc::clone(watch);
    std::thread::spawn(move || {
        // Nobody may be waiting any more.
        let _ = sender.send(make(&shared));
    });
    loop {
        let made = &mut made;
        match py.detach(move || made.recv_timeout(TICK)) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| watch.stop())?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err(
                    "reading failed; what was said stands on stderr. This is a defect",
                ));
            }
        }
    }
}
