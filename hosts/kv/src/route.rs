//! The way of a reader from the root to a leaf, beside a writer.
//!
//! A reader holds one pin at a time and never waits for a page while it holds another, so it
//! cannot be in the way of a writer that has several pages alone. It may therefore come to a page
//! that was split, merged or freed meanwhile. The writer counts such changes in `moves`, while it
//! has all pages of the change alone, and before anybody can see one of them. A reader that
//! reaches its leaf and finds the count as it was at its start is where it should be: every page
//! that it met was either not part of a change since, or was met before the change had it. With its
//! leaf pinned this stays so. Otherwise it begins anew.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};

use pagecast::{PageGuard, ScanId};

use crate::Result;
use crate::page::{Kind, Node};
use crate::pages::{Known, Pages, ROOT};

/// Which leaf is looked for.
#[derive(Clone, Copy)]
pub(crate) enum Target<'k> {
    First,
    Last,
    /// The one that may have this key.
    Key(&'k [u8]),
    /// The one that may have the last keys below this one.
    Below(&'k [u8]),
}

/// What a reader learns on its way.
#[derive(Default, Debug)]
pub(crate) struct Route {
    /// The keys of the leaf are not below this one, and below the other.
    pub(crate) low: Option<Vec<u8>>,
    pub(crate) high: Option<Vec<u8>>,
    /// The leaves of the same parent, and which of them was taken.
    pub(crate) siblings: Vec<u32>,
    pub(crate) at: usize,
}

/// How often pages of the tree were split, merged or freed.
#[derive(Default)]
pub(crate) struct Moves(AtomicU64);

impl Moves {
    /// Acquire: pairs with the Release of [`more`](Self::more). Who sees a page as it is after a
    /// change came by its pin, which the writer gave after it had counted.
    pub(crate) fn so_far(&self) -> u64 {
        self.0.load(Acquire)
    }

    /// Called by the writer, with every page of the change alone.
    pub(crate) fn more(&self) {
        self.0.fetch_add(1, Release);
    }
}

/// A leaf, to be read.
pub(crate) struct Leaf<'a> {
    pub(crate) block: u32,
    pin: PageGuard<'a>,
}

impl Leaf<'_> {
    pub(crate) fn node(&self) -> Node<'_> {
        Node { bytes: &self.pin }
    }
}

impl Pages {
    /// Pins the leaf. `route`, if somebody wants it, tells of the way; `scan` marks the pin.
    pub(crate) fn leaf(
        &self,
        moves: &Moves,
        target: Target<'_>,
        mut route: Option<&mut Route>,
        scan: Option<ScanId>,
    ) -> Result<Leaf<'_>> {
        loop {
            let before = moves.so_far();
            let found = self.way_down(target, route.as_deref_mut()).and_then(|block| {
                let leaf = Leaf { block, pin: self.pin(block, scan)? };
                match leaf.node().kind() {
                    Some(Kind::Leaf) => Ok(leaf),
                    _ => Err(self.damaged(block, "is no leaf")),
                }
            });
            // What a reader that lost its way has met is no error.
            if moves.so_far() == before {
                return found;
            }
        }
    }

    /// Reads an entry where the pool may have it without its leaf; see
    /// [`read_entry`](Self::read_entry). It is of the leaf as it was at some moment after the last
    /// move: a later one would be counted before the leaf can be read again.
    pub(crate) fn entry(&self, moves: &Moves, key: &[u8]) -> Result<Known> {
        if self.tuples.is_none() {
            return Ok(Known::Nothing);
        }
        loop {
            let before = moves.so_far();
            let found = self.way_down(Target::Key(key), None).and_then(|block| self.read_entry(block, key));
            if moves.so_far() == before {
                return found;
            }
        }
    }

    /// Which page the leaf is; it may have moved since.
    fn way_down(&self, target: Target<'_>, mut route: Option<&mut Route>) -> Result<u32> {
        if let Some(route) = route.as_deref_mut() {
            *route = Route::default();
        }
        let (mut block, mut above) = (ROOT, None);
        loop {
            let pin = self.pin(block, None)?;
            let node = Node { bytes: &pin };
            let level = node.level();
            if above.is_some_and(|above: u8| level.checked_add(1) != Some(above)) {
                return Err(self.damaged(block, "is not of the level that its parent is above"));
            }
            if level == 0 {
                return Ok(block);
            }
            let at = match target {
                Target::First => Some(0),
                Target::Last => node.count().checked_sub(1),
                Target::Key(key) => node.child_for(key, false),
                Target::Below(key) => node.child_for(key, true),
            };
            let child = at.and_then(|at| Some((at, node.child(at)?)));
            let (at, child) = child
                .filter(|_| node.kind() == Some(Kind::Inner))
                .ok_or_else(|| self.damaged(block, "leads to no page"))?;
            if let Some(route) = route.as_deref_mut() {
                route.pass(node, at);
            }
            // The leaf itself is pinned by who wants it, marked as that one likes.
            if level == 1 {
                return Ok(child);
            }
            (block, above) = (child, Some(level));
        }
    }
}

impl Route {
    /// Goes by entry `at` of an inner node.
    fn pass(&mut self, node: Node<'_>, at: usize) {
        if at > 0 {
            self.low = node.key(at).map(<[u8]>::to_vec);
        }
        if at + 1 < node.count() {
            self.high = node.key(at + 1).map(<[u8]>::to_vec);
        }
        if node.level() == 1 {
            self.siblings = (0..node.count()).filter_map(|at| node.child(at)).collect();
            self.at = at;
        }
    }
}
