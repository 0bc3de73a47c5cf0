//! All replays of one command, on all cores: a trace is loaded once and dropped after its last
//! replay.

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};
use pagecast_core::policy::PolicySpec;
use pagecast_sim::charts;
use pagecast_sim::curve::{curve, sizes};
use pagecast_sim::simulation::{Outcome, simulate};
use pagecast_sim::trace::{Trace, open};
use pagecast_sim::tuples::{TupleOptions, TupleSpec, simulate_tuples};

use super::Plan;
use super::rows::{Curve, Results, Row, Tuples};
use crate::interrupt::on_threads;
use crate::units::Size;

/// A trace, and the sample of it that curves are made from.
struct Loaded {
    trace: Trace,
    sample: Option<Trace>,
}

/// One thing to do with a trace; the number is where it stands in the results.
struct Cell {
    loaded: Arc<Loaded>,
    task: Task,
}

#[derive(Clone, Copy)]
enum Task {
    /// One policy at one size.
    Row(usize),
    /// One policy at the sizes of its curve.
    Curve(usize),
    /// The access picture.
    Picture(usize),
}

/// What the threads share. Invariants: (I1) a trace counts as `loading` from when it is taken until
/// its cells are in `ready` or its error in `errors`; (I2) a thread gives up only when nothing is
/// ready, left or loading.
struct State {
    next_trace: usize,
    loading: usize,
    ready: VecDeque<Cell>,
    rows: Vec<Option<Row>>,
    curves: Vec<Option<Curve>>,
    pictures: Vec<Option<(String, serde_json::Value)>>,
    /// With the number of the trace that could not be loaded.
    errors: Vec<(usize, anyhow::Error)>,
}

/// All results in the order of the command line, and what went wrong. Ctrl-C ends the work; what is
/// done until then is kept.
pub(super) fn replay_all(plan: &Arc<Plan>, jobs: usize) -> anyhow::Result<(Results, Vec<anyhow::Error>)> {
    fn empty<T>(length: usize) -> Vec<Option<T>> {
        (0..length).map(|_| None).collect()
    }
    let traces = plan.traces.len();
    let state = State {
        next_trace: 0,
        loading: 0,
        ready: VecDeque::new(),
        rows: empty(traces * plan.cells.len() * plan.sizes.len()),
        curves: empty(if plan.curve.is_some() { traces * plan.policies.len() } else { 0 }),
        pictures: empty(if plan.pictures { traces } else { 0 }),
        errors: Vec::new(),
    };
    let all = state.rows.len() + state.curves.len() + state.pictures.len();
    let work = Arc::new(Work {
        plan: Arc::clone(plan),
        per_trace: all / traces,
        state: Mutex::new(state),
        changed: Condvar::new(),
        bar: ProgressBar::new(all as u64),
    });
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} replays, {eta} left {wide_msg}");
    work.bar.set_style(style.expect("the template is well-formed"));
    let complete = work.perform_all(jobs.min(all.max(1)))?;
    work.bar.finish_and_clear();
    let mut state = work.lock();
    let mut errors = std::mem::take(&mut state.errors);
    errors.sort_by_key(|&(number, _)| number);
    // What is wrong with a trace may be wrong at every size; it is said once.
    let mut said = HashSet::new();
    errors.retain(|(_, error)| said.insert(format!("{error:#}")));
    // Copies: after Ctrl-C there may be threads that still have something to put here.
    let results = Results {
        partial: !complete,
        rows: state.rows.iter().flatten().cloned().collect(),
        curves: state.curves.iter().flatten().cloned().collect(),
        pictures: state.pictures.iter().flatten().cloned().collect(),
    };
    Ok((results, errors.into_iter().map(|(_, error)| error).collect()))
}

struct Work {
    plan: Arc<Plan>,
    per_trace: usize,
    state: Mutex<State>,
    changed: Condvar,
    bar: ProgressBar,
}

