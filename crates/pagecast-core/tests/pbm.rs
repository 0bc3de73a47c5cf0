//! `pbm` beside naive second versions that look at every frame: without history victim for victim,
//! and with it as long as the pool warms up. What it keeps and draws does what it is for.
#![allow(clippy::unwrap_used)]

#[expect(dead_code, reason = "the model pool does more than is needed here")]
mod policy_pool;
mod sampled_pool;
mod seeded;

use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::policy::{
    ALL, Access, ConcurrentPolicy, PolicySpec, Predictive, PublishedOptions, PublishedSampling,
};
use pagecast_core::{FrameId, PageId, Tick};
use policy_pool::{ModelPool, Slots};
use proptest::prelude::*;
use sampled_pool::{ByNumber, Fourths, INCOMING, full, traces};
use std::cell::Cell;
use std::collections::VecDeque;

struct Page {
    id: u64,
    came: Tick,
    last: Tick,
    hot: bool,
}

/// What may go, the first of the greatest: kind, then time.
type Rank = (u32, u64);

/// All pages in a vector, each ranked anew at each miss.
struct Naive<O> {
    pages: Vec<Page>,
    frames: usize,
    oracle: O,
    now: Tick,
    /// LIRS' rule for pages that no scan wants; else the least recently used goes.
    first_stays: bool,
    /// The last use of the oldest hot page when one lost its rank, of those that left when, and the
    /// queue.
    bottom: Tick,
    left: Vec<(u64, Tick)>,
    queue: VecDeque<u64>,
    full: bool,
}

impl<O: Oracle> Naive<O> {
    fn new(frames: u32, first_stays: bool, oracle: O) -> Self {
        let (pages, left, queue) = (vec![], vec![], VecDeque::new());
        Self { pages, frames: frames as usize, oracle, now: 0, first_stays, bottom: 0, left, queue, full: false }
    }

    fn front(&self) -> Option<&Page> {
        self.pages.iter().find(|page| Some(&page.id) == self.queue.front())
    }

    fn rank(&self, page: &Page) -> Rank {
        let unused = (self.now - page.last).max(1);
        let is_front = self.front().is_some_and(|front| front.id == page.id);
        let by_history = match self.first_stays {
            false => (2, unused),
            true if is_front && !page.hot => (3, u64::MAX),
            true if page.hot => (1, unused),
            true if self.front().is_some_and(|front| page.last < front.came) => (3, unused),
            true => (0, 0),
        };
        match self.oracle.next_access(Question::new(PageId::from_raw(page.id), self.now)) {
            Some(0) => by_history.min((0, unused)),
            Some(ticks) => by_history.min((1, ticks)),
            None => by_history,
        }
    }

    /// Requests a page, for which `left` went.
    fn request(&mut self, id: u64, left: Option<u64>) -> Result<(), TestCaseError> {
        if let Some(page) = self.pages.iter_mut().find(|page| page.id == id) {
            prop_assert_eq!(left, None);
            page.hot |= page.last >= self.bottom;
            page.last = self.now;
        } else {
            prop_assert_eq!(left.is_some(), self.pages.len() == self.frames);
            if let Some(left) = left {
                self.leave(left)?;
            }
            let before = self.left.iter().position(|(other, _)| *other == id).map(|at| self.left.remove(at).1);
            let hot = before.map_or(!self.full, |last| last >= self.bottom);
            self.pages.push(Page { id, came: self.now, last: self.now, hot });
            // One frame in a hundred, and one at least, is the queue's.
            self.queue.push_back(id);
            if self.queue.len() > 1 {
                self.queue.pop_front();
            }
        }
        self.now += 1;
        Ok(())
    }

    fn leave(&mut self, left: u64) -> Result<(), TestCaseError> {
        self.full = true;
        let place = self.pages.iter().position(|page| page.id == left).unwrap();
        let rank = self.rank(&self.pages[place]);
        let first = self.pages.iter().map(|page| self.rank(page)).max().unwrap();
        prop_assert_eq!(rank, first, "{} leaves", left);
        if self.front().is_none_or(|front| front.hot)
            && let Some(oldest) = self.pages.iter_mut().filter(|page| page.hot).min_by_key(|page| page.last)
        {
            oldest.hot = false;
            self.bottom = oldest.last;
        }
        let page = self.pages.remove(place);
        self.left.push((page.id, page.last));
        Ok(())
    }
}

/// The requests after which a pool of these frames has warmed up.
fn warm_up(frames: u32) -> usize {
    8 * frames as usize
}

#[test]
fn victims_are_those_of_the_naive_versions() {
    let victims = [Cell::new(0), Cell::new(0)];
    seeded::check(60, &(1..24u32, traces()), |(frames, trace)| {
        for (history, count) in [false, true].into_iter().zip(&victims) {
            let text = if history { "pbm(samples=all)" } else { "pbm(samples=all,history=off)" };
            let mut pool = ModelPool::new(&PolicySpec::parse(text).unwrap(), frames, 1);
            let mut naive = Naive::new(frames, history, Fourths);
            let length = if history { warm_up(frames).min(trace.len()) } else { trace.len() };
            for &page in &trace[..length] {
                pool.request(PageId::from_raw(page), false, &Fourths).unwrap();
                count.set(count.get() + u32::from(pool.evicted.is_some()));
                naive.request(page, pool.evicted.map(PageId::raw))?;
            }
        }
        Ok(())
    });
    println!("victims that were compared, without history and with: {victims:?}");
    assert!(victims.iter().all(|count| count.get() > 1_000), "{victims:?}");
}

