//! 2Q, the full version: a page earns its place in the LRU list by coming back after it left a
//! FIFO.
//!
//! Source: Johnson, Shasha, "2Q: A low overhead high performance buffer management replacement
//! algorithm" (VLDB 1994), section 3, "2Q, full version". A1in is a FIFO of `in` (25 %) of the
//! frames, A1out remembers as many ghosts as `out` (50 %) of the frames, Am is an LRU list of pages
//! that were asked for while in A1out. A hit in A1in changes nothing: it counts as correlated.
//!
//! Deviations: A1out is trimmed when the missed page is admitted and not when its frame is
//! reclaimed. So a page that is about to be promoted does not fall out of A1out a moment earlier.
//! If the queue that the rule names has no page that can be had, the other one is asked.
//!
//! Suits skewed accesses mixed with scans: one pass over a table touches A1in only. Cost: O(1) per
//! hit, miss and eviction; a hit in A1in writes nothing. 24 bytes per frame, 35 to 46 for each
//! ghost.

use crate::policy::ghosts::Ghosts;
use crate::policy::list::{List, Nodes, claim_oldest};
use crate::policy::{Access, Claimed, Frames, Metadata, SequentialPolicy, part};
use crate::{FrameId, PageId, oracle::Oracle};

/// Which queue a frame is on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Queue {
    #[default]
    In,
    Main,
}

/// 2Q, full version.
///
/// Invariant (I1): a frame is on A1in or Am as its `data` says; a ghost is on A1out.
#[derive(Debug)]
pub struct TwoQueue {
    nodes: Nodes<Queue>,
    ghosts: Ghosts,
    /// A1in, A1out and Am.
    incoming: List,
    left: List,
    main: List,
    /// Kin and Kout, and what parts of the frames they are.
    max_in: u32,
    max_out: u32,
    share_in: f64,
    share_out: f64,
}

impl TwoQueue {
    /// For a pool of `frames` frames; A1in holds the part `share_in` of them, A1out as many ghosts
    /// as `share_out`.
    pub fn new(frames: u32, share_in: f64, share_out: f64) -> Self {
        let max_out = part(frames, share_out);
        // One ghost more stands between an eviction and the admission that follows.
        let mut nodes = Nodes::new(frames as usize + max_out as usize + 1);
        let ghosts = Ghosts::new(&mut nodes, frames);
        Self {
            nodes,
            ghosts,
            incoming: List::new(),
            left: List::new(),
            main: List::new(),
            max_in: part(frames, share_in),
            max_out,
            share_in,
            share_out,
        }
    }

    fn take_in(&mut self, frames: &dyn Frames) -> Option<Claimed> {
        let victim = claim_oldest(&mut self.incoming, &mut self.nodes, frames)?;
        if self.ghosts.is_full() {
            // Several loads are between their eviction and their admission.
            self.drop_oldest_ghost();
        }
        let page = self.nodes[victim.frame().0].page;
        if let Some(ghost) = self.ghosts.insert(&mut self.nodes, page) {
            self.left.push_back(&mut self.nodes, ghost);
        }
        Some(victim)
    }

    fn take_main(&mut self, frames: &dyn Frames) -> Option<Claimed> {
        claim_oldest(&mut self.main, &mut self.nodes, frames)
    }

    fn trim(&mut self) {
        while self.left.len() > self.max_out {
            self.drop_oldest_ghost();
        }
    }

    fn drop_oldest_ghost(&mut self) {
        if let Some(ghost) = self.left.pop_front(&mut self.nodes) {
            self.ghosts.remove(&mut self.nodes, ghost);
        }
    }
}

impl SequentialPolicy for TwoQueue {
    #[inline]
    fn hit(&mut self, frame: FrameId, _access: &Access) {
        if self.nodes[frame.0].data == Queue::Main {
            self.main.move_to_back(&mut self.nodes, frame.0);
        }
    }

    #[inline]
    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        if self.incoming.len() > self.max_in {
            self.take_in(frames).or_else(|| self.take_main(frames))
        } else {
            self.take_main(frames).or_else(|| self.take_in(frames))
        }
    }

    #[inline]
    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.nodes[frame.0].page = access.page;
        if let Some(ghost) = self.ghosts.find(&self.nodes, access.page) {
            self.left.remove(&mut self.nodes, ghost);
            self.ghosts.remove(&mut self.nodes, ghost);
            self.nodes[frame.0].data = Queue::Main;
            self.main.push_back(&mut self.nodes, frame.0);
        } else {
            self.nodes[frame.0].data = Queue::In;
            self.incoming.push_back(&mut self.nodes, frame.0);
        }
        self.trim();
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        match self.nodes[frame.0].data {
            Queue::In => self.incoming.remove(&mut self.nodes, frame.0),
            Queue::Main => self.main.remove(&mut self.nodes, frame.0),
        }
    }

    fn metadata(&self) -> Option<Metadata> {
        Some(self.nodes.metadata())
    }

    fn resize(&mut self, frames: u32) {
        self.max_in = part(frames, self.share_in);
        self.max_out = part(frames, self.share_out);
        self.trim();
    }

    fn check(&self) {
        for (list, queue) in [(&self.incoming, Queue::In), (&self.main, Queue::Main)] {
            list.check(&self.nodes);
            for i in list.iter(&self.nodes) {
                assert_eq!((self.nodes[i].data, self.ghosts.is_ghost(i)), (queue, false), "(I1) at node {i}");
            }
        }
        self.left.check(&self.nodes);
        assert!(self.left.iter(&self.nodes).all(|i| self.ghosts.is_ghost(i)), "(I1) on A1out");
        assert_eq!(self.left.len(), self.ghosts.len());
        self.ghosts.check(&self.nodes);
    }
}
