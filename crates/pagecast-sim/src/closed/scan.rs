//! A scan that runs: what it registers, and how far its workers are.

use super::table::Table;
use super::together::{Place, Together, turn_of};
use super::words::Words;
use super::workload::{ScanProgram, Stop};
use foldhash::fast::FixedState;
use hashbrown::HashSet;
use pagecast_core::cooperation::{Chunk, MemberId, Unit};
use pagecast_core::predictor::{Pages, Part, RegisterError, Registry, Run, ScanKind, ScanSpec};
use pagecast_core::{FrameId, PageId, RelationId, ScanId, Tick};
use std::ops::Range;

/// A registered scan.
#[derive(Clone, Debug)]
pub(super) struct Scan<'a> {
    pub(super) id: ScanId,
    pub(super) stream: usize,
    pub(super) table: &'a Table,
    /// The second table of a join.
    joined: Option<&'a Table>,
    pub(super) program: &'a ScanProgram,
    pub(super) rows: Range<u64>,
    /// The first row that it reads. What is in front of it comes last.
    start: u64,
    pub(super) together: Together,
    /// The turn in which it begins, that which it is in or waits for, and the last that it was in.
    first_turn: u64,
    turn: u64,
    been_in: Option<u64>,
    pub(super) waited: Waited,
    pub(super) way: Way,
    /// Workers that are not done.
    pub(super) workers: u32,
    /// Rows that it has read.
    pub(super) read: u64,
    /// Where its user leaves it, if that is still to come.
    pub(super) stop: Option<Stop>,
    pub(super) taken: Taken,
    /// For pictures, of a scan that is cancelled: the pages that it has read.
    pub(super) seen: HashSet<PageId, FixedState>,
}

/// Whether a scan's rows are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    AsTheyCome,
    /// Its user has left it until then.
    NotBefore(Tick),
    /// It is cancelled.
    NotAnyMore,
}

/// How long a scan has waited for others.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Waited {
    pub(super) began: Tick,
    /// In all, without the wait that it is in.
    pub(super) ticks: Tick,
    /// Since when it waits.
    pub(super) since: Option<Tick>,
}

/// In which order a scan gets its rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// That of the table; the pages of each column that it asks for ahead.
    InOrder { ahead: u32 },
    /// That which the manager of cooperation says.
    AnyOrder(MemberId),
}

impl<'a> Scan<'a> {
    pub(super) fn new(of: Registration<'a>, stream: usize, id: ScanId, way: Way, workers: u32) -> Self {
        let Registration { table, joined, program, rows, start, together, first_turn } = of;
        // A share of the scan comes to its place after a share of the rows.
        let (all, share) = (program.rows.end - program.rows.start, rows.end - rows.start);
        let stop =
            program.stop.map(|stop| Stop { rows: (stop.rows as f64 * share as f64 / all as f64) as u64, ..stop });
        Scan {
            id,
            stream,
            table,
            joined,
            program,
            rows,
            start,
            together,
            first_turn,
            turn: first_turn,
            been_in: None,
            waited: Waited::default(),
            way,
            workers,
            read: 0,
            stop,
            taken: Taken::AsTheyCome,
            seen: HashSet::default(),
        }
    }

    /// The stretches of rows that it reads in order, the first first.
    pub(super) fn legs(&self) -> Vec<Range<u64>> {
        legs(&self.rows, self.start)
    }

    /// Its position when it is done with all before `row` of a leg.
    pub(super) fn position(&self, leg: usize, row: u64) -> u64 {
        if leg == 0 { row - self.start } else { self.rows.end - self.start + row - self.rows.start }
    }

    /// Where it is among those that keep together.
    pub(super) fn place(&self) -> Place {
        let (units, of) = (self.table.units_of(&self.rows), self.table.units);
        let round = if self.start > self.rows.start { u64::from(of) } else { units.len() as u64 };
        Place { turn: self.turn, end: self.first_turn + round, units, of }
    }

