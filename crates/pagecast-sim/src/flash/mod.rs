//! Two levels: a pool in memory, and below it a tier on flash that is filled from pages that memory
//! gives up.
//!
//! What memory does depends on nothing below it, so that all tiers under one pool see the same
//! misses and the same pages. A page that is found on flash keeps its slot while memory has it,
//! under every admission: what is given up clean and has a copy is not written again.

mod blocks;
mod opt;
mod spec;

pub use spec::FlashSpec;

use crate::replay::{Counts, Observer, PageIds, belady_observed, replay_observed};
use crate::simulation::{Interleaving, Options, SimulationError, with_scans};
use crate::trace::Trace;
use crate::watch::Watch;
use blocks::Blocks;
use opt::Opt;
use pagecast_core::PageId;
use pagecast_core::oracle::Oracle;
use pagecast_core::policy::{Access, NextUses, PolicySpec};
use pagecast_core::tier::Tier;
use spec::{Kind, tier};
use std::time::{Duration, Instant};

/// What a replay on two levels counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlashOutcome {
    /// What memory did; its misses are served by flash or the store.
    pub counts: Counts,
    /// What flash did.
    pub flash: FlashCounts,
    /// Slots that the tier had: no more than the trace has pages.
    pub slots: u32,
    /// The wall time of the replay.
    pub wall: Duration,
}

impl FlashOutcome {
    /// Pages that came from the store.
    pub fn store_reads(&self) -> u64 {
        self.counts.misses - self.flash.hits
    }
}

/// What a tier did, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlashCounts {
    /// Misses of memory that found their page on flash.
    pub hits: u64,
    /// Pages written to flash.
    pub written: u64,
}

/// A tier under a pool.
trait Level {
    /// Memory misses the page of `access`: whether it is here.
    fn missed(&mut self, access: &Access) -> bool;
    /// Memory gives up `page` at the moment of `incoming`: whether it is written here. If it is
    /// dirty, a copy of it is old.
    fn gave_up(&mut self, page: PageId, is_dirty: bool, incoming: &Access, oracle: &dyn Oracle) -> bool;
    /// What is known only at the end, in place of what was counted.
    fn finish(&mut self, counts: FlashCounts) -> FlashCounts {
        counts
    }
}

impl Level for Tier {
    fn missed(&mut self, access: &Access) -> bool {
        let slot = self.find(access.page);
        slot.into_iter().for_each(|slot| self.hit(slot, access));
        slot.is_some()
    }

    fn gave_up(&mut self, page: PageId, is_dirty: bool, incoming: &Access, oracle: &dyn Oracle) -> bool {
        if is_dirty {
            self.remove(page);
        }
        self.offer(page, incoming.at, oracle).is_some()
    }
}

/// Tells the level of what memory does.
struct Below<'a, M> {
    level: &'a mut dyn Level,
    oracle: &'a dyn Oracle,
    missed: M,
    counts: FlashCounts,
}

impl<M: FnMut(&Access)> Observer for &mut Below<'_, M> {
    fn missed(&mut self, access: &Access) {
        (self.missed)(access);
        self.counts.hits += u64::from(self.level.missed(access));
    }

    fn gave_up(&mut self, page: PageId, is_dirty: bool, incoming: &Access) {
        self.counts.written += u64::from(self.level.gave_up(page, is_dirty, incoming, self.oracle));
    }
}

/// Replays `trace` in its order through the policy of `memory` in a pool of `frames` frames, with a
/// tier of `slots` pages below it. `seed` decides what is left to chance.
///
/// ```
/// use pagecast_sim::flash::{FlashSpec, simulate_flash};
/// use pagecast_sim::generate::generate;
/// use pagecast_sim::trace::Trace;
///
/// let trace = Trace::load("loop", &mut generate("loop(pages=100,rounds=3)", 1)?)?;
/// let all = FlashSpec::parse("all")?;
/// let outcome = simulate_flash(&trace, &"lru".parse().unwrap(), 10, &all, 100, 1).unwrap();
/// // The first round comes from the store and goes to flash, which serves the others.
/// assert_eq!((outcome.counts.misses, outcome.flash.hits), (300, 200));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As [`simulate`](crate::simulation::simulate).
pub fn simulate_flash(
    trace: &Trace,
    memory: &PolicySpec,
    frames: u32,
    flash: &FlashSpec,
    slots: u32,
    seed: u64,
) -> Result<FlashOutcome, SimulationError> {
    simulate_flash_watched(trace, memory, frames, (flash, slots), seed, &Watch::default())
}

/// As [`simulate_flash`], to be watched.
///
/// # Errors
///
/// As [`simulate_flash`]; and if it was stopped.
pub fn simulate_flash_watched(
    trace: &Trace,
    memory: &PolicySpec,
    frames: u32,
    (flash, slots): (&FlashSpec, u32),
    seed: u64,
    watch: &Watch,
) -> Result<FlashOutcome, SimulationError> {
    let started = Instant::now();
    let (frames, slots) = (frames.min(trace.unique()), slots.clamp(1, trace.unique()));
    let mut level: Box<dyn Level> = match &flash.kind {
        Kind::Slots(admission, evict) => Box::new(tier(*admission, evict, slots, seed)?),
        Kind::Blocks(pages) => Box::new(Blocks::new(slots, *pages)),
        Kind::Opt => Box::new(Opt::new(slots)),
    };
    let options = Options::of(Interleaving::Fixed);
    let (counts, flash) = with_scans(trace, &options, watch, |requests, oracle, missed| {
        let mut below = Below { level: level.as_mut(), oracle, missed, counts: FlashCounts::default() };
        let counts = if memory.needs_trace() {
            let next = NextUses::of_dense(trace.requests(), trace.unique());
            belady_observed(requests, next, PageIds::Sparse, frames, &mut below)?
        } else {
            replay_observed(requests, PageIds::Sparse, memory, frames, seed, oracle, &mut below)?
        };
        Ok((counts, below.counts))
    })?;
    Ok(FlashOutcome { counts, flash: level.finish(flash), slots, wall: started.elapsed() })
}

#[cfg(test)]
mod tests;