/// Agreement means something only if the naive versions differ.
#[test]
fn the_traces_tell_what_came_first_from_what_was_used_last() {
    let differ = Cell::new(0);
    seeded::check(60, &(4..24u32, traces()), |(frames, trace)| {
        let mut pool = ModelPool::new(&PolicySpec::parse("pbm(samples=all)").unwrap(), frames, 1);
        let mut naive = Naive::new(frames, false, Fourths);
        let mut agree = |page: &u64| {
            pool.request(PageId::from_raw(*page), false, &Fourths).unwrap();
            naive.request(*page, pool.evicted.map(PageId::raw)).is_ok()
        };
        differ.set(differ.get() + u32::from(!trace.iter().take(warm_up(frames)).all(&mut agree)));
        Ok(())
    });
    assert!(differ.get() >= 20, "of 60 traces {} tell them apart", differ.get());
}

#[test]
fn without_scans_and_history_it_is_lru() {
    sampled_pool::check_is_lru("pbm(samples=all,history=off)");
}

/// With what is kept a few samples find what only a look at all frames would: the pages that are
/// wanted last leave, the last first, though each eviction draws 8 of 256 frames. Without, more of
/// them stay.
#[test]
fn what_is_kept_makes_few_samples_see_much() {
    let leaves = |policy: &dyn ConcurrentPolicy| {
        let frames = full(256);
        let victim = || policy.evict(&frames, &INCOMING, &ByNumber).unwrap().frame().0;
        // A round of the frames passes before anything leaves that counts.
        (0..32).for_each(|_| _ = victim());
        (0..32).filter(|_| victim() >= 200).count()
    };
    let paper = PublishedSampling::new(256, PublishedOptions { samples: 8, ..PublishedOptions::PAPER }, 1);
    let (with, without) = (leaves(&Predictive::new(256, 8, false, 1)), leaves(&paper));
    assert!(with > 20 && without < 20, "{with} {without}");
}

/// What was kept and is wanted sooner by now stays.
#[test]
fn what_is_kept_is_looked_at_again() {
    struct Turned(Cell<bool>);
    impl Oracle for Turned {
        fn next_access(&self, Question { page, .. }: Question) -> Option<Tick> {
            Some(if self.0.get() { 1000 - page.raw() } else { page.raw() })
        }
    }
    let (policy, frames) = (Predictive::new(64, ALL, false, 1), full(64));
    let oracle = Turned(Cell::new(false));
    let victim = || policy.evict(&frames, &INCOMING, &oracle).unwrap().frame();
    assert_eq!(victim(), FrameId(63));
    // Two samples a choice from now on, both of the middle at best: the order of those that were
    // kept has turned.
    assert!(policy.set_samples(2));
    oracle.0.set(true);
    let victim = victim().0;
    assert!(victim <= 47, "{victim} is wanted first of all that were kept");
}

/// In a round of as many draws as there are frames nearly all come, and in two rounds all.
#[test]
fn draws_in_rounds_leave_out_few_frames() {
    struct Seen(Vec<Cell<u32>>);
    impl Oracle for Seen {
        fn next_access(&self, Question { page, .. }: Question) -> Option<Tick> {
            self.0[page.raw() as usize].set(self.0[page.raw() as usize].get() + 1);
            Some(page.raw() + 1)
        }
    }
    for frames in [100, 1000, 4097] {
        let (policy, slots) = (Predictive::new(frames, 10, false, 3), full(frames));
        let seen = Seen(vec![Cell::new(0); frames as usize]);
        for _ in 0..(2 * frames).div_ceil(10) {
            let victim = policy.evict(&slots, &INCOMING, &seen).unwrap().frame();
            slots.fill(victim, PageId::from_raw(victim.0.into()));
        }
        let seen: Vec<u32> = seen.0.iter().map(Cell::get).collect();
        assert!(seen.iter().all(|&times| times >= 1), "{frames} frames: {seen:?}");
        // Beside the draws an eviction looks at what it kept and may give up.
        assert!(seen.iter().sum::<u32>() <= 3 * frames, "{frames} frames: {seen:?}");
    }
}

/// A page that neither scans nor history expect goes before all others, also before one that was
/// tried while nothing is known of uses. However long ago, and however far away, no time of one
/// kind reaches the next kind.
#[test]
fn what_nobody_wants_goes_first_then_what_was_tried_then_what_is_wanted() {
    struct FarAway;
    impl Oracle for FarAway {
        fn next_access(&self, Question { page, .. }: Question) -> Option<Tick> {
            (page.raw() == 4).then_some(Tick::MAX)
        }
    }
    let (policy, frames) = (Predictive::new(5, ALL, true, 1), Slots::new(5));
    let access = |page, by_scan: bool, at| {
        let scan = by_scan.then_some(pagecast_core::ScanId::NOBODY);
        Access { page: PageId::from_raw(page), scan, write: false, at }
    };
    let come = |frame, access: Access| {
        frames.fill(frame, access.page);
        policy.admit(&frames, frame, &access);
    };
    // Pages 0 and 1 were left behind by scans, 2 and 3 came first, and a scan wants 4 at the end of
    // all time.
    let first = [(0, true, 10), (1, true, 20), (2, false, 1), (3, false, 2), (4, true, 3)];
    for (page, by_scan, at) in first {
        come(FrameId(page as u32), access(page, by_scan, at));
    }
    let now = 1 << 62;
    let leaves = |at| policy.evict(&frames, &access(99, false, at), &FarAway).unwrap().frame();
    assert_eq!(leaves(now), FrameId(0), "nobody wants it, and it is unused for longer than page 1");
    come(FrameId(0), access(5, false, now));
    assert_eq!(leaves(now + 1), FrameId(1), "nobody wants page 1");
    assert_eq!(leaves(now + 2), FrameId(0), "page 5 was tried, and what is wanted is still there");
}
