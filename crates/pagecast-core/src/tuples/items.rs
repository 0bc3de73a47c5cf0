//! Items of pages and mini-pages in one arena: lists of few, without an allocation for each.

use super::MOST_VISITS;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// An item that a request asks for by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuple {
    /// Its number in the page, or a hash of its key.
    pub name: u32,
    /// Its bytes.
    pub length: u32,
}

/// An item that was asked for: its name, and in one word its length, its visits
/// ([`MOST_VISITS`] at most) and whether it was changed in the mini-page and is not on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Item {
    pub(super) name: u32,
    packed: u32,
}

const DIRTY: u32 = 4;
const LENGTH: u32 = 3;

impl Item {
    /// Visited once. Above 512 MiB the length says only that.
    pub(super) fn new(name: u32, length: u32, dirty: bool) -> Self {
        let dirty = if dirty { DIRTY } else { 0 };
        Self { name, packed: length.min(u32::MAX >> LENGTH) << LENGTH | dirty | 1 }
    }

    pub(super) fn length(self) -> u32 {
        self.packed >> LENGTH
    }

    pub(super) fn count(self) -> u8 {
        self.packed as u8 & MOST_VISITS
    }

    pub(super) fn set_count(&mut self, count: u8) {
        self.packed = self.packed & !u32::from(MOST_VISITS) | u32::from(count.min(MOST_VISITS));
    }

    pub(super) fn visit(&mut self) {
        self.set_count(self.count() + 1);
    }

    pub(super) fn is_dirty(self) -> bool {
        self.packed & DIRTY != 0
    }

    pub(super) fn set_dirty(&mut self, dirty: bool) {
        self.packed = self.packed & !DIRTY | if dirty { DIRTY } else { 0 };
    }
}

#[derive(Debug)]
struct Cell {
    item: Item,
    next: u32,
}

/// The arena. It holds at most `bound` items; with [`u32::MAX`] it grows.
#[derive(Debug)]
pub(super) struct Items {
    cells: Vec<Cell>,
    free: u32,
    bound: u32,
}

/// A list in the arena; it must be given back by [`Items::clear`].
#[derive(Debug)]
pub(super) struct ItemList(u32);

impl Default for ItemList {
    fn default() -> Self {
        Self(NONE)
    }
}

impl ItemList {
    pub(super) fn is_empty(&self) -> bool {
        self.0 == NONE
    }
}

impl Items {
    pub(super) const BYTES: u32 = size_of::<Cell>() as u32;

    pub(super) fn new(bound: u32) -> Self {
        Self { cells: Vec::with_capacity(if bound == u32::MAX { 0 } else { bound as usize }), free: NONE, bound }
    }

    pub(super) fn iter<'a>(&'a self, list: &ItemList) -> impl Iterator<Item = Item> + 'a {
        let cell = |at: u32| self.cells.get(at as usize);
        core::iter::successors(cell(list.0), move |before| cell(before.next)).map(|cell| cell.item)
    }

    pub(super) fn find(&mut self, list: &ItemList, name: u32) -> Option<&mut Item> {
        let mut at = list.0;
        while let Some(cell) = self.cells.get(at as usize) {
            if cell.item.name == name {
                break;
            }
            at = cell.next;
        }
        self.cells.get_mut(at as usize).map(|cell| &mut cell.item)
    }

    /// Counts a visit of an item of a page. A full arena forgets it.
    pub(super) fn visit(&mut self, list: &mut ItemList, name: u32, length: u32) {
        match self.find(list, name) {
            Some(item) => item.visit(),
            None => _ = self.push(list, Item::new(name, length, false)),
        }
    }

    /// Puts `item` in front; whether there was room.
    pub(super) fn push(&mut self, list: &mut ItemList, item: Item) -> bool {
        let cell = Cell { item, next: list.0 };
        let at = self.free;
        if let Some(free) = self.cells.get_mut(at as usize) {
            self.free = free.next;
            *free = cell;
            list.0 = at;
        } else if self.cells.len() < self.bound as usize {
            list.0 = self.cells.len() as u32;
            self.cells.push(cell);
        } else {
            return false;
        }
        true
    }

    /// Changes each item of `list`, or takes it out if `change` says false.
    pub(super) fn retain(&mut self, list: &mut ItemList, mut change: impl FnMut(&mut Item) -> bool) {
        let (mut at, mut before) = (list.0, NONE);
        while at != NONE {
            let cell = &mut self.cells[at as usize];
            let next = cell.next;
            if change(&mut cell.item) {
                before = at;
            } else {
                cell.next = self.free;
                self.free = at;
                match before {
                    NONE => list.0 = next,
                    before => self.cells[before as usize].next = next,
                }
            }
            at = next;
        }
    }

    /// How many items a list has, and their bytes.
    pub(super) fn sum(&self, list: &ItemList) -> (u32, u32) {
        self.iter(list).fold((0, 0), |(count, bytes), item| (count + 1, bytes + item.length()))
    }

    pub(super) fn any_dirty(&self, list: &ItemList) -> bool {
        self.iter(list).any(Item::is_dirty)
    }

    /// Marks all as being on the device.
    pub(super) fn clean(&mut self, list: &mut ItemList) {
        self.retain(list, |item| {
            item.set_dirty(false);
            true
        });
    }

    pub(super) fn clear(&mut self, mut list: ItemList) {
        self.retain(&mut list, |_| false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_keeps_length_count_and_mark_apart() {
        let mut item = Item::new(7, u32::MAX, true);
        assert_eq!((item.length(), item.count(), item.is_dirty()), (u32::MAX >> 3, 1, true));
        (0..5).for_each(|_| item.visit());
        item.set_dirty(false);
        assert_eq!((item.name, item.length(), item.count(), item.is_dirty()), (7, u32::MAX >> 3, 3, false));
    }

    #[test]
    fn lists_share_the_arena_and_give_back() {
        let mut items = Items::new(4);
        let (mut one, mut other) = (ItemList::default(), ItemList::default());
        (0..3).for_each(|name| items.visit(&mut one, name, 10));
        items.visit(&mut one, 1, 10);
        items.visit(&mut other, 7, 10);
        items.visit(&mut other, 8, 10);
        assert_eq!(items.iter(&other).map(|item| item.name).collect::<Vec<_>>(), [7], "the fifth finds no room");
        items.retain(&mut one, |item| item.count() > 1);
        assert_eq!(items.iter(&one).map(|item| (item.name, item.count())).collect::<Vec<_>>(), [(1, 2)]);
        items.visit(&mut other, 8, 10);
        items.visit(&mut other, 9, 10);
        assert_eq!(items.iter(&other).count(), 3, "the room of those taken out is used again");
        items.clear(other);
        items.clear(one);
        assert_eq!(items.cells.len(), 4);
    }
}
