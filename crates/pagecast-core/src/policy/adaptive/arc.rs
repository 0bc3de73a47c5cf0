//! ARC: two LRU lists, of pages seen once and seen again lately, whose sizes follow the misses.
//!
//! Source: Megiddo, Modha, "ARC: A self-tuning, low overhead replacement cache" (FAST 2003),
//! section III, figure 4. T1 holds pages seen once, T2 pages seen again, B1 and B2 the ghosts of
//! both. A ghost that is asked for again moves `target`, the size that T1 should have, towards its
//! list.
//!
//! Deviations, none of which changes a victim when every claim is granted: B1 and B2 are trimmed
//! when the missed page is admitted, and not before the replacement, because the pool may give up
//! the load in between. So the ghost that case IV(A) never makes is made and dropped at once. If T1
//! or T2 is empty, or all its pages are refused, the other list is asked. `target` is a real number
//! as in the paper; other implementations round it and differ by up to 0.8 points.
//!
//! Suits mixed work whose balance changes; a long scan passes through T1. Cost: O(1) per hit, miss
//! and eviction. 24 bytes per frame and 35 to 46 for each of as many ghosts.

use crate::policy::ghosts::Ghosts;
use crate::policy::list::{List, Nodes, claim_oldest};
use crate::policy::{Access, Claimed, Frames, Metadata, SequentialPolicy};
use crate::{FrameId, PageId, oracle::Oracle};

/// Which list a node is on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Seen {
    #[default]
    Once,
    Again,
}

/// Adaptive replacement cache.
///
/// Invariants, with c frames: (I1) a frame is on T1 or T2, a ghost on B1 or B2, as its `data` says.
/// (I2) After `admit`,
/// |T1| + |B1| <= c and all four lists together hold at most 2c pages.
#[derive(Debug)]
pub struct Arc {
    nodes: Nodes<Seen>,
    ghosts: Ghosts,
    /// T1 and T2.
    once: List,
    again: List,
    /// B1 and B2.
    once_left: List,
    again_left: List,
    /// The size that T1 should have, from 0 to `frames`.
    target: f64,
    frames: u32,
}

impl Arc {
    /// For a pool of `frames` frames.
    pub fn new(frames: u32) -> Self {
        // One ghost more than (I2) allows stands between an eviction and the admission that
        // follows.
        let mut nodes = Nodes::new(2 * frames as usize + 1);
        let ghosts = Ghosts::new(&mut nodes, frames);
        Self {
            nodes,
            ghosts,
            once: List::new(),
            again: List::new(),
            once_left: List::new(),
            again_left: List::new(),
            target: 0.0,
            frames,
        }
    }

    /// Cases II and III: a page that left lately is back, so its list should have been longer.
    fn adapt(&mut self, ghost: u32) {
        let (once_left, again_left) = (f64::from(self.once_left.len()), f64::from(self.again_left.len()));
        self.target = match self.nodes[ghost].data {
            Seen::Once => (self.target + (again_left / once_left).max(1.0)).min(f64::from(self.frames)),
            Seen::Again => (self.target - (once_left / again_left).max(1.0)).max(0.0),
        };
    }

    /// Takes the oldest page of one list that can be had, and leaves its ghost.
    fn take(&mut self, seen: Seen, frames: &dyn Frames) -> Option<Claimed> {
        let (list, left) = match seen {
            Seen::Once => (&mut self.once, &mut self.once_left),
            Seen::Again => (&mut self.again, &mut self.again_left),
        };
        let victim = claim_oldest(list, &mut self.nodes, frames)?;
        let page = self.nodes[victim.frame().0].page;
        if let Some(ghost) = self.ghosts.insert(&mut self.nodes, page) {
            self.nodes[ghost].data = seen;
            left.push_back(&mut self.nodes, ghost);
        }
        Some(victim)
    }

    fn drop_oldest_ghost(&mut self, seen: Seen) {
        let left = match seen {
            Seen::Once => &mut self.once_left,
            Seen::Again => &mut self.again_left,
        };
        if let Some(ghost) = left.pop_front(&mut self.nodes) {
            self.ghosts.remove(&mut self.nodes, ghost);
        }
    }

