//! What whoever waits for replays sees of them, and how they are ended early.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Replays look at their watch every so many requests.
pub const STEP: usize = 1 << 10;

/// Shared by those who replay and the one who waits. Relaxed everywhere: it publishes no other
/// memory.
#[derive(Debug, Default)]
pub struct Watch {
    stopped: AtomicBool,
    done: AtomicU64,
    expected: AtomicU64,
}

impl Watch {
    /// Asks all replays to end; each does so within [`STEP`] requests.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// Whether they were asked to.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// So many requests more are done.
    pub fn add_done(&self, requests: u64) {
        self.done.fetch_add(requests, Relaxed);
    }

    /// So many requests more are to be made.
    pub fn expect(&self, requests: u64) {
        self.expected.fetch_add(requests, Relaxed);
    }

    /// Requests that were made, and how many there are as far as is known by now.
    pub fn progress(&self) -> (u64, u64) {
        let expected = self.expected.load(Relaxed);
        (self.done.load(Relaxed).min(expected), expected)
    }

    /// To be called before request `at`, from 0. False: there is to be no more.
    #[inline]
    pub(crate) fn goes_on(&self, at: usize) -> bool {
        if !at.is_multiple_of(STEP) || at == 0 {
            return true;
        }
        self.add_done(STEP as u64);
        !self.is_stopped()
    }
}