impl Work {
    /// Whether all was done by `threads` threads. After Ctrl-C they take nothing new, and nobody
    /// waits for them.
    fn perform_all(self: &Arc<Self>, threads: usize) -> anyhow::Result<bool> {
        let complete = on_threads(self, threads, Self::run)?;
        if !complete {
            let mut state = self.lock();
            state.next_trace = self.plan.traces.len();
            state.ready.clear();
        }
        Ok(complete)
    }

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
                self.perform(&cell);
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
                match loaded {
                    Ok(loaded) => {
                        let loaded = Arc::new(loaded);
                        let cell = |task| Cell { loaded: Arc::clone(&loaded), task };
                        state.ready.extend(self.tasks(number).map(cell));
                    }
                    Err(error) => {
                        self.bar.inc(self.per_trace as u64);
                        state.errors.push((number, error));
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

    /// All that is to be done with trace `number`.
    fn tasks(&self, number: usize) -> impl Iterator<Item = Task> + use<> {
        let policies = self.plan.policies.len();
        let rows = self.plan.cells.len() * self.plan.sizes.len();
        let curves = if self.plan.curve.is_some() { policies } else { 0 };
        let pictures = usize::from(self.plan.pictures);
        let part = |length: usize| number * length..(number + 1) * length;
        part(rows).map(Task::Row).chain(part(curves).map(Task::Curve)).chain(part(pictures).map(Task::Picture))
    }

    fn load(&self, path: &Path) -> anyhow::Result<Loaded> {
        let mut source = open(path, &self.plan.format)?;
        let trace = Trace::load(path.display().to_string(), source.as_mut()).map_err(|error| error.in_file(path))?;
        let sample = match self.plan.curve {
            Some(_) if self.plan.sample < 1.0 => {
                let sample = trace.sample(self.plan.sample, self.plan.seed);
                let percent = self.plan.sample * 100.0;
                let none =
                    || format!("{}: a sample of {percent} % holds none of its pages; raise --sample", trace.name);
                anyhow::ensure!(!sample.requests().is_empty(), none());
                Some(sample)
            }
            _ => None,
        };
        Ok(Loaded { trace, sample })
    }

    fn perform(&self, cell: &Cell) {
        let trace = &cell.loaded.trace;
        let fault = match cell.task {
            Task::Row(at) => self.row(trace, at).map(|row| self.lock().rows[at] = Some(row)).err(),
            Task::Curve(at) => self.curve(&cell.loaded, at).map(|curve| self.lock().curves[at] = Some(curve)).err(),
            Task::Picture(at) => {
                let picture = (trace.name.clone(), charts::accesses(trace));
                self.lock().pictures[at] = Some(picture);
                None
            }
        };
        if let Some(fault) = fault {
            self.lock().errors.push((self.plan.traces.len(), fault));
        }
        self.bar.inc(1);
    }

    fn row(&self, trace: &Trace, at: usize) -> anyhow::Result<Row> {
        let sizes = self.plan.sizes.len();
        let super::Cell { policy, tuples } = &self.plan.cells[at / sizes % self.plan.cells.len()];
        let size = self.plan.sizes[at % sizes];
        if let Some(tuples) = tuples {
            return self.tuple_row(trace, policy, *tuples, size);
        }
        let size_pages = pages(size, trace, self.plan.page_size);
        let frames = u32::try_from(size_pages).unwrap_or(u32::MAX);
        let Outcome { counts, wall, logical } =
            simulate(trace, policy, frames, self.plan.seed, self.plan.interleaving)?;
        Ok(Row {
            trace: trace.name.clone(),
            policy: policy.name().to_owned(),
            params: policy.params(),
            size_pages,
            requests: counts.requests,
            misses: counts.misses,
            writes: counts.writes,
            write_backs: counts.write_backs,
            seconds: wall.as_secs_f64(),
            unique: trace.unique(),
            ticks: logical.map(|logical| logical.ticks),
            opt_misses: logical.map(|logical| logical.opt_misses),
            tuples: None,
        })
    }

    /// At `size` with all overhead, in pages of the trace's own size if it has one.
    fn tuple_row(&self, trace: &Trace, policy: &PolicySpec, spec: TupleSpec, size: Size) -> anyhow::Result<Row> {
        let Plan { rows, warm_up, checkpoint, seed, .. } = *self.plan;
        let page = u64::from(trace.page_bytes().unwrap_or(rows.page));
        let size_pages = pages(size, trace, page);
        let memory = size_pages.saturating_mul(page);
        let options = TupleOptions { memory, rows, skip: warm_up, checkpoint, seed };
        let outcome = simulate_tuples(trace, policy, spec, &options)?;
        let counts = outcome.counts;
        Ok(Row {
            trace: trace.name.clone(),
            policy: if spec.uses_policy() { policy.name().to_owned() } else { String::new() },
            params: if spec.uses_policy() { policy.params() } else { String::new() },
            size_pages,
            requests: counts.requests,
            misses: counts.misses,
            writes: counts.writes,
            write_backs: counts.write_backs,
            seconds: outcome.wall.as_secs_f64(),
            unique: trace.unique(),
            ticks: None,
            opt_misses: None,
            tuples: Some(Tuples {
                tuples: spec.to_string(),
                memory,
                frames: outcome.frames,
                share: outcome.share,
                tuple_hits: counts.tuple_hits,
                cleaning_reads: counts.cleaning_reads,
                device_requests: counts.device_requests(),
                device_bytes: counts.device_requests() * page,
            }),
        })
    }

    fn curve(&self, loaded: &Loaded, at: usize) -> anyhow::Result<Curve> {
        let policy = &self.plan.policies[at % self.plan.policies.len()];
        let Loaded { trace, sample } = loaded;
        let from = sample.as_ref().unwrap_or(trace);
        let made = |sizes: &[u32]| curve(trace, from, policy, sizes, self.plan.seed);
        let grid = made(&sizes(trace.unique(), self.plan.curve.unwrap_or_default()))?;
        // Beside the grid, the sizes of the exact rows: what the sample gets wrong there is its
        // error.
        let asked = self.plan.sizes.iter().map(|&size| pages(size, trace, self.plan.page_size));
        let asked: Vec<u32> = asked.filter_map(|pages| u32::try_from(pages).ok()).collect();
        let at_rows = if sample.is_some() { made(&asked)?.points } else { Vec::new() };
        Ok(Curve {
            trace: trace.name.clone(),
            policy: policy.name().to_owned(),
            rate: grid.rate,
            points: grid.points,
            at_rows,
            mean_error: None,
        })
    }
}

/// How many pages a size means for a trace; at least 1.
fn pages(size: Size, trace: &Trace, page_size: u64) -> u64 {
    let pages = match size {
        Size::Plain(pages) => pages,
        Size::Bytes(bytes) => bytes / page_size,
        // A share is rounded down; the small addition undoes that 30 % is a little less than 3/10
        // in binary.
        Size::Share(share) => (share * f64::from(trace.unique()) + 1e-6) as u64,
    };
    pages.max(1)
}