    /// Makes room for one more page on T1 within (I2).
    fn trim(&mut self) {
        if self.once.len() + self.once_left.len() >= self.frames {
            self.drop_oldest_ghost(Seen::Once);
        } else if self.once.len() + self.again.len() + self.ghosts.len() >= 2 * self.frames {
            self.drop_oldest_ghost(Seen::Again);
        }
    }
}

impl SequentialPolicy for Arc {
    #[inline]
    fn hit(&mut self, frame: FrameId, _access: &Access) {
        match core::mem::replace(&mut self.nodes[frame.0].data, Seen::Again) {
            Seen::Once => {
                self.once.remove(&mut self.nodes, frame.0);
                self.again.push_back(&mut self.nodes, frame.0);
            }
            Seen::Again => self.again.move_to_back(&mut self.nodes, frame.0),
        }
    }

    #[inline]
    fn evict(&mut self, frames: &dyn Frames, incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        let ghost = self.ghosts.find(&self.nodes, incoming.page);
        if let Some(ghost) = ghost {
            self.adapt(ghost);
        } else if self.ghosts.is_full() {
            // Several loads are between their eviction and their admission.
            self.trim();
        }
        let len = f64::from(self.once.len());
        let comes_from_again = ghost.is_some_and(|ghost| self.nodes[ghost].data == Seen::Again);
        if len > self.target || (comes_from_again && len == self.target) {
            self.take(Seen::Once, frames).or_else(|| self.take(Seen::Again, frames))
        } else {
            self.take(Seen::Again, frames).or_else(|| self.take(Seen::Once, frames))
        }
    }

    #[inline]
    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.nodes[frame.0].page = access.page;
        if let Some(ghost) = self.ghosts.find(&self.nodes, access.page) {
            match self.nodes[ghost].data {
                Seen::Once => self.once_left.remove(&mut self.nodes, ghost),
                Seen::Again => self.again_left.remove(&mut self.nodes, ghost),
            }
            self.ghosts.remove(&mut self.nodes, ghost);
            self.nodes[frame.0].data = Seen::Again;
            self.again.push_back(&mut self.nodes, frame.0);
        } else {
            self.trim();
            self.nodes[frame.0].data = Seen::Once;
            self.once.push_back(&mut self.nodes, frame.0);
        }
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        match self.nodes[frame.0].data {
            Seen::Once => self.once.remove(&mut self.nodes, frame.0),
            Seen::Again => self.again.remove(&mut self.nodes, frame.0),
        }
    }

    fn metadata(&self) -> Option<Metadata> {
        Some(self.nodes.metadata())
    }

    fn resize(&mut self, frames: u32) {
        // What was learned is a share.
        let before = core::mem::replace(&mut self.frames, frames);
        self.target = (self.target * f64::from(frames) / f64::from(before)).min(f64::from(frames));
        // (I2), as far as ghosts can keep it; resident pages leave by eviction only.
        while self.once.len() + self.once_left.len() > frames && self.once_left.len() > 0 {
            self.drop_oldest_ghost(Seen::Once);
        }
        while self.once.len() + self.again.len() + self.ghosts.len() > 2 * frames && self.again_left.len() > 0 {
            self.drop_oldest_ghost(Seen::Again);
        }
    }

    fn check(&self) {
        for (list, seen, ghosts) in [
            (&self.once, Seen::Once, false),
            (&self.again, Seen::Again, false),
            (&self.once_left, Seen::Once, true),
            (&self.again_left, Seen::Again, true),
        ] {
            list.check(&self.nodes);
            for i in list.iter(&self.nodes) {
                assert_eq!((self.nodes[i].data, self.ghosts.is_ghost(i)), (seen, ghosts), "(I1) at node {i}");
            }
        }
        self.ghosts.check(&self.nodes);
        assert!((0.0..=f64::from(self.frames)).contains(&self.target));
    }
}
