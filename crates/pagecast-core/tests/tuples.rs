//! Tuple buffers as models of pools: what stays, what it may take, and which share is learned.
#![allow(clippy::unwrap_used)]

mod counting_unsafe;
#[expect(dead_code, reason = "no strategy of values is tried here")]
mod seeded;

use pagecast_core::oracle::{NoScans, Oracle, Question};
use pagecast_core::policy::{Access, PolicySpec};
use pagecast_core::random::Random;
use pagecast_core::tuples::{Bounds, Counts, Found, Model, ModelOptions, Room, Shares, Tuple};
use pagecast_core::{PageId, ScanId, Tick};

const ROWS: u32 = 32;
const ROW: u32 = 128;

fn policy(text: &str) -> PolicySpec {
    text.parse().unwrap()
}

fn model(text: &str, frames: u32, share: f64) -> Model {
    let room = Room::new(4096);
    Model::new(&ModelOptions { policy: policy(text), frames, room, share, bounds: Bounds::none(frames, room), seed: 1 })
        .unwrap()
}

/// Requests for rows: of the hundredth part that is hot, eight of ten.
struct Rows {
    random: Random,
    pages: u32,
    /// Whether the hot rows fill pages of their own.
    clustered: bool,
    at: Tick,
}

impl Rows {
    fn next(&mut self) -> (Access, Option<Tuple>) {
        let hot = self.random.below(10) < 8;
        let rows = self.pages * ROWS;
        let row = match (hot, self.clustered) {
            (true, true) => self.random.below(rows / 100),
            (true, false) => self.random.below(rows / 100) * 97 % rows,
            _ => self.random.below(rows),
        };
        self.at += 1;
        (read(row / ROWS, self.at), Some(Tuple { name: row % ROWS, length: ROW }))
    }
}

fn read(page: u32, at: Tick) -> Access {
    Access { page: PageId::from_raw(u64::from(page)), scan: None, write: false, at }
}

fn row(name: u32) -> Option<Tuple> {
    Some(Tuple { name, length: ROW })
}

fn rows(seed: u64, pages: u32, clustered: bool) -> Rows {
    Rows { random: Random::new(seed), pages, clustered, at: 0 }
}

fn misses(mut model: Model, mut rows: Rows, requests: u32) -> u64 {
    for _ in 0..requests {
        let (access, tuple) = rows.next();
        model.request(&access, tuple, &NoScans);
    }
    model.counts().misses
}

#[test]
fn a_visited_item_outlives_its_page_and_merges_into_it() {
    let mut model = model("lru", 2, 0.5);
    let mut ask = |page, name, at| model.request(&read(page, at), row(name), &NoScans);
    // One frame for pages: page 1 goes for page 2.
    assert_eq!([ask(1, 5, 1), ask(1, 5, 2), ask(2, 9, 3)], [Found::Device, Found::Page, Found::Device]);
    assert_eq!(ask(1, 5, 4), Found::MiniPage);
    assert_eq!(ask(1, 6, 5), Found::Device, "nobody had asked for item 6");
    assert_eq!(ask(1, 5, 6), Found::Page, "whole or dissolved, never both");
    assert_eq!([ask(2, 9, 7), ask(3, 0, 8)], [Found::MiniPage, Found::Device]);
    assert_eq!([ask(1, 5, 9), ask(1, 6, 10)], [Found::MiniPage; 2], "the merged item is kept again");
}

#[test]
fn a_blind_write_reads_nothing_and_is_cleaned_once() {
    let mut model = model("lru", 2, 0.5);
    let mut ask = |page, name, write, at| model.request(&Access { write, ..read(page, at) }, row(name), &NoScans);
    ask(1, 5, true, 1);
    ask(2, 0, false, 2);
    assert_eq!(ask(1, 6, true, 3), Found::MiniPage, "page 1 was dissolved; item 6 is put there unread");
    assert_eq!(ask(1, 6, false, 4), Found::MiniPage);
    assert_eq!(ask(3, 6, true, 5), Found::Device, "nothing of page 3 is there");
    model.checkpoint();
    model.checkpoint();
    let Counts { misses, cleaning_reads, write_backs, .. } = model.counts();
    // Page 1 when it went, then its mini-page by a read and a write, and page 3.
    assert_eq!((misses, cleaning_reads, write_backs), (3, 1, 3));
}

/// A scan that comes to every page at its number.
struct Scan;

impl Oracle for Scan {
    fn next_access(&self, question: Question) -> Option<Tick> {
        question.page.raw().checked_sub(question.now)
    }
}

#[test]
fn a_scan_leaves_no_items_behind_and_what_it_brings_back_does_not_dissolve() {
    let mut model = model("lru", 2, 0.5);
    let scanned = Access { scan: Some(ScanId::from_raw(0)), ..read(1, 1) };
    model.request(&scanned, row(3), &NoScans);
    model.request(&read(2, 2), row(3), &NoScans);
    assert_eq!(model.request(&read(1, 3), row(3), &NoScans), Found::Device);
    // Now page 1 has its item. A scan comes to page 100, but not to page 1 again.
    model.request(&read(100, 4), row(3), &Scan);
    model.request(&read(1, 5), row(4), &Scan);
    assert_eq!(model.request(&read(100, 6), row(3), &Scan), Found::Device);
}

