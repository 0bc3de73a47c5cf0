//! Entries as the pool's tuples: they go on when their leaf is evicted.
//!
//! An entry has a hash of its key as its name, since its place moves as others come and go. Two
//! keys of a leaf may have one hash: whoever gets an entry compares the key, and looks at the leaf
//! itself if it is another.

use std::ops::Range;

use pagecast::TupleLayout;

use crate::page::{Kind, Node};

/// Of so many bytes of a page, one entry's visits are told apart from the others'.
const BYTES_OF_AN_ITEM: u32 = 32;

/// The name of an entry: FNV-1a of its key. The pool tells visits apart by the last bits of a name.
/// Keys that differ in their last byte only, as neighbours often do, never share these.
pub(crate) fn name(key: &[u8]) -> u32 {
    key.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Where leaves keep their entries. Other pages have none, so that they stay whole.
pub(crate) struct Entries;

impl Entries {
    fn of(page: &[u8]) -> impl Iterator<Item = (u32, Range<u32>)> {
        let node = Node { bytes: page };
        let count = if node.kind() == Some(Kind::Leaf) { node.count() } else { 0 };
        (0..count).filter_map(move |at| {
            let place = node.extent(at)?;
            Some((name(node.key(at)?), place.start as u32..place.end as u32))
        })
    }
}

impl TupleLayout for Entries {
    fn items(&self, page_bytes: u32) -> u32 {
        page_bytes / BYTES_OF_AN_ITEM
    }

    fn locate(&self, page: &[u8], item: u32) -> Option<Range<u32>> {
        Self::of(page).find(|&(name, _)| name == item).map(|(_, place)| place)
    }

    fn each(&self, page: &[u8], found: &mut dyn FnMut(u32, Range<u32>)) {
        Self::of(page).for_each(|(name, place)| found(name, place));
    }
}

/// An entry as its page has it, its lengths included.
pub(crate) fn whole(key: &[u8], value: &[u8]) -> Vec<u8> {
    let lengths = [key.len(), value.len()].map(|length| (length as u16).to_le_bytes());
    [&lengths[0][..], &lengths[1], key, value].concat()
}

/// Key and value of an entry that was read apart from its page.
pub(crate) fn parts(entry: &[u8]) -> Option<(&[u8], &[u8])> {
    let (lengths, rest) = entry.split_at_checked(4)?;
    let key = usize::from(u16::from_le_bytes([lengths[0], lengths[1]]));
    rest.split_at_checked(key)
}
