//! Arrays as a source of trace records: each request with what is told of it, and the scans that
//! the requests name.

use crate::array::Numbers;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pagecast_core::predictor::Run;
use pagecast_core::{PageId, RelationId};
use pagecast_sim::trace::{Action, Extent, MAX_NUMBER, Place, Record, Registration, Source, TraceError};
use pagecast_sim::watch::Watch;
use std::collections::VecDeque;
use std::sync::Arc;

/// Requests that are read at a time.
const CHUNK: usize = 1 << 14;

/// What is known of each request; all of one length.
pub(crate) struct Columns {
    pub(crate) pages: Numbers,
    pub(crate) writes: Option<Numbers>,
    pub(crate) streams: Option<Numbers>,
    pub(crate) scans: Option<Numbers>,
}

/// The requests one after the other, with what scans do between them.
pub(crate) struct Arrays {
    columns: Columns,
    at: usize,
    scans: Scans,
    /// Records to come before the next request is read.
    due: VecDeque<Record>,
    watch: Arc<Watch>,
}

/// The scans by the numbers that requests give them.
#[derive(Default)]
struct Scans {
    known: HashMap<u64, Known, FixedState>,
    begun: u32,
    /// Requests of a scan from one report to the next.
    report: u64,
}

struct Known {
    /// The pages in the order in which they are asked for.
    pages: Vec<PageId>,
    /// The scan's number in the trace, once it is registered.
    number: u32,
    done: u64,
}

impl Arrays {
    pub(crate) fn new(columns: Columns, report: u64, watch: Arc<Watch>) -> Result<Self, TraceError> {
        let mut scans = Scans { report: report.max(1), ..Scans::default() };
        if let Some(numbers) = &columns.scans {
            scans.collect(numbers, &columns.pages, &watch)?;
        }
        Ok(Self { columns, at: 0, scans, due: VecDeque::new(), watch })
    }

    fn request(&mut self) -> Result<Option<Record>, TraceError> {
        let at = self.at;
        if at >= self.columns.pages.len() {
            return Ok(None);
        }
        if at.is_multiple_of(CHUNK) && self.watch.is_stopped() {
            return Err(stopped());
        }
        self.at += 1;
        let of = |column: &Option<Numbers>| column.as_ref().map_or(0, |numbers| numbers.get(at));
        let page = PageId::from_raw(self.columns.pages.get(at));
        let write = of(&self.columns.writes) != 0;
        let stream = of(&self.columns.streams);
        let stream = u32::try_from(stream)
            .ok()
            .filter(|&stream| stream < MAX_NUMBER)
            .ok_or_else(|| fault(at, format!("stream {} is not from 0 to {}", stream as i64, MAX_NUMBER - 1)))?;
        let scan = self.columns.scans.as_ref().and_then(|scans| scan_of(scans.get(at)));
        let request = |scan| Record { stream, action: Action::Request { page, write, scan } };
        match scan {
            None => Ok(Some(request(None))),
            Some(given) => {
                self.due.extend(self.scans.around(given, stream, request));
                Ok(self.due.pop_front())
            }
        }
    }
}

impl Source for Arrays {
    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        match self.due.pop_front() {
            Some(record) => Ok(Some(record)),
            None => self.request(),
        }
    }

    fn reads(&mut self, pages: &mut Vec<PageId>) -> Result<(), TraceError> {
        let Columns { pages: numbers, writes: None, streams: None, scans: None } = &self.columns else { return Ok(()) };
        if self.watch.is_stopped() {
            return Err(stopped());
        }
        let until = (self.at + CHUNK).min(numbers.len());
        numbers.append(self.at, until, pages, PageId::from_raw);
        self.at = until;
        Ok(())
    }
}

impl Scans {
    /// Finds out which pages each scan will ask for.
    fn collect(&mut self, numbers: &Numbers, pages: &Numbers, watch: &Watch) -> Result<(), TraceError> {
        for at in 0..pages.len() {
            if at.is_multiple_of(CHUNK) && watch.is_stopped() {
                return Err(stopped());
            }
            let Some(given) = scan_of(numbers.get(at)) else { continue };
            if self.known.len() == MAX_NUMBER as usize && !self.known.contains_key(&given) {
                return Err(fault(at, format!("more than {MAX_NUMBER} scans")));
            }
            let fresh = || Known { pages: Vec::new(), number: u32::MAX, done: 0 };
            self.known.entry(given).or_insert_with(fresh).pages.push(PageId::from_raw(pages.get(at)));
        }
        Ok(())
    }

    /// The request of scan `given` with what comes before it and after it: the registration, a
    /// report, the end.
    fn around(&mut self, given: u64, stream: u32, request: impl Fn(Option<u32>) -> Record) -> Vec<Record> {
        let Some(known) = self.known.get_mut(&given) else { return vec![request(None)] };
        let mut records = Vec::new();
        if known.number == u32::MAX {
            known.number = self.begun;
            self.begun += 1;
            let action = Action::Register(Box::new(registration(known.number, &known.pages)));
            records.push(Record { stream, action });
        }
        let scan = known.number;
        records.push(request(Some(scan)));
        known.done += 1;
        let all = known.pages.len() as u64;
        if known.done.is_multiple_of(self.report) || known.done == all {
            records.push(Record { stream, action: Action::Report { scan, position: known.done } });
        }
        if known.done == all {
            records.push(Record { stream, action: Action::Finish { scan } });
            known.pages = Vec::new();
        }
        records
    }
}

/// What a scan registers that will ask for `pages`: each at the place where it comes first.
fn registration(scan: u32, pages: &[PageId]) -> Registration {
    let mut placed: Vec<_> = pages.iter().copied().zip(0u64..).collect();
    placed.sort_unstable();
    placed.dedup_by_key(|(page, _)| *page);
    let mut parts: Vec<(RelationId, Vec<Run>)> = Vec::new();
    for (page, position) in placed {
        let (relation, block) = (page.relation(), page.block());
        if parts.last().is_none_or(|(of, _)| *of != relation) {
            parts.push((relation, Vec::new()));
        }
        let Some((_, runs)) = parts.last_mut() else { continue };
        match runs.last_mut() {
            Some(run)
                if run.first + (run.blocks - 1) == block.wrapping_sub(1) && run.position + run.span == position =>
            {
                run.blocks += 1;
                run.span += 1;
            }
            _ => runs.push(Run { first: block, blocks: 1, position, span: 1 }),
        }
    }
    let parts = parts.into_iter().map(|(relation, runs)| (relation, Extent::Runs(runs))).collect();
    Registration { scan, kind: 0, length: pages.len() as u64, parts, template: None }
}

/// A scan's number; numbers below 0 stand for none.
fn scan_of(number: u64) -> Option<u64> {
    (number as i64 >= 0).then_some(number)
}

fn fault(at: usize, cause: String) -> TraceError {
    TraceError::at(Place::Whole, format!("request {at}: {cause}"))
}

fn stopped() -> TraceError {
    TraceError::at(Place::Whole, "stopped")
}
