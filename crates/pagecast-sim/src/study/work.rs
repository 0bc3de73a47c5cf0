//! All replays of a study: a trace is loaded once and dropped after its last replay.

use super::load::load_watched;
use super::rows::{Curve, Flash, Results, Row, Tuples};
use super::{Cell, Input, Study, StudyError};
use crate::charts;
use crate::curve::{curve_watched, requests_of_curve, sizes};
use crate::flash::{FlashSpec, simulate_flash_watched};
use crate::simulation::{Contender, Options, Outcome, SimulationError, simulate_watched};
use crate::size::Size;
use crate::trace::{Trace, open};
use crate::tuples::{TupleOptions, TupleSpec, simulate_tuples};
use crate::watch::Watch;
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A trace, and the sample of it that curves are made from.
struct Loaded {
    trace: Arc<Trace>,
    sample: Option<Trace>,
}

impl Loaded {
    fn curve_from(&self) -> &Trace {
        self.sample.as_ref().unwrap_or(&self.trace)
    }
}

/// One thing to do with a trace; the number is where it stands in the results.
struct Job {
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
/// its jobs are in `ready` or its error in `errors`; (I2) a thread gives up only when nothing is
/// ready, left or loading.
struct State {
    next_trace: usize,
    loading: usize,
    ready: VecDeque<Job>,
    rows: Vec<Option<Row>>,
    curves: Vec<Option<Curve>>,
    pictures: Vec<Option<(String, serde_json::Value)>>,
    /// With the number of the trace that could not be loaded.
    errors: Vec<(usize, StudyError)>,
}

/// A study under way.
pub struct Work {
    study: Arc<Study>,
    per_trace: usize,
    state: Mutex<State>,
    changed: Condvar,
    watch: Arc<Watch>,
    done: Box<dyn Fn(usize) + Send + Sync>,
}

impl Work {
    /// Nothing is done yet; `watch` ends it early. `done` learns how many jobs more are done, or
    /// cannot be.
    pub fn new(study: Arc<Study>, watch: Arc<Watch>, done: impl Fn(usize) + Send + Sync + 'static) -> Self {
        fn empty<T>(length: usize) -> Vec<Option<T>> {
            (0..length).map(|_| None).collect()
        }
        let traces = study.inputs.len();
        let state = State {
            next_trace: 0,
            loading: 0,
            ready: VecDeque::new(),
            rows: empty(traces * study.cells.len() * study.sizes.len()),
            curves: empty(if study.curve.is_some() { traces * study.policies.len() } else { 0 }),
            pictures: empty(if study.pictures { traces } else { 0 }),
            errors: Vec::new(),
        };
        let per_trace = (state.rows.len() + state.curves.len() + state.pictures.len()) / traces.max(1);
        Self { study, per_trace, state: Mutex::new(state), changed: Condvar::new(), watch, done: Box::new(done) }
    }

    /// Its watch.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// How many jobs there are: rows, curves and pictures.
    pub fn jobs(&self) -> usize {
        self.per_trace * self.study.inputs.len()
    }

