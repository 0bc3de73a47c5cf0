//! Queries in a closed loop: what they read, and when, depends on how they are served.
//!
//! A trace fixes the order of each stream's requests. Here streams run scan programs (columns, a
//! stretch of rows, work per row) on a device and some cores in logical time, so that deliveries
//! can be compared that choose the order themselves. Policies, predictor and manager are the
//! pool's own. A tick is a nanosecond.
//!
//! After Świtakowski, "Integrating Cooperative Scans in a column-oriented DBMS" (MSc thesis, 2011),
//! chapters 3 and 6.

mod delivery;
mod device;
mod engine;
mod figures;
mod manager;
mod memory;
pub mod pictures;
mod record;
mod scan;
mod table;
mod together;
mod words;
mod workload;

pub use delivery::{DELIVERIES, Delivery, Unordered};
pub use device::Machine;
pub use engine::Settings;
pub use figures::{Figures, Spread, TypeFigures, base_times};
pub use record::{LEVELS, Loaded, Pictures, Sharing, Step};
pub use table::Table;
pub use together::{Elevator, Throttled, Together};
pub use workload::{Query, ScanProgram, Stop, Workload, workloads};

use crate::replay::Counts;
use pagecast_core::Tick;
use pagecast_core::cooperation::Refusal;
use pagecast_core::policy::PolicyError;
use pagecast_core::predictor::RegisterError;

/// What a run came to.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// Requests, and those that did not find their page.
    pub counts: Counts,
    /// Pages that the device read.
    pub reads: u64,
    /// Chunks that scans took in any order, and those of them that were brought for others.
    pub chunks: u64,
    /// See `chunks`.
    pub shared: u64,
    /// When the last stream was done.
    pub total: Tick,
    /// When each stream was done.
    pub streams: Vec<Tick>,
    /// By type of query, how long each of them took.
    pub latencies: Vec<Vec<Tick>>,
    /// Work of all cores together.
    pub busy: Tick,
    /// What pictures are drawn from, if it was to be kept.
    pub pictures: Option<Pictures>,
}

impl Outcome {
    fn of(workload: &Workload) -> Self {
        Self {
            streams: vec![0; workload.streams.len()],
            latencies: vec![Vec::new(); workload.types.len()],
            ..Self::default()
        }
    }
}

/// Why a closed loop could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ClosedError {
    /// The policy cannot be built for this pool.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Running scans would need more memory than there should be.
    #[error("the scans that run at a time would need too much memory; ask for fewer streams or units")]
    TooLarge,
    /// The predictor refuses a scan.
    #[error("a scan cannot be registered with the predictor: {0}")]
    Predictor(#[from] RegisterError),
    /// The manager of cooperation refuses a scan.
    #[error("a scan cannot be registered with the manager of cooperation: {0}")]
    Manager(#[from] Refusal),
}

/// Runs `workload`, which begins with an empty pool but for what it says to be resident.
///
/// ```
/// use pagecast_sim::closed::{Delivery, Machine, Settings, Workload, run};
///
/// let workload = Workload::make("speeds(streams=2,queries=1,sizes=100,units=8)", 1)?;
/// let (delivery, policy) = (Delivery::parse("ordered(ahead=2)")?, "lru".parse()?);
/// let settings = Settings {
///     machine: Machine::default(),
///     delivery: &delivery,
///     policy: &policy,
///     frames: 20,
///     seed: 1,
///     record: false,
/// };
/// let outcome = run(&workload, settings)?;
/// assert!(outcome.reads >= 8 * 13 && outcome.streams.len() == 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`ClosedError`]: no frames, a policy that needs a trace, a scan that the predictor refuses.
pub fn run(workload: &Workload, settings: Settings<'_>) -> Result<Outcome, ClosedError> {
    engine::Loop::new(workload, settings)?.run()
}
