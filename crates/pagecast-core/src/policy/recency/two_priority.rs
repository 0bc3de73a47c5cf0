//! `lru-2prio`: VectorWise's LRU with two priorities; pages of small tables outlive all others.
//!
//! Source: Świtakowski, "Integrating Cooperative Scans in a column-oriented DBMS" (MSc thesis,
//! 2011), section 4.2: two LRU queues, victims from the low one as long as it has any. A page has
//! high priority if its table is small and its column is.
//!
//! Deviations: the thesis sets both bounds in tuples and bytes by configuration. A policy here does
//! not know a relation's size and takes the highest block seen of it instead. A relation is small
//! until a block behind `small` (5 % of the frames) is asked for; then its pages sink when they are
//! used next. Only the first 224 relations are known; later ones are large. If the low queue has no
//! page that can be had, the high one is asked.
//!
//! Suits star schemas: dimensions stay, facts pass through. Cost: a hash look-up and O(1) per hit,
//! O(1) per eviction. 24 bytes per frame and less than 4 KiB for relations.

use crate::policy::list::{List, Nodes, claim_oldest};
use crate::policy::{Access, Claimed, Frames, Metadata, SequentialPolicy};
use crate::{FrameId, PageId, RelationId, oracle::Oracle};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// The most relations whose size is known.
const MAX_RELATIONS: usize = 224;

/// LRU with two priorities.
///
/// Invariant (I1): a frame is on `high` or `low` as its `data` says.
#[derive(Debug)]
pub struct TwoPriorityLru {
    /// The data: whether the priority is high.
    nodes: Nodes<bool>,
    high: List,
    low: List,
    /// By relation, the highest block that was asked for.
    last_blocks: HashMap<RelationId, u32, FixedState>,
    small: u32,
    /// What part of the frames that is.
    small_share: f64,
}

impl TwoPriorityLru {
    /// For a pool of `frames` frames; relations of up to the part `small` of them in pages have
    /// high priority.
    pub fn new(frames: u32, small: f64) -> Self {
        Self {
            nodes: Nodes::new(frames as usize),
            high: List::new(),
            low: List::new(),
            last_blocks: HashMap::with_capacity_and_hasher(MAX_RELATIONS, FixedState::default()),
            small: (f64::from(frames) * small) as u32,
            small_share: small,
        }
    }

    /// Whether the page's relation is small as far as is known.
    fn is_small(&mut self, page: PageId) -> bool {
        let known = self.last_blocks.len();
        match self.last_blocks.get_mut(&page.relation()) {
            Some(last) => {
                *last = page.block().max(*last);
                *last < self.small
            }
            None if known < MAX_RELATIONS => {
                self.last_blocks.insert(page.relation(), page.block());
                page.block() < self.small
            }
            None => false,
        }
    }

    fn push(&mut self, frame: FrameId, page: PageId) {
        let high = self.is_small(page);
        self.nodes[frame.0].data = high;
        let list = if high { &mut self.high } else { &mut self.low };
        list.push_back(&mut self.nodes, frame.0);
    }

    fn remove(&mut self, frame: FrameId) {
        let list = if self.nodes[frame.0].data { &mut self.high } else { &mut self.low };
        list.remove(&mut self.nodes, frame.0);
    }
}

impl SequentialPolicy for TwoPriorityLru {
    fn hit(&mut self, frame: FrameId, access: &Access) {
        self.remove(frame);
        self.push(frame, access.page);
    }

    fn evict(&mut self, frames: &dyn Frames, _incoming: &Access, _oracle: &dyn Oracle) -> Option<Claimed> {
        claim_oldest(&mut self.low, &mut self.nodes, frames)
            .or_else(|| claim_oldest(&mut self.high, &mut self.nodes, frames))
    }

    fn admit(&mut self, _frames: &dyn Frames, frame: FrameId, access: &Access) {
        self.nodes[frame.0].page = access.page;
        self.push(frame, access.page);
    }

    fn forget(&mut self, frame: FrameId, _page: PageId) {
        self.remove(frame);
    }

    fn metadata(&self) -> Option<Metadata> {
        Some(self.nodes.metadata())
    }

    fn resize(&mut self, frames: u32) {
        self.small = (f64::from(frames) * self.small_share) as u32;
    }

    fn check(&self) {
        for (list, high) in [(&self.high, true), (&self.low, false)] {
            list.check(&self.nodes);
            assert!(list.iter(&self.nodes).all(|i| self.nodes[i].data == high), "(I1)");
        }
    }
}