    /// All results in the order of the study, and what went wrong. What is done by then is there
    /// also when it was stopped; threads may still be on their way to see that.
    pub fn finish(&self) -> (Results, Vec<StudyError>) {
        let mut state = self.lock();
        let mut errors = std::mem::take(&mut state.errors);
        errors.retain(|(_, error)| !matches!(error, StudyError::Simulation(SimulationError::Stopped)));
        errors.sort_by_key(|&(number, _)| number);
        // What is wrong with a trace may be wrong at every size; it is said once.
        let mut said = HashSet::new();
        errors.retain(|(_, error)| said.insert(error.to_string()));
        let mut results = Results {
            partial: self.watch.is_stopped(),
            rows: state.rows.iter().flatten().cloned().collect(),
            curves: state.curves.iter().flatten().cloned().collect(),
            pictures: state.pictures.iter().flatten().cloned().collect(),
        };
        drop(state);
        results.measure_errors();
        (results, errors.into_iter().map(|(_, error)| error).collect())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What each thread does.
    pub fn run(&self) {
        let mut state = self.lock();
        while !self.watch.is_stopped() {
            // Replays come before loading, so that few traces are in memory at a time.
            if let Some(job) = state.ready.pop_front() {
                drop(state);
                self.perform(&job);
                drop(job);
                (self.done)(1);
                state = self.lock();
            } else if state.next_trace < self.study.inputs.len() {
                let number = state.next_trace;
                state.next_trace += 1;
                state.loading += 1;
                drop(state);
                let loaded = self.load(&self.study.inputs[number]);
                state = self.lock();
                state.loading -= 1;
                match loaded {
                    Ok(loaded) => {
                        let loaded = Arc::new(loaded);
                        self.expect(&loaded);
                        let job = |task| Job { loaded: Arc::clone(&loaded), task };
                        state.ready.extend(self.tasks(number).map(job));
                    }
                    Err(error) => {
                        (self.done)(self.per_trace);
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
        let rows = self.study.cells.len() * self.study.sizes.len();
        let curves = if self.study.curve.is_some() { self.study.policies.len() } else { 0 };
        let pictures = usize::from(self.study.pictures);
        let part = |length: usize| number * length..(number + 1) * length;
        part(rows).map(Task::Row).chain(part(curves).map(Task::Curve)).chain(part(pictures).map(Task::Picture))
    }

    /// Tells the watch what there is to do with a trace.
    fn expect(&self, loaded: &Loaded) {
        let rows = self.study.cells.len() * self.study.sizes.len();
        self.watch.expect((loaded.trace.requests().len() * rows) as u64);
        if let Some(points) = self.study.curve {
            let points = sizes(loaded.trace.unique(), points).len();
            let curve = |policy| requests_of_curve(loaded.curve_from(), policy, points);
            self.watch.expect(self.study.policies.iter().map(curve).sum());
        }
    }

    fn load(&self, input: &Input) -> Result<Loaded, StudyError> {
        let trace = match input {
            Input::File(path, format) => Arc::new(load_watched(path, open(path, format)?, &self.watch)?),
            Input::Trace(trace) => Arc::clone(trace),
        };
        let sample = match self.study.curve {
            Some(_) if self.study.sample < 1.0 => {
                let sample = trace.sample(self.study.sample, self.study.seed);
                if sample.requests().is_empty() {
                    let percent = self.study.sample * 100.0;
                    return Err(StudyError::EmptySample { trace: trace.name.clone(), percent });
                }
                Some(sample)
            }
            _ => None,
        };
        Ok(Loaded { trace, sample })
    }

    fn perform(&self, job: &Job) {
        let trace = &job.loaded.trace;
        let fault = match job.task {
            Task::Row(at) => self.row(trace, at).map(|row| self.lock().rows[at] = Some(row)).err(),
            Task::Curve(at) => self.curve(&job.loaded, at).map(|curve| self.lock().curves[at] = Some(curve)).err(),
            Task::Picture(at) => {
                let picture = (trace.name.clone(), charts::accesses(trace));
                self.lock().pictures[at] = Some(picture);
                None
            }
        };
        if let Some(fault) = fault {
            self.lock().errors.push((self.study.inputs.len(), fault));
        }
    }

    fn row(&self, trace: &Trace, at: usize) -> Result<Row, StudyError> {
        let sizes = self.study.sizes.len();
        let Cell { policy, tuples, flash } = &self.study.cells[at / sizes % self.study.cells.len()];
        let size = self.study.sizes[at % sizes];
        if let Some(flash) = flash {
            return self.flash_row(trace, policy, size, flash);
        }
        match (tuples, policy) {
            (None, _) => self.page_row(trace, policy, size),
            (Some(tuples), Contender::Known(_)) => self.tuple_row(trace, policy, *tuples, size),
            (Some(_), Contender::Own(own)) => Err(StudyError::OwnWithTuples(own.name().to_owned())),
        }
    }

    fn page_row(&self, trace: &Trace, policy: &Contender, size: Size) -> Result<Row, StudyError> {
        let size_pages = size.pages(trace, self.study.page_size);
        let frames = u32::try_from(size_pages).unwrap_or(u32::MAX);
        let options = Options::of(self.study.interleaving);
        let Outcome { counts, wall, logical } =
            simulate_watched(trace, policy, frames, self.study.seed, &options, &self.watch)?;
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
            flash: None,
        })
    }

    /// A pool of `size` over a tier.
    fn flash_row(
        &self,
        trace: &Trace,
        policy: &Contender,
        size: Size,
        (flash, tier): &(FlashSpec, Size),
    ) -> Result<Row, StudyError> {
        let Contender::Known(known) = policy else {
            return Err(StudyError::OwnWithFlash(policy.name().to_owned()));
        };
        let (page_size, seed) = (self.study.page_size, self.study.seed);
        let of = |size: &Size| u32::try_from(size.pages(trace, page_size)).unwrap_or(u32::MAX);
        let outcome = simulate_flash_watched(trace, known, of(&size), (flash, of(tier)), seed, &self.watch)?;
        Ok(Row {
            trace: trace.name.clone(),
            policy: known.name().to_owned(),
            params: known.params(),
            size_pages: u64::from(of(&size)),
            requests: outcome.counts.requests,
            misses: outcome.counts.misses,
            writes: outcome.counts.writes,
            write_backs: outcome.counts.write_backs,
            seconds: outcome.wall.as_secs_f64(),
            unique: trace.unique(),
            ticks: None,
            opt_misses: None,
            tuples: None,
            flash: Some(Flash {
                flash: flash.to_string(),
                flash_pages: outcome.slots,
                flash_hits: outcome.flash.hits,
                flash_written: outcome.flash.written,
                store_reads: outcome.store_reads(),
                store_bytes: outcome.store_reads() * page_size,
                flash_written_bytes: outcome.flash.written * page_size,
            }),
        })
    }

    /// At `size` with all overhead, in pages of the trace's own size if it has one.
    fn tuple_row(&self, trace: &Trace, policy: &Contender, spec: TupleSpec, size: Size) -> Result<Row, StudyError> {
        let Contender::Known(known) = policy else {
            return Err(StudyError::OwnWithTuples(policy.name().to_owned()));
        };
        let Study { rows, warm_up, checkpoint, seed, .. } = *self.study;
        let page = u64::from(trace.page_bytes().unwrap_or(rows.page));
        let size_pages = size.pages(trace, page);
        let memory = size_pages.saturating_mul(page);
        let options = TupleOptions { memory, rows, skip: warm_up, checkpoint, seed };
        let outcome = simulate_tuples(trace, known, spec, &options)?;
        let counts = outcome.counts;
        Ok(Row {
            trace: trace.name.clone(),
            policy: if spec.uses_policy() { known.name().to_owned() } else { String::new() },
            params: if spec.uses_policy() { known.params() } else { String::new() },
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
            flash: None,
        })
    }

    fn curve(&self, loaded: &Loaded, at: usize) -> Result<Curve, StudyError> {
        let policy = &self.study.policies[at % self.study.policies.len()];
        let trace = &loaded.trace;
        let made =
            |sizes: &[u32]| curve_watched(trace, loaded.curve_from(), policy, sizes, self.study.seed, &self.watch);
        let grid = made(&sizes(trace.unique(), self.study.curve.unwrap_or_default()))?;
        // Beside the grid, the sizes of the exact rows: what the sample gets wrong there is its
        // error.
        let asked = self.study.sizes.iter().map(|&size| size.pages(trace, self.study.page_size));
        let asked: Vec<u32> = asked.filter_map(|pages| u32::try_from(pages).ok()).collect();
        let at_rows = if loaded.sample.is_some() { made(&asked)?.points } else { Vec::new() };
        Ok(Curve {
            trace: trace.name.clone(),
            policy: policy.name().to_owned(),
            rate: grid.rate,
            points: grid.points,
            requests: trace.requests().len() as u64,
            unique: trace.unique(),
            at_rows,
            mean_error: None,
        })
    }
}
