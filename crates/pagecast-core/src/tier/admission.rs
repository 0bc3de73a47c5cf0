//! Which pages that memory gives up are worth a write.

use super::Budget;
use crate::policy::{Ghosts, History, WAYS};
use crate::{PageId, Tick};

/// A page that memory gives up.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// The page, which is not on flash.
    pub page: PageId,
    /// When.
    pub at: Tick,
    /// Ticks until a running scan reads it; `None` if none is known to.
    pub wanted_in: Option<Tick>,
    /// Ticks that a page stays on flash, as things go; [`Tick::MAX`] while there is room.
    pub residence: Tick,
}

/// Decides who is written.
pub trait Admission {
    /// Whether the page is to be written.
    fn admits(&mut self, offer: &Offer) -> bool;
}

/// Ours: what is expected to be read before it leaves is written, within a budget.
///
/// A page that a scan reads before it would leave is. Where no scan is known to, a page is that
/// memory gave up a while ago, too, if it comes so often that a copy is expected to be read
/// [`READS`](Self::READS) times. Pages stay the longer the fewer are written, so that this bounds
/// writes, and what is read no more makes room in the end. While there is room all are written.
pub struct Predicted {
    reads: u32,
    given_up: Ghosts,
    budget: Budget,
}

/// Pages remembered for each slot. With one, a loop of twice the tier that nobody registers is
/// never known to come again.
const GHOSTS_PER_SLOT: u32 = 4;
/// What they take.
pub(super) const BYTES: u32 = GHOSTS_PER_SLOT * 8;

impl Predicted {
    /// Reads for a write. One that no scan foretells may not come: 32 write up to half less than 8,
    /// and read up to 3 % more from the store (lab/2026-11-22-flash.md).
    pub const READS: u32 = 32;

    /// For a tier of `slots` slots.
    pub fn new(slots: u32, budget: Budget) -> Self {
        let sets = slots.saturating_mul(GHOSTS_PER_SLOT).div_ceil(WAYS as u32);
        Self { reads: Self::READS, given_up: Ghosts::new(sets), budget }
    }

    /// The same with another number of reads for a write.
    #[must_use]
    pub fn with_reads(self, reads: u32) -> Self {
        Self { reads, ..self }
    }
}

impl Admission for Predicted {
    fn admits(&mut self, offer: &Offer) -> bool {
        let Offer { page, at, wanted_in, residence } = *offer;
        let before = self.given_up.take(page);
        self.given_up.insert(page, History::Once, at);
        let gap = before.map(|(_, before)| at.saturating_sub(before));
        let has_room = residence == Tick::MAX;
        let is_foretold = wanted_in.is_some_and(|ticks| ticks < residence);
        let is_frequent = gap.is_some_and(|gap| gap.saturating_mul(u64::from(self.reads)) < residence);
        (has_room || is_foretold || is_frequent) && self.budget.spend(at)
    }
}
