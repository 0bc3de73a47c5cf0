//! Where a page's node is: a hash table of node numbers with open addressing.
//!
//! Policies with ghosts insert and remove one page for almost every miss. General tables pay for
//! that with tombstones and with a look at each neighbour's page when they move entries; here an
//! entry carries 32 bits of its hash, so that only a likely match is looked up, and removal moves
//! the entries behind it forward (Knuth, volume 3, 6.4, algorithm R) and leaves nothing to clean
//! up. About one cache miss an operation.
//!
//! Memory: 8 bytes a slot, between 4/3 and 8/3 slots an entry of the capacity: 11 to 22 bytes.

use crate::PageId;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use foldhash::fast::FixedState;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    hash: u32,
    node: u32,
}

const EMPTY: Entry = Entry { hash: 0, node: u32::MAX };

/// A set of nodes, found by the hash of the page that each stands for.
///
/// Invariant: (I1) from the slot that an entry's hash names up to its own there is no empty slot.
#[derive(Debug)]
pub(crate) struct PageIndex {
    slots: Vec<Entry>,
    len: u32,
}

#[inline]
fn hash(page: PageId) -> u32 {
    (FixedState::with_seed(0).hash_one(page.raw()) >> 32) as u32
}

impl PageIndex {
    /// Room for `capacity` entries, which is never exceeded.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let slots = (capacity + capacity / 3 + 1).next_power_of_two();
        Self { slots: alloc::vec![EMPTY; slots], len: 0 }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    fn mask(&self) -> usize {
        self.slots.len() - 1
    }

    /// The entry's slot, if there is one for which `is_it` holds among those with the hash of
    /// `page`.
    #[inline]
    fn slot(&self, page: PageId, mut is_it: impl FnMut(u32) -> bool) -> Option<usize> {
        let hash = hash(page);
        let mut at = hash as usize & self.mask();
        while self.slots[at] != EMPTY {
            if self.slots[at].hash == hash && is_it(self.slots[at].node) {
                return Some(at);
            }
            at = (at + 1) & self.mask();
        }
        None
    }

    /// The node of `page`; `is_it` says whether a node is.
    #[inline]
    pub(crate) fn find(&self, page: PageId, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.slot(page, is_it).map(|at| self.slots[at].node)
    }

    /// Enters `node` for `page`, which has none yet.
    pub(crate) fn insert(&mut self, page: PageId, node: u32) {
        debug_assert!((self.len as usize) < self.mask(), "an empty slot ends every search");
        let hash = hash(page);
        let mut at = hash as usize & self.mask();
        while self.slots[at] != EMPTY {
            at = (at + 1) & self.mask();
        }
        self.slots[at] = Entry { hash, node };
        self.len += 1;
    }

    /// Takes out the entry of `node`, which stands for `page`. False if there is none.
    pub(crate) fn remove(&mut self, page: PageId, node: u32) -> bool {
        let Some(mut hole) = self.slot(page, |other| other == node) else { return false };
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask();
            let entry = self.slots[at];
            if entry == EMPTY {
                break;
            }
            // The entry may fill the hole if that is not before the slot where its search begins
            // (I1).
            let home = entry.hash as usize & self.mask();
            if at.wrapping_sub(home) & self.mask() >= at.wrapping_sub(hole) & self.mask() {
                self.slots[hole] = entry;
                hole = at;
            }
        }
        self.slots[hole] = EMPTY;
        self.len -= 1;
        true
    }

    /// The nodes, in no order.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().filter(|entry| **entry != EMPTY).map(|entry| entry.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use alloc::collections::BTreeMap;

    /// Against a map, at full load and through many removals.
    #[test]
    fn it_is_a_map() {
        for capacity in [1, 2, 3, 40, 1000] {
            let (mut index, mut map) = (PageIndex::with_capacity(capacity), BTreeMap::new());
            let mut random = Random::new(capacity as u64);
            for _ in 0..30_000 {
                let page = u64::from(random.below(2 * capacity as u32));
                let id = PageId::from_raw(page << 20);
                // A node number that tells its page.
                let node = page as u32 * 3;
                assert_eq!(index.find(id, |other| other == node), map.get(&page).copied());
                if map.remove(&page).is_some() {
                    assert!(index.remove(id, node));
                } else if map.len() < capacity {
                    index.insert(id, node);
                    map.insert(page, node);
                } else {
                    assert!(!index.remove(id, node));
                }
                assert_eq!(index.len() as usize, map.len());
            }
            let mut nodes: Vec<_> = index.nodes().collect();
            nodes.sort_unstable();
            assert!(nodes.into_iter().eq(map.into_values()));
        }
    }
}
