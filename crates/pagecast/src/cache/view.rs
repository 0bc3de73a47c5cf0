//! What the policy sees of the frames, and how it claims one.

use std::cell::{Cell, RefCell};

use pagecast_core::policy::{Claim, Frames};
use pagecast_core::sync::atomic::AtomicU64;
use pagecast_core::{FrameId, PageId};

use super::Cache;
use super::ahead::Spare;
use super::frame::Owned;
use super::write_back::MAX_MET;
use crate::processor_cache::prefetch;

/// The frames as the policy sees them during one call. It takes at most one frame, and what it took is the pool's, even
/// if the policy answers with another.
pub(super) struct View<'a> {
    cache: &'a Cache,
    pub(super) taken: Cell<Option<Owned>>,
    spare: Option<&'a Spare<'a>>,
    /// Pages that cannot leave before they are written.
    pub(super) met_dirty: RefCell<Vec<(PageId, u32)>>,
    /// Whether kept pages are passed over, and whether one was.
    spares_kept: Cell<bool>,
    passed_kept: Cell<bool>,
}

impl<'a> View<'a> {
    pub(super) fn new(cache: &'a Cache) -> Self {
        Self {
            cache,
            taken: Cell::new(None),
            spare: None,
            met_dirty: RefCell::new(Vec::new()),
            spares_kept: Cell::new(cache.keeps.are_set()),
            passed_kept: Cell::new(false),
        }
    }

    /// A view in which claims leave some pages where they are.
    pub(super) fn sparing(cache: &'a Cache, spare: &'a Spare<'a>) -> Self {
        let mut view = Self::new(cache);
        view.spare = Some(spare);
        view
    }

    /// From now on kept pages are claimed, too. False if that changes nothing, or if the eviction is for a page that
    /// nobody waits for.
    pub(super) fn take_kept_next(&self) -> bool {
        self.spares_kept.set(false);
        self.passed_kept.replace(false) && !self.spare.is_some_and(Spare::is_for_a_page_ahead)
    }

    fn passes_over(&self, page: PageId) -> bool {
        let passes = self.spares_kept.get() && self.cache.keeps.spare(page);
        self.passed_kept.set(self.passed_kept.get() | passes);
        passes
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        let met = self.met_dirty.take();
        if !met.is_empty() {
            self.cache.want_clean(&met);
        }
        if let Some(owned) = self.taken.take() {
            self.cache.free.give(owned, &self.cache.memory);
        }
    }
}

impl Frames for View<'_> {
    fn count(&self) -> u32 {
        self.cache.frames()
    }

    fn word(&self, frame: FrameId) -> &AtomicU64 {
        &self.cache.headers[frame.index()].word
    }

    fn evictable(&self, frame: FrameId) -> Option<PageId> {
        if self.spare.is_some_and(Spare::is_exhausted) {
            return None;
        }
        self.cache.headers.get(frame.index())?.evictable().filter(|&page| !self.passes_over(page))
    }

    fn page(&self, frame: FrameId) -> Option<PageId> {
        self.cache.headers.get(frame.index())?.tagged()
    }

    fn prefetch(&self, address: usize) {
        prefetch(address);
    }

    fn claim(&self, frame: FrameId, page: PageId) -> Claim {
        let before = self.taken.take();
        if before.is_some() {
            self.taken.set(before);
            return Claim::Pinned;
        }
        if self.passes_over(page) {
            return Claim::Pinned;
        }
        let header = self.cache.headers.get(frame.index());
        if self.spare.zip(header).is_some_and(|(spare, header)| spare.keeps(header, page)) {
            return Claim::Pinned;
        }
        match self.cache.claim(frame.0, page) {
            Ok(owned) => {
                self.taken.set(Some(owned));
                Claim::Taken
            }
            Err(Claim::Dirty) => {
                let mut met = self.met_dirty.borrow_mut();
                if met.len() < MAX_MET {
                    met.push((page, frame.0));
                }
                Claim::Dirty
            }
            Err(refused) => refused,
        }
    }
}
