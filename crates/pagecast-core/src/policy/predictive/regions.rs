//! How often scans read here: the history of scans, by region of a relation. It orders the pages that no running scan wants.
//!
//! What the next query will ask for nobody has registered, but some tables are scanned more often than others, and so are
//! parts of a table: the last days of one in the order of time, or its middle, which more of all possible ranges cover than
//! its ends. Uses by scans are counted for each region. With `n` of them a page in `time`, and one more taken to have been
//! seen, `T = time / (n + 1)` is about the time between two. A page not used for `age` is to be expected in about `T + age`:
//! what is usual there counts as one interval of its own, and its age is what it did since. Where all regions are read alike, that
//! is the order of the last use. To trust `T` more gains more where regions differ, and loses more to chance where they do not
//! (docs/prediction-results.md).
//!
//! Ours, in none of the papers: there such pages leave as they are met (Khalaji et al., PVLDB 18(13) 2025, Algorithm 1), or
//! the least recently used first (section 4.3). It orders no others: a registration is never overruled by the past.
//!
//! * A region has as many blocks as a 32nd of the pool has frames, rounded down to a power of two. Of these, 8 stand for
//!   all, evenly spread, so that a large pool counts as seldom as a small one.
//! * Regions are found by 10 bits of a hash: up to a few pools' worth of data each has a slot of its own. Regions that share
//!   one are counted together, and pages of one that is hardly read may be kept for one that is. With ten thousand relations
//!   all slots fill alike, and the order is that of the last use.
//! * Counts, and the time in which they were made, lose an eighth after every two requests a frame: half in ten.
//!
//! Suits tables, and parts of them, that are scanned unequally often. Worth little where all are read alike; after a change of
//! habits it holds on to what was read often, for some ten requests a frame.
//!
//! Cost: a use by a scan is a multiplication and, one in an eighth of a region's blocks, a hash and a read and write of a
//! shared word; a candidate that nobody wants is a hash, two reads and a division. Bytes: 4 KiB.
//!
//! Concurrency: counts are read and written relaxed, a load and a store apart; what a race loses is one use of many, and what it
//! mixes up is the order of pages that nobody waits for. One thread at a time fades them, under its caller's `busy`. The schedule
//! explorer does not see these counts: they protect nothing.

use super::reuse::{get, set};
use crate::random::hash;
use crate::{PageId, Tick};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Regions to a pool.
const PARTS: u32 = 32;
/// Binary logarithm of the blocks of a region that are watched.
const WATCHED: u32 = 3;
const SLOTS_LOG: u32 = 10;
/// Uses of a page that are taken to have been seen beside those that were.
const PRIOR: f32 = 1.0;
/// What a fading leaves.
const LEFT: f32 = 7.0 / 8.0;

/// Uses by scans, by region.
#[derive(Debug)]
pub(super) struct Regions {
    /// By slot: uses of watched blocks, faded; bits of an `f32`, as is `before`.
    uses: Vec<AtomicU32>,
    /// Binary logarithm of a region's blocks.
    shift: AtomicU32,
    /// When the counts faded last, 0 if never, and the ticks before that for which they stand.
    faded: AtomicU64,
    before: AtomicU32,
}

fn shift(frames: u32) -> u32 {
    (frames / PARTS).max(1).ilog2()
}

impl Regions {
    /// What they take.
    pub(super) const BYTES: u32 = 4 << SLOTS_LOG;

    /// For a pool of `frames` frames.
    pub(super) fn new(frames: u32) -> Self {
        Self {
            uses: (0..1 << SLOTS_LOG).map(|_| AtomicU32::new(0)).collect(),
            shift: AtomicU32::new(shift(frames)),
            faded: AtomicU64::new(0),
            before: AtomicU32::new(0),
        }
    }

    /// Regions become as large as `frames` frames make them. What was counted for others is noise until it has faded.
    pub(super) fn resize(&self, frames: u32) {
        self.shift.store(shift(frames), Relaxed);
    }

    #[inline]
    fn slot(&self, page: PageId, shift: u32) -> &AtomicU32 {
        let region = PageId::new(page.relation(), page.block() >> shift).raw();
        &self.uses[(hash(region) >> (64 - SLOTS_LOG)) as usize]
    }

    /// A scan read `page`.
    #[inline]
    pub(super) fn used(&self, page: PageId) {
        let shift = self.shift.load(Relaxed);
        // Multiples of the golden ratio: each stretch of a region's length has about as many small ones.
        let spread = page.block().wrapping_mul(0x9e37_79b1);
        if spread.leading_zeros() >= shift.saturating_sub(WATCHED) {
            let uses = self.slot(page, shift);
            set(uses, get(uses) + 1.0);
        }
    }

