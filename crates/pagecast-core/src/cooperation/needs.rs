//! Records of needs.
//!
//! A *need* is a need-mask that at least one member has over a unit. Members with equal masks share
//! it, so that what depends on the mask and not on the member is counted once: missing pages, and
//! which members have something in common with it. Choices read these counts and no masks.

use super::bits::Bits;
use super::layout::NEED_WORDS;
use super::state::{State, half};
use crate::words::{NIL, join};

// Words of a need. Those that choices read come first.
const PAGES_MISSING: usize = 0;
/// The unit; the first chunk that is out.
const UNIT_OUT: usize = 1;
/// The first needed chunk, and how many chunks are not done.
const HEAD_CHUNKS: usize = 2;
const LOADER: usize = 3;
const SETS: usize = NEED_WORDS;

/// A need-mask of a unit.
#[derive(Clone, Copy)]
pub(super) struct Need<'a> {
    pub(super) state: State<'a>,
    pub(super) at: usize,
}

impl<'a> State<'a> {
    /// Words of a need of a unit with `width` words for its blocks.
    #[inline]
    pub(super) fn need_words(self, width: usize) -> usize {
        NEED_WORDS + 2 * self.layout.set_words + width
    }

    #[inline]
    pub(super) fn need(self, at: u32) -> Option<Need<'a>> {
        self.layout.holds(at as usize, self.need_words(0)).then_some(Need { state: self, at: at as usize })
    }
}

impl<'a> Need<'a> {
    half!(
        /// Blocks of the mask.
        pages, upper, PAGES_MISSING
    );
    half!(
        /// Those that are not resident.
        missing, lower, PAGES_MISSING, set_missing, set_lower
    );
    half!(
        /// The unit's number.
        unit, upper, UNIT_OUT
    );
    half!(out_head, lower, UNIT_OUT, set_out_head, set_lower);
    half!(head, upper, HEAD_CHUNKS, set_head, set_upper);
    half!(
        /// Chunks with this need that are not done.
        chunks, lower, HEAD_CHUNKS, set_chunks, set_lower
    );

    /// Whether a chunk with this need is out.
    pub(super) fn is_out(self) -> bool {
        self.out_head() != NIL
    }

    /// Makes it a need that nobody has yet. Its mask is written by its unit.
    pub(super) fn begin(self, unit: u32, pages: u32, missing: u32, loader: u64) {
        let words = self.state.words;
        words.set(self.at + PAGES_MISSING, join(pages, missing));
        words.set(self.at + UNIT_OUT, join(unit, NIL));
        words.set(self.at + HEAD_CHUNKS, join(NIL, 0));
        self.set_loader(loader);
        self.members().clear();
        self.sharers().clear();
    }

    /// Who brought the last page of it, packed.
    pub(super) fn loader(self) -> u64 {
        self.state.words.get(self.at + LOADER)
    }

    pub(super) fn set_loader(self, loader: u64) {
        self.state.words.set(self.at + LOADER, loader);
    }

    #[inline]
    fn set(self, offset: usize, count: usize) -> Bits<'a> {
        Bits { words: self.state.words, at: self.at + SETS + offset, count }
    }

    /// Members with a needed chunk of the unit whose mask has a block in common with this one.
    #[inline]
    pub(super) fn sharers(self) -> Bits<'a> {
        self.set(0, self.state.layout.set_words)
    }

    /// Members with a needed chunk of this need.
    #[inline]
    pub(super) fn members(self) -> Bits<'a> {
        self.set(self.state.layout.set_words, self.state.layout.set_words)
    }

    /// The need-mask, of `width` words.
    #[inline]
    pub(super) fn mask(self, width: usize) -> Bits<'a> {
        self.set(2 * self.state.layout.set_words, width)
    }
}
