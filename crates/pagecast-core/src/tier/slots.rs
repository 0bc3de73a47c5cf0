//! The slots of a tier, as a replacement policy sees frames.

use crate::policy::{Claimed, Frames, PageIndex, Refusal};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::{FrameId, PageId};
use alloc::vec::Vec;

struct Slot {
    page: Option<PageId>,
    /// The policy's.
    word: AtomicU64,
    /// By those who read or write it.
    holds: u32,
}

/// Invariant (I1): the index leads to a slot exactly if it has a page, and `free` has the others
/// but for those that are held. (I2) A slot that is held is filled with no other page.
pub(super) struct Slots {
    slots: Vec<Slot>,
    index: PageIndex,
    /// Slots without a page, the next to use last.
    free: Vec<u32>,
}

impl Slots {
    pub(super) fn new(count: u32) -> Self {
        Self {
            slots: (0..count).map(|_| Slot { page: None, word: AtomicU64::new(0), holds: 0 }).collect(),
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

    /// Puts `page` into a slot that has none yet, if it is in no other. The owner has the free
    /// slots [found](Self::find_free) afterwards.
    pub(super) fn restore(&mut self, slot: FrameId, page: PageId) -> bool {
        let is_empty = self.slots.get(slot.index()).is_some_and(|slot| slot.page.is_none());
        let may = is_empty && self.find(page).is_none();
        if may {
            self.fill(slot, page);
        }
        may
    }

    pub(super) fn find_free(&mut self) {
        self.free = (0..self.count()).rev().filter(|&slot| self.slots[slot as usize].page.is_none()).collect();
    }

    pub(super) fn free(&self) -> u32 {
        self.free.len() as u32
    }

    pub(super) fn hold(&mut self, slot: FrameId) {
        self.slots[slot.index()].holds += 1;
    }

    pub(super) fn release(&mut self, slot: FrameId) {
        let held = &mut self.slots[slot.index()];
        held.holds -= 1;
        if held.holds == 0 && held.page.is_none() {
            self.free.push(slot.0);
        }
    }

    /// Puts `page` in `slot`, in place of what the policy gave up.
    pub(super) fn fill(&mut self, slot: FrameId, page: PageId) {
        if let Some(old) = self.slots[slot.index()].page.replace(page) {
            self.index.remove(old, slot.0);
        }
        self.index.insert(page, slot.0);
        self.slots[slot.index()].word.store(0, Relaxed);
    }

    /// Frees the slot, if it is held as soon as it is not.
    pub(super) fn empty(&mut self, slot: FrameId) {
        if let Some(old) = self.slots[slot.index()].page.take() {
            self.index.remove(old, slot.0);
            if self.slots[slot.index()].holds == 0 {
                self.free.push(slot.0);
            }
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
        self.slots.get(frame.index()).filter(|slot| slot.holds == 0)?.page
    }

    fn page(&self, frame: FrameId) -> Option<PageId> {
        self.slots.get(frame.index())?.page
    }

    fn claim(&self, frame: FrameId, page: PageId) -> Result<Claimed, Refusal> {
        if self.evictable(frame) == Some(page) { Ok(Claimed::new(frame)) } else { Err(Refusal::Pinned) }
    }
}
