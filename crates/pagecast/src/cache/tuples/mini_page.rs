//! What is in a slab: mini-pages, and how one is found and read.
//!
//! ```text
//!  0        8         16      24                                                        page size
//!  | top    | cursor  | items | a byte for each of 8 * groups slots | a u16 for each slot | mini-pages |
//!  | in use | number  |       | 0 empty, 1 deleted, else part of    | where its mini-page |
//!  |        |         |       | the hash of the page                | begins, in units    |
//!
//!  a mini-page:
//!  0      8      16    24                      32            40
//!  | page | heat | lsn | bytes, items, counter | dirty since | an entry for each item | their bytes |
//!  an entry:  63..32  name   27  hidden   26  dirty   25..24  visits   23..0  end of its bytes
//! ```
//!
//! A page's mini-page is looked for from the group on that its hash says, up to the first group
//! with an empty byte. Entries are in the order of their names. Numbers are little-endian.
//!
//! A hidden entry has room for an item that is being written and was not there. A mini-page that is
//! dirty, or of which an item is being changed, does not give way.
//!
//! Those who only read do so through [`Words`], because the slab may change under them: each number
//! may be anything, and nothing is read outside the slab. What they found is thrown away if the
//! slab's version has changed.

use pagecast_core::PageId;
use pagecast_core::tuples::MOST_VISITS;

use super::slab::Part;

/// Bytes in front of the slots' bytes.
const SLAB_HEAD: u32 = 24;
/// Bytes of a mini-page's head.
pub(super) const HEAD: u32 = 40;
/// Bytes of an entry.
pub(super) const ENTRY: u32 = 8;
/// Slots of a group: those whose bytes are looked at together.
pub(super) const GROUP: u32 = 8;
/// Bytes of a slab for which there is a slot: the least that a mini-page with one short item takes,
/// or about that.
const BYTES_PER_SLOT: u32 = 96;

pub(super) const EMPTY: u8 = 0;
pub(super) const DELETED: u8 = 1;
/// The part of an entry that is the end of its item's bytes.
const END: u64 = (1 << 24) - 1;
pub(super) const VISITS_AT: u32 = 24;
pub(super) const DIRTY: u64 = 1 << 26;
pub(super) const HIDDEN: u64 = 1 << 27;
/// Of `dirty since`: not dirty.
pub(super) const NEVER: u64 = u64::MAX;
/// Of `dirty since`: not dirty, but an item is being changed.
pub(super) const HELD: u64 = u64::MAX - 1;

/// How slabs of a page size are divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) page: u32,
    groups: u32,
    /// Mini-pages begin at multiples of this.
    pub(super) unit: u32,
    /// Where mini-pages begin.
    pub(super) heap: u32,
}

impl Shape {
    pub(super) fn new(page_size: u32) -> Self {
        let groups = (page_size / BYTES_PER_SLOT / GROUP).max(1);
        let unit = (page_size >> 16).next_power_of_two().max(8);
        let heap = (SLAB_HEAD + groups * GROUP * 3).next_multiple_of(unit);
        Self { page: page_size, groups, unit, heap }
    }

    pub(super) fn slots(self) -> u32 {
        self.groups * GROUP
    }

    pub(super) fn byte_at(self, slot: u32) -> u32 {
        SLAB_HEAD + slot
    }

    pub(super) fn place_at(self, slot: u32) -> u32 {
        SLAB_HEAD + self.slots() + slot * 2
    }

    /// The bytes that a mini-page of so many items with together `bytes` bytes takes.
    pub(super) fn need(self, items: usize, bytes: usize) -> usize {
        (HEAD as usize + items * ENTRY as usize + bytes).next_multiple_of(self.unit as usize)
    }

    /// The groups in which a page of this hash may be, the first first.
    pub(super) fn probe(self, hash: u64) -> impl Iterator<Item = u32> {
        let first = (((hash & 0xffff_ffff) * u64::from(self.groups)) >> 32) as u32;
        (first..self.groups).chain(0..first)
    }
}

/// The byte of a slot for a page of this hash.
pub(super) fn mark(hash: u64) -> u8 {
    ((hash >> 56) as u8).max(DELETED + 1)
}

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// The high bit of each byte that is 0, and maybe of some above the first such.
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(LOW_BITS) & !word & HIGH_BITS
}

/// A slab as those see it who only read.
pub(super) trait Words {
    /// The eight bytes from `at` on, a multiple of 8; 0 outside the slab.
    fn word(&self, at: u32) -> u64;
}

impl Words for [u8] {
    fn word(&self, at: u32) -> u64 {
        let word = self.get(at as usize..).and_then(|rest| rest.first_chunk());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    }
}

