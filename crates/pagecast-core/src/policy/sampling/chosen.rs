//! Victims that were chosen together and wait for somebody who needs their frames.

use crate::policy::{Claimed, Frames};
use crate::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::{FrameId, PageId};
use alloc::vec::Vec;

/// Victims, the first to go last. 16 bytes a place, and no lock.
///
/// Concurrency: a place's frame and page are two words and may be of two choices when two threads
/// put theirs at once. They are only a proposal: whether the frame still holds that page and may go
/// is settled by the claim.
#[derive(Debug)]
pub(super) struct Chosen {
    places: Vec<(AtomicU32, AtomicU64)>,
    /// Places in use, from the first.
    left: AtomicU32,
}

impl Chosen {
    /// Room for `places` victims.
    pub(super) fn new(places: u32) -> Self {
        Self { places: (0..places).map(|_| (AtomicU32::new(0), AtomicU64::new(0))).collect(), left: AtomicU32::new(0) }
    }

    /// Claims the first of the victims that can still be had.
    pub(super) fn claim(&self, frames: &dyn Frames) -> Option<Claimed> {
        // Acquire: pairs with the Release in `put`, so that the places of a choice are read with
        // its number.
        while let Ok(left) = self.left.fetch_update(AcqRel, Acquire, |left| left.checked_sub(1)) {
            let (frame, page) = &self.places[left as usize - 1];
            let (frame, page) = (FrameId(frame.load(Relaxed)), PageId::from_raw(page.load(Relaxed)));
            if frames.evictable(frame) == Some(page)
                && let Ok(victim) = frames.claim(frame, page)
            {
                return Some(victim);
            }
        }
        None
    }

    /// Takes the victims, as many as there is room for, in place of any that are left.
    pub(super) fn put(&self, victims: &[(FrameId, PageId)]) {
        let victims = &victims[..victims.len().min(self.places.len())];
        for (place, (frame, page)) in self.places.iter().zip(victims.iter().rev()) {
            place.0.store(frame.0, Relaxed);
            place.1.store(page.raw(), Relaxed);
        }
        self.left.store(victims.len() as u32, Release);
    }
}
