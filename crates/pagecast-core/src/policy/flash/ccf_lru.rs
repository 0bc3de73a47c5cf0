//! CCF-LRU: clean pages that were used once leave first; a dirty or hot page gets a second chance.
//!
//! Source: Li, Jin, Su, Cui, Yue, "CCF-LRU: A new buffer replacement algorithm for flash memory"
//! (IEEE Transactions on Consumer Electronics 55(3), 2009). Cold clean pages are on an LRU list of
//! their own, all others on a mixed one. The oldest cold clean page leaves. If there is none, the
//! mixed list is walked from its old end: a hot page becomes cold, and goes to the young end of the
//! list it belongs to then; a cold dirty page leaves.
//!
//! Deviations: from the abstract and from what later papers say, since the text is not at hand. A
//! page is cold when it comes in, and hot from its next use on. The walk ends at the first hot
//! clean page, which has become the only cold clean one. If claims are refused, all pages are
//! proposed in their order. A page counts as dirty from its first write until its owner wrote it.
//!
//! Suits devices on which a write costs more than a read, with scans beside hot pages. Cost: O(1)
//! per hit; an eviction makes each hot dirty page cold once. 24 bytes per frame.

use crate::policy::list::{List, Nodes, claim_oldest};
use crate::policy::{Access, Claimed, Frames, Metadata, SequentialPolicy};
use crate::{FrameId, PageId, oracle::Oracle};

/// What a frame notes.
#[derive(Clone, Copy, Default, Debug)]
struct Mark {
    hot: bool,
    dirty: bool,
}

impl Mark {
    fn is_cold_clean(self) -> bool {
        !self.hot && !self.dirty
    }
}

/// Cold-clean-first LRU.
///
/// Invariants: (I1) `cold_clean` has the cold clean pages, `mixed` all others.
#[derive(Debug)]
pub struct CcfLru {
    nodes: Nodes<Mark>,
    cold_clean: List,
    mixed: List,
}

impl CcfLru {
    /// For a pool of `frames` frames.
    pub fn new(frames: u32) -> Self {
        Self { nodes: Nodes::new(frames as usize), cold_clean: List::new(), mixed: List::new() }
    }

    fn remove(&mut self, i: u32) -> Mark {
        let mark = self.nodes[i].data;
        let list = if mark.is_cold_clean() { &mut self.cold_clean } else { &mut self.mixed };
        list.remove(&mut self.nodes, i);
        mark
    }

    fn push(&mut self, i: u32, mark: Mark) {
        self.nodes[i].data = mark;
        let list = if mark.is_cold_clean() { &mut self.cold_clean } else { &mut self.mixed };
        list.push_back(&mut self.nodes, i);
    }

    /// Lets hot pages become cold until the oldest mixed page is cold and dirty, or some page is
    /// cold and clean.
    fn cool(&mut self) {
        while let Some(oldest) = self.mixed.front().filter(|&i| self.nodes[i].data.hot) {
            let mark = Mark { hot: false, ..self.remove(oldest) };
            self.push(oldest, mark);
            if mark.is_cold_clean() {
                break;
            }
        }
    }
}

impl SequentialPolicy for CcfLru {
    fn hit(&mut self, frame: FrameId, access: &Access) {
        let before = self.remove(frame.0);
        self.push(frame.0, Mark { hot: true, dirty: before.dirty | access.write });
    }

    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        if self.cold_clean.len() == 0 {
            self.cool();
        }
        claim_oldest(&mut self.cold_clean, &mut self.nodes, frames)
            .or_else(|| claim_oldest(&mut self.mixed, &mut self.nodes, frames))
    }

    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.nodes[frame.0].page = access.page;
        self.push(frame.0, Mark { hot: false, dirty: access.write });
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

    fn check(&self) {
        for (list, cold_clean) in [(&self.cold_clean, true), (&self.mixed, false)] {
            list.check(&self.nodes);
            assert!(list.iter(&self.nodes).all(|i| self.nodes[i].data.is_cold_clean() == cold_clean), "(I1)");
        }
    }
}
