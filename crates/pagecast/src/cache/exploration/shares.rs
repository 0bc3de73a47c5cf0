//! Caps and reserves against loads, pins and resizes.

use shuttle::thread;

use super::*;
use crate::cache::Capped;

/// A relation may have one of two frames while three visitors want its pages.
fn cap_against_pins() {
    let cache = cache("lru", 2);
    cache.cap(Capped::Relation(RELATION), Some(1));
    visitors(&cache, &[&[0, 1], &[1, 2], &[100, 0]], |_| Io::Works);
    settled(&cache, 3);
    let all = cache.resident_of(RELATION).all(|page| cache.caps.has(Capped::Relation(RELATION), page));
    assert!(all, "a page escaped its cap");
    // Nobody holds anything: the next load brings the relation back to its share.
    visit(&cache, 3, Io::Works);
    assert_eq!(cache.resident_of(RELATION).count(), 1, "a page escaped its cap");
}

/// A cap is set, changed and lifted, and the pool resized, while pages come and go.
fn cap_changes_while_visited() {
    let cache = resizable("clock", 2, 3);
    let other = cache.clone();
    let changer = thread::spawn(move || {
        other.cap(Capped::Relation(RELATION), Some(2));
        resize(&other, 3);
        other.cap(Capped::Relation(RELATION), Some(1));
        resize(&other, 2);
        other.cap(Capped::Relation(RELATION), None);
    });
    visitors(&cache, &[&[0, 1], &[2, 0]], |_| Io::Works);
    changer.join().unwrap();
    // What was held beyond two frames while the pool shrank leaves with the next misses.
    while cache.free.is_draining() {
        visit(&cache, 100, Io::Works);
        visit(&cache, 101, Io::Works);
        visit(&cache, 102, Io::Works);
    }
    settled(&cache, 3);
}

/// A kept page among others that need its frame, and one that is dropped.
fn keep_against_evictions(policy: &str) {
    let cache = cache(policy, 2);
    assert!(cache.reserve(RELATION, 1));
    visitors(&cache, &[&[0, 100], &[101, 0], &[1, 102]], |_| Io::Works);
    settled(&cache, 2);
    let resident = cache.resident_of(RELATION).count() as i64;
    assert_eq!(cache.reserves.resident(RELATION), Some(resident), "a kept page was counted twice or not at all");
}

/// A page is kept, the others can be had: none of their loads takes it.
fn a_kept_page_stays() {
    let cache = cache("lru", 2);
    assert!(cache.reserve(RELATION, 1));
    visit(&cache, 0, Io::Works);
    let other = cache.clone();
    let reader = thread::spawn(move || visit(&other, 0, Io::Works));
    for block in [100, 101, 102] {
        visit(&cache, block, Io::Works);
    }
    reader.join().unwrap();
    settled(&cache, 1);
    assert_eq!(cache.resident_of(RELATION).count(), 1, "a kept page left although another could be had");
}

/// A keep is given up and set again while its pages come and go.
fn keep_changes_while_visited() {
    let cache = cache("clock", 2);
    let other = cache.clone();
    let changer = thread::spawn(move || {
        for most in [1, 0, 2] {
            assert!(other.reserve(RELATION, most));
        }
        other.discard(RELATION);
    });
    visitors(&cache, &[&[0, 100], &[1, 101]], |_| Io::Works);
    changer.join().unwrap();
    settled(&cache, 2);
}

#[test]
fn caps_hold_under_pins_loads_and_resizes() {
    explore(5_000, cap_against_pins);
    explore(3_000, cap_changes_while_visited);
}

#[test]
fn kept_pages_stay_and_are_counted() {
    for policy in ["clock", "lru"] {
        explore(2_000, move || keep_against_evictions(policy));
    }
    explore(3_000, a_kept_page_stays);
    explore(3_000, keep_changes_while_visited);
}

#[test]
fn mistake_of_a_pinned_page_that_leaves_its_cap_is_caught() {
    must_be_caught(mistake::CAP_FORGOTTEN, &["escaped its cap"], 10_000, cap_against_pins);
}
