//! A page of the tree: entries in the order of their keys.
//!
//! ```text
//!  kind 1 | level 1 | count 2 | heap 2 | dead 2 | next 4     12 bytes
//!  where each entry begins, 2 bytes each, in the order of keys
//!  ... free ...
//!  the entries, from the end backwards: length of key 2 | length of value 2 | key | value
//! ```
//!
//! An entry of an inner node is a separator and the child whose keys are not below it; the first
//! one's separator counts as below all keys. The pool's seal follows, and a pin does not show it.
//! A page comes with a whole checksum, and still nothing here trusts a number in it: what
//! does not add up is `None`, which the callers report as damage.

use std::cmp::Ordering;
use std::ops::Range;

use pagecast::SEAL_BYTES;

pub(crate) const HEADER: usize = 12;
/// Where an entry begins, and its two lengths.
const ENTRY: usize = 2 + 4;

/// What a page is. A page of zeros was never written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Unused = 0,
    Leaf = 1,
    Inner = 2,
    /// In the list of free pages.
    Free = 3,
    /// The first page of a store.
    Meta = 4,
}

/// Bytes of a page of `page_size` bytes that are ours.
pub(crate) fn usable(page_size: u32) -> usize {
    (page_size - SEAL_BYTES) as usize
}

/// The longest key: at least seven fit on an inner node.
pub(crate) fn longest_key(page_size: u32) -> usize {
    usable(page_size) / 8
}

/// The most bytes of a key and its value: two such entries fit on a page, so that one split always
/// makes room.
pub(crate) fn largest_entry(page_size: u32) -> usize {
    (usable(page_size) - HEADER) / 2 - ENTRY
}

/// Bytes that an entry takes.
pub(crate) fn cost(key: &[u8], value: &[u8]) -> usize {
    ENTRY + key.len() + value.len()
}

/// A page, to be read.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    pub(crate) bytes: &'a [u8],
}

impl<'a> Node<'a> {
    fn short(&self, at: usize) -> Option<usize> {
        let bytes = self.bytes.get(at..at + 2)?;
        Some(usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
    }

    pub(crate) fn kind(&self) -> Option<Kind> {
        let kinds = [Kind::Unused, Kind::Leaf, Kind::Inner, Kind::Free, Kind::Meta];
        kinds.get(usize::from(*self.bytes.first()?)).copied()
    }

    /// How far it is from the leaves.
    pub(crate) fn level(&self) -> u8 {
        self.bytes.get(1).copied().unwrap_or(0)
    }

    /// How many entries it has.
    pub(crate) fn count(&self) -> usize {
        self.short(2).unwrap_or(0)
    }

    fn heap(&self) -> usize {
        self.short(4).unwrap_or(0)
    }

    fn dead(&self) -> usize {
        self.short(6).unwrap_or(0)
    }

    /// Of a free page, the next one in the list.
    pub(crate) fn next_free(&self) -> Option<u32> {
        let bytes = self.bytes.get(8..HEADER)?;
        Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Where entry `at` begins, and where its value and it end.
    fn place(&self, at: usize) -> Option<(usize, usize, usize)> {
        if at >= self.count() {
            return None;
        }
        let start = self.short(HEADER + 2 * at)?;
        let value = start + 4 + self.short(start)?;
        let end = value + self.short(start + 2)?;
        (end <= self.bytes.len()).then_some((start, value, end))
    }

    /// Which bytes entry `at` takes, its lengths included.
    pub(crate) fn extent(&self, at: usize) -> Option<Range<usize>> {
        self.place(at).map(|(start, _, end)| start..end)
    }

    pub(crate) fn key(&self, at: usize) -> Option<&'a [u8]> {
        let (start, value, _) = self.place(at)?;
        self.bytes.get(start + 4..value)
    }

    pub(crate) fn value(&self, at: usize) -> Option<&'a [u8]> {
        let (_, value, end) = self.place(at)?;
        self.bytes.get(value..end)
    }

    pub(crate) fn entry(&self, at: usize) -> Option<(&'a [u8], &'a [u8])> {
        let (start, value, end) = self.place(at)?;
        Some((self.bytes.get(start + 4..value)?, self.bytes.get(value..end)?))
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = Option<(&'a [u8], &'a [u8])>> + use<'a> {
        let node = *self;
        (0..node.count()).map(move |at| node.entry(at))
    }

