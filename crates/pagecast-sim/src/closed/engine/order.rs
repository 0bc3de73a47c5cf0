//! Scans in the order of the table: what a worker reads next, and for whom it waits.

use super::{Event, Loop};
use crate::closed::ClosedError;
use crate::closed::scan::{Way, WorkerState};
use crate::closed::together::{Place, Together};
use pagecast_core::{RelationId, Tick};

impl Loop<'_> {
    /// A worker is to go on that may have done so already.
    pub(super) fn goes_on(&mut self, worker: usize) -> Result<(), ClosedError> {
        match self.workers[worker].state {
            WorkerState::Rests | WorkerState::Yields => self.go_on(worker),
            _ => Ok(()),
        }
    }

    /// A worker of a scan in order asks for what comes next, or waits for other scans.
    pub(super) fn go_on_in_order(&mut self, worker: usize, ahead: u32) -> Result<(), ClosedError> {
        let number = self.workers[worker].scan;
        if self.workers[worker].is_at_end() {
            self.release(worker, |_| true);
            let leg = self.workers[worker].leg + 1;
            if !self.workers[worker].begins_leg(&self.scans[number], leg) {
                return self.worker_done(worker);
            }
        }
        let asked = self.workers[worker].held.len();
        let (state, scan) = (&self.workers[worker], &mut self.scans[number]);
        let unit = scan.table.units_of(&(state.at..state.at + 1)).start;
        let is_new = scan.comes_to(unit);
        if is_new {
            let asked_again = scan.waited.since.is_some();
            if self.yields(worker) {
                // Who waits already knows that it is no further.
                return if asked_again { Ok(()) } else { self.wake_yielding(worker) };
            }
            self.scans[number].enters();
        }
        let (state, scan) = (&mut self.workers[worker], &self.scans[number]);
        state.want_next(scan, ahead);
        if let Some(recorder) = self.recorder.as_mut().filter(|_| state.comes_to(unit)) {
            recorder.step((number, scan), unit, false, self.now);
        }
        self.ask_for(worker, asked);
        if is_new { self.wake_yielding(worker) } else { Ok(()) }
    }

    /// Whether a worker waits before its turn. It is asked again when another scan has come further
    /// or ended, and when it has waited for as long as it may.
    fn yields(&mut self, worker: usize) -> bool {
        let number = self.workers[worker].scan;
        let (scan, now) = (&self.scans[number], self.now);
        if !scan.together.may_wait() {
            return false;
        }
        let others = self.places(scan.table.relation, number);
        let waits = scan.waits(&others);
        let (most, waited) = (scan.together.most(), scan.waited);
        let since = waited.since.unwrap_or(now);
        let ran = since - waited.began - waited.ticks;
        let left = most.map(|most| ((ran as f64 * most) as Tick).saturating_sub(waited.ticks + (now - since)));
        if waits && left != Some(0) {
            self.workers[worker].state = WorkerState::Yields;
            if waited.since.is_none() {
                self.scans[number].waited.since = Some(now);
                left.iter().for_each(|&left| self.later(now + left, Event::GoesOn(worker)));
            }
            return true;
        }
        let waited = &mut self.scans[number].waited;
        waited.ticks += now - since;
        waited.since = None;
        false
    }

    /// Where the scans of a table are that keep together, but for one.
    pub(super) fn places(&self, table: RelationId, but: usize) -> Vec<Place> {
        if self.settings.delivery.together == Together::Apart {
            return Vec::new();
        }
        let keeps = |scan: &&super::Scan<'_>| {
            let in_order = matches!(scan.way, Way::InOrder { .. });
            in_order && scan.workers > 0 && scan.table.relation == table && !scan.program.in_order
        };
        let others = self.scans.iter().enumerate().filter(|(number, _)| *number != but);
        others.map(|(_, scan)| scan).filter(keeps).map(super::Scan::place).collect()
    }

    /// The others who wait for scans look again.
    pub(super) fn wake_yielding(&mut self, but: usize) -> Result<(), ClosedError> {
        if !self.settings.delivery.together.may_wait() {
            return Ok(());
        }
        let yields = |worker: &usize| *worker != but && self.workers[*worker].state == WorkerState::Yields;
        let waiting: Vec<_> = (0..self.workers.len()).filter(yields).collect();
        waiting.into_iter().try_for_each(|worker| self.goes_on(worker))
    }
}
