//! LIRS: pages are ranked by the distance between their last two uses, not by the time since then.
//!
//! Source: Jiang, Zhang, "LIRS: An efficient low inter-reference recency set replacement policy"
//! (SIGMETRICS 2002), section 3. Most frames hold LIR pages, the part `hir` (1 %) resident HIR
//! pages. Stack S orders pages by recency down to the oldest LIR page; queue Q orders resident HIR
//! pages and gives victims. A HIR page that is used while in S becomes LIR, and the oldest LIR page
//! HIR.
//!
//! Deviations: S remembers non-resident pages up to the part `ghosts` (200 %) of the frames, as
//! Caffeine's simulator does; the paper bounds S only in its measurements. If Q has no page that
//! can be had, LIR pages are proposed. LIR pages are made whenever there are too few, not only at
//! first.
//!
//! Suits loops and scans beside a working set; slow when that moves. Cost: O(1) per hit and
//! eviction, amortised over the pruning of S. 40 bytes per frame and 51 to 62 for each ghost.

use crate::policy::ghosts::Ghosts;
use crate::policy::list::{List, Nodes, first_taken};
use crate::policy::{Access, Claimed, Frames, Metadata, SequentialPolicy, part};
use crate::{FrameId, PageId, oracle::Oracle};

/// The state of a node; ghosts are non-resident HIR pages and need none.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Rank {
    Lir,
    #[default]
    Hir,
}

/// Low inter-reference recency set.
///
/// Invariants: (I1) S is empty or its oldest page is LIR. (I2) Every LIR page is on S. (I3) A
/// resident HIR page is on Q; a ghost is on S and, in the order of evictions, on `left`. (I4)
/// `lirs` counts the LIR pages.
#[derive(Debug)]
pub struct Lirs {
    /// Frames and ghosts as nodes of S.
    recency: Nodes<Rank>,
    /// The same nodes as members of Q or `left`.
    waiting: Nodes<()>,
    ghosts: Ghosts,
    /// S and Q, oldest in front.
    stack: List,
    queue: List,
    left: List,
    lirs: u32,
    max_lirs: u32,
    max_ghosts: u32,
    /// What parts of the frames HIR pages and ghosts may take.
    hir: f64,
    ghost_share: f64,
}

/// The most LIR pages; at least 1.
fn max_lirs(frames: u32, hir: f64) -> u32 {
    frames.saturating_sub(part(frames, hir)).max(1)
}

impl Lirs {
    /// For a pool of `frames` frames of which the part `hir` is for HIR pages, and as many ghosts
    /// as the part `ghosts`.
    pub fn new(frames: u32, hir: f64, ghosts: f64) -> Self {
        let max_ghosts = part(frames, ghosts);
        // One ghost more stands between an eviction and the admission that follows.
        let nodes = frames as usize + max_ghosts as usize + 1;
        let mut recency = Nodes::new(nodes);
        Self {
            ghosts: Ghosts::new(&mut recency, frames),
            recency,
            waiting: Nodes::new(nodes),
            stack: List::new(),
            queue: List::new(),
            left: List::new(),
            lirs: 0,
            max_lirs: max_lirs(frames, hir),
            max_ghosts,
            hir,
            ghost_share: ghosts,
        }
    }

    /// Restores (I1).
    fn prune(&mut self) {
        while let Some(oldest) = self.stack.front() {
            if self.ghosts.is_ghost(oldest) {
                self.drop_ghost(oldest);
            } else if self.recency[oldest].data == Rank::Hir {
                self.stack.remove(&mut self.recency, oldest);
            } else {
                break;
            }
        }
    }

    fn drop_ghost(&mut self, ghost: u32) {
        self.stack.remove(&mut self.recency, ghost);
        self.left.remove(&mut self.waiting, ghost);
        self.ghosts.remove(&mut self.recency, ghost);
    }

    /// Makes frame `i`, which is on S, LIR; if that is one too many, the oldest LIR page becomes
    /// HIR.
    fn promote(&mut self, i: u32) {
        self.recency[i].data = Rank::Lir;
        self.lirs += 1;
        if self.lirs > self.max_lirs {
            self.demote_oldest();
        } else {
            self.prune();
        }
    }

    /// Makes the oldest LIR page, which is the oldest of S (I1), HIR.
    fn demote_oldest(&mut self) {
        if let Some(oldest) = self.stack.pop_front(&mut self.recency) {
            self.recency[oldest].data = Rank::Hir;
            self.lirs -= 1;
            self.queue.push_back(&mut self.waiting, oldest);
        }
        self.prune();
    }

