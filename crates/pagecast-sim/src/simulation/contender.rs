//! What may be replayed: a policy of the catalog, or somebody's own.

use crate::replay::{Counts, PageIds, replay, replay_own};
use crate::watch::Watch;
use pagecast_core::oracle::Oracle;
use pagecast_core::policy::{Access, PolicyError, PolicySpec, SequentialPolicy};
use std::sync::Arc;

/// A policy that is not in the catalog.
pub trait OwnPolicy: Send + Sync {
    /// What results call it.
    fn name(&self) -> &str;

    /// A new one for `frames` frames. One that fails keeps its error to itself, stops `watch`, and
    /// from then on gives up any frame: what comes out is not used.
    fn build(&self, frames: u32, watch: Arc<Watch>) -> Box<dyn SequentialPolicy>;

    /// Runs `replay`, once; for a policy that wants something held all that time.
    fn around(&self, replay: &mut dyn FnMut()) {
        replay();
    }
}

/// A policy in a simulation.
#[derive(Clone)]
pub enum Contender {
    /// Of the catalog.
    Known(PolicySpec),
    /// Not of the catalog.
    Own(Arc<dyn OwnPolicy>),
}

impl Contender {
    /// The policy as it was given.
    pub fn name(&self) -> &str {
        match self {
            Self::Known(spec) => spec.name(),
            Self::Own(own) => own.name(),
        }
    }

    /// All parameters with their values; empty if there are none.
    pub fn params(&self) -> String {
        match self {
            Self::Known(spec) => spec.params(),
            Self::Own(_) => String::new(),
        }
    }

    /// The policy's name in the catalog, if it has one.
    pub fn algorithm(&self) -> Option<&'static str> {
        match self {
            Self::Known(spec) => Some(spec.algorithm()),
            Self::Own(_) => None,
        }
    }

    /// As [`PolicySpec::needs_trace`].
    pub fn needs_trace(&self) -> bool {
        matches!(self, Self::Known(spec) if spec.needs_trace())
    }

    /// As [`PolicySpec::forecasts`].
    pub(super) fn forecasts(&self) -> bool {
        matches!(self, Self::Known(spec) if spec.forecasts())
    }

    /// As [`PolicySpec::needs_page_ids`]. An own policy may look at ids, and always sees them.
    pub(super) fn needs_page_ids(&self) -> bool {
        match self {
            Self::Known(spec) => spec.needs_page_ids(),
            Self::Own(_) => true,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "those of `replay`, and the watch for a policy that fails")]
    pub(super) fn replay(
        &self,
        requests: impl IntoIterator<Item = Access>,
        ids: PageIds,
        frames: u32,
        seed: u64,
        oracle: &dyn Oracle,
        on_miss: impl FnMut(&Access),
        watch: &Arc<Watch>,
    ) -> Result<Counts, PolicyError> {
        let own = match self {
            Self::Known(spec) => return replay(requests, ids, spec, frames, seed, oracle, on_miss),
            Self::Own(own) => own,
        };
        let mut parts = Some((requests, on_miss));
        let mut counts = Err(PolicyError::NoFrames);
        own.around(&mut || {
            if let Some((requests, on_miss)) = parts.take().filter(|_| frames > 0) {
                let policy = own.build(frames, Arc::clone(watch));
                counts = replay_own(requests, ids, policy, frames, oracle, on_miss);
            }
        });
        counts
    }
}