/// A mini-page, as its head says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mini {
    pub(super) slot: u32,
    pub(super) at: u32,
    pub(super) items: u32,
    /// Its counter in the visits of the slab's frame.
    pub(super) counter: u32,
    pub(super) bytes: u32,
}

/// An item of a mini-page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) name: u32,
    pub(super) visits: u8,
    pub(super) is_dirty: bool,
    pub(super) is_hidden: bool,
    /// Its bytes in the slab.
    pub(super) start: u32,
    pub(super) len: u32,
    /// Its counter in the visits of the slab's frame.
    pub(super) counter: u32,
}

/// Finds the mini-page of a page.
#[inline]
pub(super) fn find<W: Words + ?Sized>(words: &W, shape: Shape, page: PageId, hash: u64) -> Option<Mini> {
    let wanted = u64::from(mark(hash)) * LOW_BITS;
    for group in shape.probe(hash) {
        let marks = words.word(shape.byte_at(group * GROUP));
        let mut found = zero_bytes(marks ^ wanted);
        while found != 0 {
            let slot = group * GROUP + found.trailing_zeros() / 8;
            found &= found - 1;
            let at = place(words, shape, slot);
            if words.word(at) == page.raw() {
                return Some(mini(words, slot, at));
            }
        }
        if zero_bytes(marks) != 0 {
            break;
        }
    }
    None
}

#[inline]
pub(super) fn place<W: Words + ?Sized>(words: &W, shape: Shape, slot: u32) -> u32 {
    let at = shape.place_at(slot);
    let word = words.word(at & !7) >> ((at & 7) * 8);
    u32::from(word as u16) * shape.unit
}

#[inline]
pub(super) fn mini<W: Words + ?Sized>(words: &W, slot: u32, at: u32) -> Mini {
    let head = words.word(at + 24);
    Mini { slot, at, bytes: head as u32, items: (head >> 32) as u16 as u32, counter: (head >> 48) as u32 }
}

impl Mini {
    pub(super) fn entry_at(&self, index: u32) -> u32 {
        self.at + HEAD + index * ENTRY
    }

    /// The item at `index`.
    #[inline]
    pub(super) fn entry<W: Words + ?Sized>(&self, words: &W, index: u32) -> Entry {
        let entry = words.word(self.entry_at(index));
        let before = if index == 0 { 0 } else { words.word(self.entry_at(index - 1)) & END };
        Entry {
            name: (entry >> 32) as u32,
            visits: (entry >> VISITS_AT) as u8 & MOST_VISITS,
            is_dirty: entry & DIRTY != 0,
            is_hidden: entry & HIDDEN != 0,
            start: self.entry_at(self.items) + before as u32,
            len: (entry & END).saturating_sub(before) as u32,
            counter: self.counter + index,
        }
    }

    /// All items.
    pub(super) fn entries<'w, W: Words + ?Sized>(&self, words: &'w W) -> impl Iterator<Item = Entry> + use<'w, W> {
        let mini = *self;
        (0..mini.items).map(move |index| mini.entry(words, index))
    }

    /// The item of that name.
    #[inline]
    pub(super) fn find<W: Words + ?Sized>(&self, words: &W, name: u32) -> Option<Entry> {
        self.find_any(words, name).map(|(_, entry)| entry).filter(|entry| !entry.is_hidden)
    }

    /// The item of that name with its place, be it hidden.
    #[inline]
    pub(super) fn find_any<W: Words + ?Sized>(&self, words: &W, name: u32) -> Option<(u32, Entry)> {
        let (mut low, mut high) = (0, self.items);
        while low < high {
            let middle = (low + high) / 2;
            let found = (words.word(self.entry_at(middle)) >> 32) as u32;
            if found == name {
                return Some((middle, self.entry(words, middle)));
            }
            if found < name { low = middle + 1 } else { high = middle }
        }
        None
    }

    /// Its items, to be put elsewhere.
    pub(super) fn parts(&self, words: &[u8]) -> Vec<Part> {
        self.entries(words).map(Part::from).collect()
    }

    pub(super) fn heat(&self, words: &[u8]) -> u64 {
        words.word(self.at + 8)
    }

    /// The log record of the last change of the page or of an item.
    pub(super) fn lsn(&self, words: &[u8]) -> u64 {
        words.word(self.at + 16)
    }

    /// The log record of the first change that is not in the page on storage, [`NEVER`] or
    /// [`HELD`].
    pub(super) fn since(&self, words: &[u8]) -> u64 {
        words.word(self.at + 32)
    }

    /// The page.
    pub(super) fn page(&self, words: &[u8]) -> PageId {
        PageId::from_raw(words.word(self.at))
    }
}
