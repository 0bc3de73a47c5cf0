//! All replays of one command, on all cores: a trace is loaded once and dropped after its last replay.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};
use pagecast_sim::simulation::{Outcome, simulate};
use pagecast_sim::trace::{Trace, open};

use super::Plan;
use super::rows::Row;
use crate::units::Size;

/// One replay: a trace, and which policy and size of the plan.
struct Cell {
    trace: Arc<Trace>,
    /// Where its row stands in the results.
    number: usize,
}

/// What the threads share. Invariants: (I1) a trace counts as `loading` from when it is taken until its cells are in
/// `ready` or its error in `errors`; (I2) a thread gives up only when nothing is ready, left or loading.
struct State {
    next_trace: usize,
    loading: usize,
    ready: VecDeque<Cell>,
    rows: Vec<Option<Row>>,
    errors: Vec<(usize, anyhow::Error)>,
}

/// The rows of all replays in the order of the command line, and what went wrong.
pub(super) fn replay_all(plan: &Plan, jobs: usize) -> (Vec<Row>, Vec<anyhow::Error>) {
    let per_trace = plan.policies.len() * plan.sizes.len();
    let all = plan.traces.len() * per_trace;
    let work = Work {
        plan,
        per_trace,
        state: Mutex::new(State {
            next_trace: 0,
            loading: 0,
            ready: VecDeque::new(),
            rows: (0..all).map(|_| None).collect(),
            errors: Vec::new(),
        }),
        changed: Condvar::new(),
        bar: ProgressBar::new(all as u64),
    };
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} replays, {eta} left {wide_msg}");
    work.bar.set_style(style.expect("the template is well-formed"));
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(all.max(1)) {
            scope.spawn(|| work.run());
        }
    });
    work.bar.finish_and_clear();
    let mut state = work.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.errors.sort_by_key(|&(number, _)| number);
    (state.rows.into_iter().flatten().collect(), state.errors.into_iter().map(|(_, error)| error).collect())
}

struct Work<'a> {
    plan: &'a Plan,
    per_trace: usize,
    state: Mutex<State>,
    changed: Condvar,
    bar: ProgressBar,
}

impl Work<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What each thread does.
    fn run(&self) {
        let mut state = self.lock();
        loop {
            // Replays come before loading, so that few traces are in memory at a time.
            if let Some(cell) = state.ready.pop_front() {
                drop(state);
                self.replay(&cell);
                drop(cell);
                state = self.lock();
            } else if state.next_trace < self.plan.traces.len() {
                let number = state.next_trace;
                state.next_trace += 1;
                state.loading += 1;
                drop(state);
                let loaded = self.load(&self.plan.traces[number]);
                state = self.lock();
                state.loading -= 1;
                let first = number * self.per_trace;
                match loaded {
                    Ok(trace) => {
                        let cells = first..first + self.per_trace;
                        state.ready.extend(cells.map(|number| Cell { trace: Arc::clone(&trace), number }));
                    }
                    Err(error) => {
                        self.bar.inc(self.per_trace as u64);
                        state.errors.push((first, error));
                    }
                }
                self.changed.notify_all();
            } else if state.loading > 0 {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                return;
            }
        }
    }

    fn load(&self, path: &Path) -> anyhow::Result<Arc<Trace>> {
        let mut source = open(path, &self.plan.format)?;
        let trace = Trace::load(path.display().to_string(), source.as_mut());
        Ok(Arc::new(trace.map_err(|error| error.in_file(path))?))
    }

    fn replay(&self, cell: &Cell) {
        let at = cell.number % self.per_trace;
        let policy = &self.plan.policies[at / self.plan.sizes.len()];
        let size_pages = pages(self.plan.sizes[at % self.plan.sizes.len()], &cell.trace, self.plan.page_size);
        let frames = u32::try_from(size_pages).unwrap_or(u32::MAX);
        let done = simulate(&cell.trace, policy, frames, self.plan.seed, self.plan.interleaving);
        let mut state = self.lock();
        match done {
            Ok(Outcome { counts, wall, logical }) => {
                state.rows[cell.number] = Some(Row {
                    trace: cell.trace.name.clone(),
                    policy: policy.name().to_owned(),
                    params: policy.params(),
                    size_pages,
                    requests: counts.requests,
                    misses: counts.misses,
                    writes: counts.writes,
                    write_backs: counts.write_backs,
                    seconds: wall.as_secs_f64(),
                    unique: cell.trace.unique(),
                    ticks: logical.map(|logical| logical.ticks),
                    opt_misses: logical.map(|logical| logical.opt_misses),
                });
            }
            Err(error) => state.errors.push((cell.number, error.into())),
        }
        self.bar.inc(1);
    }
}

/// How many pages a size means for a trace; at least 1.
fn pages(size: Size, trace: &Trace, page_size: u64) -> u64 {
    let pages = match size {
        Size::Plain(pages) => pages,
        Size::Bytes(bytes) => bytes / page_size,
        // A share is rounded down; the small addition undoes that 30 % is a little less than 3/10 in binary.
        Size::Share(share) => (share * f64::from(trace.unique()) + 1e-6) as u64,
    };
    pages.max(1)
}
