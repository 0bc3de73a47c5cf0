//! The records of a predictor's memory: how many words each takes, and which word is what.
//!
//! Those of a scan and of a cell are used by one module each, and stand there (`scan.rs`,
//! `cell.rs`).

/// "pagecast" with the version of the layout in the last byte.
pub(super) const MAGIC: u64 = u64::from_be_bytes(*b"pagecas\x09");

/// How many kinds of scans there are, each with a running estimate of pace.
pub const KINDS: u8 = 16;

/// The longest axis: 2^52 - 1 positions. What is left of a word beside a position holds the
/// generation's low bits.
pub const MAX_LENGTH: u64 = (1 << VALUE_BITS) - 1;

/// Bits of a position.
pub(super) const VALUE_BITS: u32 = 52;

pub(super) const HEADER_WORDS: usize = 32;
pub(super) const BUCKET_WORDS: usize = 2;
pub(super) const SCAN_WORDS: usize = 16;
pub(super) const PART_WORDS: usize = 8;
pub(super) const CELL_WORDS: usize = 8;
/// Marks of a set, which fill a cache line.
pub(super) const MARKS_OF_A_SET: usize = 4;
pub(super) const MARK_WORDS: usize = 2;
pub(super) const SET_WORDS: usize = MARKS_OF_A_SET * MARK_WORDS;
pub(super) const RUN_WORDS: usize = 3;
/// How many words of a bitset share one sample of the rank.
pub(super) const SAMPLED_WORDS: usize = 8;

/// Words of a bucket.
pub(super) mod bucket {
    /// Version and first part.
    pub(in super::super) const CHAIN: usize = 0;
    /// How many parts were put into the chain or came to life in it, each counted twice.
    pub(in super::super) const ARRIVED: usize = 1;
}

/// Words of the header.
pub(super) mod header {
    pub(in super::super) const MAGIC: usize = 0;
    pub(in super::super) const SCANS_PARTS: usize = 1;
    pub(in super::super) const RUNS_BITSETS: usize = 2;
    pub(in super::super) const FREE_SCAN: usize = 3;
    pub(in super::super) const FREE_PART: usize = 4;
    pub(in super::super) const FREE_ARENA: usize = 5;
    /// How many scans have begun and ended.
    pub(in super::super) const CHANGES: usize = 15;
    pub(in super::super) const CELLS_WORDS: usize = 6;
    /// Scans for which there was no room.
    pub(in super::super) const REFUSED: usize = 8;
    pub(in super::super) const MARKS: usize = 9;
    /// How many scans have had chunks.
    pub(in super::super) const CHUNKS: usize = 10;
    /// The first of [`KINDS`](super::KINDS) words: f64 bits, ticks per position, 0 before the first
    /// measurement.
    pub(in super::super) const PACE: usize = 16;
}

/// Words of a part.
pub(super) mod part {
    /// The next part in the chain, or the next free one.
    pub(in super::super) const NEXT: usize = 0;
    pub(in super::super) const RELATION_FORM: usize = 1;
    /// Slot and generation of the scan.
    pub(in super::super) const OWNER: usize = 2;
    /// First and last block.
    pub(in super::super) const BLOCKS: usize = 3;
    /// Where in the arena, and how many runs or words of bits.
    pub(in super::super) const STRETCH: usize = 4;
    /// Of a bitset the position of its first block, of runs the scale that they are searched with.
    pub(in super::super) const ORIGIN: usize = 5;
    /// The next part of the same scan.
    pub(in super::super) const SIBLING: usize = 6;
    /// The part in front in the chain; only the writer reads it.
    pub(in super::super) const BEFORE: usize = 7;
}

// In which form a part's pages are kept.
pub(super) const RUNS: u32 = 0;
pub(super) const BITSET: u32 = 1;
pub(super) const CORRELATED: u32 = 2;
/// Runs each of which is read at once, in no order.
pub(super) const CHUNKS: u32 = 3;
