//! AD-LRU: a cold and a hot LRU list; of each the clean pages leave first.
//!
//! Source: Jin, Ou, Härder, Li, "AD-LRU: An efficient buffer replacement algorithm for flash-based
//! databases" (Data & Knowledge Engineering 72, 2012), section 3. A page is cold when it comes in,
//! and hot from its next use on. While more than the part `cold` of the frames are cold, a cold
//! page leaves, else a hot one: the oldest clean one, or if all are dirty, the oldest that was not
//! used since it got a second chance.
//!
//! Deviations: from the abstract and from what later papers say, since the text is not at hand.
//! `cold` is 10 %, where the paper sets it by workload. A page counts as dirty from its first write
//! until its owner wrote it, and then leaves as the youngest of the clean. If all of the list are
//! refused, the other list is searched.
//!
//! Suits devices on which a write costs more than a read, with some pages hot. Cost: O(1) per hit,
//! and a list's dirty pages once round per eviction. 24 bytes per frame.

use crate::policy::list::{List, Nodes, claim_oldest};
use crate::policy::{Access, Claimed, Frames, Metadata, SequentialPolicy};
use crate::{FrameId, PageId, oracle::Oracle};

/// What a frame notes.
#[derive(Clone, Copy, Default, Debug)]
struct Mark {
    hot: bool,
    dirty: bool,
    /// Used since its last second chance.
    used: bool,
}

/// Pages of one temperature: the clean and the dirty, each by use.
#[derive(Debug)]
struct Queue {
    clean: List,
    dirty: List,
}

impl Queue {
    const fn new() -> Self {
        Self { clean: List::new(), dirty: List::new() }
    }

    fn len(&self) -> u32 {
        self.clean.len() + self.dirty.len()
    }

    fn of(&mut self, dirty: bool) -> &mut List {
        if dirty { &mut self.dirty } else { &mut self.clean }
    }

    fn claim(&mut self, nodes: &mut Nodes<Mark>, frames: &dyn Frames) -> Option<Claimed> {
        if let Some(victim) = claim_oldest(&mut self.clean, nodes, frames) {
            return Some(victim);
        }
        for _ in 0..self.dirty.len() {
            let Some(oldest) = self.dirty.front().filter(|&i| nodes[i].data.used) else { break };
            nodes[oldest].data.used = false;
            self.dirty.move_to_back(nodes, oldest);
        }
        claim_oldest(&mut self.dirty, nodes, frames)
    }
}

/// Adaptive double LRU.
///
/// Invariants: (I1) a frame is on the list that its mark says.
#[derive(Debug)]
pub struct AdLru {
    nodes: Nodes<Mark>,
    cold: Queue,
    hot: Queue,
    least_cold: u32,
    /// What part of the frames that is.
    cold_share: f64,
}

impl AdLru {
    /// For a pool of `frames` frames of which the part `cold` stays for cold pages.
    pub fn new(frames: u32, cold: f64) -> Self {
        Self {
            nodes: Nodes::new(frames as usize),
            cold: Queue::new(),
            hot: Queue::new(),
            least_cold: (f64::from(frames) * cold) as u32,
            cold_share: cold,
        }
    }

    fn remove(&mut self, i: u32) -> Mark {
        let Self { nodes, cold, hot, .. } = self;
        let mark = nodes[i].data;
        let queue = if mark.hot { hot } else { cold };
        queue.of(mark.dirty).remove(nodes, i);
        mark
    }

    fn push(&mut self, i: u32, mark: Mark) {
        let Self { nodes, cold, hot, .. } = self;
        nodes[i].data = mark;
        let queue = if mark.hot { hot } else { cold };
        queue.of(mark.dirty).push_back(nodes, i);
    }
}

impl SequentialPolicy for AdLru {
    fn hit(&mut self, frame: FrameId, access: &Access) {
        let before = self.remove(frame.0);
        self.push(frame.0, Mark { hot: true, dirty: before.dirty | access.write, used: true });
    }

    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        let Self { nodes, cold, hot, .. } = self;
        let (first, second) = if cold.len() > self.least_cold { (cold, hot) } else { (hot, cold) };
        first.claim(nodes, frames).or_else(|| second.claim(nodes, frames))
    }

    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.nodes[frame.0].page = access.page;
        self.push(frame.0, Mark { hot: false, dirty: access.write, used: true });
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        self.remove(frame.0);
    }

    fn cleaned(&mut self, frame: FrameId, _page: PageId) {
        if self.nodes[frame.0].data.dirty {
            let mark = self.remove(frame.0);
            self.push(frame.0, Mark { dirty: false, ..mark });
        }
    }

    fn metadata(&self) -> Option<Metadata> {
        Some(self.nodes.metadata())
    }

    fn resize(&mut self, frames: u32) {
        self.least_cold = (f64::from(frames) * self.cold_share) as u32;
    }

    fn check(&self) {
        for (queue, hot) in [(&self.cold, false), (&self.hot, true)] {
            for (list, dirty) in [(&queue.clean, false), (&queue.dirty, true)] {
                list.check(&self.nodes);
                let mark = |i: u32| self.nodes[i].data;
                assert!(list.iter(&self.nodes).all(|i| (mark(i).hot, mark(i).dirty) == (hot, dirty)), "(I1)");
            }
        }
    }
}
