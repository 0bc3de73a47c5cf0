//! Storage of a declared speed: a bandwidth that all requests share and a latency that overlaps.
//!
//! A request is a contiguous range of at most [`MAX_REQUEST`](super::MAX_REQUEST) bytes. At most
//! `outstanding` of them are under way; the others queue before their latency begins. A request's
//! transfer begins when its latency has passed and the transfers before it are done, and takes
//! `bytes / bandwidth`. The bytes themselves are read from the storage below, within that time if
//! it is fast enough.

use std::fmt;
use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The speed of a device, for those who want to measure on one that they do not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeclaredModel {
    /// Bytes per second, of all requests together; at least 1.
    pub bandwidth: u64,
    /// Of each request, before its first byte.
    pub latency: Duration,
    /// How many requests' latencies overlap; at least 1.
    pub outstanding: u32,
}

impl DeclaredModel {
    /// How many requests overlap where nothing else is said.
    pub const OUTSTANDING: u32 = 16;
}

impl fmt::Display for DeclaredModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = self.bandwidth as f64 / 1e6;
        let milliseconds = self.latency.as_secs_f64() * 1e3;
        write!(f, "{megabytes} MB/s, {milliseconds} ms per request, {} outstanding", self.outstanding)
    }
}

/// The model at work.
pub(super) struct Declared {
    model: DeclaredModel,
    state: Mutex<State>,
    /// Signalled when a request ends and another may begin.
    ended: Condvar,
}

struct State {
    under_way: u32,
    /// When the last transfer that is booked ends.
    line_free: Instant,
}

impl Declared {
    pub(super) fn new(model: DeclaredModel) -> Self {
        let model = DeclaredModel { bandwidth: model.bandwidth.max(1), outstanding: model.outstanding.max(1), ..model };
        let state = State { under_way: 0, line_free: Instant::now() };
        Self { model, state: Mutex::new(state), ended: Condvar::new() }
    }

    pub(super) fn model(&self) -> DeclaredModel {
        self.model
    }

    pub(super) fn outstanding(&self) -> u32 {
        self.model.outstanding
    }

    /// Runs `request` and returns no earlier than the model allows. A failed request costs its
    /// latency.
    pub(super) fn paced(&self, request: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        let _slot = self.begin();
        let first_byte = Instant::now() + self.model.latency;
        let answer = request();
        let bytes = *answer.as_ref().unwrap_or(&0);
        let end = self.book(first_byte, bytes);
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        answer
    }

    fn begin(&self) -> Slot<'_> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self
            .ended
            .wait_while(state, |state| state.under_way >= self.model.outstanding)
            .unwrap_or_else(PoisonError::into_inner);
        state.under_way += 1;
        Slot(self)
    }

    /// Puts a transfer of `bytes` behind those booked already; when it ends.
    fn book(&self, first_byte: Instant, bytes: usize) -> Instant {
        let nanoseconds = bytes as u128 * 1_000_000_000 / u128::from(self.model.bandwidth);
        let transfer = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.line_free = state.line_free.max(first_byte) + transfer;
        state.line_free
    }
}

/// One of the outstanding requests; its place is free again when this goes, on a panic too.
struct Slot<'a>(&'a Declared);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).under_way -= 1;
        self.0.ended.notify_one();
    }
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    use super::*;

    fn elapsed(model: DeclaredModel, threads: usize, bytes: usize) -> Duration {
        let declared = Declared::new(model);
        let begin = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| declared.paced(|| Ok(bytes)).expect("the request succeeds"));
            }
        });
        begin.elapsed()
    }

    #[test]
    fn bandwidth_is_shared() {
        let model = DeclaredModel { bandwidth: 10_000_000, latency: Duration::ZERO, outstanding: 16 };
        assert!(elapsed(model, 8, 100_000) >= Duration::from_millis(80));
    }

    #[test]
    fn latency_overlaps_up_to_the_outstanding() {
        let model = DeclaredModel { bandwidth: u64::MAX, latency: Duration::from_millis(40), outstanding: 2 };
        assert!(elapsed(model, 4, 1) >= Duration::from_millis(80), "two rounds of two");
        let wide = DeclaredModel { outstanding: 16, ..model };
        // One after the other would never be this fast; a busy machine lets it happen only now and
        // then.
        let mut tries =
            (0..20).map(|_| elapsed(wide, 4, 1)).inspect(|time| assert!(*time >= Duration::from_millis(40)));
        assert!(tries.any(|time| time < Duration::from_millis(160)));
    }

    #[test]
    fn a_failed_request_frees_its_place() {
        let model = DeclaredModel { bandwidth: 1_000_000, latency: Duration::ZERO, outstanding: 1 };
        let declared = Declared::new(model);
        assert!(declared.paced(|| Err(io::Error::other("broken"))).is_err());
        assert_eq!(declared.paced(|| Ok(7)).expect("the place is free again"), 7);
    }
}
