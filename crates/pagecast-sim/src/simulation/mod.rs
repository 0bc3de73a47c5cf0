//! One trace through one policy: the interleaving, the running scans, and the counts that come of
//! it.
//!
//! A trace's requests are replayed in the order in which they stand ([`Interleaving::Fixed`]), or
//! each stream goes at its own speed in logical time ([`Interleaving::Logical`]): a request takes
//! the stream's own work, a miss the declared latency beside it, and whichever stream is earliest
//! goes next. A scan that hits then moves faster than one that misses, as in a real system, and
//! policies see different orders. Scans register with the predictor that the pool uses, and report
//! to it as the trace says.

mod contender;
mod feed;
mod foresight;
mod options;
mod scans;

pub use contender::{Contender, OwnPolicy};
pub use options::Options;

use crate::replay::{Counts, PageIds, belady, replay};
use crate::trace::Trace;
use crate::watch::Watch;
use feed::{Fixed, Logical, Plain};
use foresight::Foresight;
use pagecast_core::oracle::{NoScans, Oracle};
use pagecast_core::policy::{Access, NextUses, PolicyError, PolicySpec};
use pagecast_core::predictor::Predictor;
use pagecast_core::sync::atomic::AtomicU64;
use pagecast_core::{PageId, Tick};
use scans::Scans;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Which request comes next when several streams have one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interleaving {
    /// The order of the trace; time is the request's index.
    Fixed,
    /// The earliest in logical time.
    Logical {
        /// Ticks that a miss takes beside the stream's own work.
        latency: u32,
    },
}

/// What a simulation counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Requests, misses, writes, write-backs.
    pub counts: Counts,
    /// The wall time of the replay.
    pub wall: Duration,
    /// Logical interleaving only: when the last stream was done, and the misses of Belady's MIN on
    /// the order that came about. The order depends on the policy, so that each row has a floor of
    /// its own.
    pub logical: Option<LogicalOutcome>,
}

/// What only a logical interleaving has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogicalOutcome {
    /// When the last stream was done, in ticks.
    pub ticks: Tick,
    /// The fewest misses that the same order of requests allows.
    pub opt_misses: u64,
    /// The sum over scans of the ticks from registration to end.
    pub scan_ticks: Tick,
}

/// Why a simulation could not be run.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The policy cannot be built for this pool.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The predictor refuses a scan that the trace registers.
    #[error("{trace}: scan {scan} cannot be registered: {cause}")]
    Scan {
        /// The trace.
        trace: String,
        /// The scan's number in it.
        scan: u32,
        /// What the predictor says.
        cause: String,
    },
    /// `opt` needs an order of requests that does not depend on the policy.
    #[error(
        "policy `opt` has no order of requests to look ahead in when time is logical; see opt_misses of the other rows"
    )]
    OptInLogicalTime,
    /// Its [`Watch`] was asked to stop it.
    #[error("stopped before the end")]
    Stopped,
}

/// Replays `trace` through the policy of `spec` in a pool of `frames` frames. `seed` decides what
/// the policy leaves to chance.
///
/// ```
/// use pagecast_sim::simulation::{Interleaving, simulate};
/// use pagecast_sim::trace::{Format, Trace, read_from};
///
/// let text: &[u8] = b"1\n2\n3\n1\n4\n1\n2\n";
/// let mut source = read_from(text, "example".as_ref(), &Format::Text)?;
/// let trace = Trace::load("example", source.as_mut())?;
/// let outcome = simulate(&trace, &"lru".parse()?, 3, 42, Interleaving::Fixed)?;
/// assert_eq!(outcome.counts.misses, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`SimulationError`]: no frames, a registration that the predictor refuses, `opt` in logical
/// time.
pub fn simulate(
    trace: &Trace,
    spec: &PolicySpec,
    frames: u32,
    seed: u64,
    interleaving: Interleaving,
) -> Result<Outcome, SimulationError> {
    simulate_with(trace, spec, frames, seed, &Options::of(interleaving))
}

/// As [`simulate`], with bounds.
///
/// # Errors
///
/// As [`simulate`].
pub fn simulate_with(
    trace: &Trace,
    spec: &PolicySpec,
    frames: u32,
    seed: u64,
    options: &Options,
) -> Result<Outcome, SimulationError> {
    let contender = Contender::Known(spec.clone());
    simulate_watched(trace, &contender, frames, seed, options, &Arc::new(Watch::default()))
}

/// As [`simulate_with`], of any policy, and to be watched.
///
/// # Errors
///
/// As [`simulate`]; and if it was stopped.
pub fn simulate_watched(
    trace: &Trace,
    contender: &Contender,
    frames: u32,
    seed: u64,
    options: &Options,
    watch: &Arc<Watch>,
) -> Result<Outcome, SimulationError> {
    // A pool with a frame for every page never evicts; more frames would only cost memory.
    let frames = frames.min(trace.unique());
    let started = Instant::now();
    let opt = contender.needs_trace();
    let mut outcome = match options.interleaving {
        Interleaving::Fixed if opt => min(trace, frames, watch)?,
        Interleaving::Fixed if trace.has_scans() || contender.needs_page_ids() => {
            fixed(trace, contender, frames, seed, options, watch)?
        }
        Interleaving::Fixed => {
            // Numbers stand for pages here, which makes the page table an array.
            let dense = PageIds::Dense(trace.unique());
            of(contender.replay(Plain::new(trace, watch), dense, frames, seed, &NoScans, |_| (), watch)?)
        }
        Interleaving::Logical { .. } if opt => return Err(SimulationError::OptInLogicalTime),
        Interleaving::Logical { latency } => logical(trace, contender, frames, seed, latency, options, watch)?,
    };
    if watch.is_stopped() {
        return Err(SimulationError::Stopped);
    }
    if outcome.logical.is_none() {
        outcome.wall = started.elapsed();
    }
    Ok(outcome)
}

