//! The tier on flash: who is written, and who makes room.
#![cfg(feature = "std")]
#![allow(clippy::unwrap_used)]

use pagecast_core::oracle::{NoScans, Oracle, Question};
use pagecast_core::policy::{Access, Batching, PolicySpec};
use pagecast_core::random::Random;
use pagecast_core::tier::{Admission, Budget, Offer, Predicted, Tier};
use pagecast_core::{PageId, Tick};
use std::collections::BTreeMap;

fn page(number: u32) -> PageId {
    PageId::from_raw(u64::from(number))
}

fn tier(slots: u32, policy: &str, admission: impl Admission + Send + 'static) -> Tier {
    let policy = PolicySpec::parse(policy).unwrap().build(slots, 7).unwrap().into_concurrent(Batching::OFF);
    Tier::new(slots, policy, Box::new(admission))
}

fn predicted(slots: u32) -> Tier {
    tier(slots, "pbm", Predicted::new(slots, Budget::unlimited()))
}

/// Scans read pages from 1000 on so many ticks after the moment of the question.
struct In(Tick);

impl Oracle for In {
    fn next_access(&self, question: Question) -> Option<Tick> {
        (question.page.raw() >= 1000).then_some(self.0)
    }
}

#[test]
fn what_a_scan_reads_in_time_is_written_and_stays() {
    let mut tier = predicted(100);
    for number in 0..100 {
        assert!(tier.offer(page(number), Tick::from(number) * 10, &NoScans).is_some(), "there is room");
    }
    // A page is admitted every 10 ticks: it stays for about 1000.
    assert!(tier.offer(page(1000), 1000, &In(2000)).is_none(), "it would leave before");
    assert!(tier.offer(page(2000), 1000, &NoScans).is_none(), "nobody wants it");
    for number in 0..50 {
        assert!(tier.offer(page(1001 + number), 1000 + Tick::from(number) * 10, &In(300)).is_some());
    }
    assert!((0..50).all(|number| tier.find(page(1001 + number)).is_some()), "the others made room");
    assert_eq!(tier.pages().count(), 100);
}

#[test]
fn without_scans_what_comes_often_displaces_what_is_read_no_more() {
    let mut tier = predicted(64);
    (0..64).for_each(|number| _ = tier.offer(page(number), Tick::from(number), &NoScans));
    // 32 others come in turn. At first a page stays for 64 ticks, and each comes every 32: not
    // often enough. As nothing is written the time grows.
    let mut first = None;
    for at in 64..20_000 {
        let number = 100 + at % 32;
        if tier.offer(page(number), Tick::from(at), &NoScans).is_some() {
            first.get_or_insert(at);
        }
    }
    assert!(first.is_some_and(|at| at > 64 + 32), "{first:?}");
    assert!((100..132).all(|number| tier.find(page(number)).is_some()));
}

#[test]
fn no_more_is_written_than_the_budget_has() {
    let mut tier = tier(50, "pbm", Predicted::new(50, Budget::new(0.02, 4)));
    let written = (0..10_000).filter(|&at| tier.offer(page(1000 + at), Tick::from(at), &In(1)).is_some()).count();
    assert!((200..=204).contains(&written), "{written}");
}

struct All;

impl Admission for All {
    fn admits(&mut self, _offer: &Offer) -> bool {
        true
    }
}

/// Under any policy: a page is where it was put, once, until it is displaced or removed.
#[test]
fn pages_are_where_they_were_put() {
    for policy in ["pbm", "lru", "clock", "arc", "random"] {
        let (mut tier, mut random) = (tier(40, policy, All), Random::new(3));
        let mut placed: BTreeMap<u32, PageId> = BTreeMap::new();
        for at in 0..20_000 {
            let page = page(random.below(120));
            let known = placed.iter().find(|(_, other)| **other == page).map(|(&slot, _)| slot);
            assert_eq!(tier.find(page).map(|slot| slot.0), known, "{policy}");
            match (random.below(10), known) {
                (0, _) => {
                    tier.remove(page);
                    placed.retain(|_, other| *other != page);
                }
                (1..5, Some(_)) => {
                    let slot = tier.find(page).unwrap();
                    tier.hit(slot, &Access { page, scan: None, write: false, at });
                }
                (_, known) => {
                    let slot = tier.offer(page, at, &NoScans);
                    assert_eq!(slot.is_none(), known.is_some(), "{policy}");
                    slot.into_iter().for_each(|slot| _ = placed.insert(slot.0, page));
                }
            }
            assert!(placed.len() <= 40);
        }
        assert!(tier.pages().map(|(slot, page)| (slot.0, page)).eq(placed), "{policy}");
    }
}