    /// Where the key is, or where it belongs.
    pub(crate) fn search(&self, key: &[u8]) -> Option<Result<usize, usize>> {
        self.search_between(0..self.count(), key)
    }

    fn search_between(&self, entries: Range<usize>, key: &[u8]) -> Option<Result<usize, usize>> {
        let Range { start: mut low, end: mut high } = entries;
        while low < high {
            let middle = low.midpoint(high);
            match self.key(middle)?.cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Some(Ok(middle)),
            }
        }
        Some(Err(low))
    }

    /// Of an inner node, the entry whose child may have `key`, or, if it is `below`, the last keys
    /// below it.
    pub(crate) fn child_for(&self, key: &[u8], below: bool) -> Option<usize> {
        if self.count() == 0 {
            return None;
        }
        match self.search_between(1..self.count(), key)? {
            Ok(at) if below => Some(at - 1),
            Ok(at) => Some(at),
            Err(at) => Some(at - 1),
        }
    }

    /// Of an inner node, the page that entry `at` leads to.
    pub(crate) fn child(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.value(at)?.try_into().ok()?))
    }

    /// Bytes that entries take, or could.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.len() - HEADER
    }

    /// Bytes that its entries take.
    pub(crate) fn used(&self) -> usize {
        let heap = self.bytes.len().saturating_sub(self.heap());
        (2 * self.count() + heap).saturating_sub(self.dead())
    }

    /// Whether another entry fits, perhaps after the others were moved together.
    pub(crate) fn fits(&self, key: &[u8], value: &[u8]) -> bool {
        self.used() + cost(key, value) <= self.capacity()
    }

    /// The head of the page and its tail, without the free bytes between them.
    pub(crate) fn ends(&self) -> Option<(&'a [u8], &'a [u8])> {
        let head = self.bytes.get(..HEADER + 2 * self.count())?;
        let tail = self.bytes.get(self.heap()..)?;
        (head.len() + tail.len() <= self.bytes.len()).then_some((head, tail))
    }

    /// Whether everything that the page says of itself fits together.
    pub(crate) fn is_sound(&self) -> bool {
        let entries: Option<usize> = self.entries().map(|entry| entry.map(|(key, value)| cost(key, value))).sum();
        let keys = (0..self.count()).map(|at| self.key(at));
        matches!(self.kind(), Some(Kind::Leaf | Kind::Inner))
            && self.ends().is_some()
            && entries.is_some_and(|bytes| bytes == self.used() && bytes <= self.capacity())
            && keys.is_sorted_by(|one, next| one < next)
    }
}

/// A page, to be changed. False: what the page says of itself does not allow it, and nothing was
/// done.
pub(crate) struct NodeMut<'a> {
    pub(crate) bytes: &'a mut [u8],
}

