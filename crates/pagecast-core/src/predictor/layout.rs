//! Where everything lies in the memory.
//!
//! ```text
//! header   32 words   magic, configuration, heads of the free lists, a running pace per kind of scan
//! buckets  2 each     by hash of the relation: version and first part of a chain, how often scans came to it
//! cells    8 each     by hash of the page: who comes there first, see cell.rs
//! marks    8 for 4    by hash of the page: which entries of an index led there, see marks.rs
//! scans    16 each    see scan.rs
//! parts    8 each     see registry.rs
//! arena    the rest   runs and bitsets, see pages.rs and arena.rs
//! ```

use super::records::{
    BUCKET_WORDS, CELL_WORDS, HEADER_WORDS, MAGIC, MARKS_OF_A_SET, PART_WORDS, RUN_WORDS, SAMPLED_WORDS, SCAN_WORDS,
    SET_WORDS, header,
};
use super::words::{Words, scatter, split};
use super::{FormatError, RegisterError};
use crate::sync::atomic::Ordering::Relaxed;
use crate::{PageId, RelationId};

/// How much a predictor can hold. All of its memory is taken at the start and never grows.
///
/// Bytes: 256, and for each scan 128, for each part 64 and one or two buckets of 16 (their number
/// is a power of two), for each run 24, for each eight words of a bitset (512 blocks) 72, for each
/// cell 64, for each mark 16. A scan of one relation with `r` runs thus takes at most `224 + 24 r`
/// bytes, however many blocks the runs have. Runs, bitsets and the chunks of scans without order,
/// 8 bytes for each 32 of them, share one space, in which each part and the chunks of each scan
/// need one free stretch: of `runs` and `bitset_words` only the sum counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PredictorConfig {
    /// Scans that may run at the same time; at least 1.
    pub scans: u32,
    /// Parts (one for each relation that a scan reads) of all running scans; at least 1.
    pub parts: u32,
    /// Runs of all running scans.
    pub runs: u32,
    /// Words of bitsets of all running scans, 64 blocks each.
    pub bitset_words: u32,
    /// Places for what was found out about 256 neighbouring blocks, namely which scans come there
    /// first; a power of two, or it is rounded up to one. As many as the resident pages touch are
    /// best; too few cost time and nothing else, and without any each estimate looks at all scans
    /// of the relation.
    pub cells: u32,
    /// The most words (of 8 bytes) that the pages and chunks of one scan may take, three for each
    /// run and one for each 32 chunks; 0 for no such limit. A part whose runs or bitset need more
    /// becomes one run from its first block to its last. Each part of a scan gets an equal share of
    /// what its chunks leave.
    pub scan_words: u32,
    /// Marks of index scans that other scans may follow, see
    /// [`Predictor::mark`](super::Predictor::mark); a power of two of at least 4, or it is rounded
    /// up to one. Twice to four times the pages that such scans keep in the pool are enough; 0
    /// where there are no such scans, and estimates then do not look for marks.
    pub marks: u32,
}

impl Default for PredictorConfig {
    /// 0.64 MiB: 256 scans of 4 relations and 64 runs each on average; cells for 262,144 blocks.
    fn default() -> Self {
        Self { scans: 256, parts: 1024, runs: 16_384, bitset_words: 4096, cells: 1024, scan_words: 3072, marks: 0 }
    }
}

impl PredictorConfig {
    /// Room for nothing: what a configuration that names only what it needs is completed with.
    pub const EMPTY: Self = Self { scans: 0, parts: 0, runs: 0, bitset_words: 0, cells: 0, scan_words: 0, marks: 0 };

    /// The memory it needs, in words of 8 bytes. `usize::MAX` if that has no size on this machine.
    pub fn words(&self) -> usize {
        self.layout().map_or(usize::MAX, |layout| layout.end)
    }

    /// The memory it needs, in bytes.
    pub fn bytes(&self) -> u64 {
        (self.words() as u64).saturating_mul(8)
    }

