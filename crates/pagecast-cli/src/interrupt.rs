//! Ctrl-C ends the work that is under way and not the process, so that what is done so far can be
//! shown and kept. A second one ends the process, whatever its threads are at.

use std::fmt;
use std::future::{Future, pending};
use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind};

/// How long a process has for its end after a second press.
const LAST: Duration = Duration::from_millis(700);

/// Ctrl-C was pressed, or SIGTERM came, and no other work was begun since then.
static PRESSED: AtomicBool = AtomicBool::new(false);

/// The exit status of a process that SIGTERM ended.
const TERMINATED: i32 = 128 + 15;

/// Has the second press of Ctrl-C end the process, by a thread that waits for nothing else, and
/// SIGTERM, too. The first press is for those who do the work.
pub(crate) fn end_at_a_second_press() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        watch(async || {
            if is_terminated().await {
                end(TERMINATED);
            }
        });
    });
}

/// The same for a server, of which SIGTERM ends the work, too.
#[cfg(feature = "serve")]
pub(crate) fn end_at_a_second_signal() {
    watch(async || _ = is_terminated().await);
}

/// Waits for a press of Ctrl-C, or for SIGTERM, and says whether it was that.
async fn is_terminated() -> bool {
    let mut presses = Presses::alone();
    #[cfg(unix)]
    if let Ok(mut terminate) = tokio::signal::unix::signal(SignalKind::terminate()) {
        return tokio::select! {
            () = presses.next() => false,
            _ = terminate.recv() => true,
        };
    }
    presses.next().await;
    false
}

/// Ends the process at once, with nothing left of what it had begun to write.
fn end(status: i32) -> ! {
    pagecast::files::leave_nothing();
    std::process::exit(status)
}

fn watch(press: impl AsyncFn() + Send + 'static) {
    let watching = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        loop {
            runtime.block_on(press());
            if PRESSED.swap(true, Relaxed) {
                std::thread::sleep(LAST);
                end(i32::from(Interrupted::STATUS));
            }
        }
    };
    // Without this thread a second press is what a first one is.
    let _ = std::thread::Builder::new().name("pagecast-presses".to_owned()).spawn(watching);
}

/// Presses of Ctrl-C from here on, those between two pieces of work included.
///
/// Once there is one of these, Ctrl-C no longer ends the process: whatever takes long is waited for
/// in here.
pub(crate) struct Presses(#[cfg(unix)] Option<Signal>);

impl Presses {
    /// Within a runtime. Where the system cannot tell of Ctrl-C, it goes on to end the process.
    pub(crate) fn new() -> Self {
        end_at_a_second_press();
        Self::alone()
    }

    fn alone() -> Self {
        #[cfg(unix)]
        return Self(tokio::signal::unix::signal(SignalKind::interrupt()).ok());
        #[cfg(not(unix))]
        Self()
    }

    /// What `work` gives, or `None` if Ctrl-C is pressed before it is done: `work` is dropped then.
    /// A press is seen when `work` waits for something; work that never does so gives way by
    /// `yield_now` now and then.
    pub(crate) async fn unless<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        PRESSED.store(false, Relaxed);
        tokio::select! {
            // Ctrl-C first: work that always has something more would never let it be seen.
            biased;
            () = self.next() => None,
            done = work => Some(done),
        }
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        let pressed = match &mut self.0 {
            Some(signal) => signal.recv().await.is_some(),
            None => false,
        };
        #[cfg(not(unix))]
        let pressed = tokio::signal::ctrl_c().await.is_ok();
        if !pressed {
            pending::<()>().await;
        }
    }
}

/// The same for a piece of work that is alone.
pub(crate) async fn unless_pressed<T>(work: impl Future<Output = T>) -> Option<T> {
    Presses::new().unless(work).await
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

    #[test]
    #[cfg(unix)]
    fn a_press_between_two_pieces_of_work_ends_the_next() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut presses = Presses::new();
            assert_eq!(presses.unless(async { 1 }).await, Some(1));
            let press = std::process::Command::new("kill").args(["-INT", &std::process::id().to_string()]).status();
            assert!(press.unwrap().success());
            let long = tokio::time::sleep(std::time::Duration::from_secs(60));
            assert_eq!(presses.unless(long).await, None);
            assert_eq!(presses.unless(async { 2 }).await, Some(2), "one press ends one piece of work");
        });
    }
}
