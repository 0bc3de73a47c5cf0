//! Who leaves a pool: what is remembered of its pages, and the choice among them by one of the two estimates.
//!
//! The pool and its shadows ([`super::shadow`]) run this same code.

use super::candidates::{Candidate, Kept, Ranked};
use super::ghosts::Ghosts;
use super::history::History;
use super::reuse::ReuseTable;
use super::steadfast::{Front, Steadfast};
use crate::policy::sampling::{DRAWS_PER_SAMPLE, claim_any};
use crate::policy::{Access, Claim, Frames};
use crate::random::Random;
use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};
use crate::{FrameId, PageId, Tick, oracle::Oracle};
use alloc::vec::Vec;
use core::cell::Cell;

/// Beside a page's packed history: it is hot ([`super::steadfast`]), and it is one of the shadows' pages.
const HOT: u32 = 1 << 31;
pub(super) const SHADOWED: u32 = 1 << 30;

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

/// What an eviction knows and sees of the hot pages on its way.
struct Seen {
    front: Front,
    /// When the oldest hot page was used last, and its frame.
    oldest_hot: Cell<(Tick, Option<FrameId>)>,
}

/// What is remembered of the pages in some frames, and of those that left.
///
/// Invariant (I1): a resident page's word holds the time of its last use outside scans, or of its coming in if there
/// was none, and `histories` its history.
#[derive(Debug)]
pub(super) struct Ranking {
    pub(super) ghosts: Ghosts,
    kept: Kept,
    steadfast: Steadfast,
    /// By frame, packed.
    histories: Vec<AtomicU32>,
}

impl Ranking {
    pub(super) fn new(frames: u32) -> Self {
        Self {
            ghosts: Ghosts::new(frames),
            kept: Kept::new(),
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

    fn is_hot(&self, frame: FrameId) -> bool {
        self.packed(frame) & HOT != 0
    }

    /// The page of `access`, which no scan makes, is in `frame` and used; also whether it is one of the shadows' pages.
    #[inline]
    pub(super) fn used(&self, frames: &dyn Frames, frame: FrameId, at: Tick) -> (Reuse, bool) {
        let (word, packed) = (frames.word(frame), self.packed(frame));
        let (last, history) = (word.load(Relaxed), History::unpack(packed));
        let age = at.saturating_sub(last);
        word.store(at, Relaxed);
        let hot = packed & HOT != 0 || history != History::Scanned && self.steadfast.is_hot_after(last);
        let flags = packed & SHADOWED | if hot { HOT } else { 0 };
        self.histories[frame.index()].store(history.used_after(age).pack() | flags, Relaxed);
        (Reuse { history, age }, packed & SHADOWED != 0)
    }

    /// The page of `access` came into `frame`; with `flags` beside its history. If it had been used before, how.
    pub(super) fn admitted(&self, frames: &dyn Frames, frame: FrameId, access: &Access, flags: u32) -> Option<Reuse> {
        let ghost = self.ghosts.take(access.page);
        let mut reuse = None;
        let (history, last, hot) = match (ghost, access.scan) {
            (Some((history, last)), Some(_)) => (history, last, false),
            (Some((history, last)), None) => {
                let age = access.at.saturating_sub(last);
                reuse = Some(Reuse { history, age });
                (history.used_after(age), access.at, self.steadfast.is_hot_after(last))
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
    ) -> Option<FrameId> {
        let front = self.steadfast.front(frames, |frame| self.is_hot(frame));
        let seen = Seen { front, oldest_hot: Cell::new((Tick::MAX, None)) };
        let cost = |frame, page| self.cost(frames, frame, page, incoming.at, judge, &seen);
        let mut ranked = Ranked::new();
        let mut victim = self.look(frames, random, judge.samples, front.cold, &mut ranked, cost);
        while victim.is_none() {
            let Some(Candidate { frame, page, .. }) = ranked.take_worst() else { break };
            victim = self.claim(frames, frame, page);
        }
        if let (None, (last, Some(frame))) = (front.cold, seen.oldest_hot.get()) {
            self.histories[frame.index()].fetch_and(!HOT, Relaxed);
            self.steadfast.demoted(last);
        }
        self.kept.keep(&ranked, victim);
        victim.or_else(|| claim_any(frames, random))
    }

    /// Ticks for which a frame is held per use if it holds this page on.
    #[inline]
    fn cost(&self, frames: &dyn Frames, frame: FrameId, page: PageId, at: Tick, judge: Judge, seen: &Seen) -> f32 {
        let (packed, last) = (self.packed(frame), frames.word(frame).load(Relaxed));
        let (history, is_hot) = (History::unpack(packed), packed & HOT != 0);
        if is_hot && last < seen.oldest_hot.get().0 {
            seen.oldest_hot.set((last, Some(frame)));
        }
        let by_history = if judge.estimate == Estimate::Learned || history == History::Scanned {
            judge.reuse.cost(history, at.saturating_sub(last))
        } else {
            Steadfast::cost(&seen.front, frame, is_hot, last, at)
        };
        judge.oracle.next_access(page, at).map_or(by_history, |wanted_in| by_history.min(wanted_in as f32))
    }

    /// Fills `ranked` with candidates, unless a page is met that nothing speaks for and it could be claimed.
    fn look(
        &self,
        frames: &dyn Frames,
        random: &mut Random,
        samples: u32,
        front: Option<FrameId>,
        ranked: &mut Ranked,
        cost: impl Fn(FrameId, PageId) -> f32,
    ) -> Option<FrameId> {
        let count = frames.count();
        let worthless = |ranked: &mut Ranked, frame: FrameId, page: PageId| {
            let cost = cost(frame, page);
            if cost < f32::INFINITY {
                ranked.put(Candidate { frame, page, cost });
                return None;
            }
            self.claim(frames, frame, page)
        };
        for frame in front.into_iter().chain(self.kept.take()).filter(|frame| frame.0 < count) {
            if let Some(page) = frames.evictable(frame)
                && let Some(frame) = worthless(ranked, frame, page)
            {
                return Some(frame);
            }
        }
        let mut drawn = 0;
        for _ in 0..samples * DRAWS_PER_SAMPLE {
            if drawn == samples {
                break;
            }
            let frame = FrameId(random.below(count));
            let Some(page) = frames.evictable(frame) else { continue };
            drawn += 1;
            if let Some(frame) = worthless(ranked, frame, page) {
                return Some(frame);
            }
        }
        None
    }

    /// Claims `frame` and remembers the page that was in it, if somebody had used it.
    fn claim(&self, frames: &dyn Frames, frame: FrameId, page: PageId) -> Option<FrameId> {
        let (history, last) = (self.history(frame), frames.word(frame).load(Relaxed));
        if frames.claim(frame, page) != Claim::Taken {
            return None;
        }
        if history != History::Scanned {
            self.ghosts.insert(page, history, last);
        }
        Some(frame)
    }
}
