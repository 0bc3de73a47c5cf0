//! What a simulation may do beside replaying a trace: bounds on what scans register.

use super::Interleaving;

/// How a trace is replayed; as [`simulate`](super::simulate) does by default.
///
/// ```
/// use pagecast_sim::generate::generate;
/// use pagecast_sim::simulation::{Interleaving, Options, simulate_with};
/// use pagecast_sim::trace::Trace;
///
/// let mut source = generate("bitmap(streams=4,queries=2,pages=500)", 1)?;
/// let trace = Trace::load("bitmap", &mut source)?;
/// let misses = |scan_words| {
///     let options = Options { scan_words, ..Options::of(Interleaving::Fixed) };
///     simulate_with(&trace, &"pbm-paper".parse().unwrap(), 100, 1, &options).map(|outcome| outcome.counts.misses)
/// };
/// // 300 words hold any of these scans.
/// assert_eq!(misses(0)?, misses(300)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// Whose request comes next.
    pub interleaving: Interleaving,
    /// Words of 8 bytes that the pages of one scan may take, as
    /// [`PredictorConfig::scan_words`](pagecast_core::predictor::PredictorConfig::scan_words); 0
    /// for no bound.
    pub scan_words: u32,
    /// Whether scans whose positions are the ranks of their blocks register a bitset in place of
    /// their runs.
    pub bitsets: bool,
}

impl Options {
    /// No bound.
    pub const fn of(interleaving: Interleaving) -> Self {
        Self { interleaving, scan_words: 0, bitsets: false }
    }
}
