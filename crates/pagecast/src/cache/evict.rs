//! A frame for a page that is to come: a free one, or a victim's.
//!
//! ```text
//!   place(load)
//!      |  pages that a shrink could not take leave, a few
//!      |  full cap? ------------> its own oldest page leaves ----------------------> Owned
//!      |  free frame? ---------------------------------------------------------------> Owned
//!      '- policy.evict(search) -- evictable? claim(frame, page) --> Claimed ----> Owned
//!            |                        | refused: pinned, spared, kept, or dirty
//!            |                        '--> the policy goes on to its next candidate
//!            '- none --> kept pages too? --> look again --> Dirty: wait for a write, or NoFrame:
//!                        once more when no frame is a slab that is too many
//! ```
//!
//! The policy chooses by what it knows of all pages. Beyond that, some pages are passed over as if
//! they were pinned:
//! * Kept pages ([`super::shares`]) stay as long as there is another.
//! * To make room for a page ahead, no page leaves that a scan wants, be it later. Whoever is
//!   wanted last could leave without harm if estimates were exact and all frames were looked at;
//!   with samples, letting pages go that are wanted later than the page ahead read 12 to 27 % more
//!   bytes in a pool that everybody competes for.
//! * A flagged page ([`super::ahead`]) that a scan awaits ([`is_awaited`]) stays as long as there
//!   is another.
//!
//! Cost: the policy's. An eviction for a page ahead asks for at most [`MAX_REFUSALS`] estimates of
//! its own; while there are flagged pages, other evictions ask for one per flagged candidate.

use std::cell::{Cell, RefCell};

use pagecast_core::oracle::{Oracle, Question};
use pagecast_core::policy::{Access, Claimed, Frames, Refusal, is_awaited};
use pagecast_core::sync::atomic::AtomicU64;
use pagecast_core::{FrameId, PageId};

use super::free::SHED_PER_MISS;
use super::load::Loading;
use super::write_back::MAX_MET;
use super::{Cache, Left};
use crate::processor_cache::prefetch;
use crate::stats::Counter;
use crate::token::Owned;

/// How many candidates an eviction for a page ahead may turn down before it finds nothing.
const MAX_REFUSALS: u32 = 32;

/// How often an eviction looks again when frames that it found held are free by the time it gives
/// up.
const LOOKS: u32 = 8;

/// What became of the search for a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placement {
    /// The load has its frame.
    Placed,
    /// There is one as soon as a dirty page is written; see [`Cache::take_wanted`].
    Dirty,
    /// There is none.
    NoFrame,
}

impl Cache {
    /// Finds a frame for `loading`: a free one, or one that the policy gives up.
    pub(crate) fn place(&self, loading: &mut Loading, oracle: &dyn Oracle) -> Placement {
        match self.frame(loading.access(), oracle) {
            Ok(owned) => {
                loading.place(owned);
                Placement::Placed
            }
            Err(refusal) => refusal,
        }
    }

    /// A frame for the page of `incoming`, or what keeps one from being had.
    pub(super) fn frame(&self, incoming: &Access, oracle: &dyn Oracle) -> Result<Owned, Placement> {
        if self.free.is_draining() {
            self.shed(SHED_PER_MISS, incoming, oracle);
        }
        let ready = self.take_capped(incoming).or_else(|| self.free.take()).or_else(|| self.slab_in_use());
        match ready.map_or_else(|| self.evict_and_lend(incoming, oracle), Ok) {
            Err(Placement::NoFrame) if self.tuples.is_some() => self.frame_after_shrink(incoming, oracle),
            found => found,
        }
    }

    /// A frame once the tuples have theirs: after a shrink, slabs may have nearly all that are left
    /// until whoever sees it has taken some away.
    fn frame_after_shrink(&self, incoming: &Access, oracle: &dyn Oracle) -> Result<Owned, Placement> {
        self.settle_slabs();
        self.free.take().map_or_else(|| self.evict(incoming, oracle), Ok)
    }

    /// The frame of a slab, if there are more of them than there are to be.
    fn slab_in_use(&self) -> Option<Owned> {
        self.free.exchange(self.take_slab()?, &self.memory)
    }

