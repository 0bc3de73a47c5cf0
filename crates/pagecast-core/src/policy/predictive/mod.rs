//! `pbm`: the page goes that is wanted last, by running scans or by what its history lets expect.
//!
//! Source: Khalaji, Vanderkooy, Guo, Daudjee, "Sampling-based Predictive Database Buffer
//! Management" (PVLDB 18(13), 2025), section 3. Deviations: an eviction keeps its best candidates
//! for the next, and draws frames evenly. With `history=on` a page that no scan wants has the cost
//! that pages of like histories turned out to have ([`learned`]). If a scan wants it too, the
//! smaller counts. The order of pages with neither is that of [`scan_frequency`], without history
//! that of the last use. They go before all others ([`order`]). Uses by registered scans make no
//! history of a page, so history takes nothing from work of scans alone.
//!
//! Suits scans, points, loops and mixes of them. Cost: a hit is one write of the frame's word, with
//! history outside scans two, and a shared one in so many. An eviction looks at `samples` frames,
//! at some that came in last, and at what it kept. Bytes: see `memory`. Concurrency: no lock. A
//! race misjudges a page once, and every victim is settled by its claim.

mod candidates;
mod ghosts;
mod hazard;
mod history;
mod learned;
mod logarithm;
mod order;
mod scan_frequency;
mod warm_up;

use super::parameters::Memory;
use super::sampling::{ALL, MAX_SAMPLES, claim_any, evenly, most_draws};
use super::{Access, Claimed, ConcurrentPolicy, Frames, HitNeed};
use crate::oracle::{Oracle, Question};
use crate::random::{Random, RandomSource};
use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};
use crate::{FrameId, PageId, Tick};
use candidates::{Candidate, Kept, NEVER, RANKED, Ranked};
pub(crate) use ghosts::{Ghosts, WAYS};
pub(crate) use history::History;
use learned::{Learned, View};
use order::Order;

/// Predictive replacement.
///
/// Invariant (I1): without history a resident page's word holds the time of its last use; with it,
/// see `Learned`.
#[derive(Debug)]
pub struct Predictive {
    samples: AtomicU32,
    random: RandomSource,
    /// Draws so far along the even sequence.
    drawn: AtomicU32,
    kept: Kept,
    learned: Option<Learned>,
}

/// An eviction on its way.
struct Search<'a> {
    frames: &'a dyn Frames,
    oracle: &'a dyn Oracle,
    at: Tick,
    learned: Option<View<'a>>,
}

impl Search<'_> {
    /// Ticks since `last`, 1 at least.
    #[inline]
    fn unused(&self, last: Tick) -> f32 {
        self.at.saturating_sub(last).max(1) as f32
    }

    #[inline]
    fn by_history(&self, frame: FrameId, last: Tick) -> Option<Order> {
        self.learned.as_ref()?.by_history(frame, last)
    }

    /// The order of a page that nobody is known to want.
    #[inline]
    fn unexpected(&self, page: PageId, last: Tick) -> Order {
        let unused = self.unused(last);
        match &self.learned {
            Some(view) => view.unexpected(page, unused),
            None => Order::Nobody { expected: unused },
        }
    }

    /// The order of a page that scans want in `ticks`.
    #[inline]
    fn wanted(&self, ticks: Tick, last: Tick, by_history: Option<Order>) -> Order {
        let by_scans = Order::wanted(ticks, self.unused(last));
        by_history.map_or(by_scans, |by_history| by_history.later(by_scans))
    }

    #[inline]
    fn is_of_scans(&self, frame: FrameId) -> bool {
        self.learned.as_ref().is_none_or(|view| view.history(frame) == History::Scanned)
    }

    /// The candidate that `frame` is. It need not be judged exactly if it goes no sooner than
    /// `bar`.
    #[inline]
    fn judge(&self, frame: FrameId, page: PageId, bar: Order) -> Candidate {
        let last = self.frames.word(frame).load(Relaxed);
        let by_history = self.by_history(frame, last);
        let candidate = |order, wanted_at| Candidate { frame, page, order, wanted_at, last, fresh: true };
        // Pages that nobody wants are told apart only where one of them may be enough.
        let unless_wanted =
            by_history.or_else(|| matches!(bar, Order::Nobody { .. }).then(|| self.unexpected(page, last)));
        if let Some(order) = unless_wanted.filter(|&order| order <= bar) {
            return candidate(order, NEVER);
        }
        let question = Question { page, now: self.at, last_use: Some(last), above: Some(bar.ticks()) };
        match self.oracle.next_access(question) {
            Some(ticks) => candidate(self.wanted(ticks, last, by_history), self.at.saturating_add(ticks)),
            None => candidate(unless_wanted.unwrap_or_else(|| self.unexpected(page, last)), NEVER),
        }
    }

    /// A candidate that an earlier eviction kept, as far as can be told without the oracle.
    fn judge_again(&self, kept: Candidate) -> Candidate {
        let Candidate { frame, page, wanted_at, .. } = kept;
        let last = if self.is_of_scans(frame) { kept.last } else { self.frames.word(frame).load(Relaxed) };
        let by_history = self.by_history(frame, last);
        let order = match wanted_at {
            NEVER => by_history.unwrap_or_else(|| self.unexpected(page, last)),
            wanted_at => self.wanted(wanted_at.saturating_sub(self.at), last, by_history),
        };
        Candidate { order, ..kept }
    }
}

