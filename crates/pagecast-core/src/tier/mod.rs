//! A second level of pages below memory, on flash: who is written to it, and who makes room.
//!
//! Ours: [`Admission`] decides whether a page that memory gives up is worth a write, by when a scan
//! reads it next and how often it came before ([`Predicted`]). A replacement policy of the pool,
//! told of slots in place of frames, decides who leaves. A page keeps its slot while memory has it
//! too, so that it is not written again when memory gives it up. All uses are told to the policy as
//! those of scans: what it learned of single uses below memory served it worse
//! (lab/2026-11-22-flash.md).
//!
//! Suits scans whose pages come round again after memory has given them up. Cost: a look-up is a
//! hash; a page given up is a question to the oracle, and an eviction of the policy if it is
//! admitted. Bytes: [`BYTES_PER_SLOT`] and the policy's. No I/O, no lock and no clock: the owner
//! has them.

mod admission;
mod budget;
mod second_touch;
mod slots;

pub use admission::{Admission, Offer, Predicted};
pub use budget::Budget;
pub use second_touch::SecondTouch;

use crate::oracle::{Oracle, Question};
use crate::policy::{Access, ConcurrentPolicy, Frames};
use crate::{FrameId, PageId, ScanId, Tick};
use alloc::boxed::Box;
use slots::Slots;

/// What a slot takes in memory beside what the policy takes for it: its page, the index, a place in
/// the list of free ones, and what [`Predicted`] remembers of pages that were given up.
pub const BYTES_PER_SLOT: u32 = slots::BYTES + admission::BYTES;

/// Uses are told to the policy as those of this scan.
const SOME_SCAN: ScanId = ScanId::from_raw(0);

/// The level below memory, without the pages' bytes: which page is in which slot.
///
/// ```
/// use pagecast_core::oracle::NoScans;
/// use pagecast_core::policy::{Batching, PolicySpec};
/// use pagecast_core::tier::{Budget, Predicted, Tier};
/// use pagecast_core::PageId;
///
/// let policy = PolicySpec::parse("pbm")?.build(2, 42)?.into_concurrent(Batching::OFF);
/// let mut tier = Tier::new(2, policy, Box::new(Predicted::new(2, Budget::unlimited())));
/// let [one, two, three] = [1, 2, 3].map(PageId::from_raw);
/// // While there is room all that memory gives up comes in; then only what is worth a write.
/// assert!(tier.offer(one, 10, &NoScans).is_some() && tier.offer(two, 20, &NoScans).is_some());
/// assert!(tier.offer(three, 30, &NoScans).is_none() && tier.find(three).is_none());
/// assert!(tier.find(one).is_some());
/// # Ok::<(), pagecast_core::policy::PolicyError>(())
/// ```
pub struct Tier {
    slots: Slots,
    policy: Box<dyn ConcurrentPolicy>,
    admission: Box<dyn Admission + Send>,
    turnover: Turnover,
}

impl Tier {
    /// With room for `slots` pages (1 at least). `policy` was built for so many frames.
    pub fn new(slots: u32, policy: Box<dyn ConcurrentPolicy>, admission: Box<dyn Admission + Send>) -> Self {
        let slots = slots.max(1);
        Self { slots: Slots::new(slots), policy, admission, turnover: Turnover::new(slots) }
    }

    /// Puts pages back into the slots where they were before a restart: in a tier that was just
    /// made. Leaves out what names a slot or a page for the second time, or no slot at all.
    pub fn restore(&mut self, pages: impl IntoIterator<Item = (FrameId, PageId)>) {
        for (slot, page) in pages {
            if self.slots.restore(slot, page) {
                let access = Access { page, scan: Some(SOME_SCAN), write: false, at: 0 };
                self.policy.admit(&self.slots, slot, &access);
            }
        }
        self.slots.find_free();
    }

    /// Keeps `slot` from being given away until it is [released](Self::release), once for each
    /// hold: its bytes are read or written. Its page may be [removed](Self::remove) meanwhile, and
    /// is found no more then.
    pub fn hold(&mut self, slot: FrameId) {
        self.slots.hold(slot);
    }

    /// Ends a hold.
    pub fn release(&mut self, slot: FrameId) {
        self.slots.release(slot);
    }

    /// How many slots have no page.
    pub fn free(&self) -> u32 {
        self.slots.free()
    }

    /// The slot of `page`.
    pub fn find(&self, page: PageId) -> Option<FrameId> {
        self.slots.find(page)
    }

    /// `access` missed in memory, and found its page in `slot`.
    pub fn hit(&mut self, slot: FrameId, access: &Access) {
        self.policy.hit(&self.slots, slot, &Access { scan: Some(SOME_SCAN), ..*access });
    }

