//! Where everything lies in the memory.
//!
//! ```text
//! header   24 words   magic, configuration, who loads, free lists, counts of loads
//! sets     4 each     of members: registered, waiting, starved, to be served; 64 members a word
//! buckets  1 each     by hash of a relation and 64 of its blocks: a chain of nodes of units
//! members  8 each     see members.rs
//! units    6 each     see units.rs
//! arena    the rest   chunks of members; residency, nodes and needs of units
//! ```

use super::FormatError;
use crate::RelationId;
use crate::words::{Words, scatter, split};

/// "pagecoo" with the version of the layout in the last byte.
pub(super) const MAGIC: u64 = u64::from_be_bytes(*b"pagecoo\x01");

pub(super) const HEADER_WORDS: usize = 24;
pub(super) const MEMBER_WORDS: usize = 8;
pub(super) const UNIT_WORDS: usize = 6;
pub(super) const CHUNK_WORDS: usize = 3;
/// Words of a need beside its three sets.
pub(super) const NEED_WORDS: usize = 4;
/// Sets of members in the header's neighbourhood.
const SETS: usize = 4;

/// Words of the header.
pub(super) mod header {
    pub(in super::super) const MAGIC: usize = 0;
    pub(in super::super) const SCANS_UNITS: usize = 1;
    pub(in super::super) const WORDS: usize = 2;
    pub(in super::super) const FREE_MEMBER: usize = 3;
    pub(in super::super) const FREE_UNIT: usize = 4;
    pub(in super::super) const FREE_ARENA: usize = 5;
    /// Who loads: 0 for each scan for itself, else how many loads the manager has at a time.
    pub(in super::super) const LOADING: usize = 6;
    /// f64 bits: ticks from a load's choice to its end, smoothed; 0 before the first.
    pub(in super::super) const LOAD_TICKS: usize = 7;
    /// The number of the latest load.
    pub(in super::super) const LOADS: usize = 8;
    /// Loads under way.
    pub(in super::super) const UNDER_WAY: usize = 9;
    /// Registered scans, and units in use.
    pub(in super::super) const MEMBERS_UNITS: usize = 10;
    pub(in super::super) const REFUSED: usize = 11;
    /// Words of the arena in use.
    pub(in super::super) const USED: usize = 12;
    /// With how many workers at work no load begins; 0: loads never wait.
    pub(in super::super) const ENOUGH_AT_WORK: usize = 13;
}

/// How much a manager can hold. All of its memory is taken at the start and never grows.
///
/// Bytes: 192, and for each scan 64, for each unit 48 and one bucket of 8 (their number is a power
/// of two), for each 64 scans 32. Of `words`, each of 8 bytes, with `w` words for the blocks of a
/// unit (64 each) and `s` for the scans (64 each):
/// * a scan takes 3 for each of its chunks and 2 for each 64 of them;
/// * a unit that some scan reads takes `4 w + 1`, and for each different need-mask over it
///   `4 + 2 s + w`. Scans with equal masks over a unit share one.
///
/// A hundred scans of a thousand units of 128 blocks with eight different masks take 34 bytes for
/// each scan and unit, with a hundred different masks 140. The chunks of one registration need one
/// stretch; see also [`of`](Self::of).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CooperationConfig {
    /// Scans that may be registered at the same time; at least 1.
    pub scans: u32,
    /// Units that registered scans may read together; at least 1.
    pub units: u32,
    /// Words for the chunks of scans and the needs of units, see above.
    pub words: u32,
}

impl Default for CooperationConfig {
    /// 2.2 MiB: 128 scans, 4096 units.
    fn default() -> Self {
        Self { scans: 128, units: 4096, words: 1 << 18 }
    }
}

impl CooperationConfig {
    /// Room for nothing.
    pub const EMPTY: Self = Self { scans: 0, units: 0, words: 0 };

