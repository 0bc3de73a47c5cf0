//! The B+-tree, as a batch changes it.
//!
//! Source: Comer, "The ubiquitous B-tree" (1979). Deviations: leaves do not know their neighbours;
//! who walks along them comes down from the root again, by the separator it met (two or three pages
//! that are always in memory). A page is merged with a neighbour when less than a quarter of it is
//! used, not half. The page after which the highest keys go is split at its end, so that keys that
//! come in order fill their pages.
//!
//! Invariants: (T1) all leaves are equally far from the root, which stays in its place. (T2) The
//! separator of an inner node's first child is the one that leads to the node, or empty. So entries
//! of two neighbours can be joined as they are. (T3) No page but the root is without an entry,
//! unless no neighbour has room.

use crate::Result;
use crate::change::Change;
use crate::page::{Kind, Node, cost};
use crate::pages::{ROOT, Workspace};

/// The inner nodes from the root to a page, each with the entry that leads on.
type Path = Vec<(u32, usize)>;

/// The leaf that may have `key`.
fn find(pages: &Workspace<'_>, key: &[u8]) -> Result<(Path, u32)> {
    let (mut path, mut block, mut above) = (Path::new(), ROOT, None);
    loop {
        let view = pages.view(block)?;
        let node = view.node();
        if above.is_some_and(|level: u8| node.level().checked_add(1) != Some(level)) {
            return Err(pages.damaged(block, "is not of the level that its parent is above"));
        }
        match node.kind() {
            Some(Kind::Leaf) if node.level() == 0 => return Ok((path, block)),
            Some(Kind::Inner) if node.level() > 0 => {
                let child = node.child_for(key, false).and_then(|at| Some((at, node.child(at)?)));
                let (at, child) = child.ok_or_else(|| pages.damaged(block, "leads to no page"))?;
                path.push((block, at));
                (block, above) = (child, Some(node.level()));
            }
            _ => return Err(pages.damaged(block, "is no page of the tree")),
        }
    }
}

/// Where the key is on the page, or where it belongs.
fn search(pages: &Workspace<'_>, block: u32, key: &[u8]) -> Result<std::result::Result<usize, usize>> {
    let found = pages.view(block)?.node().search(key);
    found.ok_or_else(|| pages.damaged(block, "its entries are not where it says"))
}

/// Gives a key its value.
pub(crate) fn put(pages: &mut Workspace<'_>, key: &[u8], value: &[u8]) -> Result<()> {
    let (path, leaf) = find(pages, key)?;
    let at = match search(pages, leaf, key)? {
        Err(at) => at,
        Ok(at) => {
            let length = pages.view(leaf)?.node().value(at).map(<[u8]>::len);
            if length == Some(value.len()) {
                return pages.change(leaf, Change::Overwrite { key, value });
            }
            pages.change(leaf, Change::Remove { at: at as u16 })?;
            at
        }
    };
    insert(pages, path, leaf, at, (key, value))
}

/// Takes a key away; whether it was there.
pub(crate) fn delete(pages: &mut Workspace<'_>, key: &[u8]) -> Result<bool> {
    let (path, leaf) = find(pages, key)?;
    let Ok(at) = search(pages, leaf, key)? else { return Ok(false) };
    pages.change(leaf, Change::Remove { at: at as u16 })?;
    merge(pages, path, leaf)?;
    Ok(true)
}

fn insert(pages: &mut Workspace<'_>, path: Path, block: u32, at: usize, entry: (&[u8], &[u8])) -> Result<()> {
    let (key, value) = entry;
    if pages.view(block)?.node().fits(key, value) {
        return pages.change(block, Change::Insert { at: at as u16, key, value });
    }
    split(pages, path, block, at, entry)
}

/// Splits a page, and inserts the entry into the half where it belongs.
fn split(pages: &mut Workspace<'_>, mut path: Path, mut block: u32, at: usize, entry: (&[u8], &[u8])) -> Result<()> {
    pages.is_structural = true;
    if block == ROOT {
        block = grow(pages)?;
        path = vec![(ROOT, 0)];
    }
    let Some((parent, index)) = path.pop() else { return Err(pages.damaged(block, "has no parent")) };
    let is_last = is_last(pages, &path, (parent, index))?;
    let old = pages.copy(block)?;
    let old = Node { bytes: &old };
    let damaged = || pages.damaged(block, "its entries are not where it says");
    let left_has = split_point(old, at, cost(entry.0, entry.1), is_last).ok_or_else(damaged)?;
    let goes_left = at < left_has;
    let keep = left_has - usize::from(goes_left);

    let right = pages.allocate()?;
    let kind = if old.level() == 0 { Kind::Leaf } else { Kind::Inner };
    pages.change(right, Change::Format { kind, level: old.level(), next: 0 })?;
    for (to, from) in (keep..old.count()).enumerate() {
        let (key, value) = old.entry(from).ok_or_else(|| pages.damaged(block, "an entry is cut off"))?;
        pages.change(right, Change::Insert { at: to as u16, key, value })?;
    }
    pages.change(block, Change::Truncate { count: keep as u16 })?;
    let (half, at) = if goes_left { (block, at) } else { (right, at - keep) };
    pages.change(half, Change::Insert { at: at as u16, key: entry.0, value: entry.1 })?;

    let separator = separator(pages, block, right)?;
    insert(pages, path, parent, index + 1, (&separator, &right.to_le_bytes()))
}

