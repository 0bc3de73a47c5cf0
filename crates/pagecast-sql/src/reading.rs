//! Row groups are read only while there is memory for them.
//!
//! The heap is looked at between batches ([`Budget`]), which is too late for row groups: a
//! statement takes all of one at once, and many begin together. So a read waits, first come first
//! served, until what others hold, what is being read and the read itself fit in the limit. What
//! the statement holds itself does not count, so that a large sort never waits for itself. Whoever
//! has waited for [`PATIENCE`] goes on as far as half of the budget's margin goes, or fails.
//!
//! What others have just read is larger than it looks: the heap has it before it is decoded. So it
//! counts [`DECODED`] times more for a while. Without that 32 statements read within an instant,
//! and had 640 MiB of 500 soon after.

use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use datafusion::common::Result;
use futures::FutureExt;
use futures::future::BoxFuture;
use pagecast_datafusion::ReadRoom;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

use crate::budget::Budget;
use crate::held::Held;

/// Longest that a read waits for memory.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks at the heap, which tells nobody when it shrinks.
const LOOKS: Duration = Duration::from_millis(5);

/// What decoding adds to a byte of compressed columns: its pages as they were before compression,
/// and batches.
const DECODED: u64 = 3;
/// After which the heap shows what decoding has added.
const DECODING: Duration = Duration::from_millis(500);

/// Memory for what is read.
pub(crate) struct Reading {
    budget: Budget,
    reads: Mutex<Vec<Read>>,
    /// Whose turn it is to wait for memory; tokio's lock is fair.
    turn: tokio::sync::Mutex<()>,
}

/// One that is going on, or has just ended.
struct Read {
    statement: Option<Held>,
    bytes: u64,
    /// When, from then on.
    ended: Arc<OnceLock<Instant>>,
}

/// Bytes that are being read.
fn coming(reads: &[Read]) -> u64 {
    reads.iter().filter(|read| read.ended.get().is_none()).map(|read| read.bytes).sum()
}

/// Bytes that decoding will add to what others than the current statement read.
fn decoded(reads: &[Read]) -> u64 {
    let current = Held::current();
    let others = reads.iter().filter(|read| match (&read.statement, &current) {
        (Some(one), Some(other)) => !one.is(other),
        _ => true,
    });
    DECODED * others.map(|read| read.bytes).sum::<u64>()
}

impl Reading {
    pub(crate) fn new(budget: Budget) -> Self {
        Self { budget, reads: Mutex::default(), turn: tokio::sync::Mutex::new(()) }
    }

    async fn wait(&self, bytes: u64) -> Result<Going> {
        if !self.is_small(bytes) {
            let until = Instant::now() + PATIENCE;
            if let Ok(_turn) = timeout_at(until, self.turn.lock()).await {
                while !self.has_room(bytes) && Instant::now() < until {
                    sleep(LOOKS).await;
                }
                // Before the turn is another's, who then counts it.
                return self.take(bytes);
            }
        }
        self.take(bytes)
    }

    fn has_room(&self, bytes: u64) -> bool {
        let mut reads = self.reads.lock();
        reads.retain(|read| read.ended.get().is_none_or(|ended| ended.elapsed() < DECODING));
        self.budget.has_room(coming(&reads) + decoded(&reads) + bytes)
    }

    /// A small one, decoded, is as nothing. Without a limit each is small.
    fn is_small(&self, bytes: u64) -> bool {
        self.budget.is_small(bytes.saturating_mul(1 + DECODED))
    }

    fn take(&self, bytes: u64) -> Result<Going> {
        let going = Going(Arc::default());
        if !self.is_small(bytes) {
            let mut reads = self.reads.lock();
            self.budget.check_read(bytes, coming(&reads))?;
            reads.push(Read { statement: Held::current(), bytes, ended: Arc::clone(&going.0) });
        }
        Ok(going)
    }
}

impl ReadRoom for Reading {
    fn room(&self, bytes: u64) -> BoxFuture<'_, Result<Box<dyn Any + Send>>> {
        self.wait(bytes).map(|going| going.map(|going| Box::new(going) as _)).boxed()
    }
}

/// A read that goes on until this is dropped.
struct Going(Arc<OnceLock<Instant>>);

impl Drop for Going {
    fn drop(&mut self) {
        let _ = self.0.set(Instant::now());
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
        assert_eq!(coming(&reading.reads.lock()), 0);
    }
}
