//! Row groups are read only while there is memory for them.
//!
//! The heap is looked at between batches ([`Budget`]), which is too late for row groups: a
//! statement takes all of one at once, and many begin together. So a read waits, first come first
//! served, until what others hold, what is being read and the read itself fit in the limit. What
//! the statement holds itself does not count, so that a large sort never waits for itself. Whoever
//! has waited for [`PATIENCE`] goes on as far as half of the budget's margin goes, or fails.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use datafusion::common::Result;
use futures::FutureExt;
use futures::future::BoxFuture;
use pagecast_datafusion::ReadRoom;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

use crate::budget::Budget;

/// Longest that a read waits for memory.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks at the heap, which tells nobody when it shrinks.
const LOOKS: Duration = Duration::from_millis(5);

/// How many times its bytes a read takes once its columns are decoded: TPC-H's lineitem in Snappy
/// takes four times as much, other columns less. A read is small if it still is then.
const DECODED: u64 = 4;

/// Memory for what is read.
pub(crate) struct Reading {
    budget: Budget,
    /// Bytes that are being read.
    coming: Arc<AtomicU64>,
    /// Whose turn it is to wait for memory; tokio's lock is fair.
    turn: Mutex<()>,
}

impl Reading {
    pub(crate) fn new(budget: Budget) -> Self {
        Self { budget, coming: Arc::default(), turn: Mutex::new(()) }
    }

    async fn wait(&self, bytes: u64) -> Result<Coming> {
        if !self.budget.is_small(bytes.saturating_mul(DECODED)) {
            let until = Instant::now() + PATIENCE;
            if let Ok(_turn) = timeout_at(until, self.turn.lock()).await {
                while !self.budget.has_room(self.coming.load(Relaxed) + bytes) && Instant::now() < until {
                    sleep(LOOKS).await;
                }
                // Before the turn is another's, who then counts it.
                return self.take(bytes);
            }
        }
        self.take(bytes)
    }

    fn take(&self, bytes: u64) -> Result<Coming> {
        self.budget.check_read(bytes, self.coming.load(Relaxed))?;
        self.coming.fetch_add(bytes, Relaxed);
        Ok(Coming { bytes, coming: Arc::clone(&self.coming) })
    }
}

impl ReadRoom for Reading {
    fn room(&self, bytes: u64) -> BoxFuture<'_, Result<Box<dyn Any + Send>>> {
        self.wait(bytes).map(|coming| coming.map(|coming| Box::new(coming) as _)).boxed()
    }
}

/// Bytes while they are read.
struct Coming {
    bytes: u64,
    coming: Arc<AtomicU64>,
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.coming.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn reads_wait_for_memory_that_others_hold() {
        // More than all other tests of this program take.
        const LIMIT: u64 = 16 << 30;
        let reading = Reading::new(Budget::new(Some(LIMIT)));
        let first = reading.room(LIMIT * 3 / 4).await.unwrap();
        // A small one never waits.
        assert!(reading.room(1 << 20).now_or_never().unwrap().is_ok());
        let mut second = reading.room(LIMIT / 2);
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        let second = second.await.unwrap();
        // As much as the margin takes, after a while; and no more.
        let third = reading.room(LIMIT / 2 + (1 << 29)).await.unwrap();
        let error = reading.room(LIMIT).await.err().unwrap().to_string();
        assert!(error.contains("reading a row group would make"), "{error}");
        drop((second, third));
        assert_eq!(reading.coming.load(Relaxed), 0);
    }
}
