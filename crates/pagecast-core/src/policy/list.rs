//! Doubly linked lists of `u32` indices over one slab of nodes: what every ordered policy is made
//! of.
//!
//! Node `i` below the number of frames is frame `i`; nodes above are a policy's ghosts. A node is
//! on at most one list at a time, so that one pair of links serves all lists of a policy, and a
//! page's id, links and policy data lie in one stretch of memory (16 bytes and the data). Every
//! operation is O(1) but [`List::check`].
//!
//! The *front* of a list is its old end, where victims are looked for; the *back* is where pages
//! enter.

use crate::policy::{Claimed, Frames, Metadata};
use crate::{FrameId, PageId};
use alloc::vec::Vec;

/// No node.
pub(crate) const NIL: u32 = u32::MAX;
/// In both links of a node that is on no list.
const OFF: u32 = u32::MAX - 1;

/// One node: a page, its neighbours, and what the policy notes of it.
#[derive(Debug)]
pub(crate) struct Node<T> {
    pub(crate) page: PageId,
    prev: u32,
    next: u32,
    pub(crate) data: T,
}

/// The slab.
#[derive(Debug)]
pub(crate) struct Nodes<T>(Vec<Node<T>>);

impl<T: Default> Nodes<T> {
    /// `count` nodes, on no list.
    pub(crate) fn new(count: usize) -> Self {
        debug_assert!(count < OFF as usize);
        let blank = || Node { page: PageId::from_raw(0), prev: OFF, next: OFF, data: T::default() };
        Self(core::iter::repeat_with(blank).take(count).collect())
    }
}

impl<T> Nodes<T> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Where the nodes are.
    pub(crate) fn metadata(&self) -> Metadata {
        Metadata::of(&self.0)
    }

    /// Whether node `i` is on some list.
    #[inline]
    pub(crate) fn linked(&self, i: u32) -> bool {
        self[i].next != OFF
    }

    /// The page of frame `i`, in the form in which it is proposed to a claim.
    #[inline]
    pub(crate) fn proposal(&self, i: u32) -> (FrameId, PageId) {
        (FrameId(i), self[i].page)
    }

    /// The node behind `i`, towards the back.
    #[inline]
    pub(crate) fn after(&self, i: u32) -> Option<u32> {
        some(self[i].next)
    }

    /// The node before `i`, towards the front.
    #[inline]
    pub(crate) fn before(&self, i: u32) -> Option<u32> {
        some(self[i].prev)
    }
}

impl<T> core::ops::Index<u32> for Nodes<T> {
    type Output = Node<T>;
    #[inline]
    fn index(&self, i: u32) -> &Node<T> {
        &self.0[i as usize]
    }
}

impl<T> core::ops::IndexMut<u32> for Nodes<T> {
    #[inline]
    fn index_mut(&mut self, i: u32) -> &mut Node<T> {
        &mut self.0[i as usize]
    }
}

#[inline]
fn some(i: u32) -> Option<u32> {
    (i != NIL).then_some(i)
}

/// A list over a slab that its methods are handed.
#[derive(Debug)]
pub(crate) struct List {
    front: u32,
    back: u32,
    len: u32,
}

impl List {
    pub(crate) const fn new() -> Self {
        Self { front: NIL, back: NIL, len: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<u32> {
        some(self.front)
    }

    /// Appends node `i`, which is on no list.
    #[inline]
    pub(crate) fn push_back<T>(&mut self, nodes: &mut Nodes<T>, i: u32) {
        debug_assert!(!nodes.linked(i));
        let node = &mut nodes[i];
        node.prev = self.back;
        node.next = NIL;
        match some(self.back) {
            Some(back) => nodes[back].next = i,
            None => self.front = i,
        }
        self.back = i;
        self.len += 1;
    }

    /// Puts node `i`, which is on no list, behind `place` of this list, or first.
    pub(crate) fn insert_after<T>(&mut self, nodes: &mut Nodes<T>, place: Option<u32>, i: u32) {
        debug_assert!(!nodes.linked(i));
        let next = place.map_or(self.front, |place| nodes[place].next);
        let node = &mut nodes[i];
        node.prev = place.unwrap_or(NIL);
        node.next = next;
        match place {
            Some(place) => nodes[place].next = i,
            None => self.front = i,
        }
        match some(next) {
            Some(next) => nodes[next].prev = i,
            None => self.back = i,
        }
        self.len += 1;
    }

    /// Takes node `i`, which is on this list, off it.
    #[inline]
    pub(crate) fn remove<T>(&mut self, nodes: &mut Nodes<T>, i: u32) {
        debug_assert!(nodes.linked(i));
        let node = &mut nodes[i];
        let (prev, next) = (node.prev, node.next);
        node.prev = OFF;
        node.next = OFF;
        match some(prev) {
            Some(prev) => nodes[prev].next = next,
            None => self.front = next,
        }
        match some(next) {
            Some(next) => nodes[next].prev = prev,
            None => self.back = prev,
        }
        self.len -= 1;
    }

    /// Puts node `new`, which is on no list, in the place of node `old` of this list.
    pub(crate) fn replace<T>(&mut self, nodes: &mut Nodes<T>, old: u32, new: u32) {
        let place = nodes.before(old);
        self.remove(nodes, old);
        self.insert_after(nodes, place, new);
    }

    /// Makes node `i` of this list the last.
    #[inline]
    pub(crate) fn move_to_back<T>(&mut self, nodes: &mut Nodes<T>, i: u32) {
        if self.back != i {
            self.remove(nodes, i);
            self.push_back(nodes, i);
        }
    }

    /// Takes the first node off.
    #[inline]
    pub(crate) fn pop_front<T>(&mut self, nodes: &mut Nodes<T>) -> Option<u32> {
        let i = self.front()?;
        self.remove(nodes, i);
        Some(i)
    }

    /// Takes the last node off.
    #[inline]
    pub(crate) fn pop_back<T>(&mut self, nodes: &mut Nodes<T>) -> Option<u32> {
        let i = some(self.back)?;
        self.remove(nodes, i);
        Some(i)
    }

    /// The nodes from front to back.
    pub(crate) fn iter<'a, T>(&self, nodes: &'a Nodes<T>) -> impl Iterator<Item = u32> + use<'a, T> {
        core::iter::successors(self.front(), |&i| nodes.after(i))
    }

    /// Panics unless links, ends and length agree.
    pub(crate) fn check<T>(&self, nodes: &Nodes<T>) {
        let mut prev = NIL;
        let mut len = 0;
        for i in self.iter(nodes) {
            assert_eq!(nodes[i].prev, prev, "node {i} has another predecessor than the one that leads to it");
            prev = i;
            len += 1;
            assert!(len <= self.len, "the list is longer than its length says, or a ring");
        }
        assert_eq!((prev, len), (self.back, self.len), "last node and length");
    }
}

/// Proposes frames in the order given and returns the first that is taken.
pub(crate) fn first_taken(
    mut proposals: impl Iterator<Item = (FrameId, PageId)>,
    frames: &dyn Frames,
) -> Option<(Claimed, PageId)> {
    proposals.find_map(|(frame, page)| Some((frames.claim(frame, page).ok()?, page)))
}

/// Proposes the frames of `list` from the front and unlinks the one that is taken.
pub(crate) fn claim_oldest<T>(list: &mut List, nodes: &mut Nodes<T>, frames: &dyn Frames) -> Option<Claimed> {
    let (victim, _) = first_taken(list.iter(nodes).map(|i| nodes.proposal(i)), frames)?;
    list.remove(nodes, victim.frame().0);
    Some(victim)
}
