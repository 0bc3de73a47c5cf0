//! Records of chunks, and the two lists of a need that lead to those that have it.
//!
//! A chunk goes from *needed* to *out* (handed out) to *done*; given back it is needed again. It
//! is in the first list of its need while it is needed, and in the second while it is out. A chunk
//! of several units has a record for each, one after the other.

use super::layout::CHUNK_WORDS;
use super::state::{State, half};
use crate::words::{NIL, join};

// Words of a chunk.
/// Where the need is, and the state.
const NEED_STATE: usize = 0;
const NEXT_BEFORE: usize = 1;
const SLOT_NUMBER: usize = 2;

// Bits of a chunk's state. None: done.
pub(super) const NEEDED: u32 = 1;
pub(super) const OUT: u32 = 2;
/// Out, and pages of it are still missing.
pub(super) const READING: u32 = 4;
/// Out, and not needed again if it is given back.
pub(super) const SUPERFLUOUS: u32 = 8;
/// Needed, and handed out even if pages are missing: a load for it has ended.
pub(super) const GRANTED: u32 = 16;
/// A part of the chunk before it. Needed or out as that is, which has the other marks.
pub(super) const JOINED: u32 = 32;

/// A chunk's record.
#[derive(Clone, Copy)]
pub(super) struct ChunkRecord<'a> {
    pub(super) state: State<'a>,
    at: usize,
}

impl<'a> State<'a> {
    #[inline]
    pub(super) fn chunk(self, at: usize) -> Option<ChunkRecord<'a>> {
        self.layout.holds(at, CHUNK_WORDS).then_some(ChunkRecord { state: self, at })
    }

    /// The chunks of a list. Bounded, whatever the links say.
    pub(super) fn list(self, head: u32) -> impl Iterator<Item = ChunkRecord<'a>> {
        let most = self.layout.config.words as usize / CHUNK_WORDS;
        let next = move |chunk: &ChunkRecord<'a>| self.chunk(chunk.next() as usize);
        core::iter::successors(self.chunk(head as usize), next).take(most)
    }
}

impl<'a> ChunkRecord<'a> {
    half!(
        /// Where the need is.
        need_at, upper, NEED_STATE, set_need_at, set_upper
    );
    half!(marks, lower, NEED_STATE, set_marks, set_lower);
    half!(next, upper, NEXT_BEFORE, set_next, set_upper);
    half!(before, lower, NEXT_BEFORE, set_before, set_lower);
    half!(slot, upper, SLOT_NUMBER);
    half!(
        /// The number of the chunk: of a part that of the first one.
        number, lower, SLOT_NUMBER
    );

    pub(super) fn begin(self, need_at: u32, slot: u32, number: u32) {
        self.state.words.set(self.at + NEED_STATE, join(need_at, 0));
        self.state.words.set(self.at + SLOT_NUMBER, join(slot, number));
    }

    pub(super) fn is(self, mark: u32) -> bool {
        self.marks() & mark != 0
    }

    pub(super) fn mark(self, mark: u32, present: bool) {
        let marks = self.marks();
        self.set_marks(if present { marks | mark } else { marks & !mark });
    }

    /// Puts itself in front of a list; the new head.
    pub(super) fn push(self, head: u32) -> u32 {
        self.state.words.set(self.at + NEXT_BEFORE, join(head, NIL));
        if let Some(following) = self.state.chunk(head as usize) {
            following.set_before(self.at as u32);
        }
        self.at as u32
    }

    /// Takes itself out of its list; the head as it is then.
    pub(super) fn pull(self, head: u32) -> u32 {
        let (next, before) = (self.next(), self.before());
        if let Some(following) = self.state.chunk(next as usize) {
            following.set_before(before);
        }
        match self.state.chunk(before as usize) {
            Some(preceding) => {
                preceding.set_next(next);
                head
            }
            None => next,
        }
    }
}
