//! Steering a clock that is not ours: who goes, who stays, and what is learned from usage counts.
#![cfg(not(pagecast_shuttle))]
#![allow(clippy::unwrap_used)]

use pagecast_core::oracle::{NoScans, Oracle, Question};
use pagecast_core::random::Random;
use pagecast_core::recurrence::Frequency;
use pagecast_core::steering::{Candidate, Fallback, MAX_USAGE, Switches, Uses, choose};
use pagecast_core::{PageId, RelationId, Tick};

const SECOND: Tick = 1_000_000_000;
const TABLE: RelationId = RelationId(1);

/// Wants block `b` in `b` seconds, up to block 99.
struct InOrder;

impl Oracle for InOrder {
    fn next_access(&self, Question { page, .. }: Question) -> Option<Tick> {
        (page.block() < 100).then(|| Tick::from(page.block()) * SECOND)
    }
}

fn buffer(block: u32, usage: u8) -> Candidate {
    let page = PageId::new(TABLE, block);
    Candidate { page, uses: Uses::default(), wanted_in: 0, frame: block, usage, predicted: false }
}

/// A clock over buffers of fixed pages, with what is remembered of each.
struct Clock(Vec<Candidate>);

impl Clock {
    fn steer(&mut self, victims: usize, oracle: &dyn Oracle, now: Tick) {
        choose(&mut self.0, victims, Switches::default(), oracle, now);
        self.0.sort_by_key(|buffer| buffer.frame);
    }

    /// The hand goes round; which frames it would take.
    fn pass(&mut self) -> Vec<u32> {
        let taken = self.0.iter().filter(|buffer| buffer.usage == 0).map(|buffer| buffer.frame).collect();
        self.0.iter_mut().for_each(|buffer| buffer.usage = buffer.usage.saturating_sub(1));
        taken
    }
}

#[test]
fn those_wanted_last_go_and_the_rest_stay() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let mut buffers: Vec<_> = (0..100).map(|block| buffer(block, random.below(6) as u8)).collect();
        for at in (1..100).rev() {
            buffers.swap(at, random.below(at as u32 + 1) as usize);
        }
        let kept = buffers.iter().filter(|buffer| buffer.usage == 0 && buffer.page.block() < 90).count();
        let choice = choose(&mut buffers, 10, Switches::default(), &InOrder, 0);
        assert_eq!((choice.predicted, choice.given, choice.kept as usize), (100, 10, kept), "seed {seed}");
        for buffer in &buffers {
            assert_eq!(buffer.usage == 0, buffer.page.block() >= 90, "seed {seed}, block {}", buffer.page.block());
            assert!(buffer.usage <= MAX_USAGE && buffer.predicted);
        }
    }
}

#[test]
fn a_page_of_which_nothing_is_known_is_the_clocks() {
    let mut clock = Clock(vec![buffer(200, 0), buffer(201, 2), buffer(202, 0), buffer(5, 3)]);
    clock.steer(2, &InOrder, 0);
    // Two go anyhow, and so not the one that a scan wants, whose count is low so that uses are
    // seen.
    assert_eq!(clock.0.iter().map(|buffer| buffer.usage).collect::<Vec<_>>(), [2, 0, 2, 0]);
}

#[test]
fn a_page_of_which_nothing_is_known_ages_by_victims_and_not_by_visits() {
    // The hand goes by ten buffers for each victim instead of two: one visit in five counts.
    let mut clock = Clock((0..10).chain(1000..1990).map(|block| buffer(block, 3)).collect());
    let sum = |clock: &Clock| clock.0.iter().skip(10).map(|buffer| i32::from(buffer.usage)).sum::<i32>();
    let before = sum(&clock);
    clock.steer(100, &InOrder, SECOND);
    clock.pass();
    let lost = before - sum(&clock);
    assert!((140..260).contains(&lost), "{lost} of 990 counts");
}

#[test]
fn pages_that_a_scan_has_read_and_nobody_wants_all_go() {
    let mut clock = Clock((100..110).map(|block| buffer(block, 1)).collect());
    for buffer in &mut clock.0 {
        (buffer.uses, _) = buffer.uses.read_by_scan(buffer.page, 1, true, 0);
    }
    clock.0.push(buffer(50, 1));
    clock.steer(1, &InOrder, SECOND);
    assert_eq!(clock.pass(), (100..110).collect::<Vec<_>>());
}

/// Wants every block at any moment, as a scan does of those that it goes to and fro among.
struct ByTurns;

impl Oracle for ByTurns {
    fn next_access(&self, _question: Question) -> Option<Tick> {
        Some(0)
    }
}

#[test]
fn of_pages_wanted_at_one_moment_the_least_used_go() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut buffers: Vec<_> = (0..100).map(|block| buffer(block, random.below(6) as u8)).collect();
        let mut used: Vec<_> = buffers.iter().map(|buffer| buffer.usage).collect();
        used.sort_unstable();
        let before: Vec<_> = buffers.iter().map(|buffer| buffer.usage).collect();
        assert_eq!(choose(&mut buffers, 30, Switches::default(), &ByTurns, 0).given, 30);
        let mut gone: Vec<_> = (0..100).filter(|&at| buffers[at].usage == 0).map(|at| before[at]).collect();
        gone.sort_unstable();
        assert_eq!(gone, used[..30], "seed {seed}");
    }
}

