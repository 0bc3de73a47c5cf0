//! The slots of a tier, as a replacement policy sees frames.

use crate::policy::{Claimed, Frames, PageIndex, Refusal};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::{FrameId, PageId};
use alloc::vec::Vec;

struct Slot {
    page: Option<PageId>,
    /// The policy's.
    word: AtomicU64,
}

/// Invariant (I1): the index leads to a slot exactly if it has a page, and `free` has the others.
pub(super) struct Slots {
    slots: Vec<Slot>,
    index: PageIndex,
    /// Slots without a page, the next to use last.
    free: Vec<u32>,
}

impl Slots {
    pub(super) fn new(count: u32) -> Self {
        Self {
            slots: (0..count).map(|_| Slot { page: None, word: AtomicU64::new(0) }).collect(),
            index: PageIndex::with_capacity(count as usize),
            free: (0..count).rev().collect(),
        }
    }

    pub(super) fn find(&self, page: PageId) -> Option<FrameId> {
        self.index.find(page, |slot| self.slots[slot as usize].page == Some(page)).map(FrameId)
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// A slot without a page, which the caller fills.
    pub(super) fn take_free(&mut self) -> Option<FrameId> {
        self.free.pop().map(FrameId)
    }

    /// Puts `page` in `slot`, in place of what the policy gave up.
    pub(super) fn fill(&mut self, slot: FrameId, page: PageId) {
        if let Some(old) = self.slots[slot.index()].page.replace(page) {
            self.index.remove(old, slot.0);
        }
        self.index.insert(page, slot.0);
        self.slots[slot.index()].word.store(0, Relaxed);
    }

    /// Frees the slot.
    pub(super) fn empty(&mut self, slot: FrameId) {
        if let Some(old) = self.slots[slot.index()].page.take() {
            self.index.remove(old, slot.0);
            self.free.push(slot.0);
        }
    }

    pub(super) fn pages(&self) -> impl Iterator<Item = (FrameId, PageId)> + '_ {
        self.slots.iter().zip(0..).filter_map(|(slot, number)| Some((FrameId(number), slot.page?)))
    }
}

/// What a slot takes: its own, at most 22 bytes of the index, and its place among the free ones.
pub(super) const BYTES: u32 = size_of::<Slot>() as u32 + 22 + size_of::<u32>() as u32;

impl Frames for Slots {
    fn count(&self) -> u32 {
        self.slots.len() as u32
    }

    fn word(&self, frame: FrameId) -> &AtomicU64 {
        &self.slots[frame.index()].word
    }

    fn evictable(&self, frame: FrameId) -> Option<PageId> {
        self.slots.get(frame.index())?.page
    }

    fn page(&self, frame: FrameId) -> Option<PageId> {
        self.evictable(frame)
    }

    fn claim(&self, frame: FrameId, page: PageId) -> Result<Claimed, Refusal> {
        if self.evictable(frame) == Some(page) { Ok(Claimed::new(frame)) } else { Err(Refusal::Pinned) }
    }
}
