//! Streams, their queries and scans: how each begins, is cancelled and ends.

use super::{Event, Loop};
use crate::closed::ClosedError;
use crate::closed::delivery::Unordered;
use crate::closed::scan::{Registration, Scan, Taken, Waited, Way, Worker, WorkerState};
use crate::closed::together::unit_of;
use crate::closed::workload::{Query, ScanProgram};
use pagecast_core::Tick;

/// A stream, and the query that it runs.
#[derive(Default)]
pub(super) struct Stream {
    /// Its queries that have begun.
    begun: usize,
    /// When the last of them did.
    began: Tick,
    /// Its scans that have begun, and how many registrations of the last one still run.
    scans: usize,
    running: usize,
}

impl<'a> Loop<'a> {
    /// The stream's next query, when it is time.
    pub(super) fn next_query(&mut self, number: usize) -> Result<(), ClosedError> {
        match self.workload.streams[number].get(self.streams[number].begun) {
            None => self.outcome.streams[number] = self.now,
            Some(Query { after: 0, .. }) => return self.begin_query(number),
            Some(query) => self.later(self.now + query.after, Event::Begins(number)),
        }
        Ok(())
    }

    pub(super) fn begin_query(&mut self, number: usize) -> Result<(), ClosedError> {
        let stream = &mut self.streams[number];
        *stream = Stream { begun: stream.begun + 1, began: self.now, scans: 0, running: 0 };
        self.next_scan(number)
    }

    /// The next scan of the stream's query, if it has one.
    fn next_scan(&mut self, number: usize) -> Result<(), ClosedError> {
        let stream = &mut self.streams[number];
        let query = &self.workload.streams[number][stream.begun - 1];
        if let Some(scan) = query.scans.get(stream.scans) {
            stream.scans += 1;
            return self.begin_scan(number, scan);
        }
        self.outcome.latencies[query.kind].push(self.now - stream.began);
        self.next_query(number)
    }

    /// Registers a scan, once or as often as the delivery says.
    fn begin_scan(&mut self, stream: usize, program: &'a ScanProgram) -> Result<(), ClosedError> {
        let table = &self.workload.tables[program.table];
        let joined = program.joined.as_ref().map(|(joined, _)| &self.workload.tables[*joined]);
        let unordered = self.settings.delivery.of(table, program);
        let whole = || vec![program.rows.clone()];
        let shares = unordered.map_or_else(whole, |unordered| unordered.shares(&program.rows).collect());
        self.streams[stream].running = shares.len();
        let first = self.workers.len();
        for rows in shares {
            let number = self.scans.len();
            let together = self.settings.delivery.together(program);
            let (units, others) = (table.units_of(&rows), self.places(table.relation, self.scans.len()));
            let first_turn = together.begin(&units, table.units, &others);
            let start = table.rows_in(unit_of(first_turn, table.units), &rows).start;
            let of = Registration { table, joined, program, rows, start, together, first_turn };
            let mut scan = self.register(stream, of, unordered)?;
            scan.waited = Waited { began: self.now, ..Waited::default() };
            if let Some(recorder) = &mut self.recorder {
                scan.each_page(|page| recorder.wanted(page, self.now));
            }
            self.workers.extend((0..scan.workers).map(|_| Worker::new(number, &scan)));
            self.scans.push(scan);
        }
        (first..self.workers.len()).try_for_each(|worker| self.go_on(worker))
    }

    /// Tells the predictor of a scan, and the manager if it has one.
    fn register(
        &mut self,
        stream: usize,
        of: Registration<'a>,
        unordered: Option<Unordered>,
    ) -> Result<Scan<'a>, ClosedError> {
        let (now, memory) = (self.now, &self.memory);
        let (id, way, workers) = match self.manager.as_mut().zip(unordered) {
            None => (of.in_order(&mut self.registry, now)?, Way::InOrder { ahead: self.settings.delivery.ahead }, 1),
            Some((manager, unordered)) => {
                let id = of.in_any_order(&mut self.registry, now)?;
                let resident = |page| memory.is_resident(page);
                let cooperation = &mut manager.cooperation;
                let workers = unordered.workers;
                let member = of.with_chunks(|chunks| cooperation.register(chunks, workers, now, resident))?;
                manager.begins(member, self.scans.len());
                (id, Way::AnyOrder(member), workers)
            }
        };
        Ok(Scan::new(of, stream, id, way, workers))
    }

    /// The scan's query is cancelled: who waits for a chunk of it goes now, and who has something
    /// to read or do when that is done.
    pub(super) fn cancel(&mut self, number: usize) -> Result<(), ClosedError> {
        self.scans[number].taken = Taken::NotAnyMore;
        let starves = |worker: &Worker| worker.scan == number && worker.state == WorkerState::Starves;
        let starving: Vec<_> = (0..self.workers.len()).filter(|&at| starves(&self.workers[at])).collect();
        starving.into_iter().try_for_each(|worker| self.go_on(worker))
    }

    /// Nothing is left for a worker, and perhaps for its scan.
    pub(super) fn worker_done(&mut self, worker: usize) -> Result<(), ClosedError> {
        // What was asked for ahead comes for nobody.
        self.release(worker, |_| true);
        let state = &mut self.workers[worker];
        state.state = WorkerState::Done;
        let scan = &mut self.scans[state.scan];
        scan.workers -= 1;
        if scan.workers > 0 {
            return Ok(());
        }
        if let (Taken::NotAnyMore, Some(recorder)) = (scan.taken, &mut self.recorder) {
            scan.each_page(|page| {
                if !scan.seen.contains(&page) {
                    recorder.read(page, self.now);
                }
            });
        }
        let Scan { id, stream, way, .. } = *scan;
        self.registry.finish(id, self.now);
        if let (Way::AnyOrder(member), Some(manager)) = (way, &mut self.manager) {
            manager.finish(member);
        }
        self.wake_yielding(worker)?;
        self.streams[stream].running -= 1;
        if self.streams[stream].running == 0 { self.next_scan(stream) } else { Ok(()) }
    }
}