    /// A victim, and another one for the tuples if they are to have more frames.
    fn evict_and_lend(&self, incoming: &Access, oracle: &dyn Oracle) -> Result<Owned, Placement> {
        // Each turn but the last retires a frame that is too many.
        let victim = loop {
            if let Some(owned) = self.free.exchange(self.evict(incoming, oracle)?, &self.memory) {
                break owned;
            }
        };
        self.lend(|| self.free.take().or_else(|| self.evict(incoming, oracle).ok()));
        Ok(victim)
    }

    /// A victim for a page that somebody waits for.
    pub(super) fn evict(&self, incoming: &Access, oracle: &dyn Oracle) -> Result<Owned, Placement> {
        if self.ahead() > 0 {
            let search = Search::new(self, incoming, oracle, Spares::Awaited);
            let victim = search.run();
            if victim.is_ok() || search.refused.get() == 0 {
                return victim;
            }
        }
        Search::new(self, incoming, oracle, Spares::Nothing).run()
    }

    /// A victim for a page that nobody waits for: one that no scan wants.
    pub(super) fn evict_unwanted(&self, incoming: &Access, oracle: &dyn Oracle) -> Option<Owned> {
        Search::new(self, incoming, oracle, Spares::AllWanted).run().ok()
    }
}

/// Which pages an eviction leaves where they are, beside kept ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spares {
    Nothing,
    /// Those brought ahead that a scan still wants.
    Awaited,
    /// All that a scan wants, for a page that nobody waits for.
    AllWanted,
}

/// The search for one victim, and the frames as the policy sees them meanwhile.
struct Search<'a> {
    cache: &'a Cache,
    incoming: &'a Access,
    oracle: &'a dyn Oracle,
    spares: Spares,
    /// Candidates that were spared.
    refused: Cell<u32>,
    /// Whether kept pages are passed over, and whether one was.
    spares_kept: Cell<bool>,
    passed_kept: Cell<bool>,
    /// What is known of the page that was claimed, if there are tuples.
    left: Cell<Option<Left>>,
    /// The page that was claimed last.
    victim: Cell<Option<PageId>>,
    /// Pages that cannot leave before they are written.
    met_dirty: RefCell<Vec<(PageId, u32)>>,
}

impl<'a> Search<'a> {
    fn new(cache: &'a Cache, incoming: &'a Access, oracle: &'a dyn Oracle, spares: Spares) -> Self {
        Self {
            cache,
            incoming,
            oracle,
            spares,
            refused: Cell::new(0),
            spares_kept: Cell::new(cache.reserves.are_set()),
            passed_kept: Cell::new(false),
            left: Cell::new(None),
            victim: Cell::new(None),
            met_dirty: RefCell::new(Vec::new()),
        }
    }

    /// A victim, or what keeps one from being had.
    fn run(&self) -> Result<Owned, Placement> {
        let victim = self.find();
        let met = self.met_dirty.take();
        if !met.is_empty() {
            self.cache.want_clean(&met);
        }
        victim
    }

    fn find(&self) -> Result<Owned, Placement> {
        let cache = self.cache;
        let mut looks = 0;
        loop {
            if let Some(claimed) = cache.policy.evict(self, self.incoming, self.oracle) {
                let victim = cache.headers[claimed.frame().index()].take_back(claimed);
                cache.statistics.add(Counter::Evictions, 1);
                self.offer(&victim);
                if let Some(left) = self.left.take() {
                    cache.dissolve(&victim, &left, self.incoming.at, self.oracle);
                }
                return Ok(victim);
            } else if !self.take_kept_next() {
                match self.why_none() {
                    Some(refusal) => return Err(refusal),
                    None if looks == LOOKS => return Err(Placement::NoFrame),
                    None => looks += 1,
                }
            }
        }
    }

    /// Offers the page that has left its frame to the tier on flash. Its bytes are in the frame
    /// still, and are those of storage: a page that is not cannot be claimed.
    fn offer(&self, victim: &Owned) {
        let Some((flash, page)) = self.cache.flash.get().zip(self.victim.take()) else { return };
        let len = self.cache.headers[victim.index() as usize].len() as usize;
        flash.offer(page, &self.cache.memory.read_owned(victim)[..len], self.incoming.at, self.oracle);
    }

