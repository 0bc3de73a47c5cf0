//! CFLRU: LRU that prefers clean pages among the old ones.
//!
//! Park, Jung, Kang, Kim, Lee, "CFLRU: A replacement algorithm for flash memory" (CASES 2006); Wang, Jin, "Adaptive
//! multi-grained buffer management for database systems" (Future Internet 13(12), 2021), section 2.2. The part `window`
//! of the frames at the old end of the LRU list is the clean-first region: its oldest clean page leaves, and only if it
//! has none the oldest page of all.
//!
//! Deviations: the paper tunes the window by workload or adapts it to the cost of writes; here it is 50 % by default. A
//! page counts as dirty from its first write until it leaves; a write-back by others is
//! not known here. Refused pages keep their place; the search goes on through the region and then the whole list.
//!
//! Suits devices on which a write costs much more than a read.
//!
//! Cost: O(1) per hit; an eviction walks over the dirty pages of the region, at worst all of it. 24 bytes per frame.

use crate::policy::list::{List, Nodes, claim_oldest, first_taken};
use crate::policy::{Access, Claim, SequentialPolicy};
use crate::{FrameId, PageId, oracle::Oracle};

/// Clean-first LRU.
#[derive(Debug)]
pub struct Cflru {
    /// The data: whether the page was written.
    nodes: Nodes<bool>,
    order: List,
    window: usize,
}

impl Cflru {
    /// For a pool of `frames` frames of which the part `window` is the clean-first region.
    pub fn new(frames: u32, window: f64) -> Self {
        Self { nodes: Nodes::new(frames as usize), order: List::new(), window: (f64::from(frames) * window) as usize }
    }

    fn take_clean(&mut self, claim: &mut dyn FnMut(FrameId, PageId) -> Claim) -> Option<FrameId> {
        let region = self.order.iter(&self.nodes).take(self.window);
        let clean = region.filter(|&i| !self.nodes[i].data);
        let (frame, _) = first_taken(clean.map(|i| self.nodes.proposal(i)), claim)?;
        self.order.remove(&mut self.nodes, frame.0);
        Some(frame)
    }
}

impl SequentialPolicy for Cflru {
    #[inline]
    fn hit(&mut self, frame: FrameId, access: &Access) {
        self.nodes[frame.0].data |= access.write;
        self.order.move_to_back(&mut self.nodes, frame.0);
    }

    #[inline]
    fn evict(
        &mut self,
        _incoming: &Access,
        _oracle: &dyn Oracle,
        claim: &mut dyn FnMut(FrameId, PageId) -> Claim,
    ) -> Option<FrameId> {
        self.take_clean(claim).or_else(|| claim_oldest(&mut self.order, &mut self.nodes, claim))
    }

    #[inline]
    fn admit(&mut self, frame: FrameId, access: &Access) {
        let node = &mut self.nodes[frame.0];
        node.page = access.page;
        node.data = access.write;
        self.order.push_back(&mut self.nodes, frame.0);
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        self.order.remove(&mut self.nodes, frame.0);
    }

    fn check(&self) {
        self.order.check(&self.nodes);
    }
}
