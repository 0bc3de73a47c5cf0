//! A scan that runs: what it registers, and how far its workers are.

use super::ClosedError;
use super::delivery::Delivery;
use super::engine::Words;
use super::table::Table;
use super::workload::ScanProgram;
use pagecast_core::predictor::{Pages, Part, Registry, Run, ScanKind, ScanSpec};
use pagecast_core::{FrameId, PageId, ScanId, Tick};
use std::ops::Range;

/// A registered scan.
#[derive(Clone, Debug)]
pub(super) struct Scan<'a> {
    pub(super) id: ScanId,
    pub(super) stream: usize,
    pub(super) table: &'a Table,
    pub(super) program: &'a ScanProgram,
    pub(super) rows: Range<u64>,
    /// Pages that it asks for ahead in each column.
    pub(super) ahead: u32,
}

impl<'a> Scan<'a> {
    /// Registers `rows` of `program` with the predictor.
    pub(super) fn register(
        registry: &mut Registry<Words>,
        table: &'a Table,
        program: &'a ScanProgram,
        rows: Range<u64>,
        delivery: &Delivery,
        now: Tick,
    ) -> Result<Self, ClosedError> {
        let Delivery::Ordered { ahead } = *delivery;
        let runs = runs_in_order(table, program, &rows);
        let parts = [Part { relation: table.relation, pages: Pages::Runs(&runs) }];
        let spec = ScanSpec { kind: ScanKind(0), length: rows.end - rows.start, parts: &parts };
        let id = registry.register(&spec, now).map_err(|error| ClosedError::Scan(error.to_string()))?;
        Ok(Self { id, stream: 0, table, program, rows, ahead })
    }

    /// Every page that it reads.
    pub(super) fn each_page(&self, mut visit: impl FnMut(PageId)) {
        for &column in &self.program.columns {
            self.table.pages(column, &self.rows).for_each(|number| visit(self.table.page(column, number)));
        }
    }
}

/// A run for each column of each unit, on an axis of rows.
fn runs_in_order(table: &Table, program: &ScanProgram, rows: &Range<u64>) -> Vec<Run> {
    let mut runs = Vec::new();
    for unit in table.units_of(rows) {
        let within = table.rows_in(unit, rows);
        for &column in &program.columns {
            let pages = table.pages(column, &within);
            let start = table.rows_of(column, pages.start).start.max(within.start);
            let end = table.rows_of(column, pages.end - 1).end.min(within.end);
            runs.push(Run {
                first: table.page(column, pages.start).block(),
                blocks: (pages.end - pages.start) as u32,
                position: start - rows.start,
                span: end - start,
            });
        }
    }
    runs
}

/// Whether and how a page that was asked for has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Got {
    /// Not yet.
    Nothing,
    /// It is in a frame, which is held.
    Frame(FrameId),
    /// The pool had no room for it.
    PastPool,
}

/// A page that a worker has asked for, and the rows for which it needs it.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) page: PageId,
    pub(super) got: Got,
    pub(super) from: u64,
    pub(super) until: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WorkerState {
    /// For pages.
    Waits,
    /// It has a core, or waits for one.
    Works,
    /// Nothing is left for it.
    Done,
}

/// One who reads for a scan.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) scan: usize,
    pub(super) state: WorkerState,
    /// The row that comes next, and where the piece of work ends that it does now.
    pub(super) at: u64,
    pub(super) end: u64,
    /// Where it is with each of the scan's columns: the next page to ask for.
    next: Vec<Range<u64>>,
    pub(super) held: Vec<Held>,
}

impl Worker {
    pub(super) fn new(number: usize, scan: &Scan<'_>) -> Self {
        let next = scan.program.columns.iter().map(|&column| scan.table.pages(column, &scan.rows)).collect();
        let at = scan.rows.start;
        Self { scan: number, state: WorkerState::Waits, at, end: at, next, held: Vec::new() }
    }

    /// The pages that it is time to ask for: of each column the one that has the next row, and some
    /// ahead of it.
    pub(super) fn wants(&mut self, scan: &Scan<'_>, wanted: &mut Vec<Held>) {
        for (&column, next) in scan.program.columns.iter().zip(&mut self.next) {
            while let Some(number) = next.clone().next() {
                let rows = scan.table.rows_of(column, number);
                let due = scan.table.rows_of(column, number.saturating_sub(scan.ahead.into())).start;
                if due > self.at {
                    break;
                }
                next.start += 1;
                let page = scan.table.page(column, number);
                let (from, until) = (rows.start.max(self.at), rows.end.min(scan.rows.end));
                wanted.push(Held { page, got: Got::Nothing, from, until });
            }
        }
    }

    /// A page that it asked for has come.
    pub(super) fn gets(&mut self, page: PageId, got: Got) {
        if let Some(held) = self.held.iter_mut().find(|held| held.page == page) {
            held.got = got;
        }
    }

    /// The row up to which it can work now, if it has a page of every column.
    pub(super) fn ready_until(&self, scan: &Scan<'_>) -> Option<u64> {
        let mut end = scan.rows.end;
        for held in self.held.iter().filter(|held| held.from <= self.at) {
            if held.got == Got::Nothing {
                return None;
            }
            end = end.min(held.until);
        }
        Some(end)
    }
}