    /// The ticks from the last fading to `now`; none before there was one, for no clock need begin at 0.
    fn since_faded(&self, now: Tick) -> f32 {
        match self.faded.load(Relaxed) {
            0 => 0.0,
            faded => now.saturating_sub(faded) as f32,
        }
    }

    /// Forgets an eighth of what was counted up to `now`.
    pub(super) fn fade(&self, now: Tick) {
        set(&self.before, (get(&self.before) + self.since_faded(now)) * LEFT);
        self.faded.store(now.max(1), Relaxed);
        for uses in &self.uses {
            set(uses, get(uses) * LEFT);
        }
    }

    /// A number that grows with the time in which `page` may be used, unused for `age`, if no running scan wants it.
    #[inline]
    pub(super) fn expected(&self, page: PageId, age: f32, now: Tick) -> f32 {
        let shift = self.shift.load(Relaxed);
        let watched = (1u32 << shift.min(WATCHED)) as f32;
        let time = get(&self.before) + self.since_faded(now);
        time / (get(self.slot(page, shift)) / watched + PRIOR) + age
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RelationId;

    fn page(relation: u32, block: u32) -> PageId {
        PageId::new(RelationId(relation), block)
    }

    /// Regions of 64 blocks, in a pool of 2,048 frames.
    fn regions() -> Regions {
        let regions = Regions::new(2048);
        regions.fade(1);
        regions
    }

    fn scan(regions: &Regions, relation: u32, blocks: core::ops::Range<u32>) {
        blocks.for_each(|block| regions.used(page(relation, block)));
    }

    #[test]
    fn about_eight_blocks_of_a_region_stand_for_all_wherever_it_lies() {
        for first in [0, 64, 6400, 1 << 31, u32::MAX - 63] {
            let regions = regions();
            (0..64).for_each(|block| regions.used(page(7, first + block)));
            let counted: f32 = regions.uses.iter().map(get).sum();
            assert!((7.0..=9.0).contains(&counted), "{counted} of 64 blocks from {first} on");
            assert_eq!(get(regions.slot(page(7, first), 6)), counted, "all in one slot");
        }
    }

    #[test]
    fn what_is_read_more_often_is_expected_sooner() {
        let regions = regions();
        for _ in 0..9 {
            scan(&regions, 1, 0..64);
        }
        scan(&regions, 1, 64..128);
        let expected = |block, age| regions.expected(page(1, block), age, 10_000);
        assert!(expected(0, 5000.0) < expected(64, 5000.0) && expected(64, 5000.0) < expected(640, 5000.0));
        assert!(expected(0, 3000.0) < expected(64, 0.0), "1000 ticks between uses and 3000 without, or 5000 and none");
        assert!(expected(0, 5000.0) > expected(64, 0.0), "what goes unused for long is not of its region's kind");
        assert!(expected(0, 5000.0) < expected(1, 5001.0), "the last use orders a region");
    }

    #[test]
    fn without_scans_the_order_is_that_of_the_last_use() {
        let regions = regions();
        let expected =
            |block, age| regions.expected(page(1, block), age, 1 << 40) - regions.expected(page(1, 0), 0.0, 1 << 40);
        assert!((expected(9999, 1e12) - 1e12).abs() < 1e6);
        let now = 1 << 61;
        assert_eq!(Regions::new(1).expected(page(0, 0), 7.0, now), 7.0, "a clock that began elsewhere");
    }

    #[test]
    fn old_habits_fade() {
        let regions = regions();
        for _ in 0..20 {
            scan(&regions, 1, 0..64);
        }
        for turn in 1..=40 {
            regions.fade(turn * 1000);
        }
        for _ in 0..2 {
            scan(&regions, 2, 0..64);
        }
        let expected = |relation| regions.expected(page(relation, 0), 0.0, 41_000);
        assert!(expected(2) < expected(1), "{} {}", expected(2), expected(1));
    }

    /// Regions that share slots are not told apart, and nothing else happens.
    #[test]
    fn ten_thousand_relations_look_alike() {
        let regions = regions();
        for relation in 0..10_000 {
            scan(&regions, relation, 0..64);
        }
        let expected = |relation| regions.expected(page(relation, 0), 0.0, 1000);
        let (least, most) = (0..10_000).map(expected).fold((f32::MAX, 0.0f32), |(a, b), t| (a.min(t), b.max(t)));
        assert!(most < 12.0 * least && least > 0.0, "{least} to {most}");
    }

    #[test]
    fn regions_grow_with_the_pool() {
        let regions = Regions::new(1);
        assert_eq!(regions.shift.load(Relaxed), 0);
        regions.resize(u32::MAX);
        assert_eq!(regions.shift.load(Relaxed), 26);
        (0..1 << 16).for_each(|block| regions.used(page(u32::MAX, u32::MAX - block)));
        assert!(regions.expected(page(u32::MAX, u32::MAX), 1.0, u64::MAX).is_finite());
    }
}