impl NodeMut<'_> {
    fn read(&self) -> Node<'_> {
        Node { bytes: self.bytes }
    }

    fn put_short(&mut self, at: usize, number: usize) {
        self.bytes[at..at + 2].copy_from_slice(&(number as u16).to_le_bytes());
    }

    /// An empty page. `next` counts if it is free.
    pub(crate) fn format(&mut self, kind: Kind, level: u8, next: u32) {
        self.bytes.fill(0);
        self.bytes[..2].copy_from_slice(&[kind as u8, level]);
        self.put_short(4, self.bytes.len());
        self.bytes[8..HEADER].copy_from_slice(&next.to_le_bytes());
    }

    /// Adds an entry before entry `at`.
    pub(crate) fn insert(&mut self, at: usize, key: &[u8], value: &[u8]) -> bool {
        let count = self.read().count();
        if at > count || !self.read().fits(key, value) || self.read().ends().is_none() {
            return false;
        }
        let places = HEADER + 2 * (count + 1);
        if self.read().heap() < places + cost(key, value) - 2 {
            self.compact();
        }
        if self.read().heap() < places + cost(key, value) - 2 {
            return false;
        }
        let start = self.read().heap() - (cost(key, value) - 2);
        self.put_short(start, key.len());
        self.put_short(start + 2, value.len());
        self.bytes[start + 4..start + 4 + key.len()].copy_from_slice(key);
        self.bytes[start + 4 + key.len()..start + 4 + key.len() + value.len()].copy_from_slice(value);
        let place = HEADER + 2 * at;
        self.bytes.copy_within(place..HEADER + 2 * count, place + 2);
        self.put_short(place, start);
        self.put_short(2, count + 1);
        self.put_short(4, start);
        true
    }

    /// Gives the entry of a key another value of the same length.
    pub(crate) fn overwrite(&mut self, key: &[u8], value: &[u8]) -> bool {
        let at = self.read().search(key).and_then(std::result::Result::ok);
        match at.and_then(|at| self.read().place(at)) {
            Some((_, start, end)) if end - start == value.len() => {
                self.bytes[start..end].copy_from_slice(value);
                true
            }
            _ => false,
        }
    }

    pub(crate) fn remove(&mut self, at: usize) -> bool {
        let Some((start, _, end)) = self.read().ends().and(self.read().place(at)) else { return false };
        let count = self.read().count();
        let place = HEADER + 2 * at;
        self.bytes.copy_within(place + 2..HEADER + 2 * count, place);
        self.put_short(2, count - 1);
        self.put_short(6, self.read().dead() + end - start);
        true
    }

    /// Keeps the first `count` entries.
    pub(crate) fn truncate(&mut self, count: usize) -> bool {
        let gone = (count..self.read().count()).map(|at| self.read().place(at).map(|(start, _, end)| end - start));
        let Some(dead) = gone.sum::<Option<usize>>() else { return false };
        self.put_short(2, count.min(self.read().count()));
        self.put_short(6, self.read().dead() + dead);
        true
    }

    /// Moves the entries together, if they are what the page says.
    fn compact(&mut self) {
        let (old, mut end) = (self.bytes.to_vec(), self.bytes.len());
        let old = Node { bytes: &old };
        for at in 0..old.count() {
            let room = end.saturating_sub(HEADER + 2 * old.count());
            let Some((start, _, stop)) = old.place(at).filter(|(start, _, stop)| stop - start <= room) else {
                self.bytes.copy_from_slice(old.bytes);
                return;
            };
            end -= stop - start;
            self.bytes[end..end + stop - start].copy_from_slice(&old.bytes[start..stop]);
            self.put_short(HEADER + 2 * at, end);
        }
        self.put_short(4, end);
        self.put_short(6, 0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    fn content(node: Node<'_>) -> BTreeMap<Vec<u8>, Vec<u8>> {
        node.entries().map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
    }

    proptest! {
        /// Against a map: what does not fit is refused, and only that.
        #[test]
        fn entries_are_those_of_a_map(steps in prop::collection::vec((0u8..4, 0u16..40, 0usize..90), 1..300)) {
            let mut bytes = vec![0; 1000];
            let mut node = NodeMut { bytes: &mut bytes };
            node.format(Kind::Leaf, 0, 0);
            let mut map = BTreeMap::new();
            for (what, key, length) in steps {
                let (key, value) = (key.to_be_bytes().to_vec(), vec![key as u8; length]);
                let found = node.read().search(&key).unwrap();
                match (what, found) {
                    (0 | 1, Err(at)) => {
                        let room: usize = map.iter().map(|(key, value): (&Vec<u8>, &Vec<u8>)| cost(key, value)).sum();
                        let fits = room + cost(&key, &value) <= 1000 - HEADER;
                        prop_assert_eq!(node.insert(at, &key, &value), fits);
                        if fits { map.insert(key, value); }
                    }
                    (0, Ok(_)) => {
                        let same = map[&key].len() == length;
                        prop_assert_eq!(node.overwrite(&key, &value), same);
                        if same { map.insert(key, value); }
                    }
                    (2, Ok(at)) => { prop_assert!(node.remove(at)); map.remove(&key); }
                    (3, Err(at) | Ok(at)) if length < 3 => {
                        prop_assert!(node.truncate(at));
                        map = map.into_iter().take(at).collect();
                    }
                    _ => {}
                }
                prop_assert!(node.read().is_sound());
                prop_assert_eq!(&content(node.read()), &map);
            }
        }

        /// Any bytes at all: no panic.
        #[test]
        fn nonsense_is_refused(mut bytes in prop::collection::vec(any::<u8>(), 64..200), at in 0usize..10, key in 0u8..4) {
            let node = Node { bytes: &bytes };
            let _ = (node.is_sound(), node.search(&[key]), node.child_for(&[key], true), node.child(at), node.ends());
            let mut node = NodeMut { bytes: &mut bytes };
            let _ = (node.remove(at), node.overwrite(&[key], &[key]), node.truncate(at), node.insert(at, &[key], &[key; 9]));
        }
    }
}
