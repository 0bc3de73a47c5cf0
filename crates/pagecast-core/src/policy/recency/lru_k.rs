//! LRU-K: the page whose K-th last use is longest ago leaves; K is 2 by default.
//!
//! O'Neil, O'Neil, Weikum, "The LRU-K page replacement algorithm for database disk buffering" (SIGMOD 1993), section
//! 2.1, figure 2.1. A page with fewer than K known uses has an infinite backward K-distance and leaves before all
//! others, of those the one used longest ago. Uses within `correlated` requests of the last one are one use: they move
//! the last use and shift the earlier ones by as much. The uses of pages that left are retained for the last as many
//! pages as the part `history` (100 %) of the frames.
//!
//! Deviations: time is counted in requests that the policy sees. The paper keeps history for a retained information
//! period and purges it by a process; a bounded number of pages, the longest departed forgotten first, keeps memory
//! fixed. The paper leaves a page alone for `correlated` requests after its use; here it is put back in the order of
//! proposals only by its K-distance, because a pool's pins protect what is in use. `correlated` is 0 by default.
//!
//! Suits databases whose index and data pages differ in frequency; it is scan resistant.
//!
//! Cost: O(K + log frames) per hit, and per eviction. 48 + 8 K bytes per frame, 32 + 8 K for each ghost.

use crate::policy::ghosts::Ghosts;
use crate::policy::heap::KeyedFrames;
use crate::policy::list::{List, Nodes};
use crate::policy::{Access, Claim, SequentialPolicy};
use crate::{FrameId, PageId, oracle::Oracle};
use alloc::vec::Vec;

/// The largest K.
pub const MAX_K: u32 = 8;

/// LRU-K.
///
/// A frame's key is the time of its K-th last use, 0 if it has none, and then the time of its last use.
#[derive(Debug)]
pub struct LruK {
    k: usize,
    correlated: u64,
    now: u64,
    order: KeyedFrames<(u64, u64)>,
    /// For each frame, then for each ghost node, the times of the last K uses, the youngest first; 0 for unknown.
    uses: Vec<u64>,
    nodes: Nodes<()>,
    ghosts: Ghosts,
    left: List,
}

impl LruK {
    /// For a pool of `frames` frames: `k` from 1 to [`MAX_K`], uses within `correlated` requests count as one, and the
    /// uses of as many departed pages as the part `history` of the frames are remembered.
    pub fn new(frames: u32, k: u32, correlated: u64, history: f64) -> Self {
        let k = k.clamp(1, MAX_K) as usize;
        let all = frames as usize + (f64::from(frames) * history) as usize;
        let mut nodes = Nodes::new(all);
        Self {
            k,
            correlated,
            now: 0,
            order: KeyedFrames::new(frames),
            uses: alloc::vec![0; all * k],
            ghosts: Ghosts::new(&mut nodes, frames),
            nodes,
            left: List::new(),
        }
    }

    fn uses(&mut self, i: u32) -> &mut [u64] {
        &mut self.uses[i as usize * self.k..][..self.k]
    }

    fn copy_uses(&mut self, from: u32, to: u32) {
        let (from, to) = (from as usize * self.k, to as usize * self.k);
        self.uses.copy_within(from..from + self.k, to);
    }

    /// Notes a use of frame `i` now and returns its key.
    fn note(&mut self, i: u32) -> (u64, u64) {
        let (now, correlated, k) = (self.now, self.correlated, self.k);
        let uses = self.uses(i);
        let last = uses[0];
        if last != 0 && now - last <= correlated {
            // The uncorrelated ones before keep their distance to the last.
            let shift = now - last;
            uses[1..].iter_mut().filter(|time| **time != 0).for_each(|time| *time += shift);
        } else {
            uses.copy_within(..k - 1, 1);
        }
        uses[0] = now;
        (uses[k - 1], now)
    }

    fn remember(&mut self, frame: FrameId, page: PageId) {
        if self.ghosts.is_full()
            && let Some(oldest) = self.left.pop_front(&mut self.nodes)
        {
            self.ghosts.remove(&mut self.nodes, oldest);
        }
        if let Some(ghost) = self.ghosts.insert(&mut self.nodes, page) {
            self.left.push_back(&mut self.nodes, ghost);
            self.copy_uses(frame.0, ghost);
        }
    }
}

impl SequentialPolicy for LruK {
    #[inline]
    fn hit(&mut self, frame: FrameId, _access: &Access) {
        self.now += 1;
        let key = self.note(frame.0);
        self.order.change(frame, key);
    }

    #[inline]
    fn evict(
        &mut self,
        _incoming: &Access,
        _oracle: &dyn Oracle,
        claim: &mut dyn FnMut(FrameId, PageId) -> Claim,
    ) -> Option<FrameId> {
        let frame = self.order.claim(claim)?;
        let page = self.nodes[frame.0].page;
        self.remember(frame, page);
        Some(frame)
    }

    #[inline]
    fn admit(&mut self, frame: FrameId, access: &Access) {
        self.now += 1;
        self.nodes[frame.0].page = access.page;
        if let Some(ghost) = self.ghosts.find(&self.nodes, access.page) {
            self.copy_uses(ghost, frame.0);
            self.left.remove(&mut self.nodes, ghost);
            self.ghosts.remove(&mut self.nodes, ghost);
        } else {
            self.uses(frame.0).fill(0);
        }
        let key = self.note(frame.0);
        self.order.insert(frame, access.page, key);
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        self.order.remove(frame);
    }

    fn check(&self) {
        self.order.check();
        self.left.check(&self.nodes);
        self.ghosts.check(&self.nodes);
        assert_eq!(self.left.len(), self.ghosts.len());
    }
}
