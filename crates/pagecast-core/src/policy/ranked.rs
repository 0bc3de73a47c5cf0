//! Frames that were looked at in search of a victim, the best of them in order.
//!
//! Cost: to rank one is a pass over those that are ranked and a move of some of them; there are a
//! few dozen. Memory is the caller's.

use crate::FrameId;

/// A frame that was looked at, and what was found.
pub(super) trait Looked: Copy {
    /// When it may go: the greater, the sooner.
    type Rank: Copy + PartialOrd;

    /// Below every frame's.
    const LOWEST: Self::Rank;

    fn frame(&self) -> FrameId;

    fn rank(&self) -> Self::Rank;

    /// Whether the rank is of this eviction, and not of an earlier one that kept the page.
    fn is_fresh(&self) -> bool;
}

/// Frames by rank, each once, as many as there are places: the best.
#[derive(Debug)]
pub(super) struct Ranked<'a, L> {
    places: &'a mut [L],
    len: usize,
}

impl<'a, L: Looked> Ranked<'a, L> {
    pub(super) fn new(places: &'a mut [L]) -> Self {
        Self { places, len: 0 }
    }

    /// All, the one that goes first last.
    pub(super) fn all(&self) -> &[L] {
        &self.places[..self.len]
    }

    /// What a frame must rank above for it to matter, if only `best` are looked for.
    #[inline]
    pub(super) fn bar(&self, best: usize) -> L::Rank {
        self.len.checked_sub(best).map_or(L::LOWEST, |at| self.places[at].rank())
    }

    /// Whether `frame` was looked at in this eviction.
    pub(super) fn has_fresh(&self, frame: FrameId) -> bool {
        self.all().iter().any(|looked| looked.is_fresh() && looked.frame() == frame)
    }

    /// Ranks a frame, in place of an older judgement of it. Of equals the first goes first. One
    /// that ranks below all of so many as there are places is left out at once; an older judgement
    /// of it stays, and is made anew if the frame is to go.
    #[inline]
    pub(super) fn put(&mut self, looked: L) {
        if self.len == self.places.len() && self.all().first().is_some_and(|last| looked.rank() <= last.rank()) {
            return;
        }
        if let Some(older) = self.all().iter().position(|other| other.frame() == looked.frame()) {
            if self.places[older].is_fresh() {
                return;
            }
            self.places.copy_within(older + 1..self.len, older);
            self.len -= 1;
        }
        let at = self.all().partition_point(|other| other.rank() < looked.rank());
        if self.len < self.places.len() {
            self.places.copy_within(at..self.len, at + 1);
            self.places[at] = looked;
            self.len += 1;
        } else if at > 0 {
            self.places.copy_within(1..at, 0);
            self.places[at - 1] = looked;
        }
    }

    /// Takes out the one that goes first.
    pub(super) fn pop(&mut self) -> Option<L> {
        self.len = self.len.checked_sub(1)?;
        Some(self.places[self.len])
    }
}
