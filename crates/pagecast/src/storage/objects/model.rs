//! An object store of a declared speed: a bandwidth that all requests share, a latency that
//! overlaps, and refusals.
//!
//! At most `outstanding` requests are under way; the others queue. Each attempt waits its latency.
//! Some attempts are then refused, as by a store that is asked too much (503), and made again after
//! a pause that doubles, as clients of object stores do. Bodies share one line: each byte waits for
//! all that were booked before it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use object_store::{Error, Result};
use pagecast_core::random::Random;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// The first pause after a refusal, the longest one, and how many there are: what `object_store`'s
/// clients do unless they are told otherwise, without their jitter.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
const MOST_RETRIES: u32 = 10;

/// The speed of an object store, for those who want to measure on one that they do not have. Start
/// from the default and change what matters.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct StoreModel {
    /// Bytes per second, of all bodies together; at least 1. Default: 100 MB/s.
    pub bandwidth: u64,
    /// Of each attempt, before its answer. Default: 30 ms.
    pub latency: Duration,
    /// How many requests are under way at once; at least 1. Default: 256.
    pub outstanding: u32,
    /// Share of the attempts that are refused, 0 to 1. Default: 0.
    pub refused: f64,
    /// Which of them these are. Default: 1.
    pub seed: u64,
}

impl Default for StoreModel {
    fn default() -> Self {
        let latency = Duration::from_millis(30);
        Self { bandwidth: 100_000_000, latency, outstanding: 256, refused: 0.0, seed: 1 }
    }
}

impl StoreModel {
    /// Sets [`bandwidth`](Self::bandwidth).
    #[must_use]
    pub fn bandwidth(self, bandwidth: u64) -> Self {
        Self { bandwidth: bandwidth.max(1), ..self }
    }

    /// Sets [`latency`](Self::latency).
    #[must_use]
    pub fn latency(self, latency: Duration) -> Self {
        Self { latency, ..self }
    }

    /// Sets [`outstanding`](Self::outstanding).
    #[must_use]
    pub fn outstanding(self, outstanding: u32) -> Self {
        Self { outstanding: outstanding.max(1), ..self }
    }

    /// Sets [`refused`](Self::refused) and [`seed`](Self::seed).
    #[must_use]
    pub fn refused(self, share: f64, seed: u64) -> Self {
        Self { refused: share.clamp(0.0, 1.0), seed, ..self }
    }
}

impl fmt::Display for StoreModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = self.bandwidth as f64 / 1e6;
        let milliseconds = self.latency.as_secs_f64() * 1e3;
        write!(f, "{megabytes} MB/s, {milliseconds} ms per request, {} outstanding", self.outstanding)?;
        if self.refused > 0.0 {
            write!(f, ", {} % refused", self.refused * 100.0)?;
        }
        Ok(())
    }
}

/// The model at work.
pub(super) struct Paced {
    model: StoreModel,
    slots: Arc<Semaphore>,
    /// When the last body that is booked ends.
    line_free: Mutex<Instant>,
    random: Mutex<Random>,
    first_pause: Duration,
}

impl Paced {
    pub(super) fn new(model: StoreModel) -> Self {
        let slots = Arc::new(Semaphore::new(model.outstanding as usize));
        let random = Mutex::new(Random::new(model.seed));
        Self { model, slots, line_free: Mutex::new(Instant::now()), random, first_pause: FIRST_PAUSE }
    }

    #[cfg(all(test, not(pagecast_shuttle)))]
    pub(super) fn with_pauses_of(self, first_pause: Duration) -> Self {
        Self { first_pause, ..self }
    }

    pub(super) fn model(&self) -> StoreModel {
        self.model
    }

    /// Waits until the store answers, and says how often it has refused. The place among the
    /// outstanding requests is the caller's until the answer's last byte.
    pub(super) async fn answer(&self, refused: impl Fn()) -> Result<Slot> {
        let mut pause = self.first_pause;
        for _ in 0..=MOST_RETRIES {
            let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(|error| generic(error.to_string()))?;
            tokio::time::sleep(self.model.latency).await;
            if self.random.lock().unit() >= self.model.refused {
                return Ok(Slot(slot));
            }
            refused();
            drop(slot);
            tokio::time::sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
        Err(generic(format!("503 Service Unavailable: SlowDown, and after {MOST_RETRIES} retries still")))
    }

    /// Waits until `bytes` more have come.
    pub(super) async fn transfer(&self, bytes: usize) {
        let nanoseconds = bytes as u128 * 1_000_000_000 / u128::from(self.model.bandwidth.max(1));
        let takes = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        let end = {
            let mut line_free = self.line_free.lock();
            *line_free = (*line_free).max(Instant::now()) + takes;
            *line_free
        };
        tokio::time::sleep_until(end).await;
    }
}

/// One of the outstanding requests; its place is free again when this goes.
pub(super) struct Slot(#[expect(dead_code, reason = "held, and given back by its drop")] OwnedSemaphorePermit);

fn generic(what: String) -> Error {
    Error::Generic { store: "declared", source: what.into() }
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use futures::future::join_all;
    use std::cell::Cell;

    // A busy machine takes longer than the model says, and never less.
    #[tokio::test]
    async fn latency_overlaps_as_far_as_requests_may_and_bandwidth_is_shared() {
        let model = StoreModel::default().bandwidth(1_000_000).latency(Duration::from_millis(10)).outstanding(4);
        let paced = Paced::new(model);
        let begin = Instant::now();
        join_all((0..8).map(|_| async { drop(paced.answer(|| {}).await.unwrap()) })).await;
        assert!(begin.elapsed() >= Duration::from_millis(20), "two rounds of four");
        let begin = Instant::now();
        join_all((0..8).map(|_| paced.transfer(10_000))).await;
        assert!(begin.elapsed() >= Duration::from_millis(80), "80 kB at 1 MB/s");
    }

    #[tokio::test]
    async fn refusals_are_the_seeds_and_are_made_again() {
        let refusals = async |share| {
            let quick = StoreModel::default().latency(Duration::ZERO).refused(share, 7);
            let (paced, refused) = (Paced::new(quick).with_pauses_of(Duration::ZERO), Cell::new(0));
            for _ in 0..1000 {
                paced.answer(|| refused.set(refused.get() + 1)).await.unwrap();
            }
            refused.get()
        };
        let some = refusals(0.1).await;
        assert!((80..140).contains(&some), "{some} of 1000 and more attempts");
        assert_eq!(some, refusals(0.1).await);
        assert_eq!(refusals(0.0).await, 0);
        let never = Paced::new(StoreModel::default().latency(Duration::ZERO).refused(1.0, 7));
        let never = never.with_pauses_of(Duration::ZERO).answer(|| {}).await;
        assert!(never.is_err_and(|error| error.to_string().contains("SlowDown")));
    }
}