    /// Room for `scans` scans, each of which reads all of `units` units of at most `blocks` blocks,
    /// with at most `needs` different need-masks over a unit; and half as much again for the gaps
    /// that scans leave which come and go.
    pub const fn of(scans: u32, units: u32, blocks: u32, needs: u32) -> Self {
        let width = blocks.div_ceil(64) as u64;
        let scan = units as u64 * CHUNK_WORDS as u64 + 2 * chunk_words(units) as u64;
        let need = NEED_WORDS as u64 + 2 * (scans as u64).div_ceil(64) + width;
        let unit = 4 * width + 1 + needs as u64 * need;
        let words = (scans as u64 * scan).saturating_add((units as u64).saturating_mul(unit));
        let words = words.saturating_add(words / 2);
        Self { scans, units, words: if words > u32::MAX as u64 { u32::MAX } else { words as u32 } }
    }

    /// The memory it needs, in words of 8 bytes. `usize::MAX` if that has no size on this machine.
    pub fn words(&self) -> usize {
        self.layout().map_or(usize::MAX, |layout| layout.end)
    }

    /// The memory it needs, in bytes.
    pub fn bytes(&self) -> u64 {
        (self.words() as u64).saturating_mul(8)
    }

    pub(super) fn layout(&self) -> Option<Layout> {
        if self.scans == 0 || self.units == 0 {
            return None;
        }
        let set_words = (self.scans as usize).div_ceil(64);
        let buckets = (self.units as usize).checked_next_power_of_two()?;
        let buckets_at = HEADER_WORDS.checked_add(set_words.checked_mul(SETS)?)?;
        let members_at = buckets_at.checked_add(buckets)?;
        let units_at = members_at.checked_add((self.scans as usize).checked_mul(MEMBER_WORDS)?)?;
        let arena_at = units_at.checked_add((self.units as usize).checked_mul(UNIT_WORDS)?)?;
        let end = arena_at.checked_add(self.words as usize)?;
        // Half a word must hold any index and have one left over for NIL.
        u32::try_from(end).ok().filter(|&end| end < u32::MAX)?;
        Some(Layout { config: *self, set_words, buckets, buckets_at, members_at, units_at, arena_at, end })
    }
}

/// Words of a set of `chunks` chunks; one at least.
pub(super) const fn chunk_words(chunks: u32) -> usize {
    if chunks == 0 { 1 } else { chunks.div_ceil(64) as usize }
}

/// The places, computed once from the configuration; never read from memory again, where they could
/// change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) config: CooperationConfig,
    pub(super) set_words: usize,
    buckets: usize,
    buckets_at: usize,
    members_at: usize,
    units_at: usize,
    pub(super) arena_at: usize,
    pub(super) end: usize,
}

impl Layout {
    /// The layout of memory that was formatted before.
    pub(super) fn read(words: Words<'_>) -> Result<Self, FormatError> {
        FormatError::unless_formatted(words, MAGIC)?;
        let (scans, units) = split(words.get(header::SCANS_UNITS));
        let config = CooperationConfig { scans, units, words: words.get(header::WORDS) as u32 };
        config.layout().ok_or(FormatError::BadConfig)?.fits(words)
    }

    pub(super) fn fits(self, words: Words<'_>) -> Result<Self, FormatError> {
        FormatError::unless_holds(words, self.end).map(|()| self)
    }

    /// The first word of set `number` of members.
    #[inline]
    pub(super) fn set(&self, number: usize) -> usize {
        HEADER_WORDS + number * self.set_words
    }

    /// The bucket of the 64 blocks of `relation` that hold `block`.
    #[inline]
    pub(super) fn bucket(&self, relation: RelationId, block: u32) -> usize {
        let key = u64::from(relation.0) << 32 | u64::from(block / 64);
        self.buckets_at + scatter(key, self.buckets)
    }

    pub(super) fn all_buckets(&self) -> core::ops::Range<usize> {
        self.buckets_at..self.members_at
    }

    #[inline]
    pub(super) fn member(&self, slot: u32) -> Option<usize> {
        (slot < self.config.scans).then(|| self.members_at + slot as usize * MEMBER_WORDS)
    }

    #[inline]
    pub(super) fn unit(&self, number: u32) -> Option<usize> {
        (number < self.config.units).then(|| self.units_at + number as usize * UNIT_WORDS)
    }

    /// Whether `count` words from `at` on lie in the arena.
    #[inline]
    pub(super) fn holds(&self, at: usize, count: usize) -> bool {
        at >= self.arena_at && at.checked_add(count).is_some_and(|end| end <= self.end)
    }
}
