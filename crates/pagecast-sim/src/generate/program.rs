//! What one stream does, and how streams become one trace.

use crate::trace::{Action, Extent, Record, Registration, Rows, Source, TraceError};
use pagecast_core::forecast::Clock;
use pagecast_core::predictor::Run;
use pagecast_core::{PageId, RelationId, Tick};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The one relation of most generated workloads; 1, so that no page has id 0.
pub(crate) const TABLE: RelationId = RelationId(1);
/// The index of that table. Its pages are never asked for, its entries are what an index scan goes
/// along.
pub(crate) const INDEX: RelationId = RelationId(2);

/// Kinds of scans: each has its own running estimate of pace. Sequential scans; index scans almost
/// in the order of the table, by their physical distance; index scans in no such order, whose
/// positions are entries of the index; bitmap scans; scans of columns.
pub(crate) const SEQUENTIAL: u8 = 0;
pub(crate) const CORRELATED: u8 = 1;
pub(crate) const INDEXED: u8 = 2;
pub(crate) const BITMAP: u8 = 3;
pub(crate) const COLUMNS: u8 = 4;

/// A step of a stream; small, for there are millions. Scans have no numbers yet: a stream runs one
/// at a time.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A page outside any scan, to read or to write.
    Point(PageId, bool),
    /// An item of a page, to read or to write.
    Tuple(PageId, u32, bool),
    /// How items lie in the pages of a relation.
    Rows(RelationId, Box<Rows>),
    /// A page of the running scan.
    Scan(PageId),
    Begin(Box<Beginning>),
    Report(u64),
    End,
    Pace(u32),
    Wait(Tick),
    Changed(RelationId),
    Clock(Box<Clock>),
}

/// What a scan registers: its kind, the end of its axis, and what it reads of one relation.
#[derive(Clone, Debug)]
pub(crate) struct Beginning {
    pub(crate) kind: u8,
    pub(crate) length: u64,
    pub(crate) relation: RelationId,
    pub(crate) extent: Extent,
    /// Which query it is of.
    pub(crate) template: Option<u64>,
}

/// All that a stream does, in its order.
pub(crate) type Program = Vec<Step>;

/// `blocks` blocks from `first` on, a position each.
pub(crate) fn stretch(first: u32, blocks: u32) -> Run {
    Run { first, blocks, position: 0, span: u64::from(blocks) }
}

/// A scan of `kind` registers for the blocks of `relation` that `run` has.
pub(crate) fn begin(program: &mut Program, kind: u8, relation: RelationId, run: Run) {
    begin_known(program, kind, relation, run, None);
}

fn begin_known(program: &mut Program, kind: u8, relation: RelationId, run: Run, template: Option<u64>) {
    let extent = Extent::Runs(vec![run]);
    program.push(Step::Begin(Box::new(Beginning { kind, length: run.span, relation, extent, template })));
}

/// Appends a scan of `blocks` blocks from `first` on, which reports every `report` blocks and at
/// its end.
pub(crate) fn scan(program: &mut Program, relation: RelationId, first: u32, blocks: u32, report: u32) {
    scan_known(program, relation, (first, blocks), report, None);
}

/// As [`scan`], of a query that may come again.
pub(crate) fn scan_known(
    program: &mut Program,
    relation: RelationId,
    (first, blocks): (u32, u32),
    report: u32,
    template: Option<u64>,
) {
    begin_known(program, SEQUENTIAL, relation, stretch(first, blocks), template);
    for done in 1..=blocks {
        program.push(Step::Scan(PageId::new(relation, first + done - 1)));
        if done % report == 0 || done == blocks {
            program.push(Step::Report(u64::from(done)));
        }
    }
    program.push(Step::End);
}

/// A stream on its way through its program.
#[derive(Debug)]
struct Stream {
    steps: std::vec::IntoIter<Step>,
    pace: u32,
    /// The scan that runs.
    scan: Option<u32>,
}

/// A workload that was made, as a stream of records: the streams merged as they run when every
/// request hits. Each takes its pace, and the earliest goes next.
#[derive(Debug)]
pub struct Generated {
    origin: String,
    streams: Vec<Stream>,
    ready: BinaryHeap<Reverse<(Tick, u32)>>,
    /// Who goes on after the last record, at the same moment.
    current: Option<(Tick, u32)>,
    scans: u32,
}

/// Merges what the streams do into one workload.
pub(crate) fn interleave(programs: Vec<Program>, origin: String) -> Generated {
    let stream = |program: Program| Stream { steps: program.into_iter(), pace: 1, scan: None };
    let streams: Vec<_> = programs.into_iter().map(stream).collect();
    let ready = (0..streams.len() as u32).map(|stream| Reverse((0, stream))).collect();
    Generated { origin, streams, ready, current: None, scans: 0 }
}

impl Generated {
    /// What it was made from: name, all parameters, seed.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// What `step` of stream `number` is in the trace.
    fn action(&mut self, number: u32, step: Step) -> Action {
        let stream = &mut self.streams[number as usize];
        let running = || stream.scan.expect("a program reads and reports between beginning and end of a scan");
        match step {
            Step::Point(page, write) => Action::Request { page, write, scan: None },
            Step::Scan(page) => Action::Request { page, write: false, scan: Some(running()) },
            Step::Tuple(page, item, write) => Action::Tuple { page, item, write },
            Step::Rows(relation, rows) => Action::Rows(relation, *rows),
            Step::Report(position) => Action::Report { scan: running(), position },
            Step::End => Action::Finish { scan: running() },
            Step::Begin(beginning) => {
                let Beginning { kind, length, relation, extent, template } = *beginning;
                let scan = self.scans;
                stream.scan = Some(scan);
                self.scans += 1;
                let parts = vec![(relation, extent)];
                Action::Register(Box::new(Registration { scan, kind, length, parts, template }))
            }
            Step::Pace(ticks) => {
                stream.pace = ticks;
                Action::Pace { ticks }
            }
            Step::Wait(until) => Action::Wait { until },
            Step::Changed(relation) => Action::Changed(relation),
            Step::Clock(clock) => Action::Clock(*clock),
        }
    }
}

impl Source for Generated {
    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            let Some((now, stream)) = self.current.take().or_else(|| self.ready.pop().map(|Reverse(first)| first))
            else {
                return Ok(None);
            };
            let Some(step) = self.streams[stream as usize].steps.next() else { continue };
            let action = self.action(stream, step);
            match action {
                Action::Request { .. } | Action::Tuple { .. } => {
                    let pace = Tick::from(self.streams[stream as usize].pace);
                    self.ready.push(Reverse((now + pace, stream)));
                }
                Action::Wait { until } if until > now => self.ready.push(Reverse((until, stream))),
                _ => self.current = Some((now, stream)),
            }
            return Ok(Some(Record { stream, action }));
        }
    }
}