    /// Memory gives up `page` at `at`. If it is worth a write it gets the slot that is returned,
    /// and can be found from now on. `None` if it is not, or is here already.
    pub fn offer(&mut self, page: PageId, at: Tick, oracle: &dyn Oracle) -> Option<FrameId> {
        if self.slots.find(page).is_some() {
            return None;
        }
        let wanted_in = oracle.next_access(Question::new(page, at));
        let residence = if self.slots.is_full() { self.turnover.residence(at) } else { Tick::MAX };
        if !self.admission.admits(&Offer { page, at, wanted_in, residence }) {
            return None;
        }
        let access = Access { page, scan: Some(SOME_SCAN), write: false, at };
        let slot = match self.slots.take_free() {
            Some(slot) => slot,
            None => self.policy.evict(&self.slots, &access, oracle)?.frame(),
        };
        self.slots.fill(slot, page);
        self.policy.admit(&self.slots, slot, &access);
        self.turnover.admitted(at);
        Some(slot)
    }

    /// The copy of `page` is worth nothing any more: the page has changed, or its slot is broken.
    pub fn remove(&mut self, page: PageId) {
        if let Some(slot) = self.slots.find(page) {
            self.policy.forget(&self.slots, slot, page);
            self.slots.empty(slot);
        }
    }

    /// The page that is in `slot`.
    pub fn page(&self, slot: FrameId) -> Option<PageId> {
        self.slots.page(slot)
    }

    /// The pages that are here.
    pub fn pages(&self) -> impl Iterator<Item = (FrameId, PageId)> + '_ {
        self.slots.pages()
    }
}

/// How long a page stays: slots times the mean time between admissions, of about the last quarter
/// of a turn.
struct Turnover {
    slots: u32,
    last: Option<Tick>,
    gap: f64,
    /// Admissions that the mean stands for.
    seen: u32,
}

impl Turnover {
    fn new(slots: u32) -> Self {
        Self { slots, last: None, gap: 0.0, seen: 0 }
    }

    fn admitted(&mut self, at: Tick) {
        if let Some(last) = self.last.replace(at) {
            self.seen = self.seen.saturating_add(1).min((self.slots / 4).max(16));
            self.gap += (at.saturating_sub(last) as f64 - self.gap) / f64::from(self.seen);
        }
    }

    /// As if a page were admitted at `at`: without admissions pages stay longer and longer.
    fn residence(&self, at: Tick) -> Tick {
        let open = at.saturating_sub(self.last.unwrap_or(at)) as f64;
        let gap = self.gap + (open - self.gap).max(0.0) / f64::from(self.seen.max(1));
        (gap * f64::from(self.slots)) as Tick
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::oracle::NoScans;
    use crate::policy::{Batching, PolicySpec};

    fn tier(slots: u32) -> Tier {
        let policy = PolicySpec::parse("lru").unwrap().build(slots, 1).unwrap().into_concurrent(Batching::OFF);
        Tier::new(slots, policy, Box::new(All))
    }

    struct All;

    impl Admission for All {
        fn admits(&mut self, _offer: &Offer) -> bool {
            true
        }
    }

    const PAGES: [PageId; 4] = [PageId::from_raw(1), PageId::from_raw(2), PageId::from_raw(3), PageId::from_raw(4)];

    #[test]
    fn a_slot_that_is_held_is_not_given_away() {
        let mut tier = tier(2);
        let [one, two] = [PAGES[0], PAGES[1]].map(|page| tier.offer(page, 1, &NoScans).unwrap());
        tier.hold(one);
        tier.hold(one);
        assert_eq!(tier.offer(PAGES[2], 2, &NoScans), Some(two), "though it is the younger one");
        tier.release(one);
        tier.hold(two);
        assert_eq!(tier.offer(PAGES[3], 3, &NoScans), None, "both are held");
        tier.release(one);
        assert_eq!(tier.offer(PAGES[3], 4, &NoScans), Some(one));
        assert_eq!(tier.find(PAGES[0]), None);
    }

    #[test]
    fn what_is_removed_while_it_is_held_is_free_when_it_is_not() {
        let mut tier = tier(1);
        let slot = tier.offer(PAGES[0], 1, &NoScans).unwrap();
        tier.hold(slot);
        tier.remove(PAGES[0]);
        assert_eq!((tier.find(PAGES[0]), tier.free()), (None, 0));
        assert_eq!(tier.offer(PAGES[1], 2, &NoScans), None);
        tier.release(slot);
        assert_eq!((tier.free(), tier.offer(PAGES[1], 3, &NoScans)), (1, Some(slot)));
    }

    #[test]
    fn pages_are_back_in_their_slots_after_a_restart() {
        let mut tier = tier(3);
        let at = |slot: u32, page: usize| (FrameId(slot), PAGES[page]);
        tier.restore([at(2, 0), at(2, 1), at(1, 0), at(7, 2), at(0, 3)]);
        assert_eq!(PAGES.map(|page| tier.find(page)), [Some(FrameId(2)), None, None, Some(FrameId(0))]);
        assert_eq!(tier.free(), 1);
        assert_eq!(tier.offer(PAGES[1], 1, &NoScans), Some(FrameId(1)));
    }
}
