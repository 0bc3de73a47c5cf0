//! Waiting for a future in a thread, without a runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::sync::{Condvar, Mutex};

/// A thread that sleeps until it is woken; a wake before the sleep is kept.
struct Sleeper {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        *self.woken.lock() = true;
        self.changed.notify_one();
    }
}

impl Sleeper {
    fn sleep(&self) {
        let mut woken = self.woken.lock();
        while !*woken {
            self.changed.wait(&mut woken);
        }
        *woken = false;
    }
}

/// Runs `future` to its end in this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let sleeper = Arc::new(Sleeper { woken: Mutex::new(false), changed: Condvar::new() });
    let waker = Waker::from(sleeper.clone());
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => sleeper.sleep(),
        }
    }
}
