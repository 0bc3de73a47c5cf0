//! Traces through policies at several pool sizes, on several threads: what `pagecast simulate` and
//! the Python package run.
//!
//! [`Work`] is shared by the threads, which each call [`Work::run`]; whoever started them waits as
//! suits it, may stop them by the [`Watch`](crate::watch::Watch), and takes what is done by then.
//! A trace is read when there is nothing else to do, and dropped after its last replay.

mod load;
mod page;
mod rows;
mod work;

pub use load::load_watched;
pub use page::render;
pub use rows::{Curve, Flash, Results, Row, Tuples, error_table, table, time_text};
pub use work::Work;

use crate::flash::FlashSpec;
use crate::simulation::{Contender, Interleaving, SimulationError};
use crate::size::Size;
use crate::trace::{Format, Rows, Trace, TraceError};
use crate::tuples::TupleSpec;
use std::path::PathBuf;
use std::sync::Arc;

/// Where a trace comes from.
#[derive(Clone, Debug)]
pub enum Input {
    /// A file in this format.
    File(PathBuf, Format),
    /// Memory.
    Trace(Arc<Trace>),
}

/// A policy, and the buffer of tuples over it or the tier below it.
#[derive(Clone)]
pub struct Cell {
    /// The policy.
    pub policy: Contender,
    /// The buffer.
    pub tuples: Option<TupleSpec>,
    /// The tier on flash, and its size. It has no use beside tuples.
    pub flash: Option<(FlashSpec, Size)>,
}

/// What is to be replayed.
#[derive(Clone)]
pub struct Study {
    /// The traces.
    pub inputs: Vec<Input>,
    /// What is replayed at each size.
    pub cells: Vec<Cell>,
    /// The policies of the cells; each has a curve if there are curves. At least one.
    pub policies: Vec<Contender>,
    /// Pool sizes of the rows; none for curves alone.
    pub sizes: Vec<Size>,
    /// Bytes of a page, for sizes in bytes; at least 1.
    pub page_size: u64,
    /// With tuples: how they lie where the trace does not say.
    pub rows: Rows,
    /// With tuples: the part of the trace that is not counted.
    pub warm_up: f64,
    /// With tuples: requests between two checkpoints.
    pub checkpoint: Option<u32>,
    /// Pool sizes of each curve.
    pub curve: Option<u32>,
    /// The part of the pages that curves are made from, above 0 and up to 1.
    pub sample: f64,
    /// Whether the report wants pictures of the accesses.
    pub pictures: bool,
    /// Which request comes next.
    pub interleaving: Interleaving,
    /// Decides what is left to chance.
    pub seed: u64,
}

/// Why a part of a study has no result.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A replay cannot be made.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// So few pages were sampled that there are none.
    #[error("{trace}: a sample of {percent} % holds none of its pages; raise the sample")]
    EmptySample {
        /// The trace.
        trace: String,
        /// What was asked for.
        percent: f64,
    },
    /// A buffer of tuples works over policies of the catalog only.
    #[error("policy `{0}` is no policy of the catalog, and has no buffer of tuples")]
    OwnWithTuples(String),
    /// So does a tier on flash.
    #[error("policy `{0}` is no policy of the catalog, and has no tier on flash")]
    OwnWithFlash(String),
}

impl Study {
    /// Of `policies` in pages: no tuples, no curves, no pictures, 8 KiB a page, in the order of the
    /// trace, seed 1.
    pub fn of(inputs: Vec<Input>, policies: Vec<Contender>, sizes: Vec<Size>) -> Self {
        Self {
            inputs,
            cells: policies.iter().map(|policy| Cell { policy: policy.clone(), tuples: None, flash: None }).collect(),
            policies,
            sizes,
            page_size: 8 << 10,
            rows: Rows { page: 1, count: 1, bytes: 1 },
            warm_up: 0.0,
            checkpoint: None,
            curve: None,
            sample: 1.0,
            pictures: false,
            interleaving: Interleaving::Fixed,
            seed: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::generate::generate;
    use crate::watch::Watch;

    fn work() -> Work {
        let text = "loop(pages=100,rounds=40)";
        let trace = Arc::new(Trace::load("loop", &mut generate(text, 1).unwrap()).unwrap());
        let policies = ["lru", "opt"].map(|policy| Contender::Known(policy.parse().unwrap())).to_vec();
        let sizes = vec![Size::Share(0.5), Size::Plain(100)];
        let study = Study { curve: Some(5), ..Study::of(vec![Input::Trace(trace)], policies, sizes) };
        Work::new(Arc::new(study), Arc::new(Watch::default()), |_| ())
    }

    #[test]
    fn rows_come_in_the_order_of_policies_and_sizes() {
        let work = work();
        std::thread::scope(|scope| {
            (0..3).for_each(|_| {
                scope.spawn(|| work.run());
            });
        });
        let (results, errors) = work.finish();
        assert!(errors.is_empty() && !results.partial);
        let rows: Vec<_> = results.rows.iter().map(|row| (row.policy.as_str(), row.size_pages, row.misses)).collect();
        assert_eq!(rows[0], ("lru", 50, 4000));
        assert_eq!((rows[1], rows[3]), (("lru", 100, 100), ("opt", 100, 100)));
        assert_eq!(results.curves.len(), 2);
        // 4 replays and 2 curves in one pass, each of 4,000 requests; a replay notes full steps.
        let (done, expected) = work.watch().progress();
        assert!(expected == 24_000 && done > 4 * 3000 + 8000 - 1, "{done} of {expected}");
    }

    #[test]
    fn what_is_stopped_is_partial_and_no_error() {
        let work = work();
        work.watch().stop();
        work.run();
        let (results, errors) = work.finish();
        assert!(results.partial && results.rows.is_empty() && errors.is_empty());
    }
}
