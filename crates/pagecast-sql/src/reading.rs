//! Row groups are read only while there is memory for them.
//!
//! The heap is looked at between batches ([`Budget`]), which is too late for row groups: a
//! statement takes all of one at once, and many begin together. So a read waits until it fits in
//! beside the row groups that others have read and not decoded yet, and beside all that others
//! hold. What the statement holds itself does not count, so that a large sort never waits for
//! itself. Whoever has waited for [`PATIENCE`] goes on as far as the budget goes. Where it does not
//! go that far, other tasks of the statement may be handing on what they hold, as groups are: the
//! read waits as long as the heap shrinks, and then fails.
//!
//! Nobody has a turn: a fair lock goes to a task that must first get a processor, which others have
//! for a row group each. With 32 queries on two processors the lock alone took 0.1 s a read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use datafusion::common::Result;
use futures::FutureExt;
use futures::future::BoxFuture;
use pagecast_datafusion::{ReadRoom, Room};
use tokio::time::{Instant, sleep};

use crate::budget::Budget;
use crate::held::Held;

/// Longest that a read waits for memory.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest that the heap may stay as it is while a read waits for its own statement.
const STILL: Duration = Duration::from_millis(50);
/// Between two looks at the heap, which tells nobody when it shrinks: the timer's finest.
const LOOKS: Duration = Duration::from_millis(1);

/// How many times its bytes a read takes once its columns are decoded: TPC-H's lineitem in Snappy
/// takes four times as much, other columns less. A read is small if it still is then.
const DECODED: u64 = 4;

/// Memory for what is read.
pub(crate) struct Reading {
    budget: Budget,
    /// Bytes of row groups that are read and not decoded yet.
    read: Arc<AtomicU64>,
}

impl Reading {
    pub(crate) fn new(budget: Budget) -> Self {
        Self { budget, read: Arc::default() }
    }

    /// With pages of so many bytes `decoded` at once.
    async fn wait(&self, bytes: u64, decoded: u64) -> Result<Read> {
        let more = bytes.saturating_add(decoded.saturating_sub(self.budget.left_to_decode()));
        if !self.budget.is_small(bytes.saturating_mul(DECODED)) {
            let begun = Instant::now();
            while !self.has_room(bytes, more) && begun.elapsed() < PATIENCE {
                sleep(LOOKS).await;
            }
        }
        let (mut least, mut since) = (u64::MAX, Instant::now());
        loop {
            let error = match self.take(bytes, more) {
                Err(error) => error,
                taken => return taken,
            };
            let taken = self.budget.taken();
            if taken < least {
                (least, since) = (taken, Instant::now());
            }
            if since.elapsed() >= STILL {
                return Err(error);
            }
            sleep(LOOKS).await;
        }
    }

    fn has_room(&self, bytes: u64, more: u64) -> bool {
        let own = Held::current().map_or(0, |held| held.read().load(Relaxed));
        let others = self.read.load(Relaxed).saturating_sub(own);
        (others == 0 || others.saturating_add(bytes) <= self.budget.of_reads()) && self.budget.has_room(more)
    }

    fn take(&self, bytes: u64, more: u64) -> Result<Read> {
        self.budget.check_read(more)?;
        let held = Held::current().unwrap_or_default();
        [&self.read, held.read()].into_iter().for_each(|count| _ = count.fetch_add(bytes, Relaxed));
        Ok(Read { bytes, all: Arc::clone(&self.read), held })
    }
}

impl ReadRoom for Reading {
    fn room(&self, bytes: u64, decoded: u64) -> BoxFuture<'_, Result<Room>> {
        self.wait(bytes, decoded).map(|read| read.map(|read| Arc::new(read) as _)).boxed()
    }
}

/// Bytes of a row group until it is decoded.
struct Read {
    bytes: u64,
    all: Arc<AtomicU64>,
    held: Held,
}

impl Drop for Read {
    fn drop(&mut self) {
        [&self.all, self.held.read()].into_iter().for_each(|count| _ = count.fetch_sub(self.bytes, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::budget::tests::budget;

    #[tokio::test]
    async fn reads_wait_for_memory_that_others_hold() {
        // More than all other tests of this program take.
        const LIMIT: u64 = 16 << 30;
        let reading = Reading::new(budget(LIMIT));
        let first = reading.room(LIMIT * 3 / 4, 0).await.unwrap();
        // A small one never waits.
        assert!(reading.room(1 << 20, 0).now_or_never().unwrap().is_ok());
        let mut second = reading.room(LIMIT / 2, 0);
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        let second = second.await.unwrap();
        // As much as there is, after a while; and no more.
        let third = reading.room(LIMIT / 4 + LIMIT / 16, 0).await.unwrap();
        let error = reading.room(LIMIT, 0).await.err().unwrap().to_string();
        assert!(error.contains("reading a row group would make"), "{error}");
        // Hundreds of columns, of which the pages do not fit in.
        drop((second, third));
        let wide = reading.room(2 << 20, LIMIT).await.err().unwrap().to_string();
        assert!(wide.contains("reading a row group would make"), "{wide}");
        assert!(reading.room(2 << 20, LIMIT / 4).await.is_ok());
        assert_eq!(reading.read.load(Relaxed), 0);
    }

    #[tokio::test]
    async fn a_read_waits_while_its_own_statement_hands_on_what_it_holds() {
        // More than all other tests of this program take; nothing is written to it.
        const LIMIT: u64 = 8 << 30;
        let reading = Reading::new(budget(LIMIT));
        let read = async |handed_on: usize| {
            let mut blocks: Vec<Vec<u8>> = (0..4).map(|_| Vec::with_capacity(LIMIT as usize / 4)).collect();
            let hands_on = tokio::spawn(async move {
                for _ in 0..handed_on {
                    sleep(STILL / 4).await;
                    blocks.pop();
                }
                sleep(4 * STILL).await;
            });
            let read = reading.room(LIMIT / 4, 0).await;
            hands_on.await.unwrap();
            read.is_ok()
        };
        assert!(Held::default().counted(read(4)).await);
        assert!(!Held::default().counted(read(1)).await, "nothing more is handed on");
    }
}
