//! Whether the processors are busy, so that loads may wait for them.
//!
//! A worker that has a chunk may rest: its user takes no rows, or takes them slowly. Loads wait
//! only where the process uses at least half of its processors. Cost: a system call in every
//! [`LOOK`].

use pagecast_core::Tick;
use pagecast_core::cooperation::ENOUGH_AT_WORK;

use crate::processor_time;

/// Nanoseconds between two looks.
const LOOK: Tick = 20_000_000;

/// The processors of this process.
pub(super) struct Processors {
    /// How many it may use.
    count: u32,
    /// Workers that are enough for them; 0 if nobody is to wait for them.
    enough: u32,
    is_busy: bool,
    looked: Tick,
    /// Nanoseconds of processors that were used by then.
    used: u64,
}

impl Processors {
    pub(super) fn new() -> Self {
        let count = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        Self { count, enough: count.saturating_mul(ENOUGH_AT_WORK), is_busy: false, looked: 0, used: 0 }
    }

    /// Processors that are always busy, and for which so many workers are enough.
    #[cfg(pagecast_shuttle)]
    pub(super) fn always(enough: u32) -> Self {
        Self { count: 0, enough, is_busy: true, looked: Tick::MAX, used: 0 }
    }

    /// From here on nobody waits for them.
    pub(super) fn give_up(&mut self) {
        self.enough = 0;
    }

    /// With how many workers at work they have enough to do; 0 if loads need not wait.
    pub(super) fn enough(&mut self, now: Tick) -> u32 {
        let passed = now.saturating_sub(self.looked);
        if passed >= LOOK {
            let used = processor_time::used().map_or(self.used, |used| used.as_nanos() as u64);
            self.is_busy = 2 * used.saturating_sub(self.used) >= passed.saturating_mul(self.count.into());
            (self.looked, self.used) = (now, used);
        }
        if self.is_busy { self.enough } else { 0 }
    }
}
