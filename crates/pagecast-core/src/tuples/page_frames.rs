//! The frames of a [`super::Model`] that hold whole pages: those below its border.

use super::items::ItemList;
use crate::policy::{Claimed, Frames, Refusal};
use crate::sync::atomic::AtomicU64;
use crate::{FrameId, PageId};
use alloc::vec::Vec;
use core::cell::Cell;

/// A page in a frame.
#[derive(Debug, Default)]
pub(super) struct Resident {
    pub(super) page: Option<PageId>,
    pub(super) word: AtomicU64,
    /// The items that were asked for by name.
    pub(super) visited: ItemList,
    pub(super) dirty: bool,
    /// Those of its mini-page, that merged into it.
    pub(super) hits: u32,
}

/// Nobody but the model holds a frame, so that every claim is granted.
#[derive(Debug)]
pub(super) struct PageFrames {
    frames: Vec<Resident>,
    /// Frames below the border.
    count: u32,
    free: Vec<u32>,
    /// The page that was claimed last.
    claimed: Cell<PageId>,
}

impl PageFrames {
    /// What one takes in a model, in bytes.
    pub(super) const BYTES: u32 = size_of::<Resident>() as u32 + 4;

    pub(super) fn new(count: u32) -> Self {
        let frames = (0..count).map(|_| Resident::default()).collect();
        Self { frames, count, free: (0..count).rev().collect(), claimed: Cell::new(PageId::from_raw(0)) }
    }

    pub(super) fn get(&mut self, frame: FrameId) -> &mut Resident {
        &mut self.frames[frame.index()]
    }

    pub(super) fn claimed(&self) -> PageId {
        self.claimed.get()
    }

    pub(super) fn take_free(&mut self) -> Option<FrameId> {
        self.free.pop().map(FrameId)
    }

    /// Moves the border up by a frame, which is free.
    pub(super) fn grow(&mut self) {
        let frame = self.count;
        self.count += 1;
        if self.frames.len() < self.count as usize {
            self.frames.push(Resident::default());
        }
        self.free.push(frame);
    }

    /// The frame below the border, and whether it is free. If so, it is taken off the list of
    /// those.
    pub(super) fn last(&mut self) -> (FrameId, bool) {
        let last = self.count - 1;
        let free = self.free.iter().position(|&frame| frame == last).map(|at| self.free.swap_remove(at));
        (FrameId(last), free.is_some())
    }

    /// Moves the border down below a frame that is neither resident nor free.
    pub(super) fn shrink(&mut self) {
        self.count -= 1;
    }

    /// All that hold a page.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Resident> {
        self.frames.iter_mut().filter(|resident| resident.page.is_some())
    }
}

impl Frames for PageFrames {
    fn count(&self) -> u32 {
        self.count
    }

    #[inline]
    fn word(&self, frame: FrameId) -> &AtomicU64 {
        &self.frames[frame.index()].word
    }

    #[inline]
    fn evictable(&self, frame: FrameId) -> Option<PageId> {
        self.frames.get(frame.index())?.page
    }

    #[inline]
    fn page(&self, frame: FrameId) -> Option<PageId> {
        self.evictable(frame)
    }

    fn claim(&self, frame: FrameId, page: PageId) -> Result<Claimed, Refusal> {
        if self.evictable(frame) != Some(page) {
            return Err(Refusal::Pinned);
        }
        self.claimed.set(page);
        Ok(Claimed::new(frame))
    }
}