    fn trim(&mut self) {
        while self.left.len() > self.max_ghosts
            && let Some(oldest) = self.left.front()
        {
            self.drop_ghost(oldest);
        }
    }

    /// Evicts from Q. A victim that S remembers leaves a ghost in its place there.
    fn take_hir(&mut self, frames: &dyn Frames) -> Option<Claimed> {
        let proposals = self.queue.iter(&self.waiting).map(|i| self.recency.proposal(i));
        let (victim, page) = first_taken(proposals, frames)?;
        let i = victim.frame().0;
        self.queue.remove(&mut self.waiting, i);
        if self.recency.linked(i) {
            self.leave_ghost(i, page);
        }
        Some(victim)
    }

    fn leave_ghost(&mut self, i: u32, page: PageId) {
        if self.ghosts.is_full()
            && let Some(oldest) = self.left.front()
        {
            // Several loads are between their eviction and their admission.
            self.drop_ghost(oldest);
        }
        match self.ghosts.insert(&mut self.recency, page) {
            Some(ghost) => {
                self.stack.replace(&mut self.recency, i, ghost);
                self.left.push_back(&mut self.waiting, ghost);
            }
            None => self.stack.remove(&mut self.recency, i),
        }
    }

    /// Evicts a LIR page, the oldest that can be had.
    fn take_lir(&mut self, frames: &dyn Frames) -> Option<Claimed> {
        let lirs = self.stack.iter(&self.recency);
        let lirs = lirs.filter(|&i| !self.ghosts.is_ghost(i) && self.recency[i].data == Rank::Lir);
        let (victim, _) = first_taken(lirs.map(|i| self.recency.proposal(i)), frames)?;
        self.stack.remove(&mut self.recency, victim.frame().0);
        self.lirs -= 1;
        self.prune();
        Some(victim)
    }
}

impl SequentialPolicy for Lirs {
    #[inline]
    fn hit(&mut self, frame: FrameId, _access: &Access) {
        let i = frame.0;
        if self.recency[i].data == Rank::Lir {
            let was_oldest = self.stack.front() == Some(i);
            self.stack.move_to_back(&mut self.recency, i);
            if was_oldest {
                self.prune();
            }
        } else if self.recency.linked(i) {
            self.stack.move_to_back(&mut self.recency, i);
            self.queue.remove(&mut self.waiting, i);
            self.promote(i);
        } else {
            self.stack.push_back(&mut self.recency, i);
            self.queue.move_to_back(&mut self.waiting, i);
        }
    }

    #[inline]
    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        self.take_hir(frames).or_else(|| self.take_lir(frames))
    }

    #[inline]
    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        let i = frame.0;
        self.recency[i].page = access.page;
        let ghost = self.ghosts.find(&self.recency, access.page);
        if let Some(ghost) = ghost {
            self.drop_ghost(ghost);
        }
        self.stack.push_back(&mut self.recency, i);
        if ghost.is_some() || self.lirs < self.max_lirs {
            self.promote(i);
        } else {
            self.recency[i].data = Rank::Hir;
            self.queue.push_back(&mut self.waiting, i);
        }
        self.trim();
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        let i = frame.0;
        match self.recency[i].data {
            Rank::Lir => self.lirs -= 1,
            Rank::Hir => self.queue.remove(&mut self.waiting, i),
        }
        if self.recency.linked(i) {
            self.stack.remove(&mut self.recency, i);
        }
        self.prune();
    }

    fn metadata(&self) -> Option<Metadata> {
        Some(self.recency.metadata())
    }

    fn resize(&mut self, frames: u32) {
        self.max_lirs = max_lirs(frames, self.hir);
        self.max_ghosts = part(frames, self.ghost_share);
        while self.lirs > self.max_lirs {
            self.demote_oldest();
        }
        self.trim();
    }

    fn check(&self) {
        self.stack.check(&self.recency);
        self.queue.check(&self.waiting);
        self.left.check(&self.waiting);
        self.ghosts.check(&self.recency);
        let is_lir = |i: u32| !self.ghosts.is_ghost(i) && self.recency[i].data == Rank::Lir;
        assert!(self.stack.front().is_none_or(is_lir), "(I1)");
        assert_eq!(self.stack.iter(&self.recency).filter(|&i| is_lir(i)).count(), self.lirs as usize, "(I2), (I4)");
        assert!(self.queue.iter(&self.waiting).all(|i| !self.ghosts.is_ghost(i) && !is_lir(i)), "(I3) on Q");
        assert!(self.left.iter(&self.waiting).all(|i| self.ghosts.is_ghost(i) && self.recency.linked(i)), "(I3)");
        assert_eq!(self.left.len(), self.ghosts.len(), "(I3)");
    }
}