fn of(counts: Counts) -> Outcome {
    Outcome { counts, ..Outcome::default() }
}

fn min(trace: &Trace, frames: u32, watch: &Watch) -> Result<Outcome, SimulationError> {
    let next = NextUses::of_dense(trace.requests(), trace.unique());
    Ok(of(belady(Plain::new(trace, watch), next, PageIds::Dense(trace.unique()), frames, |_: &Access| ())?))
}

fn fixed(
    trace: &Trace,
    contender: &Contender,
    frames: u32,
    seed: u64,
    options: &Options,
    watch: &Arc<Watch>,
) -> Result<Outcome, SimulationError> {
    let scans = RefCell::new(Scans::of(trace, options, contender.forecasts()));
    let oracle = scans.borrow().oracle();
    let missed = |access: &Access| tell_of_miss(&oracle, access);
    let requests = Fixed::new(trace, &scans, watch);
    let counts = contender.replay(requests, PageIds::Sparse, frames, seed, &oracle, missed, watch)?;
    scans.into_inner().fault()?;
    Ok(of(counts))
}

/// Hands `run` the requests of `trace` in the trace's order, the oracle that scans inform between
/// them, and what is to be told of misses.
///
/// # Errors
///
/// Those of `run`; a registration that the predictor refuses; if it was stopped.
pub(crate) fn with_scans<T>(
    trace: &Trace,
    options: &Options,
    watch: &Watch,
    run: impl FnOnce(Fixed<'_>, &dyn Oracle, &dyn Fn(&Access)) -> Result<T, SimulationError>,
) -> Result<T, SimulationError> {
    let scans = RefCell::new(Scans::of(trace, options, false));
    let oracle = scans.borrow().oracle();
    let done = run(Fixed::new(trace, &scans, watch), &oracle, &|access| tell_of_miss(&oracle, access))?;
    if watch.is_stopped() {
        return Err(SimulationError::Stopped);
    }
    scans.into_inner().fault()?;
    Ok(done)
}

/// Shows `request` each request of `trace` in the trace's order, with its number. Scans register
/// and report between them, to the oracle that stands beside. What misses is not told.
///
/// # Errors
///
/// A registration that the predictor refuses.
pub(crate) fn in_order(
    trace: &Trace,
    options: &Options,
    mut request: impl FnMut(usize, Access, &dyn Oracle),
) -> Result<(), SimulationError> {
    let scans = RefCell::new(Scans::of(trace, options, false));
    let oracle = scans.borrow().oracle();
    let watch = Watch::default();
    for (at, access) in Fixed::new(trace, &scans, &watch).enumerate() {
        request(at, access, &oracle);
    }
    scans.into_inner().fault()
}

/// As [`simulate`] in the order of the trace, but policies learn from the trace itself when the
/// scans that run will next read a page. With a policy that looks at every frame
/// (`pbm(samples=all,history=off)`) this is the limit of what registered scans can tell; Belady's
/// MIN knows those to come, too.
///
/// # Errors
///
/// As [`simulate`].
pub fn simulate_foretold(trace: &Trace, spec: &PolicySpec, frames: u32, seed: u64) -> Result<Outcome, SimulationError> {
    let started = Instant::now();
    let frames = frames.min(trace.unique());
    let scans = RefCell::new(Scans::of(trace, &Options::of(Interleaving::Fixed), false));
    let oracle = Foresight::of(trace);
    let watch = Watch::default();
    let requests = Fixed::new(trace, &scans, &watch);
    let counts = replay(requests, PageIds::Sparse, spec, frames, seed, &oracle, |_| ())?;
    scans.into_inner().fault()?;
    Ok(Outcome { wall: started.elapsed(), ..of(counts) })
}

fn logical(
    trace: &Trace,
    contender: &Contender,
    frames: u32,
    seed: u64,
    latency: u32,
    options: &Options,
    watch: &Arc<Watch>,
) -> Result<Outcome, SimulationError> {
    let started = Instant::now();
    let scans = RefCell::new(Scans::of(trace, options, contender.forecasts()));
    let oracle = scans.borrow().oracle();
    let missed = Cell::new(false);
    let mut feed = Logical::new(trace, &scans, &missed, latency, watch);
    let on_miss = |access: &Access| {
        missed.set(true);
        tell_of_miss(&oracle, access);
    };
    let counts = contender.replay(&mut feed, PageIds::Sparse, frames, seed, &oracle, on_miss, watch)?;
    let wall = started.elapsed();
    let (mut logical, order) = feed.finish();
    if watch.is_stopped() {
        return Err(SimulationError::Stopped);
    }
    scans.into_inner().fault()?;
    let next = NextUses::of_dense(&order, trace.unique());
    let requests = order.iter().zip(0..).map(|(&page, at)| feed::dense_access(page, false, at));
    logical.opt_misses = belady(requests, next, PageIds::Dense(trace.unique()), frames, |_| ())?.misses;
    Ok(Outcome { counts, wall, logical: Some(logical) })
}

/// A scan that misses a page has come to it.
fn tell_of_miss(predictor: &Predictor<impl AsRef<[AtomicU64]>>, access: &Access) {
    if let Some(scan) = access.scan {
        predictor.missed(scan, access.page, access.at);
    }
}

/// The page with this dense number, as replays without scans name it.
fn numbered(number: u32) -> PageId {
    PageId::from_raw(u64::from(number))
}

#[cfg(test)]
mod tests;
