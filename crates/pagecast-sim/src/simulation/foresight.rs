//! What the scans that run at a moment will read next, as the trace has it and not as anybody
//! estimates it.

use crate::trace::{LoadedEvent, Trace};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::{PageId, Tick};
use std::cell::Cell;

/// Answers with the moment at which a scan that is registered by now next reads a page: distance
/// over speed without error. Like a predictor it knows nothing of scans to come and of requests
/// outside scans. Time is the request's index, and does not go back: an answer holds until its
/// moment has come or another scan registers.
pub(super) struct Foresight {
    numbers: HashMap<PageId, u32, FixedState>,
    /// By page's number: its requests by scans in order, each with the request before which the
    /// scan registered.
    reads: Vec<Vec<(u32, u32)>>,
    /// The requests before which scans register, in order.
    registrations: Vec<u32>,
    /// How many of them have passed.
    passed: Cell<usize>,
    /// By page's number: the last answer as a moment, or [`NEVER`], and how many scans had
    /// registered by then.
    known: Vec<Cell<(u32, usize)>>,
}

/// As a moment: nobody who has registered reads the page.
const NEVER: u32 = u32::MAX;

impl Foresight {
    pub(super) fn of(trace: &Trace) -> Self {
        let (mut registered, mut registrations) = (Vec::new(), Vec::new());
        for event in trace.events() {
            if let LoadedEvent::Register(registration) = &event.event {
                registered.resize(registration.scan as usize + 1, event.before);
                registrations.push(event.before);
            }
        }
        let mut reads = vec![Vec::new(); trace.unique() as usize];
        for (at, &page) in trace.requests().iter().enumerate() {
            if let Some(scan) = trace.scan(at) {
                reads[page as usize].push((at as u32, registered[scan as usize]));
            }
        }
        Self {
            numbers: trace.pages().iter().copied().zip(0..).collect(),
            known: vec![Cell::new((0, usize::MAX)); reads.len()],
            reads,
            registrations,
            passed: Cell::new(0),
        }
    }

    /// How many scans have registered by `now`.
    fn registered(&self, now: Tick) -> usize {
        let mut passed = self.passed.get();
        while self.registrations.get(passed).is_some_and(|&before| Tick::from(before) <= now) {
            passed += 1;
        }
        self.passed.set(passed);
        passed
    }

    /// When the page of this number is next read by a scan that has registered by `now`, from the
    /// trace.
    fn look_up(&self, number: usize, now: Tick) -> u32 {
        let reads = &self.reads[number];
        let ahead = reads.partition_point(|&(at, _)| Tick::from(at) < now);
        let next = reads[ahead..].iter().find(|&&(_, registered)| Tick::from(registered) <= now);
        next.map_or(NEVER, |&(at, _)| at)
    }
}

impl Oracle for Foresight {
    fn next_access(&self, Question { page, now, .. }: Question) -> Option<Tick> {
        let number = *self.numbers.get(&page)? as usize;
        let registered = self.registered(now);
        let (mut at, known_by) = self.known[number].get();
        if known_by != registered || Tick::from(at) < now {
            at = self.look_up(number, now);
            self.known[number].set((at, registered));
        }
        (at != NEVER).then(|| Tick::from(at) - now)
    }
}
