//! What a victim costs: PBM-sampling among running scans against clock-sweep, over the same frames.
//!
//! The frames are plain memory and nobody else uses them, so that the figure is the policy's and
//! the predictor's alone. The two policies take turns in short rounds; each round's ratio is of
//! neighbours in time.

use crate::eviction::{Bench, running_scans};

use crate::rounds::{Figure, pairs};

const EVICTIONS_PER_ROUND: u32 = 20_000;

/// Nanoseconds per eviction of `pbm` with 10 samples and of `clock`, and the ratio, with `scans`
/// scans on the relation.
pub(crate) fn measure(scans: u32, rounds: usize) -> Figure {
    let predictor = running_scans(scans);
    let pbm = Bench::new("pbm-paper(samples=10)");
    let clock = Bench::new("clock");
    pairs(
        rounds,
        || pbm.evictions(EVICTIONS_PER_ROUND, &predictor),
        || clock.evictions(EVICTIONS_PER_ROUND, &predictor),
    )
}
