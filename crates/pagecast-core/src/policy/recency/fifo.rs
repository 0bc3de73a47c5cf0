//! FIFO: the page that came in first leaves.
//!
//! Belady, "A study of replacement algorithms for a virtual-storage computer" (IBM Systems Journal
//! 5(2), 1966). No deviation. A refused candidate keeps its place and the next is proposed.
//!
//! Suits pages whose use does not depend on when they were used last; a baseline.
//!
//! Cost: nothing per hit, O(1) per eviction (plus one step per refused candidate), 16 bytes per
//! frame.

use crate::policy::list::{List, Nodes, claim_oldest};
use crate::policy::{Access, Claimed, Frames, HitNeed, SequentialPolicy};
use crate::{FrameId, PageId, oracle::Oracle};

/// First in, first out.
#[derive(Debug)]
pub struct Fifo {
    nodes: Nodes<()>,
    queue: List,
}

impl Fifo {
    /// For a pool of `frames` frames.
    pub fn new(frames: u32) -> Self {
        Self { nodes: Nodes::new(frames as usize), queue: List::new() }
    }
}

impl SequentialPolicy for Fifo {
    fn hit_need(&self) -> HitNeed {
        HitNeed::Nothing
    }

    #[inline]
    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        claim_oldest(&mut self.queue, &mut self.nodes, frames)
    }

    #[inline]
    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.nodes[frame.0].page = access.page;
        self.queue.push_back(&mut self.nodes, frame.0);
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        self.queue.remove(&mut self.nodes, frame.0);
    }

    fn check(&self) {
        self.queue.check(&self.nodes);
    }
}
