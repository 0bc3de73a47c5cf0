//! CFLRU: LRU that prefers clean pages among the old ones.
//!
//! Source: Park, Jung, Kang, Kim, Lee, "CFLRU: A replacement algorithm for flash memory" (CASES
//! 2006); Wang, Jin, "Adaptive multi-grained buffer management for database systems" (Future
//! Internet 13(12), 2021), section 2.2. The part `window` of the frames at the old end of the LRU
//! list is the clean-first region. Its oldest clean page leaves; if it has none, the oldest page.
//!
//! Deviations: `window` is 50 %, where the paper tunes or adapts it. A page counts as dirty from
//! its first write until it leaves, or until its owner says that it was written. Refused pages keep
//! their place; the search goes on through the region and then the whole list.
//!
//! Suits devices on which a write costs much more than a read. Cost: O(1) per hit and eviction,
//! because the clean pages of the region are on a list of their own, where the paper walks over the
//! dirty ones. A page that is cleaned finds its place by such a walk. 40 bytes per frame.

use crate::policy::list::{List, Nodes, first_taken};
use crate::policy::{Access, Claimed, Frames, Metadata, SequentialPolicy};
use crate::{FrameId, PageId, oracle::Oracle};

/// What a frame notes.
#[derive(Clone, Copy, Default, Debug)]
struct Mark {
    dirty: bool,
    /// Whether the page is in the clean-first region.
    old: bool,
}

/// Clean-first LRU.
///
/// Invariants: (I1) a frame is on `region` or `working` as its mark says; `region` followed by
/// `working` is the LRU list. (I2) `clean` holds the clean pages of the region in its order.
#[derive(Debug)]
pub struct Cflru {
    nodes: Nodes<Mark>,
    region: List,
    working: List,
    /// Frames as members of `clean`.
    clean_nodes: Nodes<()>,
    clean: List,
    window: u32,
    /// What part of the frames that is.
    window_share: f64,
}

impl Cflru {
    /// For a pool of `frames` frames of which the part `window` is the clean-first region.
    pub fn new(frames: u32, window: f64) -> Self {
        Self {
            nodes: Nodes::new(frames as usize),
            region: List::new(),
            working: List::new(),
            clean_nodes: Nodes::new(frames as usize),
            clean: List::new(),
            window: (f64::from(frames) * window) as u32,
            window_share: window,
        }
    }

    /// Lets the oldest working pages grow old until the region has its size.
    fn fill_region(&mut self) {
        while self.region.len() < self.window
            && let Some(i) = self.working.pop_front(&mut self.nodes)
        {
            self.nodes[i].data.old = true;
            self.region.push_back(&mut self.nodes, i);
            if !self.nodes[i].data.dirty {
                self.clean.push_back(&mut self.clean_nodes, i);
            }
        }
    }

    fn remove(&mut self, i: u32) {
        let Mark { dirty, old } = self.nodes[i].data;
        if !old {
            self.working.remove(&mut self.nodes, i);
            return;
        }
        self.region.remove(&mut self.nodes, i);
        if !dirty {
            self.clean.remove(&mut self.clean_nodes, i);
        }
    }

    fn push(&mut self, i: u32, dirty: bool) {
        self.nodes[i].data = Mark { dirty, old: false };
        self.working.push_back(&mut self.nodes, i);
    }
}

impl SequentialPolicy for Cflru {
    #[inline]
    fn hit(&mut self, frame: FrameId, access: &Access) {
        let dirty = self.nodes[frame.0].data.dirty | access.write;
        self.remove(frame.0);
        self.push(frame.0, dirty);
    }

    #[inline]
    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        self.fill_region();
        let by_age = self.region.iter(&self.nodes).chain(self.working.iter(&self.nodes));
        let in_order = self.clean.iter(&self.clean_nodes).chain(by_age);
        let (victim, _) = first_taken(in_order.map(|i| self.nodes.proposal(i)), frames)?;
        self.remove(victim.frame().0);
        Some(victim)
    }

    #[inline]
    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.nodes[frame.0].page = access.page;
        self.push(frame.0, access.write);
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        self.remove(frame.0);
    }

    fn cleaned(&mut self, frame: FrameId, _page: PageId) {
        let i = frame.0;
        if !core::mem::take(&mut self.nodes[i].data.dirty) || !self.nodes[i].data.old {
            return;
        }
        // Its place is behind the youngest clean page that is older (I2).
        let mut older = self.nodes.before(i);
        while let Some(j) = older.filter(|&j| self.nodes[j].data.dirty) {
            older = self.nodes.before(j);
        }
        self.clean.insert_after(&mut self.clean_nodes, older, i);
    }

    fn metadata(&self) -> Option<Metadata> {
        Some(self.nodes.metadata())
    }

    /// A region that is too large now gets smaller as its pages, which go first, leave.
    fn resize(&mut self, frames: u32) {
        self.window = (f64::from(frames) * self.window_share) as u32;
    }

    fn check(&self) {
        for (list, old) in [(&self.region, true), (&self.working, false)] {
            list.check(&self.nodes);
            assert!(list.iter(&self.nodes).all(|i| self.nodes[i].data.old == old), "(I1)");
        }
        self.clean.check(&self.clean_nodes);
        let clean = self.region.iter(&self.nodes).filter(|&i| !self.nodes[i].data.dirty);
        assert!(self.clean.iter(&self.clean_nodes).eq(clean), "(I2)");
    }
}
