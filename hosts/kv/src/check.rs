//! Looking at a whole store: whether it is sound, and what it holds.

use std::collections::HashSet;
use std::fmt;

use crate::page::{Kind, Node};
use crate::pages::{LATER_THAN_LOG, ROOT, View, Workspace};
use crate::{Result, Store};

/// What a store holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Statistics {
    /// How many entries.
    pub entries: u64,
    /// Bytes of all keys and values.
    pub bytes: u64,
    /// Pages that hold entries.
    pub leaves: u32,
    /// Pages that lead to others.
    pub inner: u32,
    /// Pages that can be used again.
    pub free: u32,
    /// Pages from the root to a leaf, both counted.
    pub height: u32,
    /// Bytes of a page.
    pub page_size: u32,
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let room = f64::from(self.leaves) * f64::from(self.page_size);
        writeln!(f, "{} entries, {} bytes of keys and values", self.entries, self.bytes)?;
        writeln!(f, "{} leaves, {:.0} % full", self.leaves, 100.0 * self.bytes as f64 / room.max(1.0))?;
        write!(
            f,
            "{} inner pages, {} levels; {} free pages; pages of {} bytes",
            self.inner, self.height, self.free, self.page_size
        )
    }
}

/// A walk through all pages.
struct Walk<'w> {
    store: &'w Store,
    pages: &'w Workspace<'w>,
    seen: HashSet<u32>,
    found: Statistics,
}

impl Store {
    /// Reads every page and checks that they make up a tree: each page is whole, in its order,
    /// between the separators that lead to it and reached once, leaves are equally far from the
    /// root, and every other page is free. None is of a record that the log has lost. Writers wait
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// The first page that is damaged ([`Error::Damaged`](crate::Error::Damaged)), or cannot be
    /// read.
    pub fn check(&self) -> Result<Statistics> {
        let _turn = self.hold_turn();
        let pages = Workspace::new(&self.pages);
        let root_level = pages.view(ROOT)?.node().level();
        let found =
            Statistics { height: u32::from(root_level) + 1, page_size: self.pool.page_size(), ..Statistics::default() };
        let mut walk = Walk { store: self, pages: &pages, seen: HashSet::new(), found };
        walk.tree(ROOT, root_level, None, None)?;
        walk.free_pages()?;
        Ok(walk.found)
    }
}

impl Walk<'_> {
    /// Every page once.
    fn see(&mut self, block: u32) -> Result<()> {
        if !self.seen.insert(block) {
            return Err(self.pages.damaged(block, "is reached twice"));
        }
        Ok(())
    }

    /// A page and all below it, whose keys are not below `low`, and below `high`.
    fn tree(&mut self, block: u32, level: u8, low: Option<&[u8]>, high: Option<&[u8]>) -> Result<()> {
        self.see(block)?;
        let view = self.pages.view(block)?;
        if matches!(&view, View::Pinned(pin) if self.store.log.has_lost(pin.lsn())) {
            return Err(self.pages.damaged(block, LATER_THAN_LOG));
        }
        let bytes = view.to_vec();
        drop(view);
        let node = Node { bytes: &bytes };
        let damaged = |what| Err(self.pages.damaged(block, what));
        if !node.is_sound() {
            return damaged("its entries are not where it says, or not in order");
        }
        if node.level() != level || (node.kind() == Some(Kind::Leaf)) != (level == 0) {
            return damaged("is not of the level that its parent is above");
        }
        // The first separator of an inner node is any key that is not above the others (T2).
        let checked = usize::from(level > 0)..node.count();
        let is_outside = |at| {
            node.key(at).is_none_or(|key| low.is_some_and(|low| key < low) || high.is_some_and(|high| key >= high))
        };
        if checked.into_iter().any(is_outside) {
            return damaged("has a key that its parent looks for elsewhere");
        }
        if level == 0 {
            self.found.leaves += 1;
            self.found.entries += node.count() as u64;
            self.found.bytes +=
                node.entries().flatten().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
            return Ok(());
        }
        if node.count() == 0 {
            return damaged("leads to no page");
        }
        self.found.inner += 1;
        for at in 0..node.count() {
            let Some(child) = node.child(at) else { return Err(self.pages.damaged(block, "leads to no page")) };
            let from = if at == 0 { low } else { node.key(at) };
            self.tree(child, level - 1, from, node.key(at + 1).or(high))?;
        }
        Ok(())
    }

    /// The free pages; then every page was met.
    fn free_pages(&mut self) -> Result<()> {
        let (mut free, used) = self.pages.free_and_used()?;
        while free != 0 {
            self.see(free)?;
            self.found.free += 1;
            let view = self.pages.view(free)?;
            let next = view.node().next_free().filter(|_| view.node().kind() == Some(Kind::Free));
            free = next.ok_or_else(|| self.pages.damaged(free, "is in the list of free pages and is not free"))?;
        }
        match (1..used).find(|block| !self.seen.contains(block)) {
            Some(lost) => Err(self.pages.damaged(lost, "is neither part of the tree nor free")),
            None if self.seen.len() as u32 + 1 == used => Ok(()),
            None => Err(self.pages.damaged(used, "is used and not counted")),
        }
    }
}
