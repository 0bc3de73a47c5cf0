//! The names by which pages, frames, relations and scans are known everywhere in pagecast.

use core::fmt;

/// A moment, in whatever unit its owner counts: nanoseconds since the pool started, or requests in
/// a simulation.
///
/// One predictor or policy sees one unit only. It never goes backwards.
pub type Tick = u64;

/// One generation of a stored object: a file that changes becomes another relation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RelationId(pub u32);

/// A page: a block of a relation. Packs into 64 bits, the relation in the upper half.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct PageId(u64);

impl PageId {
    /// Block `block` of relation `relation`.
    #[inline]
    pub const fn new(relation: RelationId, block: u32) -> Self {
        Self(((relation.0 as u64) << 32) | block as u64)
    }

    /// The page with this packed form; every `u64` is one. Traces carry their ids this way.
    #[inline]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The packed form.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The relation that the page belongs to.
    #[inline]
    pub const fn relation(self) -> RelationId {
        RelationId((self.0 >> 32) as u32)
    }

    /// The page's number within its relation, from 0.
    #[inline]
    pub const fn block(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Debug for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.relation().0, self.block())
    }
}

/// A place for one page in memory: an index from 0 to the number of frames.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FrameId(pub u32);

impl FrameId {
    /// The frame's index into arrays that are kept by frame.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A registered scan: a slot in the predictor and the generation of its use, so that a stale id is
/// recognised.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScanId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl ScanId {
    /// No scan ever has this name: what a place for names holds before registration.
    pub const NOBODY: Self = Self { slot: u32::MAX, generation: 0 };

    /// Slot and generation in one word, for hosts that keep the name where only numbers fit.
    #[inline]
    pub const fn raw(self) -> u64 {
        ((self.slot as u64) << 32) | self.generation as u64
    }

    /// The name with this packed form.
    #[inline]
    pub const fn from_raw(raw: u64) -> Self {
        Self { slot: (raw >> 32) as u32, generation: raw as u32 }
    }

    /// The slot, below the predictor's number of scans. Reused after the scan finished.
    #[inline]
    pub const fn slot(self) -> u32 {
        self.slot
    }
}
