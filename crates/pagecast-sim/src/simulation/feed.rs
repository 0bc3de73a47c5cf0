//! The requests of a trace in the order in which a replay makes them, with what happens between
//! them.

use super::scans::Scans;
use super::{LogicalOutcome, numbered};
use crate::trace::{LoadedEvent, ScanNumber, StreamNumber, Trace};
use crate::watch::Watch;
use pagecast_core::policy::Access;
use pagecast_core::{PageId, Tick};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Requests of numbered pages, outside scans.
pub(super) struct Plain<'a> {
    trace: &'a Trace,
    watch: &'a Watch,
    requests: std::iter::Enumerate<std::slice::Iter<'a, u32>>,
}

impl<'a> Plain<'a> {
    pub(super) fn new(trace: &'a Trace, watch: &'a Watch) -> Self {
        Self { trace, watch, requests: trace.requests().iter().enumerate() }
    }
}

impl Iterator for Plain<'_> {
    type Item = Access;

    #[inline]
    fn next(&mut self) -> Option<Access> {
        let (at, &page) = self.requests.next()?;
        if !self.watch.goes_on(at) {
            return None;
        }
        Some(dense_access(page, self.trace.is_write(at), at as Tick))
    }
}

pub(super) fn dense_access(page: u32, write: bool, at: Tick) -> Access {
    Access { page: numbered(page), scan: None, write, at }
}

/// Requests in the order of the trace; scans register and report in between.
pub(crate) struct Fixed<'a> {
    trace: &'a Trace,
    scans: &'a RefCell<Scans>,
    watch: &'a Watch,
    at: usize,
    event: usize,
}

impl<'a> Fixed<'a> {
    pub(super) fn new(trace: &'a Trace, scans: &'a RefCell<Scans>, watch: &'a Watch) -> Self {
        Self { trace, scans, watch, at: 0, event: 0 }
    }
}

impl Iterator for Fixed<'_> {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        if !self.watch.goes_on(self.at) {
            return None;
        }
        let mut scans = self.scans.borrow_mut();
        while let Some(event) = self.trace.events().get(self.event).filter(|event| event.before as usize <= self.at) {
            self.event += 1;
            if !scans.apply(&event.event, self.at as Tick) {
                return None;
            }
        }
        let access = access(self.trace, &scans, self.at, self.at as Tick)?;
        self.at += 1;
        Some(access)
    }
}

/// Request `at` of the trace, made at `now`.
fn access(trace: &Trace, scans: &Scans, at: usize, now: Tick) -> Option<Access> {
    let page: PageId = trace.pages()[*trace.requests().get(at)? as usize];
    let scan = trace.scan(at).and_then(|scan| scans.request(scan, page));
    Some(Access { page, scan, write: trace.is_write(at), at: now })
}

/// A step of a stream, all of it in one word: streams are read in turns, and each look elsewhere
/// would miss the processor's cache. A request: its page's number, above it the scan plus 1, above
/// that whether it writes. Or an event's number below the highest bit.
#[derive(Clone, Copy)]
struct Step(u64);

const EVENT: u64 = 1 << 63;
const WRITE: u64 = 1 << 62;
// A scan plus 1 stands between the page's number and the two flags.
const _: () = assert!(crate::trace::MAX_NUMBER < 1 << 29);

impl Step {
    fn request(trace: &Trace, at: usize) -> Self {
        let scan = trace.scan(at).map_or(0, |scan| u64::from(scan) + 1);
        let write = if trace.is_write(at) { WRITE } else { 0 };
        Self(u64::from(trace.requests()[at]) | scan << 32 | write)
    }

    fn event(number: usize) -> Self {
        Self(EVENT | number as u64)
    }

    /// The event's number, if it is one.
    fn as_event(self) -> Option<usize> {
        (self.0 & EVENT != 0).then_some((self.0 & !EVENT) as usize)
    }

    fn page(self) -> u32 {
        self.0 as u32
    }

    fn scan(self) -> Option<ScanNumber> {
        (((self.0 & !WRITE) >> 32) as u32).checked_sub(1)
    }

    fn writes(self) -> bool {
        self.0 & WRITE != 0
    }
}

/// A stream in logical time.
struct Stream {
    steps: Vec<Step>,
    done: usize,
    pace: u32,
    /// When the scan that runs registered.
    began: Tick,
}

impl Stream {
    fn next(&mut self) -> Option<Step> {
        let step = *self.steps.get(self.done)?;
        self.done += 1;
        Some(step)
    }
}

/// Requests in the order of logical time. Ties go to the lower stream.
pub(super) struct Logical<'a> {
    trace: &'a Trace,
    scans: &'a RefCell<Scans>,
    missed: &'a Cell<bool>,
    watch: &'a Watch,
    latency: u32,
    streams: Vec<Stream>,
    ready: BinaryHeap<Reverse<(Tick, StreamNumber)>>,
    /// Who made the last request, and when.
    last: Option<(Tick, StreamNumber)>,
    outcome: LogicalOutcome,
    order: Vec<u32>,
}

