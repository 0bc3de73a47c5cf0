//! Whether pages may still be changed.

use std::sync::OnceLock;

use crate::PoolError;
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::{Acquire, Release};
use crate::sync::{Mutex, step};

/// Closes once and for all, with its reason: what storage or program have lost cannot be brought
/// back by trying again.
pub(crate) struct Latch {
    is_shut: AtomicBool,
    reason: Mutex<Reason>,
    failure: OnceLock<PoolError>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    None,
    Closed,
    Failed,
}

impl Latch {
    pub(crate) fn new() -> Self {
        Self { is_shut: AtomicBool::new(false), reason: Mutex::new(Reason::None), failure: OnceLock::new() }
    }

    /// No page may be changed any more, because of `cause`. The first failure stays.
    pub(crate) fn fail(&self, cause: PoolError) {
        step();
        let _ = self.failure.set(cause);
        *self.reason.lock() = Reason::Failed;
        self.is_shut.store(true, Release);
    }

    /// No page may be changed any more; what is dirty may still be written. False if it was closed
    /// already.
    pub(crate) fn close(&self) -> bool {
        let mut reason = self.reason.lock();
        let is_first = *reason == Reason::None;
        if is_first {
            *reason = Reason::Closed;
        }
        self.is_shut.store(true, Release);
        is_first
    }

    /// Fails if pages may not be changed.
    #[inline]
    pub(crate) fn may_change(&self) -> Result<(), PoolError> {
        // Acquire: pairs with the Release of those who shut it.
        if self.is_shut.load(Acquire) { self.may_write().and(Err(PoolError::Closed)) } else { Ok(()) }
    }

    /// Fails if pages may not even be written.
    pub(crate) fn may_write(&self) -> Result<(), PoolError> {
        match self.failure.get() {
            Some(cause) => Err(PoolError::ReadOnly { cause: Box::new(cause.clone()) }),
            None => Ok(()),
        }
    }
}