impl Predictive {
    /// For a pool of `frames` frames. An eviction draws `samples` of them, by `seed`.
    pub fn new(frames: u32, samples: u32, history: bool, seed: u64) -> Self {
        Self {
            samples: AtomicU32::new(samples.max(1)),
            random: RandomSource::new(seed),
            drawn: AtomicU32::new(Random::new(seed).next() as u32),
            kept: Kept::new(),
            learned: history.then(|| Learned::new(frames)),
        }
    }

    /// The memory that it takes in a pool of `frames` frames.
    pub(super) fn memory(history: bool, frames: u32) -> Memory {
        let own = 4 << 10;
        if history {
            Memory { per_frame: Learned::BYTES_PER_FRAME, apart: own + Learned::bytes_apart(frames) }
        } else {
            Memory { per_frame: 0.0, apart: own }
        }
    }

    /// Ranks the candidates of an eviction: what was kept, the arrivals, and frames drawn evenly.
    fn look(&self, search: &Search, ranked: &mut Ranked<'_>) {
        let count = search.frames.count();
        for kept in self.kept.take().filter(|kept| kept.frame.0 < count) {
            ranked.put(search.judge_again(kept));
        }
        let mut rank = |frame: FrameId| {
            let Some(page) = search.frames.evictable(frame) else { return false };
            ranked.put(search.judge(frame, page, ranked.bar(RANKED)));
            true
        };
        let samples = match self.samples.load(Relaxed) {
            ALL => count,
            samples => samples.min(count.max(MAX_SAMPLES)),
        };
        if let Some(learned) = &search.learned {
            // In a loop the pages to give up are those that came in last. What scans alone have
            // read is the oracle's to judge, and what came in last no more than the rest of it.
            let arrivals = learned.front().into_iter().chain(self.kept.latest());
            let used = |frame: &FrameId| frame.0 < count && learned.history(*frame) != History::Scanned;
            arrivals.filter(used).for_each(|frame| _ = rank(frame));
        }
        self.draw(samples, search.frames, &mut rank);
    }

    /// Ranks so many frames, the next of the even sequence, or all of them.
    fn draw(&self, samples: u32, frames: &dyn Frames, rank: &mut impl FnMut(FrameId) -> bool) {
        let count = frames.count();
        if samples >= count {
            return (0..count).for_each(|frame| _ = rank(FrameId(frame)));
        }
        let first = self.drawn.fetch_add(samples, Relaxed);
        let (mut drawn, mut ranked) = (0, 0);
        while ranked < samples && drawn < most_draws(frames, samples) {
            ranked += u32::from(rank(evenly(first.wrapping_add(drawn), count)));
            drawn += 1;
        }
        // Frames without a page do not count, so that the next eviction looks at others.
        self.drawn.fetch_add(drawn.saturating_sub(samples), Relaxed);
    }

    /// Claims the candidate's frame, and remembers the page that was in it.
    fn claim(&self, frames: &dyn Frames, frame: FrameId, page: PageId) -> Option<Claimed> {
        let learned = self.learned.as_ref();
        let last = frames.word(frame).load(Relaxed);
        let history = learned.map(|learned| (learned, learned.history(frame)));
        let claimed = frames.claim(frame, page).ok()?;
        if let Some((learned, history)) = history {
            learned.evicted(page, history, last);
        }
        Some(claimed)
    }
}

impl ConcurrentPolicy for Predictive {
    fn hit_need(&self) -> HitNeed {
        if self.learned.is_some() { HitNeed::LaterThanWord } else { HitNeed::Time }
    }

    #[inline]
    fn hit(&self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        match &self.learned {
            Some(learned) => learned.used(frames, frame, access),
            None => frames.word(frame).store(access.at, Relaxed),
        }
    }

    #[inline]
    fn evict(&self, frames: &dyn Frames, incoming: &Access, oracle: &dyn Oracle) -> Option<Claimed> {
        let at = incoming.at;
        let learned = self.learned.as_ref().map(|learned| learned.view(frames, at));
        let search = Search { frames, oracle, at, learned };
        let mut places = [Candidate::BLANK; RANKED];
        let mut ranked = Ranked::new(&mut places);
        self.look(&search, &mut ranked);
        search.learned.iter().for_each(View::looked);
        let mut victim = None;
        while victim.is_none() {
            let Some(Candidate { frame, page, fresh, .. }) = ranked.pop() else { break };
            if fresh {
                victim = self.claim(frames, frame, page);
            } else if frames.evictable(frame) == Some(page) {
                ranked.put(search.judge(frame, page, Order::LAST));
            }
        }
        self.kept.keep(&ranked, victim.as_ref().map(Claimed::frame));
        victim.or_else(|| claim_any(frames, &mut self.random.fork()))
    }

    #[inline]
    fn admit(&self, frames: &dyn Frames, frame: FrameId, access: &Access) {
        match &self.learned {
            Some(learned) => {
                learned.admitted(frames, frame, access, &mut self.random.fork());
                self.kept.came_in(frame);
            }
            None => frames.word(frame).store(access.at, Relaxed),
        }
    }

    fn forget(&self, _frames: &dyn Frames, _frame: FrameId, _page: PageId) {}

    fn set_samples(&self, samples: u32) -> bool {
        self.samples.store(samples.max(1), Relaxed);
        true
    }

    fn resize(&self, frames: u32) {
        if let Some(learned) = &self.learned {
            learned.resize(frames);
        }
    }
}
