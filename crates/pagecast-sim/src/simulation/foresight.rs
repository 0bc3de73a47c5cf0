//! What the scans that run at a moment will read next, as the trace has it and not as anybody estimates it.

use crate::trace::{LoadedEvent, Trace};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pagecast_core::oracle::Oracle;
use pagecast_core::{PageId, Tick};

/// Answers with the moment at which a scan that is registered by now next reads a page: distance over speed without error.
/// Like a predictor it knows nothing of scans to come and of requests outside scans. Time is the request's index.
pub(super) struct Foresight {
    numbers: HashMap<PageId, u32, FixedState>,
    /// By page's number: its requests by scans in order, each with the request before which the scan registered.
    reads: Vec<Vec<(u32, u32)>>,
}

impl Foresight {
    pub(super) fn of(trace: &Trace) -> Self {
        let mut registered = Vec::new();
        for event in trace.events() {
            if let LoadedEvent::Register(registration) = &event.event {
                registered.resize(registration.scan as usize + registration.numbers(), event.before);
            }
        }
        let mut reads = vec![Vec::new(); trace.unique() as usize];
        for (at, &page) in trace.requests().iter().enumerate() {
            if let Some(scan) = trace.scan(at) {
                reads[page as usize].push((at as u32, registered[scan as usize]));
            }
        }
        Self { numbers: trace.pages().iter().copied().zip(0..).collect(), reads }
    }
}

impl Oracle for Foresight {
    fn next_access(&self, page: PageId, now: Tick) -> Option<Tick> {
        let reads = &self.reads[*self.numbers.get(&page)? as usize];
        let ahead = reads.partition_point(|&(at, _)| Tick::from(at) < now);
        let next = reads[ahead..].iter().find(|&&(_, registered)| Tick::from(registered) <= now);
        next.map(|&(at, _)| Tick::from(at) - now)
    }
}