#[test]
fn scattered_rows_want_tuples_and_clustered_ones_pages() {
    let of = |share, clustered| misses(model("lru", 60, share), rows(3, 2000, clustered), 100_000);
    let scattered = [0.0, 0.5, 0.9].map(|share| of(share, false));
    assert!(scattered.is_sorted_by(|more, fewer| *fewer * 10 < *more * 9), "{scattered:?}");
    let clustered = [0.0, 0.5].map(|share| of(share, true));
    assert!(clustered[0] < clustered[1], "{clustered:?}");
}

#[test]
fn the_border_moves_either_way_under_every_policy() {
    for name in pagecast_core::policy::names().map(policy).filter(|spec| !spec.needs_trace()) {
        let mut model = model(name.name(), 64, 0.0);
        let mut rows = rows(5, 500, false);
        for share in [0.9, 0.2, 0.97, 0.0, 0.5] {
            model.set_share(share);
            for _ in 0..3000 {
                let (access, tuple) = rows.next();
                model.request(&access, tuple, &NoScans);
            }
            assert!((model.share() - share).abs() < 0.02, "{name}: {} for {share}", model.share());
        }
    }
}

#[test]
fn the_share_is_learned_and_given_up_again() {
    let spec = policy("lru");
    let mut shares = Shares::new(&spec, 32, Room::new(4096), 7).unwrap();
    let mut learn = |mut rows: Rows| {
        for _ in 0..60_000 {
            let (access, tuple) = rows.next();
            assert!(shares.sample().has(access.page), "a small pool's models see everything");
            shares.request(&access, tuple, &NoScans);
        }
        shares.current()
    };
    assert_eq!(learn(rows(1, 300, true)), 0.0);
    assert!(learn(rows(2, 300, false)) >= 0.5, "half of the frames hold all hot rows");
    assert!(learn(rows(3, 300, true)) <= 0.15, "the hot pages fit in what is left");
}

/// How long it was right does not decide how soon another share is followed.
#[test]
fn a_share_that_was_right_for_long_is_given_up_soon() {
    let requests_until_pages_are_kept = |scattered: u32| {
        let mut shares = Shares::new(&policy("lru"), 32, Room::new(4096), 7).unwrap();
        let mut learn = |rows: &mut Rows| {
            let (access, tuple) = rows.next();
            shares.request(&access, tuple, &NoScans);
            shares.current()
        };
        let mut rows_apart = rows(2, 3_000, false);
        (0..scattered).for_each(|_| _ = learn(&mut rows_apart));
        assert!(learn(&mut rows_apart) >= 0.5);
        let mut rows_together = rows(3, 3_000, true);
        (0..60_000).find(|_| learn(&mut rows_together) < 0.5).unwrap()
    };
    let (short, long) = (requests_until_pages_are_kept(10_000), requests_until_pages_are_kept(100_000));
    println!("after a short time {short} requests, after a long one {long}");
    assert!(long < 2 * short.max(1_000), "{short} {long}");
}

#[test]
fn full_models_allocate_nothing_and_take_what_they_say() {
    let spec = policy("pbm");
    let before = counting_unsafe::allocated();
    let mut shares = Shares::new(&spec, 128, Room::new(4096), 7).unwrap();
    let mut rows = rows(9, 600, false);
    let mut run = |requests| {
        for _ in 0..requests {
            let (access, tuple) = rows.next();
            shares.request(&access, tuple, &NoScans);
        }
    };
    run(100_000);
    let taken = counting_unsafe::allocated();
    run(50_000);
    assert_eq!(counting_unsafe::allocated(), taken);
    let (taken, said) = (taken - before, Shares::bytes(&spec, 128, Room::new(4096)));
    assert!(taken <= said && said < 3 * taken, "{taken} bytes, and it says {said}");
}

#[test]
fn random_requests_keep_the_counts_in_order() {
    let seed = seeded::fresh();
    let mut random = Random::new(seed);
    for _ in 0..30 {
        let mut model = model(["lru", "arc", "pbm"][random.below(3) as usize], 1 + random.below(40), random.unit());
        for at in 0..4000 {
            let access = Access { write: random.below(4) == 0, ..read(random.below(60), at) };
            let before = model.counts();
            let found = model.request(&access, row(random.below(40)), &NoScans);
            let after = model.counts();
            assert_eq!(after.misses - before.misses, u64::from(found == Found::Device), "PAGECAST_SEED={seed}");
            assert_eq!(
                after.tuple_hits - before.tuple_hits,
                u64::from(found == Found::MiniPage),
                "PAGECAST_SEED={seed}"
            );
            if random.below(500) == 0 {
                model.set_share(random.unit());
                model.checkpoint();
            }
            model.check();
        }
    }
}