/// Moves the root's entries to a page of their own, and leads to it.
fn grow(pages: &mut Workspace<'_>) -> Result<u32> {
    let old = pages.copy(ROOT)?;
    let image = Change::image(Node { bytes: &old }).ok_or_else(|| pages.damaged(ROOT, "its entries overlap"))?;
    let child = pages.allocate()?;
    pages.change(child, image)?;
    let Some(level) = old[1].checked_add(1) else { return Err(pages.damaged(ROOT, "has too many levels")) };
    pages.change(ROOT, Change::Format { kind: Kind::Inner, level, next: 0 })?;
    pages.change(ROOT, Change::Insert { at: 0, key: b"", value: &child.to_le_bytes() })?;
    Ok(child)
}

/// Whether no keys come after those of a page.
fn is_last(pages: &Workspace<'_>, path: &[(u32, usize)], parent: (u32, usize)) -> Result<bool> {
    for &(block, at) in path.iter().chain([&parent]) {
        if at + 1 < pages.view(block)?.node().count() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// How many entries the left page gets, of those of `node` and one of `added` bytes before entry
/// `at`: as many as make both halves equal, or all but the last.
fn split_point(node: Node<'_>, at: usize, added: usize, is_last: bool) -> Option<usize> {
    let count = node.count();
    if is_last && at == count && count > 0 {
        return Some(count);
    }
    let mut costs: Vec<usize> =
        node.entries().map(|entry| entry.map(|(key, value)| cost(key, value))).collect::<Option<_>>()?;
    costs.insert(at.min(count), added);
    let (total, mut left) = (costs.iter().sum::<usize>(), 0);
    let halves = (1..costs.len()).map(|taken| {
        left += costs[taken - 1];
        (left.max(total - left), taken)
    });
    halves.min().filter(|&(larger, _)| larger <= node.capacity()).map(|(_, taken)| taken)
}

/// The shortest key that is above those of the left page and not above those of the right one; of
/// inner nodes the one that leads there already (T2).
fn separator(pages: &Workspace<'_>, left: u32, right: u32) -> Result<Vec<u8>> {
    let (left, right_view) = (pages.view(left)?, pages.view(right)?);
    let first = right_view.node().key(0);
    let last = left.node().count().checked_sub(1).and_then(|at| left.node().key(at));
    let (Some(first), Some(last)) = (first, last) else { return Err(pages.damaged(right, "is split in vain")) };
    let shared = first.iter().zip(last).take_while(|(one, other)| one == other).count();
    let length = if right_view.node().level() > 0 { first.len() } else { (shared + 1).min(first.len()) };
    Ok(first[..length].to_vec())
}

/// Joins a page that is nearly empty with a neighbour, and so on upwards.
fn merge(pages: &mut Workspace<'_>, mut path: Path, mut block: u32) -> Result<()> {
    while let Some((parent, index)) = path.pop() {
        let view = pages.view(block)?;
        let is_full_enough = view.node().used() >= view.node().capacity() / 4;
        drop(view);
        if is_full_enough {
            return Ok(());
        }
        let Some((left, right, at)) = neighbours(pages, parent, index)? else { return Ok(()) };
        pages.is_structural = true;
        let moved = pages.copy(right)?;
        let first = pages.view(left)?.node().count();
        for (at, entry) in (first..).zip(Node { bytes: &moved }.entries()) {
            let (key, value) = entry.ok_or_else(|| pages.damaged(right, "an entry is cut off"))?;
            pages.change(left, Change::Insert { at: at as u16, key, value })?;
        }
        pages.free(right)?;
        pages.change(parent, Change::Remove { at: at as u16 })?;
        block = parent;
    }
    shrink(pages)
}

/// Of a parent's child `index` and one of its neighbours: left page, right page, and the entry of
/// the right one; if they fit on one page.
fn neighbours(pages: &Workspace<'_>, parent: u32, index: usize) -> Result<Option<(u32, u32, usize)>> {
    let view = pages.view(parent)?;
    for at in [index + 1, index] {
        if at == 0 || at >= view.node().count() {
            continue;
        }
        let both = view.node().child(at - 1).zip(view.node().child(at));
        let (left, right) = both.ok_or_else(|| pages.damaged(parent, "leads to no page"))?;
        let (one, other) = (pages.view(left)?, pages.view(right)?);
        let (one, other) = (one.node(), other.node());
        let is_empty = one.count() == 0 || other.count() == 0;
        let room = if is_empty { one.capacity() } else { one.capacity() / 4 * 3 };
        if one.used() + other.used() <= room {
            return Ok(Some((left, right, at)));
        }
    }
    Ok(None)
}

/// While the root leads to one page only, takes that page's place.
fn shrink(pages: &mut Workspace<'_>) -> Result<()> {
    loop {
        let view = pages.view(ROOT)?;
        if view.node().kind() != Some(Kind::Inner) || view.node().count() != 1 {
            return Ok(());
        }
        let child = view.node().child(0);
        drop(view);
        let child = child.ok_or_else(|| pages.damaged(ROOT, "leads to no page"))?;
        let moved = pages.copy(child)?;
        let image = Change::image(Node { bytes: &moved }).ok_or_else(|| pages.damaged(child, "its entries overlap"))?;
        pages.is_structural = true;
        pages.change(ROOT, image)?;
        pages.free(child)?;
    }
}