    pub(super) fn layout(&self) -> Option<Layout> {
        if self.scans == 0 || self.parts == 0 {
            return None;
        }
        let buckets = (self.parts as usize).checked_next_power_of_two()?;
        let cells = if self.cells == 0 { 0 } else { (self.cells as usize).checked_next_power_of_two()? };
        let cells_at = HEADER_WORDS.checked_add(buckets.checked_mul(BUCKET_WORDS)?)?;
        let mark_sets = sets(self.marks)?;
        let marks_at = cells_at.checked_add(cells.checked_mul(CELL_WORDS)?)?;
        let scans_at = marks_at.checked_add(mark_sets.checked_mul(SET_WORDS)?)?;
        let parts_at = scans_at.checked_add((self.scans as usize).checked_mul(SCAN_WORDS)?)?;
        let arena_at = parts_at.checked_add((self.parts as usize).checked_mul(PART_WORDS)?)?;
        let bitset_words = self.bitset_words as usize;
        let samples = bitset_words.div_ceil(SAMPLED_WORDS);
        let arena_words =
            (self.runs as usize).checked_mul(RUN_WORDS)?.checked_add(bitset_words)?.checked_add(samples)?;
        let end = arena_at.checked_add(arena_words)?;
        // Half a word must hold any index and have one left over for NIL.
        u32::try_from(end).ok().filter(|&end| end < u32::MAX)?;
        Some(Layout { config: *self, cells_at, cells, marks_at, mark_sets, scans_at, parts_at, arena_at, end })
    }
}

/// The places, computed once from the configuration; never read from memory again, where they could
/// change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) config: PredictorConfig,
    cells_at: usize,
    cells: usize,
    marks_at: usize,
    mark_sets: usize,
    scans_at: usize,
    parts_at: usize,
    pub(super) arena_at: usize,
    pub(super) end: usize,
}

impl Layout {
    /// The layout of memory that was formatted before.
    pub(super) fn read(words: Words<'_>) -> Result<Self, FormatError> {
        FormatError::unless_formatted(words, MAGIC)?;
        let (scans, parts) = split(words.load(header::SCANS_PARTS, Relaxed));
        let (runs, bitset_words) = split(words.load(header::RUNS_BITSETS, Relaxed));
        let (cells, scan_words) = split(words.load(header::CELLS_WORDS, Relaxed));
        let marks = words.load(header::MARKS, Relaxed) as u32;
        let config = PredictorConfig { scans, parts, runs, bitset_words, cells, scan_words, marks };
        config.layout().ok_or(FormatError::BadConfig)?.fits(words)
    }

    pub(super) fn fits(self, words: Words<'_>) -> Result<Self, FormatError> {
        FormatError::unless_holds(words, self.end).map(|()| self)
    }

    /// The first word of the bucket of `relation`.
    #[inline]
    pub(super) fn bucket(&self, relation: RelationId) -> usize {
        let buckets = (self.cells_at - HEADER_WORDS) / BUCKET_WORDS;
        HEADER_WORDS + scatter(u64::from(relation.0), buckets) * BUCKET_WORDS
    }

    /// The first word of the place of cell `key`, `None` where there are no cells.
    #[inline]
    pub(super) fn cell(&self, key: u64) -> Option<usize> {
        (self.cells > 0).then(|| self.cells_at + scatter(key, self.cells) * CELL_WORDS)
    }

    #[inline]
    pub(super) fn has_marks(&self) -> bool {
        self.mark_sets > 0
    }

    /// The first word of the marks of `page`, `None` where there are no marks.
    #[inline]
    pub(super) fn marks(&self, page: PageId) -> Option<usize> {
        self.has_marks().then(|| self.marks_at + scatter(page.raw(), self.mark_sets) * SET_WORDS)
    }

    pub(super) fn buckets(&self) -> impl Iterator<Item = usize> + use<> {
        (HEADER_WORDS..self.cells_at).step_by(BUCKET_WORDS)
    }

    /// The words of cells and marks.
    pub(super) fn hint_words(&self) -> core::ops::Range<usize> {
        self.cells_at..self.scans_at
    }

    /// The first word of a scan, `None` for a slot that does not exist.
    #[inline]
    pub(super) fn scan(&self, slot: u32) -> Option<usize> {
        (slot < self.config.scans).then(|| self.scans_at + slot as usize * SCAN_WORDS)
    }

    /// The first word of a part, `None` for [`NIL`](super::words::NIL) and any other that does not
    /// exist.
    #[inline]
    pub(super) fn part(&self, part: u32) -> Option<usize> {
        (part < self.config.parts).then(|| self.parts_at + part as usize * PART_WORDS)
    }

    pub(super) fn too_many_parts(&self, wanted: usize) -> RegisterError {
        RegisterError::TooManyParts { wanted, limit: self.config.parts }
    }
}

/// The sets for `marks` marks, a power of two; 0 for none.
fn sets(marks: u32) -> Option<usize> {
    if marks == 0 { Some(0) } else { (marks as usize).div_ceil(MARKS_OF_A_SET).checked_next_power_of_two() }
}
