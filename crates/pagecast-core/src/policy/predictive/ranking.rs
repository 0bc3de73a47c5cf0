//! Who leaves a pool: what is remembered of its pages, and the choice among them by one of the two estimates.
//!
//! The pool and its shadows ([`super::shadow`]) run this same code.

use super::candidates::{Candidate, Kept, NEVER, RANKED, Ranked};
use super::ghosts::Ghosts;
use super::history::{History, PACKED_BITS};
use super::regions::Regions;
use super::reuse::ReuseTable;
use super::steadfast::{Front, Steadfast};
use crate::policy::sampling::{DRAWS_PER_SAMPLE, MAX_SAMPLES, claim_any, evenly};
use crate::policy::{Access, Claimed, Frames};
use crate::random::Random;
use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};
use crate::{
    FrameId, PageId, Tick,
    oracle::{Oracle, Question},
};
use alloc::vec::Vec;
use core::cell::Cell;

/// Beside a page's packed history: it is hot ([`super::steadfast`]), also as a ghost, and it is one of the shadows' pages.
const HOT: u32 = 1 << PACKED_BITS;
pub(super) const SHADOWED: u32 = HOT << 1;
/// A page that neither scans nor history speak for costs its age times this: more than any that a scan wants, and the longest
/// unused goes first. A power of two, so that no two ages become one cost.
const UNWANTED: f32 = (1u128 << 66) as f32;
/// And one that scans may want at any moment, who cannot say which first, its age times this.
const AT_ONCE: f32 = 1e-6;

/// One sample in so many is drawn where pages of points alone are met. What is known of these is too rough for more looks to find much: 200
/// for 20 gain 0.2 points of hit rate. But when a scan comes to a page is known well, and the last one is worth looking for.
const OF_POINTS: u32 = 3;

/// What pages without a registered future are ranked by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Estimate {
    /// [`super::reuse`].
    Learned,
    /// [`super::steadfast`].
    Steadfast,
}

/// What a choice is made by.
#[derive(Clone, Copy)]
pub(super) struct Judge<'a> {
    pub(super) reuse: &'a ReuseTable,
    /// What orders pages that only scans have read; none are shown to a shadow.
    pub(super) regions: Option<&'a Regions>,
    pub(super) oracle: &'a dyn Oracle,
    pub(super) estimate: Estimate,
    pub(super) samples: u32,
}

/// A use outside scans: what was known of the page before, and how long ago it was used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reuse {
    pub(super) history: History,
    pub(super) age: u64,
}

/// What an eviction knows of the hot pages, and what it sees on its way.
struct Seen {
    front: Front,
    /// Whether it drew a page that scans want, or that they alone have read.
    by_scans: Cell<bool>,
    /// When the oldest hot page was used last, and its frame.
    oldest_hot: Cell<(Tick, Option<FrameId>)>,
}

/// What an eviction goes by.
struct Look<'a> {
    frames: &'a dyn Frames,
    at: Tick,
    judge: Judge<'a>,
    seen: &'a Seen,
}

impl Look<'_> {
    /// Ticks since `last`, 1 at least.
    #[inline]
    fn age(&self, last: Tick) -> f32 {
        self.at.saturating_sub(last).max(1) as f32
    }

    /// The cost of a page, last used at `last`, that no scan wants: what history says of it, or, if that is nothing, what orders such pages.
    #[inline]
    fn unless_wanted(&self, by_history: f32, page: PageId, last: Tick) -> f32 {
        if by_history < f32::INFINITY {
            return by_history;
        }
        let age = self.age(last);
        UNWANTED * self.judge.regions.map_or(age, |regions| regions.expected(page, age, self.at))
    }
}

/// The cost of a page of this `age` that scans want in `ticks`, if history says `cost`.
#[inline]
fn wanted(cost: f32, ticks: Tick, age: f32) -> f32 {
    cost.min(f32::max(ticks as f32, AT_ONCE * age))
}

/// What is remembered of the pages in some frames, and of those that left.
///
/// Invariant (I1): a resident page's word holds the time of its last use outside scans, or of its last use if scans
/// alone have used it, and `histories` its history.
#[derive(Debug)]
pub(super) struct Ranking {
    pub(super) ghosts: Ghosts,
    kept: Kept,
    /// Draws so far along the even sequence.
    drawn: AtomicU32,
    steadfast: Steadfast,
    /// By frame, packed.
    histories: Vec<AtomicU32>,
}

impl Ranking {
    /// For `frames` frames, which are looked at from place `start` of the even sequence on.
    pub(super) fn new(frames: u32, start: u32) -> Self {
        Self {
            ghosts: Ghosts::new(frames),
            kept: Kept::new(),
            drawn: AtomicU32::new(start),
            steadfast: Steadfast::new(frames),
            histories: (0..frames).map(|_| AtomicU32::new(History::Scanned.pack())).collect(),
        }
    }

