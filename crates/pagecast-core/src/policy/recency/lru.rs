//! LRU: the page that was used longest ago leaves.
//!
//! The rule is older than its papers; Mattson, Gecsei, Slutz, Traiger, "Evaluation techniques for
//! storage hierarchies" (IBM Systems Journal 9(2), 1970) define it as a stack policy: what fits in
//! a small pool fits in every larger one.
//!
//! No deviation. A refused candidate stays where it is and the next younger page is proposed.
//!
//! Suits skewed point accesses whose hot set fits; loops and scans longer than the pool miss on
//! every request.
//!
//! Cost: O(1) per hit and per eviction (plus one step per refused candidate), 16 bytes per frame,
//! no ghosts.

use crate::policy::list::{List, Nodes, claim_oldest};
use crate::policy::{Access, Claimed, Frames, Metadata, SequentialPolicy};
use crate::{FrameId, PageId, oracle::Oracle};

/// Least recently used.
#[derive(Debug)]
pub struct Lru {
    nodes: Nodes<()>,
    order: List,
}

impl Lru {
    /// For a pool of `frames` frames.
    pub fn new(frames: u32) -> Self {
        Self { nodes: Nodes::new(frames as usize), order: List::new() }
    }
}

impl SequentialPolicy for Lru {
    #[inline]
    fn hit(&mut self, frame: FrameId, _access: &Access) {
        self.order.move_to_back(&mut self.nodes, frame.0);
    }

    #[inline]
    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        claim_oldest(&mut self.order, &mut self.nodes, frames)
    }

    #[inline]
    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.nodes[frame.0].page = access.page;
        self.order.push_back(&mut self.nodes, frame.0);
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        self.order.remove(&mut self.nodes, frame.0);
    }

    fn metadata(&self) -> Option<Metadata> {
        Some(self.nodes.metadata())
    }

    fn check(&self) {
        self.order.check(&self.nodes);
    }
}
