//! What the tests of both sampling policies, `pbm` and `pbm-published`, drive them with: traces,
//! what scans want, and a full pool.

use super::policy_pool::{ModelPool, Slots};
use super::seeded;
use pagecast_core::oracle::{NoScans, Oracle, Question};
use pagecast_core::policy::{Access, PolicySpec};
use pagecast_core::{FrameId, PageId, Tick};
use proptest::prelude::*;

/// Wants the pages of every fourth block of eight, each at its own time, which comes nearer and
/// begins anew.
pub(crate) struct Fourths;

impl Oracle for Fourths {
    fn next_access(&self, Question { page, now, .. }: Question) -> Option<Tick> {
        (page.raw() % 32 < 8).then(|| (page.raw() * 37).wrapping_sub(now) % 40)
    }
}

/// The later the page, the later it is wanted.
pub(crate) struct ByNumber;

impl Oracle for ByNumber {
    fn next_access(&self, Question { page, .. }: Question) -> Option<Tick> {
        Some(page.raw())
    }
}

/// Hot pages, noise and short runs.
pub(crate) fn traces() -> impl Strategy<Value = Vec<u64>> {
    let piece = prop_oneof![
        prop::collection::vec(0..10u64, 1..30),
        prop::collection::vec(0..80u64, 1..30),
        (0..60u64, 1..20u64).prop_map(|(start, len)| (start..start + len).collect()),
    ];
    prop::collection::vec(piece, 1..14).prop_map(|pieces| pieces.concat())
}

/// Every frame has the page of its number.
pub(crate) fn full(frames: u32) -> Slots {
    let slots = Slots::new(frames);
    (0..frames).for_each(|frame| slots.fill(FrameId(frame), PageId::from_raw(frame.into())));
    slots
}

/// A page that no full pool has.
pub(crate) const INCOMING: Access = Access { page: PageId::from_raw(1 << 40), scan: None, write: false, at: 7 };

/// Without scans the victims of `policy` are LRU's.
pub(crate) fn check_is_lru(policy: &str) {
    seeded::check(60, &(1..24u32, traces()), |(frames, trace)| {
        let pool = |text: &str| ModelPool::new(&PolicySpec::parse(text).unwrap(), frames, 1);
        let (mut lru, mut sampling) = (pool("lru"), pool(policy));
        for &page in &trace {
            for pool in [&mut lru, &mut sampling] {
                pool.request(PageId::from_raw(page), false, &NoScans).unwrap();
            }
            prop_assert_eq!(lru.evicted, sampling.evicted);
        }
        Ok(())
    });
}