    pub(super) fn resize(&self, frames: u32) {
        self.ghosts.resize(frames);
        self.steadfast.resize(frames);
    }

    #[inline]
    fn packed(&self, frame: FrameId) -> u32 {
        self.histories[frame.index()].load(Relaxed)
    }

    pub(super) fn history(&self, frame: FrameId) -> History {
        History::unpack(self.packed(frame))
    }

    #[inline]
    fn is_hot(&self, packed: u32, last: Tick) -> bool {
        packed & HOT != 0 || History::unpack(packed) != History::Scanned && self.steadfast.was_there(last)
    }

    /// From now on the steadfast estimate rules, which did not before.
    pub(super) fn settle(&self, at: Tick) {
        self.steadfast.settle(at);
    }

    /// The page of `access`, which no scan makes, is in `frame` and used; also whether it is one of the shadows' pages.
    #[inline]
    pub(super) fn used(&self, frames: &dyn Frames, frame: FrameId, at: Tick) -> (Reuse, bool) {
        let (word, packed) = (frames.word(frame), self.packed(frame));
        let (last, history) = (word.load(Relaxed), History::unpack(packed));
        let age = at.saturating_sub(last);
        word.store(at, Relaxed);
        let hot = self.is_hot(packed, last) || history != History::Scanned && self.steadfast.is_hot_after(last);
        let flags = packed & SHADOWED | if hot { HOT } else { 0 };
        self.histories[frame.index()].store(history.used_after(age).pack() | flags, Relaxed);
        (Reuse { history, age }, packed & SHADOWED != 0)
    }

    /// A scan read the page in `frame`.
    #[inline]
    pub(super) fn scanned(&self, frames: &dyn Frames, frame: FrameId, at: Tick) {
        if self.history(frame) == History::Scanned {
            frames.word(frame).store(at, Relaxed);
        }
    }

    /// The page of `access` came into `frame`; with `flags` beside its history. If it had been used before, how.
    pub(super) fn admitted(&self, frames: &dyn Frames, frame: FrameId, access: &Access, flags: u32) -> Option<Reuse> {
        let ghost = self.ghosts.take(access.page);
        let mut reuse = None;
        let (history, last, hot) = match (ghost, access.scan) {
            (Some((packed, last)), Some(_)) => (History::unpack(packed), last, packed & HOT != 0),
            (Some((packed, last)), None) => {
                let (history, age) = (History::unpack(packed), access.at.saturating_sub(last));
                reuse = Some(Reuse { history, age });
                // The learned estimate may have given up a hot page, which is as hot when it comes back.
                let hot = packed & HOT != 0 || self.steadfast.is_hot_after(last);
                (history.used_after(age), access.at, hot)
            }
            (None, Some(_)) => (History::Scanned, access.at, false),
            (None, None) => (History::Once, access.at, self.steadfast.has_room()),
        };
        frames.word(frame).store(last, Relaxed);
        self.histories[frame.index()].store(history.pack() | flags | if hot { HOT } else { 0 }, Relaxed);
        self.kept.came_in(frame);
        self.steadfast.came_in(frame, access.page, access.at);
        reuse
    }

    /// Claims a victim.
    pub(super) fn evict(
        &self,
        frames: &dyn Frames,
        incoming: &Access,
        judge: Judge,
        random: &mut Random,
    ) -> Option<Claimed> {
        let front =
            self.steadfast.front(frames, |frame| self.is_hot(self.packed(frame), frames.word(frame).load(Relaxed)));
        let seen = Seen { front, by_scans: Cell::new(false), oldest_hot: Cell::new((Tick::MAX, None)) };
        let look = Look { frames, at: incoming.at, judge, seen: &seen };
        let mut places = [Candidate::BLANK; RANKED];
        let mut ranked = Ranked::new(&mut places);
        self.look(&look, &mut ranked);
        // Before it may be the victim, whose ghost must not be hot.
        if let (None, (last, Some(frame))) = (front.cold, seen.oldest_hot.get()) {
            self.histories[frame.index()].fetch_and(!HOT, Relaxed);
            self.steadfast.demoted(last);
        }
        let mut victim = None;
        while victim.is_none() {
            let Some(candidate) = ranked.pop() else { break };
            let Candidate { frame, page, .. } = candidate;
            if candidate.fresh {
                victim = self.claim(frames, frame, page);
            } else if frames.evictable(frame) == Some(page) {
                ranked.put(self.judge(&look, frame, page, 0.0));
            }
        }
        self.kept.keep(&ranked, victim.as_ref().map(Claimed::frame));
        victim.or_else(|| claim_any(frames, random))
    }