#[test]
fn a_page_in_use_outlives_pages_that_are_wanted_later_and_goes_when_it_rests() {
    // Block 200 is used once a second, beside pages that are wanted in 10 to 19 seconds.
    let mut clock = Clock((10..20).chain([200]).map(|block| buffer(block, 1)).collect());
    let hot = |clock: &Clock| clock.0.iter().position(|buffer| buffer.frame == 200).unwrap();
    for round in 0..30 {
        clock.steer(2, &InOrder, round * SECOND);
        let taken = clock.pass();
        assert!(!taken.contains(&200), "round {round}: {taken:?}");
        let at = hot(&clock);
        clock.0[at].usage = (clock.0[at].usage + 1).min(MAX_USAGE);
    }
    // Nobody uses it any more: it goes when it has rested for longer than the others are off.
    let gone = (30..90).find(|&round| {
        clock.steer(2, &InOrder, round * SECOND);
        clock.pass().contains(&200)
    });
    assert!(gone.is_some_and(|round| (45..60).contains(&round)), "{gone:?}");
}

#[test]
fn reads_by_scans_are_no_uses() {
    let mut clock = Clock(vec![buffer(300, 1)]);
    for round in 0..10 {
        let found = &mut clock.0[0];
        found.usage = (found.usage + 1).min(MAX_USAGE);
        (found.uses, _) = found.uses.read_by_scan(found.page, found.usage, round == 0, round * SECOND);
        clock.steer(0, &NoScans, round * SECOND + SECOND / 2);
        assert_eq!(clock.0[0].wanted_in, Tick::MAX, "round {round}");
    }
}

#[test]
fn a_read_is_saved_once_when_the_hand_was_kept_off() {
    let mut clock = Clock(vec![buffer(1, 0), buffer(99, 0)]);
    clock.steer(1, &InOrder, 0);
    clock.pass();
    let (found, kept) = clock.0[0].uses.found(clock.0[0].page);
    assert!(kept && !found.found(clock.0[0].page).1, "said once");
    assert_eq!(clock.0[0].uses.found(PageId::new(TABLE, 2)), (clock.0[0].uses, false), "of another page");
    let (uses, saved) = clock.0[0].uses.read_by_scan(clock.0[0].page, 1, false, SECOND);
    assert!(saved);
    assert!(!uses.read_by_scan(clock.0[0].page, 2, false, SECOND).1, "counted twice");
    assert!(!clock.0[0].uses.read_by_scan(clock.0[0].page, 1, true, SECOND).1, "came in anew");
    assert!(!clock.0[0].uses.read_by_scan(PageId::new(TABLE, 2), 1, false, SECOND).1, "of another page");
}

#[test]
fn nothing_to_choose_from_and_more_victims_than_buffers() {
    assert_eq!(choose(&mut [], 5, Switches::default(), &InOrder, 0).given, 0);
    let mut buffers = [buffer(1, 4), buffer(2, 0)];
    assert_eq!(choose(&mut buffers, 5, Switches::default(), &InOrder, 0).given, 2);
}

#[test]
fn a_page_in_use_that_no_scan_wants_keeps_the_clocks_count() {
    let mut clock = Clock(vec![buffer(300, 1), buffer(5, 4), buffer(50, 4)]);
    clock.steer(0, &InOrder, 0);
    clock.0.iter_mut().find(|buffer| buffer.frame == 300).unwrap().usage = 4;
    clock.steer(0, &InOrder, SECOND);
    assert_eq!(
        clock.0.iter().map(|buffer| (buffer.frame, buffer.usage)).collect::<Vec<_>>(),
        [(5, 2), (50, 2), (300, 4)]
    );
}

#[test]
fn without_statistics_uses_say_nothing() {
    let used = |frequency| {
        let switches = Switches { frequency, ..Switches::default() };
        let mut buffers = [buffer(300, 1)];
        choose(&mut buffers, 0, switches, &InOrder, 0);
        buffers[0].usage = 3;
        choose(&mut buffers, 0, switches, &InOrder, SECOND).by_uses
    };
    assert_eq!([Frequency::Off, Frequency::Max, Frequency::Min, Frequency::Mean].map(used), [0, 1, 1, 1]);
}

#[test]
fn pages_of_which_nothing_is_known_go_first_by_age_or_by_chance() {
    let gone = |fallback, seed: u64| {
        let switches = Switches { fallback, ..Switches::default() };
        let mut buffers: Vec<_> = [10, 300, 301, 302, 303].map(|block| buffer(block, 3)).into();
        for (at, buffer) in buffers.iter_mut().enumerate() {
            // Seen first one second apart, the last the longest ago.
            choose(core::slice::from_mut(buffer), 0, switches, &NoScans, (10 - at as u64) * SECOND);
            buffer.usage -= 1; // the hand passes
        }
        assert_eq!(choose(&mut buffers, 2, switches, &InOrder, 20 * SECOND + seed).given, 2);
        buffers.iter().filter(|buffer| buffer.usage == 0).map(|buffer| buffer.frame).collect::<Vec<_>>()
    };
    assert_eq!(gone(Fallback::Lru, 0), [302, 303]);
    let drawn: std::collections::BTreeSet<_> = (0..50).map(|seed| gone(Fallback::Random, seed)).collect();
    assert!(drawn.len() >= 5 && drawn.iter().flatten().all(|&frame| frame >= 300), "{drawn:?}");
}
