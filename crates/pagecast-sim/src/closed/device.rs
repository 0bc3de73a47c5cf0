//! The device and the processor of a closed loop: who is served next, and when it is done.

use pagecast_core::{PageId, Tick};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The machine that a closed loop runs on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Machine {
    /// Bytes per second that the device transfers.
    pub bandwidth: f64,
    /// Nanoseconds between a request and the beginning of its transfer.
    pub latency: Tick,
    /// Requests that the device works on at a time.
    pub outstanding: u32,
    /// Processor cores.
    pub cores: u32,
    /// Whether reads go to the device by how much their scan still needs, the least first; else as
    /// they come.
    pub least_first: bool,
}

impl Default for Machine {
    /// That of the experiments of 2011, as their base times tell it.
    fn default() -> Self {
        Self { bandwidth: 1e8, latency: 0, outstanding: 1, cores: 8, least_first: false }
    }
}

/// Reads, in the order in which the device takes them. Latencies run side by side, transfers one
/// after the other.
pub(super) struct Device {
    machine: Machine,
    transfer: Tick,
    waiting: BinaryHeap<Reverse<(Tick, u64, PageId)>>,
    submitted: u64,
    in_service: u32,
    free_at: Tick,
}

impl Device {
    pub(super) fn new(machine: Machine, page_bytes: u32) -> Self {
        let transfer = (f64::from(page_bytes) / machine.bandwidth * 1e9) as Tick;
        Self { machine, transfer, waiting: BinaryHeap::new(), submitted: 0, in_service: 0, free_at: 0 }
    }

    /// Takes a read of a scan that still needs `need` ticks.
    pub(super) fn submit(&mut self, page: PageId, need: Tick) {
        let key = if self.machine.least_first { need } else { 0 };
        self.waiting.push(Reverse((key, self.submitted, page)));
        self.submitted += 1;
    }

    /// The next read that the device begins at `now`, if it has room: its page, and when that
    /// comes.
    pub(super) fn begin(&mut self, now: Tick) -> Option<(Tick, PageId)> {
        if self.in_service == self.machine.outstanding {
            return None;
        }
        let Reverse((_, _, page)) = self.waiting.pop()?;
        self.in_service += 1;
        self.free_at = self.free_at.max(now + self.machine.latency) + self.transfer;
        Some((self.free_at, page))
    }

    /// A read is done.
    pub(super) fn done(&mut self) {
        self.in_service -= 1;
    }
}

/// Work of the queries, each piece on one core until it is done.
pub(super) struct Cores {
    free: u32,
    waiting: VecDeque<(usize, Tick)>,
    /// Ticks of work that was begun.
    pub(super) busy: Tick,
}

impl Cores {
    pub(super) fn new(cores: u32) -> Self {
        Self { free: cores, waiting: VecDeque::new(), busy: 0 }
    }

    /// Takes a piece of work of `worker`.
    pub(super) fn submit(&mut self, worker: usize, work: Tick) {
        self.waiting.push_back((worker, work));
    }

    /// The next piece that a core begins, if one is free: whose, and how long it takes.
    pub(super) fn begin(&mut self) -> Option<(usize, Tick)> {
        if self.free == 0 {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.free -= 1;
        self.busy += next.1;
        Some(next)
    }

    /// A piece is done.
    pub(super) fn done(&mut self) {
        self.free += 1;
    }
}
