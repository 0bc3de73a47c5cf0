//! Work of a runtime that a Python thread waits for, while it looks after Ctrl-C.

use pyo3::prelude::*;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// How often Ctrl-C is looked at.
const TICK: Duration = Duration::from_millis(50);

/// Wakes the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What `work` gives, without the interpreter's lock. After Ctrl-C, which only Python's main thread
/// sees, whoever drops `work` ends it.
///
/// The thread keeps time by itself: the runtime's clock stands still while its threads compute.
pub(crate) fn until<T: Send>(
    py: Python<'_>,
    runtime: &Handle,
    mut work: Pin<&mut (impl Future<Output = T> + Send)>,
) -> PyResult<T> {
    let _inside = runtime.enter();
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        // Also where there is always something to be had, and nobody waits for a tick.
        py.check_signals()?;
        let work = work.as_mut();
        if let Poll::Ready(done) = py.detach(|| poll_for_a_tick(work, &waker)) {
            return Ok(done);
        }
    }
}

/// What `work` gives, if it does so soon.
fn poll_for_a_tick<T>(mut work: Pin<&mut impl Future<Output = T>>, waker: &Waker) -> Poll<T> {
    let end = Instant::now() + TICK;
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(waker)) {
            return Poll::Ready(done);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Poll::Pending;
        }
        thread::park_timeout(left);
    }
}
