//! How often scans read here: the order of pages that neither running scans nor history expect.
//!
//! Uses by scans are counted for each *extent*, a 32nd of the pool. With `n` of them a page in
//! `time`, and one more taken to have been seen, `T = time / (n + 1)` is about the time between
//! two. A page unused for `age` is expected in `T + age`. Where all extents are read alike, that is
//! LRU's order.
//!
//! Ours: in Khalaji et al. (PVLDB 18(13) 2025) such pages leave as they are met, or the least
//! recently used first. Of an extent's blocks 8 stand for all. Extents are found by 10 bits of a
//! hash; those that share a slot are counted together. Counts lose an eighth after two requests a
//! frame.
//!
//! Suits tables, and parts of them, that are scanned unequally often. Cost: a use by a scan is a
//! multiplication, and for one page in an eighth of an extent a shared write; a candidate a hash
//! and a division. 4 KiB. Concurrency: as in hazard.rs; one thread at a time fades the counts.

use super::hazard::{get, set};
use crate::random::hash;
use crate::{PageId, Tick};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// ScanFrequency to a pool.
const PARTS: u32 = 32;
/// Binary logarithm of the blocks of a extent that are watched.
const WATCHED: u32 = 3;
const SLOTS_LOG: u32 = 10;
/// Uses of a page that are taken to have been seen beside those that were.
const PRIOR: f32 = 1.0;
/// What a fading leaves.
const LEFT: f32 = 7.0 / 8.0;

/// Uses by scans, by extent.
#[derive(Debug)]
pub(super) struct ScanFrequency {
    /// By slot: uses of watched blocks, faded; bits of an `f32`, as is `before`.
    uses: Vec<AtomicU32>,
    /// Binary logarithm of a extent's blocks.
    shift: AtomicU32,
    /// When the counts faded last, 0 if never, and the ticks before that for which they stand.
    faded: AtomicU64,
    before: AtomicU32,
}

fn shift(frames: u32) -> u32 {
    (frames / PARTS).max(1).ilog2()
}

impl ScanFrequency {
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

    /// ScanFrequency become as large as `frames` frames make them. What was counted for others is
    /// noise until it has faded.
    pub(super) fn resize(&self, frames: u32) {
        self.shift.store(shift(frames), Relaxed);
    }

    #[inline]
    fn slot(&self, page: PageId, shift: u32) -> &AtomicU32 {
        let extent = PageId::new(page.relation(), page.block() >> shift).raw();
        &self.uses[(hash(extent) >> (64 - SLOTS_LOG)) as usize]
    }

    /// A scan read `page`.
    #[inline]
    pub(super) fn used(&self, page: PageId) {
        let shift = self.shift.load(Relaxed);
        // Multiples of the golden ratio: each stretch of a extent's length has about as many small
        // ones.
        let spread = page.block().wrapping_mul(0x9e37_79b1);
        if spread.leading_zeros() >= shift.saturating_sub(WATCHED) {
            let uses = self.slot(page, shift);
            set(uses, get(uses) + 1.0);
        }
    }

    /// The ticks from the last fading to `now`; none before there was one, for no clock need begin
    /// at 0.
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

    /// A number that grows with the time in which `page` may be used, unused for `age`, if no
    /// running scan wants it.
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

    /// ScanFrequency of 64 blocks, in a pool of 2,048 frames.
    fn frequency() -> ScanFrequency {
        let frequency = ScanFrequency::new(2048);
        frequency.fade(1);
        frequency
    }

    fn scan(frequency: &ScanFrequency, relation: u32, blocks: core::ops::Range<u32>) {
        blocks.for_each(|block| frequency.used(page(relation, block)));
    }

    #[test]
    fn about_eight_blocks_of_a_extent_stand_for_all_wherever_it_lies() {
        for first in [0, 64, 6400, 1 << 31, u32::MAX - 63] {
            let frequency = frequency();
            (0..64).for_each(|block| frequency.used(page(7, first + block)));
            let counted: f32 = frequency.uses.iter().map(get).sum();
            assert!((7.0..=9.0).contains(&counted), "{counted} of 64 blocks from {first} on");
            assert_eq!(get(frequency.slot(page(7, first), 6)), counted, "all in one slot");
        }
    }

    #[test]
    fn what_is_read_more_often_is_expected_sooner() {
        let frequency = frequency();
        for _ in 0..9 {
            scan(&frequency, 1, 0..64);
        }
        scan(&frequency, 1, 64..128);
        let expected = |block, age| frequency.expected(page(1, block), age, 10_000);
        assert!(expected(0, 5000.0) < expected(64, 5000.0) && expected(64, 5000.0) < expected(640, 5000.0));
        assert!(expected(0, 3000.0) < expected(64, 0.0), "1000 ticks between uses and 3000 without, or 5000 and none");
        assert!(expected(0, 5000.0) > expected(64, 0.0), "what goes unused for long is not of its extent's kind");
        assert!(expected(0, 5000.0) < expected(1, 5001.0), "the last use orders a extent");
    }

    #[test]
    fn without_scans_the_order_is_that_of_the_last_use() {
        let frequency = frequency();
        let expected = |block, age| {
            frequency.expected(page(1, block), age, 1 << 40) - frequency.expected(page(1, 0), 0.0, 1 << 40)
        };
        assert!((expected(9999, 1e12) - 1e12).abs() < 1e6);
        let now = 1 << 61;
        assert_eq!(ScanFrequency::new(1).expected(page(0, 0), 7.0, now), 7.0, "a clock that began elsewhere");
    }

    #[test]
    fn old_habits_fade() {
        let frequency = frequency();
        for _ in 0..20 {
            scan(&frequency, 1, 0..64);
        }
        for turn in 1..=40 {
            frequency.fade(turn * 1000);
        }
        for _ in 0..2 {
            scan(&frequency, 2, 0..64);
        }
        let expected = |relation| frequency.expected(page(relation, 0), 0.0, 41_000);
        assert!(expected(2) < expected(1), "{} {}", expected(2), expected(1));
    }

    /// ScanFrequency that share slots are not told apart, and nothing else happens.
    #[test]
    fn ten_thousand_relations_look_alike() {
        let frequency = frequency();
        for relation in 0..10_000 {
            scan(&frequency, relation, 0..64);
        }
        let expected = |relation| frequency.expected(page(relation, 0), 0.0, 1000);
        let (least, most) = (0..10_000).map(expected).fold((f32::MAX, 0.0f32), |(a, b), t| (a.min(t), b.max(t)));
        assert!(most < 12.0 * least && least > 0.0, "{least} to {most}");
    }

    #[test]
    fn extents_grow_with_the_pool() {
        let frequency = ScanFrequency::new(1);
        assert_eq!(frequency.shift.load(Relaxed), 0);
        frequency.resize(u32::MAX);
        assert_eq!(frequency.shift.load(Relaxed), 26);
        (0..1 << 16).for_each(|block| frequency.used(page(u32::MAX, u32::MAX - block)));
        assert!(frequency.expected(page(u32::MAX, u32::MAX), 1.0, u64::MAX).is_finite());
    }
}
