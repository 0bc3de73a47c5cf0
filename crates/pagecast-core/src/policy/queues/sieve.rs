//! SIEVE: a FIFO in which a hand moves from old to new, spares the visited once, and evicts in
//! place.
//!
//! Zhang, Yang, Yue, Vigfusson, Rashmi, "SIEVE is simpler than LRU" (NSDI 2024), algorithm 1. What
//! is spared keeps its place, unlike in a clock, so that new pages are sifted while old popular
//! ones are left alone.
//!
//! Deviation: the paper has no held pages. The hand passes over one that is refused, without
//! touching its mark.
//!
//! Suits skewed web-like accesses. It is not scan resistant, and block traces do not favour it.
//!
//! Cost: a hit sets one bit in the frame's own line and takes no lock. An eviction clears marks
//! until it finds a page without one, O(1) amortised over hits; at most two rounds. 16 bytes per
//! frame beside its word.

use crate::policy::list::{List, Nodes};
use crate::policy::{Access, Claimed, Frames, HitNeed, SequentialPolicy, mark};
use crate::{FrameId, PageId, oracle::Oracle};

/// SIEVE. A frame's word says whether its page was visited since the hand passed.
#[derive(Debug)]
pub struct Sieve {
    nodes: Nodes<()>,
    queue: List,
    /// Where the next search begins; at the oldest page if none.
    hand: Option<u32>,
}

impl Sieve {
    /// For a pool of `frames` frames.
    pub fn new(frames: u32) -> Self {
        Self { nodes: Nodes::new(frames as usize), queue: List::new(), hand: None }
    }

    /// Takes `i` off the queue; a hand that stands there moves on.
    fn remove(&mut self, i: u32) {
        if self.hand == Some(i) {
            self.hand = self.nodes.after(i);
        }
        self.queue.remove(&mut self.nodes, i);
    }
}

impl SequentialPolicy for Sieve {
    fn hit_need(&self) -> HitNeed {
        HitNeed::Count { max: 1 }
    }

    #[inline]
    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        // One round clears all marks, the second proposes every page but those that are hit
        // meanwhile.
        for _ in 0..2 * self.queue.len() {
            let here = self.hand.or(self.queue.front())?;
            self.hand = self.nodes.after(here);
            let (frame, page) = self.nodes.proposal(here);
            if mark::take(frames, frame) {
                continue;
            }
            if let Ok(victim) = frames.claim(frame, page) {
                self.remove(here);
                return Some(victim);
            }
        }
        None
    }

    #[inline]
    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.nodes[frame.0].page = access.page;
        self.queue.push_back(&mut self.nodes, frame.0);
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        self.remove(frame.0);
    }

    fn check(&self) {
        self.queue.check(&self.nodes);
        assert!(self.hand.is_none_or(|hand| self.nodes.linked(hand)), "the hand stands at a page that left");
    }
}
