//! Pages that left and are still remembered.
//!
//! A ghost is a node of the policy's slab, above the frames, so that it can stand on the same lists
//! as resident pages. The index from page to node stores the nodes' numbers (11 to 22 bytes a
//! ghost, see [`PageIndex`]): the page itself is read from the node. Nodes in stock are kept on a
//! list of their own, so nothing is allocated after construction; the last one that came back is
//! the first to go, while it is still in the processor's cache.

use super::list::{List, Nodes};
use super::page_index::PageIndex;
use crate::PageId;

/// The index of ghosts, and the nodes that are in stock for new ones.
#[derive(Debug)]
pub(crate) struct Ghosts {
    index: PageIndex,
    stock: List,
    first: u32,
}

impl Ghosts {
    /// Takes the nodes from `first`, the number of frames, to the end of the slab.
    pub(crate) fn new<T>(nodes: &mut Nodes<T>, first: u32) -> Self {
        let capacity = nodes.len() - first as usize;
        let mut stock = List::new();
        for i in first..nodes.len() as u32 {
            stock.push_back(nodes, i);
        }
        Self { index: PageIndex::with_capacity(capacity), stock, first }
    }

    /// Whether `i` is a ghost's node and not a frame.
    pub(crate) fn is_ghost(&self, i: u32) -> bool {
        i >= self.first
    }

    /// How many ghosts there are.
    pub(crate) fn len(&self) -> u32 {
        self.index.len()
    }

    /// Whether no node is left for another ghost.
    pub(crate) fn is_full(&self) -> bool {
        self.stock.len() == 0
    }

    /// The ghost of `page`.
    #[inline]
    pub(crate) fn find<T>(&self, nodes: &Nodes<T>, page: PageId) -> Option<u32> {
        self.index.find(page, |i| nodes[i].page == page)
    }

    /// Makes a ghost of `page`, which has none, on no list; `None` if the index is full.
    pub(crate) fn insert<T>(&mut self, nodes: &mut Nodes<T>, page: PageId) -> Option<u32> {
        debug_assert!(self.find(nodes, page).is_none());
        let i = self.stock.pop_back(nodes)?;
        nodes[i].page = page;
        self.index.insert(page, i);
        Some(i)
    }

    /// Forgets ghost `i`, which is on no list any more.
    pub(crate) fn remove<T>(&mut self, nodes: &mut Nodes<T>, i: u32) {
        let found = self.index.remove(nodes[i].page, i);
        debug_assert!(found, "every ghost is in the index");
        self.stock.push_back(nodes, i);
    }

    /// Panics unless the index leads to ghosts that are on a list and the rest is in stock.
    pub(crate) fn check<T>(&self, nodes: &Nodes<T>) {
        self.stock.check(nodes);
        let capacity = nodes.len() as u32 - self.first;
        assert_eq!(self.len() + self.stock.len(), capacity, "a ghost's node is lost");
        for i in self.index.nodes() {
            assert!(self.is_ghost(i) && nodes.linked(i), "the index leads to node {i}, which is no listed ghost");
        }
    }
}