impl<'a> Logical<'a> {
    /// `missed` is set by the replay when a request misses, and read here before the next one is
    /// made.
    pub(super) fn new(
        trace: &'a Trace,
        scans: &'a RefCell<Scans>,
        missed: &'a Cell<bool>,
        latency: u32,
        watch: &'a Watch,
    ) -> Self {
        let streams = streams_of(trace);
        let ready = (0..streams.len() as StreamNumber).map(|stream| Reverse((0, stream))).collect();
        let outcome = LogicalOutcome::default();
        Self { trace, scans, missed, watch, latency, streams, ready, last: None, outcome, order: Vec::new() }
    }

    /// The times that were counted, and the pages' numbers in the order of the requests.
    pub(super) fn finish(mut self) -> (LogicalOutcome, Vec<u32>) {
        self.settle();
        (self.outcome, self.order)
    }

    /// Lets the time pass that the last request took; who made it, and when it is done.
    fn settle(&mut self) -> Option<(Tick, StreamNumber)> {
        let (at, stream) = self.last.take()?;
        let wait = if self.missed.replace(false) { self.latency } else { 0 };
        let done = at.saturating_add(u64::from(self.streams[stream as usize].pace) + u64::from(wait));
        self.outcome.ticks = self.outcome.ticks.max(done);
        Some((done, stream))
    }

    /// Counts the time that scans take.
    fn note(&mut self, stream: StreamNumber, event: &LoadedEvent, now: Tick) {
        let state = &mut self.streams[stream as usize];
        match event {
            LoadedEvent::Register(_) => state.began = now,
            LoadedEvent::Finish(_) => self.outcome.scan_ticks += now - state.began,
            _ => {}
        }
    }

    /// The earliest of `other` and those in the queue, where `other` stays in its place if it is
    /// not.
    fn earliest(&mut self, other: Option<(Tick, StreamNumber)>) -> Option<(Tick, StreamNumber)> {
        let Some(other) = other else { return self.ready.pop().map(|Reverse(first)| first) };
        match self.ready.peek_mut() {
            Some(mut first) if first.0 < other => Some(std::mem::replace(&mut first.0, other)),
            _ => Some(other),
        }
    }

    /// The next request of `stream`, which is at `now`; `Err` when it waits until later, or has no
    /// more.
    fn advance(&mut self, stream: StreamNumber, now: Tick) -> Result<Step, Option<Tick>> {
        let trace = self.trace;
        while let Some(step) = self.streams[stream as usize].next() {
            let Some(event) = step.as_event() else { return Ok(step) };
            match &trace.events()[event].event {
                LoadedEvent::Pace(ticks) => self.streams[stream as usize].pace = *ticks,
                LoadedEvent::Wait(until) if *until > now => return Err(Some(*until)),
                event => {
                    if !self.scans.borrow_mut().apply(event, now) {
                        // The whole replay ends: nobody has anything more to do.
                        self.ready.clear();
                        return Err(None);
                    }
                    self.note(stream, event, now);
                }
            }
        }
        Err(None)
    }
}

impl Iterator for Logical<'_> {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        let mut waiting = self.settle();
        if !self.watch.goes_on(self.order.len()) {
            return None;
        }
        while let Some((now, stream)) = self.earliest(waiting.take()) {
            match self.advance(stream, now) {
                Ok(step) => {
                    self.last = Some((now, stream));
                    self.order.push(step.page());
                    let page = self.trace.pages()[step.page() as usize];
                    let scan = step.scan().and_then(|scan| self.scans.borrow().request(scan, page));
                    return Some(Access { page, scan, write: step.writes(), at: now });
                }
                Err(Some(later)) => waiting = Some((later, stream)),
                Err(None) => self.outcome.ticks = self.outcome.ticks.max(now),
            }
        }
        None
    }
}

/// What each stream does, in its order.
fn streams_of(trace: &Trace) -> Vec<Stream> {
    let new = || Stream { steps: Vec::new(), done: 0, pace: 1, began: 0 };
    let mut streams: Vec<Stream> = (0..trace.stream_count()).map(|_| new()).collect();
    let mut events = trace.events().iter().enumerate().peekable();
    for at in 0..=trace.requests().len() {
        while let Some((number, event)) = events.next_if(|(_, event)| event.before as usize <= at) {
            streams[event.stream as usize].steps.push(Step::event(number));
        }
        if at < trace.requests().len() {
            streams[trace.stream(at) as usize].steps.push(Step::request(trace, at));
        }
    }
    streams
}
