//! S3-FIFO: a small FIFO that most pages pass through once, a main FIFO, and a ghost FIFO.
//!
//! Source: Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need for cache eviction" (SOSP
//! 2023), section 4 and algorithm 1. S has `small` (10 %) of the frames, M the rest, G remembers
//! `ghost` (90 %). A page that leaves S with `threshold` (2) hits moves to M, another to G; one
//! that is asked for while in G comes back into M. At the end of M a hit buys a round. Counts stop
//! at 3.
//!
//! Deviations: until the first eviction a page that finds S full goes to M, as in the authors'
//! code; else a loop longer than S and G never hits. The count starts anew in M, as in their code.
//! A refused page keeps its place. If S or M has no page that can be had, the other one is asked.
//!
//! Suits skewed accesses with many pages that are used once. Cost: a hit writes the frame's line
//! until the count is 3; O(1) per eviction, amortised. 24 bytes per frame, 35 to 46 for each ghost.

use crate::policy::ghosts::Ghosts;
use crate::policy::list::{List, Nodes};
use crate::policy::{Access, Claimed, Frames, HitNeed, SequentialPolicy, part};
use crate::sync::atomic::Ordering::Relaxed;
use crate::{FrameId, PageId, oracle::Oracle};

/// Where counts stop.
const MAX_HITS: u64 = 3;

/// S3-FIFO. A frame's word counts the hits since its page entered its queue.
///
/// Invariant (I1): a frame is on M or S as its `data` says; a ghost is on G.
#[derive(Debug)]
pub struct S3Fifo {
    /// The data: whether the frame is on M.
    nodes: Nodes<bool>,
    ghosts: Ghosts,
    small: List,
    main: List,
    left: List,
    max_small: u32,
    max_ghosts: u32,
    /// What parts of the frames these two are.
    small_share: f64,
    ghost_share: f64,
    threshold: u64,
    /// Until the first eviction pages go to M when S is full.
    has_evicted: bool,
}

impl S3Fifo {
    /// For a pool of `frames` frames: S holds the part `small` of them, G as many ghosts as the
    /// part `ghost`, and `threshold` hits (at most 3) lead from S to M.
    pub fn new(frames: u32, small: f64, ghost: f64, threshold: u64) -> Self {
        let max_ghosts = part(frames, ghost);
        let mut nodes = Nodes::new(frames as usize + max_ghosts as usize);
        let ghosts = Ghosts::new(&mut nodes, frames);
        Self {
            nodes,
            ghosts,
            small: List::new(),
            main: List::new(),
            left: List::new(),
            max_small: part(frames, small),
            max_ghosts,
            small_share: small,
            ghost_share: ghost,
            threshold: threshold.min(MAX_HITS),
            has_evicted: false,
        }
    }

    /// Evicts from S, moving pages with enough hits to M on the way.
    fn take_small(&mut self, frames: &dyn Frames) -> Option<Claimed> {
        let mut next = self.small.front();
        while let Some(i) = next {
            next = self.nodes.after(i);
            let (frame, page) = self.nodes.proposal(i);
            let hits = frames.word(frame);
            if hits.load(Relaxed) >= self.threshold {
                hits.store(0, Relaxed);
                self.small.remove(&mut self.nodes, i);
                self.nodes[i].data = true;
                self.main.push_back(&mut self.nodes, i);
                continue;
            }
            if let Ok(victim) = frames.claim(frame, page) {
                self.small.remove(&mut self.nodes, i);
                self.remember(page);
                return Some(victim);
            }
        }
        None
    }

    /// Evicts from M, sending pages with hits round again. Every step but a refusal lowers a count
    /// of at most 3, so four rounds see every page without hits, but for those that are hit
    /// meanwhile.
    fn take_main(&mut self, frames: &dyn Frames) -> Option<Claimed> {
        let mut next = self.main.front();
        for _ in 0..(MAX_HITS + 1) * u64::from(self.main.len()) {
            let i = next?;
            next = self.nodes.after(i);
            let (frame, page) = self.nodes.proposal(i);
            let hits = frames.word(frame).load(Relaxed);
            if hits > 0 {
                frames.word(frame).store(hits - 1, Relaxed);
                self.main.move_to_back(&mut self.nodes, i);
                next = next.or(Some(i));
                continue;
            }
            if let Ok(victim) = frames.claim(frame, page) {
                self.main.remove(&mut self.nodes, i);
                return Some(victim);
            }
        }
        None
    }

    /// Leaves at most `ghosts` in G.
    fn trim(&mut self, ghosts: u32) {
        while self.left.len() > ghosts
            && let Some(oldest) = self.left.pop_front(&mut self.nodes)
        {
            self.ghosts.remove(&mut self.nodes, oldest);
        }
    }

    /// Enters `page` into G, which has room for one at least.
    fn remember(&mut self, page: PageId) {
        self.trim(self.max_ghosts - 1);
        if let Some(ghost) = self.ghosts.insert(&mut self.nodes, page) {
            self.left.push_back(&mut self.nodes, ghost);
        }
    }
}

impl SequentialPolicy for S3Fifo {
    fn hit_need(&self) -> HitNeed {
        HitNeed::Count { max: MAX_HITS }
    }

    #[inline]
    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        self.has_evicted = true;
        if self.small.len() >= self.max_small {
            self.take_small(frames).or_else(|| self.take_main(frames))
        } else {
            self.take_main(frames).or_else(|| self.take_small(frames)).or_else(|| self.take_main(frames))
        }
    }

    #[inline]
    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        let ghost = self.ghosts.find(&self.nodes, access.page);
        let main = ghost.is_some() || (!self.has_evicted && self.small.len() >= self.max_small);
        let node = &mut self.nodes[frame.0];
        node.page = access.page;
        node.data = main;
        if let Some(ghost) = ghost {
            self.left.remove(&mut self.nodes, ghost);
            self.ghosts.remove(&mut self.nodes, ghost);
        }
        if main {
            self.main.push_back(&mut self.nodes, frame.0);
        } else {
            self.small.push_back(&mut self.nodes, frame.0);
        }
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        if self.nodes[frame.0].data {
            self.main.remove(&mut self.nodes, frame.0);
        } else {
            self.small.remove(&mut self.nodes, frame.0);
        }
    }

    fn resize(&mut self, frames: u32) {
        self.max_small = part(frames, self.small_share);
        self.max_ghosts = part(frames, self.ghost_share);
        self.trim(self.max_ghosts);
    }

    fn check(&self) {
        for (list, main) in [(&self.small, false), (&self.main, true)] {
            list.check(&self.nodes);
            for i in list.iter(&self.nodes) {
                assert_eq!((self.nodes[i].data, self.ghosts.is_ghost(i)), (main, false), "(I1) at node {i}");
            }
        }
        self.left.check(&self.nodes);
        assert!(self.left.iter(&self.nodes).all(|i| self.ghosts.is_ghost(i)), "(I1) on G");
        assert_eq!(self.left.len(), self.ghosts.len());
        self.ghosts.check(&self.nodes);
    }
}