    /// What history says that it costs to hold on to the page in `frame`, used at `last`; infinite if it says nothing.
    #[inline]
    fn by_history(&self, look: &Look, frame: FrameId, packed: u32, last: Tick) -> f32 {
        let (history, is_hot) = (History::unpack(packed), self.is_hot(packed, last));
        if is_hot && last < look.seen.oldest_hot.get().0 {
            look.seen.oldest_hot.set((last, Some(frame)));
        }
        if look.judge.estimate == Estimate::Learned || history == History::Scanned {
            look.judge.reuse.cost(history, look.at.saturating_sub(last))
        } else {
            Steadfast::cost(&look.seen.front, frame, is_hot, last, look.at)
        }
    }

    /// The candidate that `frame` is. The oracle need not be exact about one that costs no more than `bar`.
    #[inline]
    fn judge(&self, look: &Look, frame: FrameId, page: PageId, bar: f32) -> Candidate {
        let (packed, last) = (self.packed(frame), look.frames.word(frame).load(Relaxed));
        let by_history = self.by_history(look, frame, packed, last);
        let mut candidate = Candidate { frame, page, cost: by_history, wanted_at: NEVER, last, fresh: true };
        // What nobody wants is above any bar of pages that somebody does, and how far matters once nobody does.
        if bar >= UNWANTED {
            candidate.cost = look.unless_wanted(by_history, page, last);
        }
        if History::unpack(packed) == History::Scanned {
            look.seen.by_scans.set(true);
        }
        if candidate.cost > bar {
            match look.judge.oracle.next_access(Question {
                page,
                now: look.at,
                last_use: Some(last),
                above: Some(bar as Tick),
            }) {
                Some(ticks) => {
                    candidate.cost = wanted(by_history, ticks, look.age(last));
                    candidate.wanted_at = look.at.saturating_add(ticks);
                    look.seen.by_scans.set(true);
                }
                None => candidate.cost = look.unless_wanted(candidate.cost, page, last),
            }
        }
        candidate
    }

    /// A candidate that an earlier eviction kept, as far as can be told without the oracle.
    fn judge_again(&self, look: &Look, kept: Candidate) -> Candidate {
        let packed = self.packed(kept.frame);
        let only_scanned = History::unpack(packed) == History::Scanned;
        let last = if only_scanned { kept.last } else { look.frames.word(kept.frame).load(Relaxed) };
        let by_history = self.by_history(look, kept.frame, packed, last);
        let cost = match kept.wanted_at {
            NEVER => look.unless_wanted(by_history, kept.page, last),
            wanted_at => wanted(by_history, wanted_at.saturating_sub(look.at), look.age(last)),
        };
        Candidate { cost, ..kept }
    }

    /// Ranks the candidates of an eviction: what was kept, the arrivals, and frames drawn evenly.
    fn look(&self, look: &Look, ranked: &mut Ranked<'_>) {
        let count = look.frames.count();
        for kept in self.kept.take().filter(|kept| kept.frame.0 < count) {
            ranked.put(self.judge_again(look, kept));
        }
        let mut rank = |frame: FrameId| {
            let Some(page) = look.frames.evictable(frame) else { return false };
            ranked.put(self.judge(look, frame, page, ranked.bar(RANKED)));
            true
        };
        // What scans alone have read is the oracle's to judge, and what came in last no more than the rest of it.
        let arrivals = look.seen.front.cold.into_iter().chain(self.kept.latest());
        let used = |frame: &FrameId| frame.0 < count && self.history(*frame) != History::Scanned;
        arrivals.filter(used).for_each(|frame| _ = rank(frame));
        let samples = look.judge.samples.min(count.max(MAX_SAMPLES));
        // Who asks for all is to have all.
        let few = if samples < count { samples.div_ceil(OF_POINTS) } else { samples };
        self.draw(few, count, &mut rank);
        if look.seen.by_scans.get() {
            self.draw(samples - few, count, &mut rank);
        }
    }

    /// Ranks so many of `count` frames, the next of the even sequence.
    fn draw(&self, samples: u32, count: u32, rank: &mut impl FnMut(FrameId) -> bool) {
        let drawn = self.drawn.fetch_add(samples, Relaxed);
        let mut ranked = 0;
        for draw in 0..samples * DRAWS_PER_SAMPLE {
            if ranked == samples {
                break;
            }
            ranked += u32::from(rank(evenly(drawn.wrapping_add(draw), count)));
        }
    }

    /// Claims `frame` and remembers the page that was in it, if somebody had used it.
    fn claim(&self, frames: &dyn Frames, frame: FrameId, page: PageId) -> Option<Claimed> {
        let (packed, last) = (self.packed(frame), frames.word(frame).load(Relaxed));
        let victim = frames.claim(frame, page).ok()?;
        if History::unpack(packed) != History::Scanned {
            self.ghosts.insert(page, packed, last);
        }
        Some(victim)
    }
}