    /// It is done with all turns before that in which it reads `unit`. Whether it is not in that.
    pub(super) fn comes_to(&mut self, unit: u32) -> bool {
        self.turn = turn_of(unit, self.table.units, self.turn);
        self.been_in != Some(self.turn)
    }

    /// Its turn begins.
    pub(super) fn enters(&mut self) {
        self.been_in = Some(self.turn);
    }

    /// Whether it waits before its turn for scans in these places.
    pub(super) fn waits(&self, others: &[Place]) -> bool {
        self.together.waits(self.been_in, self.turn, others)
    }

    /// Notes that so many rows more have been read. What its user does, if that was the place.
    pub(super) fn has_read(&mut self, rows: u64) -> Option<Stop> {
        self.read += rows;
        self.stop.take_if(|stop| stop.rows <= self.read)
    }

    /// Every page that it reads.
    pub(super) fn each_page(&self, mut visit: impl FnMut(PageId)) {
        for (table, column) in self.columns() {
            table.pages(column, &self.rows).for_each(|number| visit(table.page(column, number)));
        }
    }

    /// The columns that it reads, each with its table.
    pub(super) fn columns(&self) -> impl Iterator<Item = (&'a Table, usize)> + use<'a> {
        columns(self.table, self.joined, self.program)
    }

    /// The number of a chunk's unit among those of the scan: the manager counts the parts of joined
    /// ones.
    pub(super) fn number(&self, chunk: u32) -> u32 {
        chunk / if self.joined.is_some() { 2 } else { 1 }
    }

    /// Notes that a worker is done with a page, if that is asked for later.
    pub(super) fn has_seen(&mut self, page: PageId) {
        if self.program.stop.is_some_and(|stop| stop.pause.is_none()) {
            self.seen.insert(page);
        }
    }

    /// The unit of a chunk, and its rows.
    pub(super) fn chunk(&self, chunk: u32) -> (u32, Range<u64>) {
        let unit = self.table.units_of(&self.rows).start + self.number(chunk);
        (unit, self.table.rows_in(unit, &self.rows))
    }
}

/// The columns that a program reads, each with its table.
fn columns<'a>(
    table: &'a Table,
    joined: Option<&'a Table>,
    program: &'a ScanProgram,
) -> impl Iterator<Item = (&'a Table, usize)> + use<'a> {
    let of_joined = joined.zip(program.joined.as_ref());
    let of_joined = of_joined.into_iter().flat_map(|(table, (_, columns))| columns.iter().map(move |&at| (table, at)));
    program.columns.iter().map(move |&column| (table, column)).chain(of_joined)
}

/// What a scan says of itself before it begins.
pub(super) struct Registration<'a> {
    pub(super) table: &'a Table,
    pub(super) joined: Option<&'a Table>,
    pub(super) program: &'a ScanProgram,
    pub(super) rows: Range<u64>,
    /// As of [`Scan`]; at `rows.start` of one in any order.
    pub(super) start: u64,
    pub(super) together: Together,
    pub(super) first_turn: u64,
}

/// The stretches of `rows` that are read in turn by who begins at `start`.
fn legs(rows: &Range<u64>, start: u64) -> Vec<Range<u64>> {
    let legs = [start..rows.end, rows.start..start];
    legs.into_iter().filter(|leg| !leg.is_empty()).collect()
}

