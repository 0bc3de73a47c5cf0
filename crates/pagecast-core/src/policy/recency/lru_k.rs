//! LRU-K: the page whose K-th last use is longest ago leaves; K is 2 by default.
//!
//! Source: O'Neil, O'Neil, Weikum, "The LRU-K page replacement algorithm for database disk
//! buffering" (SIGMOD 1993), section 2.1, figure 2.1. A page with fewer than K known uses leaves
//! before all others. Uses within the correlated reference period of the last one are one use; the
//! next use behind such a burst moves the earlier ones on by its length. Within the period a page
//! stays.
//!
//! Deviations: time is counted in requests. The period is the part `correlated` (15 %) of the
//! frames in requests; the paper gives seconds. History is retained for the part `history` (100 %)
//! of the frames; the paper purges it by time. If no other page can be had, those in the period are
//! proposed.
//!
//! Suits databases whose index and data pages differ in frequency. Cost: O(K + log frames) per hit
//! and eviction. 84 + 8 K bytes per frame, 27 to 38 + 8 K for each ghost.

use crate::policy::ghosts::Ghosts;
use crate::policy::heap::KeyedFrames;
use crate::policy::list::{List, Nodes, claim_oldest};
use crate::policy::{Access, Claimed, Frames, Metadata, SequentialPolicy};
use crate::{FrameId, PageId, oracle::Oracle};
use alloc::vec::Vec;

/// The largest K.
pub const MAX_K: u32 = 8;

/// LRU-K.
///
/// Invariant (I1): a frame is on `young`, in the order of last use, or in `old`. A frame in `old`
/// has as key the time of its K-th last use, 0 if it has none, and then the time of its last use.
#[derive(Debug)]
pub struct LruK {
    k: usize,
    correlated: u64,
    max_ghosts: u32,
    /// What parts of the frames these two are.
    correlated_share: f64,
    history_share: f64,
    now: u64,
    young: List,
    old: KeyedFrames<(u64, u64)>,
    /// For each frame, then for each ghost node, the times of the last K uses, the youngest first;
    /// 0 for unknown. HIST in the paper.
    uses: Vec<u64>,
    /// By frame, when it was used last, in whichever burst. LAST in the paper.
    last: Vec<u64>,
    nodes: Nodes<()>,
    ghosts: Ghosts,
    left: List,
}

impl LruK {
    /// For a pool of `frames` frames: `k` from 1 to [`MAX_K`]; uses within as many requests as the
    /// part `correlated` of the frames count as one; the uses of as many departed pages as the part
    /// `history` are remembered.
    pub fn new(frames: u32, k: u32, correlated: f64, history: f64) -> Self {
        let k = k.clamp(1, MAX_K) as usize;
        let all = frames as usize + (f64::from(frames) * history) as usize;
        let mut nodes = Nodes::new(all);
        Self {
            k,
            correlated: (f64::from(frames) * correlated) as u64,
            max_ghosts: (f64::from(frames) * history) as u32,
            correlated_share: correlated,
            history_share: history,
            now: 0,
            young: List::new(),
            old: KeyedFrames::new(frames),
            uses: alloc::vec![0; all * k],
            last: alloc::vec![0; frames as usize],
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

    /// A use of frame `i` now begins; the uses before it took until `burst` after their first.
    fn begin(&mut self, i: u32, burst: u64) {
        let (now, k) = (self.now, self.k);
        let uses = self.uses(i);
        uses.copy_within(..k - 1, 1);
        uses[0] = now;
        uses[1..].iter_mut().filter(|time| **time != 0).for_each(|time| *time += burst);
    }

    /// Makes frame `i`, which is out of the order, the youngest.
    fn push(&mut self, i: u32) {
        self.last[i as usize] = self.now;
        self.young.push_back(&mut self.nodes, i);
    }

    /// Takes frame `i` out of the order.
    fn remove(&mut self, i: u32) {
        if self.nodes.linked(i) {
            self.young.remove(&mut self.nodes, i);
        } else {
            self.old.remove(FrameId(i));
        }
    }

    /// Pages whose correlated reference period is over become old.
    fn age(&mut self) {
        while let Some(i) = self.young.front() {
            let (k, last) = (self.k, self.last[i as usize]);
            if self.now - last < self.correlated {
                break;
            }
            let first = self.uses(i)[k - 1];
            self.young.remove(&mut self.nodes, i);
            self.old.insert(FrameId(i), self.nodes[i].page, (first, last));
        }
    }

    /// Leaves at most `ghosts` departed pages in memory.
    fn trim(&mut self, ghosts: u32) {
        while self.left.len() > ghosts
            && let Some(oldest) = self.left.pop_front(&mut self.nodes)
        {
            self.ghosts.remove(&mut self.nodes, oldest);
        }
    }

    fn remember(&mut self, frame: FrameId, page: PageId) {
        let Some(others) = self.max_ghosts.checked_sub(1) else { return };
        self.trim(others);
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
        self.remove(frame.0);
        let last = self.last[frame.index()];
        if self.now - last > self.correlated {
            let burst = last - self.uses(frame.0)[0];
            self.begin(frame.0, burst);
        }
        self.push(frame.0);
    }

    #[inline]
    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        self.age();
        let victim = self.old.claim(frames).or_else(|| claim_oldest(&mut self.young, &mut self.nodes, frames))?;
        let frame = victim.frame();
        let page = self.nodes[frame.0].page;
        self.remember(frame, page);
        Some(victim)
    }

    #[inline]
    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.now += 1;
        self.nodes[frame.0].page = access.page;
        if let Some(ghost) = self.ghosts.find(&self.nodes, access.page) {
            self.copy_uses(ghost, frame.0);
            self.left.remove(&mut self.nodes, ghost);
            self.ghosts.remove(&mut self.nodes, ghost);
        } else {
            self.uses(frame.0).fill(0);
        }
        self.begin(frame.0, 0);
        self.push(frame.0);
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        self.remove(frame.0);
    }

    fn metadata(&self) -> Option<Metadata> {
        Some(self.nodes.metadata())
    }

    fn resize(&mut self, frames: u32) {
        self.correlated = (f64::from(frames) * self.correlated_share) as u64;
        self.max_ghosts = (f64::from(frames) * self.history_share) as u32;
        self.trim(self.max_ghosts);
    }

    fn check(&self) {
        self.old.check();
        self.young.check(&self.nodes);
        assert!(self.young.iter(&self.nodes).all(|i| !self.old.contains(FrameId(i))), "(I1)");
        self.left.check(&self.nodes);
        self.ghosts.check(&self.nodes);
        assert_eq!(self.left.len(), self.ghosts.len());
    }
}
