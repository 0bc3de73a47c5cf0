//! Ctrl-C ends the work that is under way and not the process, so that what is done so far can be
//! shown and kept.

use std::fmt;
use std::future::{Future, pending};
use std::sync::Arc;

use anyhow::Context;

/// What `work` gives, or `None` if Ctrl-C is pressed before it is done: `work` is dropped then.
///
/// From its first call on Ctrl-C no longer ends the process: whatever takes long after it is waited
/// for in here, too. A press is seen when `work` waits for something; work that never does so gives
/// way by `yield_now` now and then.
pub(crate) async fn unless_pressed<T>(work: impl Future<Output = T>) -> Option<T> {
    let pressed = async {
        if tokio::signal::ctrl_c().await.is_err() {
            // Where the system cannot tell of Ctrl-C, it goes on to end the process.
            pending::<()>().await;
        }
    };
    tokio::select! {
        // Ctrl-C first: work that always has something more would never let it be seen.
        biased;
        () = pressed => None,
        done = work => Some(done),
    }
}

/// Runs `work` on `threads` threads at once, and waits for all of them. `false` after Ctrl-C:
/// nobody waits for the threads any more, and the caller sees to it that they take nothing new.
///
/// # Panics
///
/// As `work` did on one of the threads.
pub(crate) fn on_threads<W: Send + Sync + 'static>(
    shared: &Arc<W>,
    threads: usize,
    work: fn(&W),
) -> anyhow::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let all_end = async {
        // Each thread has a sender until it ends, so that there is nothing more to receive when all
        // have ended.
        let (sender, mut ended) = tokio::sync::mpsc::channel::<()>(1);
        let start = |sender: tokio::sync::mpsc::Sender<()>| {
            let shared = Arc::clone(shared);
            std::thread::spawn(move || {
                work(&shared);
                drop(sender);
            })
        };
        let threads: Vec<_> = (0..threads).map(|_| start(sender.clone())).collect();
        drop(sender);
        ended.recv().await;
        threads
    };
    let Some(threads) = runtime.block_on(unless_pressed(all_end)) else { return Ok(false) };
    for thread in threads {
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
    Ok(true)
}

/// The error of a verb that Ctrl-C ended, after what was done so far has been shown and written as
/// partial.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl Interrupted {
    /// The exit status, as a shell gives it to a process that SIGINT ended.
    pub(crate) const STATUS: u8 = 130;
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted: the results are partial")
    }
}

impl std::error::Error for Interrupted {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn work_that_is_done_is_not_interrupted() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        assert_eq!(runtime.block_on(unless_pressed(async { 7 })), Some(7));
    }
}
