//! The log that must be durable before a page is.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::PoolError;
use crate::seal::Lsn;

/// The host's log.
pub trait Log: Send + Sync {
    /// Makes the log safe from a crash up to record `lsn`, its own included, and says up to which
    /// record it is now. Blocks; may be called by several threads at once.
    ///
    /// # Errors
    ///
    /// What the log's storage says. The pages that wait for the record stay dirty and in the pool.
    fn flush_to(&self, lsn: Lsn) -> io::Result<Lsn>;
}

/// The proof that the log is durable up to a record. Only the flush makes one, and no page is
/// written without.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Durable(Lsn);

impl Durable {
    pub(crate) fn covers(self, lsn: Lsn) -> bool {
        lsn <= self.0
    }
}

/// The way to the log, with its answers.
pub(crate) struct Gate {
    log: Option<Arc<dyn Log>>,
    /// Up to here the log is durable, as far as we were told.
    durable: AtomicU64,
}

impl Gate {
    pub(crate) fn new(log: Option<Arc<dyn Log>>) -> Self {
        Self { log, durable: AtomicU64::new(0) }
    }

    pub(crate) fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// Makes the log durable up to `lsn`. Without a log everything is.
    pub(crate) fn flush_to(&self, lsn: Lsn) -> Result<Durable, PoolError> {
        let Some(log) = &self.log else { return Ok(Durable(Lsn(u64::MAX))) };
        // Relaxed: the number only grows, and says something about the device, not about memory.
        let known = Durable(Lsn(self.durable.load(Relaxed)));
        if known.covers(lsn) {
            return Ok(known);
        }
        let answer = log.flush_to(lsn).map_err(|source| PoolError::Log { lsn, source: Arc::new(source) })?;
        if answer < lsn {
            let source = io::Error::other(format!("the log says it is durable up to {answer} only"));
            return Err(PoolError::Log { lsn, source: Arc::new(source) });
        }
        self.durable.fetch_max(answer.0, Relaxed);
        Ok(Durable(answer))
    }
}
