//! What one stream does, and how streams become one trace.

use crate::trace::{Action, Record, Registration, Source, TraceError};
use pagecast_core::predictor::Run;
use pagecast_core::{PageId, RelationId, Tick};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The one relation of most generated workloads; 1, so that no page has id 0.
pub(crate) const TABLE: RelationId = RelationId(1);

/// A step of a stream. Scans have no numbers yet: a stream runs one at a time.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A page outside any scan, to read or to write.
    Point(PageId, bool),
    /// A page of the running scan.
    Scan(PageId),
    Begin {
        length: u64,
        relation: RelationId,
        run: Run,
    },
    Report(u64),
    End,
    Pace(u32),
    Wait(Tick),
}

/// All that a stream does, in its order.
pub(crate) type Program = Vec<Step>;

/// Appends a scan of `blocks` blocks from `first` on, which reports every `report` blocks and at its end.
pub(crate) fn scan(program: &mut Program, relation: RelationId, first: u32, blocks: u32, report: u32) {
    let run = Run { first, blocks, position: 0, span: u64::from(blocks) };
    program.push(Step::Begin { length: u64::from(blocks), relation, run });
    for done in 1..=blocks {
        program.push(Step::Scan(PageId::new(relation, first + done - 1)));
        if done % report == 0 || done == blocks {
            program.push(Step::Report(u64::from(done)));
        }
    }
    program.push(Step::End);
}

/// A workload that was made, as a stream of records.
#[derive(Debug)]
pub struct Generated {
    origin: String,
    records: std::vec::IntoIter<Record>,
}

impl Generated {
    /// What it was made from: name, all parameters, seed.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl Source for Generated {
    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        Ok(self.records.next())
    }
}

/// Merges the streams as they run when every request hits: each takes its pace, and the earliest goes next.
pub(crate) fn interleave(programs: Vec<Program>, origin: String) -> Generated {
    let mut streams: Vec<_> = programs.into_iter().map(|program| (program.into_iter(), 1u32, None)).collect();
    let mut ready: BinaryHeap<_> = (0..streams.len()).map(|stream| Reverse((0, stream))).collect();
    let mut records = Vec::new();
    let mut scans = 0;
    while let Some(Reverse((now, stream))) = ready.pop() {
        let (steps, pace, running) = &mut streams[stream];
        for step in steps.by_ref() {
            let scan = || running.expect("a program reads and reports between beginning and end of a scan");
            let action = match step {
                Step::Point(page, write) => Action::Request { page, write, scan: None },
                Step::Scan(page) => Action::Request { page, write: false, scan: Some(scan()) },
                Step::Report(position) => Action::Report { scan: scan(), position },
                Step::End => Action::Finish { scan: scan() },
                Step::Begin { length, relation, run } => {
                    let parts = vec![(relation, vec![run])];
                    *running = Some(scans);
                    scans += 1;
                    Action::Register(Box::new(Registration { scan: scans - 1, kind: 0, length, parts }))
                }
                Step::Pace(ticks) => {
                    *pace = ticks;
                    Action::Pace { ticks }
                }
                Step::Wait(until) => Action::Wait { until },
            };
            let then = match action {
                Action::Request { .. } => Some(now + Tick::from(*pace)),
                Action::Wait { until } if until > now => Some(until),
                _ => None,
            };
            records.push(Record { stream: stream as u32, action });
            if let Some(then) = then {
                ready.push(Reverse((then, stream)));
                break;
            }
        }
    }
    Generated { origin, records: records.into_iter() }
}