impl Registration<'_> {
    /// Tells the predictor of a scan in order: a run for each column of each unit, on an axis of
    /// rows.
    pub(super) fn in_order(&self, registry: &mut Registry<Words>, now: Tick) -> Result<ScanId, RegisterError> {
        let mut parts: Vec<_> = self.tables().map(|table| (table.relation, Vec::new())).collect();
        let mut before = 0;
        for leg in legs(&self.rows, self.start) {
            self.add_runs(&mut parts, &leg, |_, (table, column), pages, within| {
                let start = table.rows_of(column, pages.start).start.max(within.start);
                let end = table.rows_of(column, pages.end - 1).end.min(within.end);
                (before + start - leg.start, end - start)
            });
            before += leg.end - leg.start;
        }
        // The rows in front come last, and their blocks first.
        parts.iter_mut().for_each(|(_, runs)| runs.sort_by_key(|run| (run.first, run.blocks)));
        let length = self.rows.end - self.rows.start;
        registry.register(&ScanSpec { kind: ScanKind(0), length, parts: &self.parts(&parts) }, now)
    }

    /// Tells the predictor of a scan in any order, whose chunks are units.
    pub(super) fn in_any_order(&self, registry: &mut Registry<Words>, now: Tick) -> Result<ScanId, RegisterError> {
        let units = self.table.units_of(&self.rows);
        let mut runs: Vec<_> = self.tables().map(|table| (table.relation, Vec::new())).collect();
        self.add_runs(&mut runs, &self.rows, |unit, _, _, _| ((unit - units.start).into(), 0));
        let spec = ScanSpec { kind: ScanKind(1), length: units.len() as u64, parts: &self.parts(&runs) };
        registry.register_unordered(&spec, now)
    }

    /// Adds the runs that `rows` are in to those of each table; position and span are what `place`
    /// says.
    fn add_runs(
        &self,
        parts: &mut [(RelationId, Vec<Run>)],
        rows: &Range<u64>,
        place: impl Fn(u32, (&Table, usize), &Range<u64>, &Range<u64>) -> (u64, u64),
    ) {
        self.each_stretch(rows, |unit, (table, column), pages, within| {
            let (position, span) = place(unit, (table, column), &pages, within);
            let first = table.page(column, pages.start).block();
            let run = Run { first, blocks: (pages.end - pages.start) as u32, position, span };
            parts.iter_mut().filter(|(relation, _)| *relation == table.relation).for_each(|(_, runs)| runs.push(run));
        });
    }

    fn parts<'r>(&self, runs: &'r [(RelationId, Vec<Run>)]) -> Vec<Part<'r>> {
        runs.iter().map(|(relation, runs)| Part { relation: *relation, pages: Pages::Runs(runs) }).collect()
    }

    /// One table, or two.
    fn tables(&self) -> impl Iterator<Item = &Table> {
        [Some(self.table), self.joined].into_iter().flatten()
    }

    /// Shows the manager the chunks.
    pub(super) fn with_chunks<T>(&self, then: impl FnOnce(&[Chunk<'_>]) -> T) -> T {
        let (units, tables) = (self.table.units_of(&self.rows), self.tables().count());
        let words = self.tables().map(Table::unit_blocks).max().unwrap_or(0).div_ceil(64) as usize;
        let mut needs = vec![0u64; words * units.len() * tables];
        self.each_stretch(&self.rows, |unit, (table, column), pages, _| {
            let place = usize::from(table.relation != self.table.relation);
            let need = &mut needs[((unit - units.start) as usize * tables + place) * words..][..words];
            for number in pages {
                let bit = table.page(column, number).block() - unit * table.unit_blocks();
                need[bit as usize / 64] |= 1 << (bit % 64);
            }
        });
        let unit = |table: &Table, unit| {
            let blocks = table.unit_blocks();
            Unit { relation: table.relation, first: unit * blocks, blocks }
        };
        let parts = units.flat_map(|number| self.tables().enumerate().map(move |part| (number, part)));
        let chunk = |((number, (part, table)), need)| Chunk { unit: unit(table, number), need, joined: part > 0 };
        then(&parts.zip(needs.chunks(words)).map(chunk).collect::<Vec<_>>())
    }

    /// Visits the pages of each column in each unit of `rows`, with the rows that are read there.
    fn each_stretch(&self, rows: &Range<u64>, mut visit: impl FnMut(u32, (&Table, usize), Range<u64>, &Range<u64>)) {
        for unit in self.table.units_of(rows) {
            let within = self.table.rows_in(unit, rows);
            for (table, column) in columns(self.table, self.joined, self.program) {
                visit(unit, (table, column), table.pages(column, &within), &within);
            }
        }
    }
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
    /// For a chunk.
    Starves,
    /// For scans behind it.
    Yields,
    /// It has a core, or waits for one.
    Works,
    /// Until its scan's user goes on.
    Rests,
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
    /// Of a scan in order: the leg that it is on, its rows, and by column the pages that are to be
    /// asked for.
    pub(super) leg: usize,
    rows: Range<u64>,
    next: Vec<Range<u64>>,
    /// The unit that it came to last.
    unit: Option<u32>,
    /// Of a scan in any order: the chunk that it has.
    pub(super) chunk: Option<u32>,
    pub(super) held: Vec<Held>,
}

impl Worker {
    pub(super) fn new(number: usize, scan: &Scan<'_>) -> Self {
        let mut worker = Self {
            scan: number,
            state: WorkerState::Waits,
            at: scan.rows.start,
            end: scan.rows.start,
            leg: 0,
            rows: scan.rows.clone(),
            next: Vec::new(),
            unit: None,
            chunk: None,
            held: Vec::new(),
        };
        if let Way::InOrder { .. } = scan.way {
            worker.begins_leg(scan, 0);
        }
        worker
    }

    /// Whether the scan has such a leg. Then its first row comes next.
    pub(super) fn begins_leg(&mut self, scan: &Scan<'_>, leg: usize) -> bool {
        let Some(rows) = scan.legs().into_iter().nth(leg) else { return false };
        (self.leg, self.at, self.end) = (leg, rows.start, rows.start);
        self.next = scan.columns().map(|(table, column)| table.pages(column, &rows)).collect();
        self.rows = rows;
        true
    }

    /// Whether it is at the end of its leg.
    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.rows.end
    }

    /// Notes the pages that it is time to ask for: of each column the one that has the next row,
    /// and `ahead` behind it.
    pub(super) fn want_next(&mut self, scan: &Scan<'_>, ahead: u32) {
        for ((table, column), next) in scan.columns().zip(&mut self.next) {
            while let Some(number) = next.clone().next() {
                if table.rows_of(column, number.saturating_sub(ahead.into())).start > self.at {
                    break;
                }
                next.start += 1;
                let rows = table.rows_of(column, number);
                let page = table.page(column, number);
                self.held.push(Held { page, got: Got::Nothing, from: rows.start, until: rows.end.min(self.rows.end) });
            }
        }
    }

    /// Whether it has just come to this unit.
    pub(super) fn comes_to(&mut self, unit: u32) -> bool {
        self.unit.replace(unit) != Some(unit)
    }

    /// Notes all pages of a chunk.
    pub(super) fn want_chunk(&mut self, scan: &Scan<'_>, chunk: u32) {
        let (_, rows) = scan.chunk(chunk);
        (self.at, self.chunk) = (rows.start, Some(chunk));
        for (table, column) in scan.columns() {
            for number in table.pages(column, &rows) {
                let page = table.page(column, number);
                self.held.push(Held { page, got: Got::Nothing, from: rows.start, until: rows.end });
            }
        }
    }

    /// A page that it asked for has come; whether it wants it still.
    pub(super) fn gets(&mut self, page: PageId, got: Got) -> bool {
        self.held.iter_mut().find(|held| held.page == page).map(|held| held.got = got).is_some()
    }

    /// The row up to which it can work now, if all pages that it needs for that are there.
    pub(super) fn ready_until(&self) -> Option<u64> {
        let mut end = u64::MAX;
        for held in self.held.iter().filter(|held| held.from <= self.at) {
            if held.got == Got::Nothing {
                return None;
            }
            end = end.min(held.until);
        }
        Some(end)
    }
}