    /// Why the policy found nothing; `None` if by now there is something to be found. It meets no
    /// page that is being written: when a checkpoint has all of a small pool under way, that is
    /// what there is to wait for, and when it has just ended, there are victims again.
    fn why_none(&self) -> Option<Placement> {
        if !self.met_dirty.borrow().is_empty() || self.cache.is_writing() {
            return Some(Placement::Dirty);
        }
        let found = (0..self.count()).any(|index| self.evictable(FrameId(index)).is_some());
        (!found).then_some(Placement::NoFrame)
    }

    /// From now on kept pages are claimed, too. False if that changes nothing, or if the eviction
    /// is for a page that nobody waits for.
    fn take_kept_next(&self) -> bool {
        self.spares_kept.set(false);
        self.passed_kept.replace(false) && self.spares != Spares::AllWanted
    }

    fn passes_over(&self, page: PageId) -> bool {
        let passes = self.spares_kept.get() && self.cache.reserves.spare(page);
        self.passed_kept.set(self.passed_kept.get() | passes);
        passes
    }

    /// Whether the frame may not be taken from `page`.
    fn spares(&self, frame: FrameId, page: PageId) -> bool {
        let wanted = || self.oracle.next_access(Question::new(page, self.incoming.at)).is_some();
        let spares = match self.spares {
            Spares::Nothing => false,
            Spares::Awaited => {
                let flagged = self.cache.headers[frame.index()].is_flagged();
                is_awaited(flagged, page, self.incoming.at, self.oracle)
            }
            Spares::AllWanted => self.is_exhausted() || wanted(),
        };
        self.refused.set(self.refused.get().saturating_add(spares.into()));
        spares
    }

    /// Whether enough was turned down to stop looking.
    fn is_exhausted(&self) -> bool {
        self.spares == Spares::AllWanted && self.refused.get() >= MAX_REFUSALS
    }
}

impl Frames for Search<'_> {
    fn count(&self) -> u32 {
        self.cache.count()
    }

    fn page_frames(&self) -> u32 {
        self.cache.page_frames()
    }

    fn word(&self, frame: FrameId) -> &AtomicU64 {
        self.cache.word(frame)
    }

    fn evictable(&self, frame: FrameId) -> Option<PageId> {
        if self.is_exhausted() {
            return None;
        }
        self.cache.evictable(frame).filter(|&page| !self.passes_over(page))
    }

    fn page(&self, frame: FrameId) -> Option<PageId> {
        self.cache.page(frame)
    }

    fn prefetch(&self, address: usize) {
        self.cache.prefetch(address);
    }

    fn claim(&self, frame: FrameId, page: PageId) -> Result<Claimed, Refusal> {
        if self.passes_over(page) || self.spares(frame, page) {
            return Err(Refusal::Pinned);
        }
        let claimed = self.cache.take_noting(frame.0, page).map(|(owned, left)| {
            self.left.set(left);
            self.victim.set(Some(page));
            owned.into_claimed()
        });
        if claimed == Err(Refusal::Dirty) {
            let mut met = self.met_dirty.borrow_mut();
            if met.len() < MAX_MET {
                met.push((page, frame.0));
            }
        }
        claimed
    }
}

/// The frames as the policy sees them.
impl Frames for Cache {
    fn count(&self) -> u32 {
        self.free.span()
    }

    fn page_frames(&self) -> u32 {
        Self::page_frames(self)
    }

    fn word(&self, frame: FrameId) -> &AtomicU64 {
        &self.headers[frame.index()].word
    }

    fn evictable(&self, frame: FrameId) -> Option<PageId> {
        self.headers.get(frame.index())?.evictable()
    }

    fn page(&self, frame: FrameId) -> Option<PageId> {
        self.headers.get(frame.index())?.tagged()
    }

    fn prefetch(&self, address: usize) {
        prefetch(address);
    }

    fn claim(&self, frame: FrameId, page: PageId) -> Result<Claimed, Refusal> {
        self.take_from(frame.0, page).map(Owned::into_claimed)
    }
}
