//! What is in a slab: mini-pages, and how one is found and read.
//!
//! ```text
//!  0        8         16      24                                                          page size
//!  | top    | cursor  | items | groups of slots: a byte for each of 8,  | mini-pages          |
//!  | in use | number  |       | and a u16 where its mini-page begins,   |                     |
//!  |        |         |       | in units                                |                     |
//!  a slot's byte: 0 empty, 1 deleted, else part of the hash of the page
//!
//!  a mini-page:
//!  0      8     16      24     32                      40
//!  | heat | lsn | dirty | page | bytes, items, counter | an entry for  | their bytes |
//!  |      |     | since |      |                       | each item     |             |
//!  an entry:  63..32  name   27  hidden   26  dirty   25..24  visits   23..0  end of its bytes
//! ```
//!
//! What a reader needs stands together: a group of slots is in one cache line or two, and so is
//! what leads to an item. A page's mini-page is looked for from the group on that its hash says, up
//! to the first group with an empty byte. Entries are in the order of their names. Numbers are
//! little-endian.
//!
//! A hidden entry has room for an item that is being written and was not there. A mini-page that is
//! dirty, or of which an item is being changed, does not give way.
//!
//! Those who only read do so through [`Words`], because the slab may change under them: each number
//! may be anything, and nothing is read outside the slab. What they found is thrown away if the
//! slab's version has changed.

use std::ops::Range;
use std::sync::atomic::{AtomicU64 as Word, Ordering::Relaxed};

use pagecast_core::PageId;
use pagecast_core::sync::atomic::AtomicU64;
use pagecast_core::tuples::{Heat, MOST_VISITS, Visits};

/// Bytes in front of the groups.
const SLAB_HEAD: u32 = 24;
/// Bytes of a mini-page's head.
pub(super) const HEAD: u32 = 40;
/// Where in it is what; see above.
pub(super) const HEAT_AT: u32 = 0;
pub(super) const LSN_AT: u32 = 8;
pub(super) const SINCE_AT: u32 = 16;
pub(super) const PAGE_AT: u32 = 24;
pub(super) const SIZES_AT: u32 = 32;
/// Bytes of an entry.
pub(super) const ENTRY: u32 = 8;
/// Slots of a group: those whose bytes are looked at together.
pub(super) const GROUP: u32 = 8;
/// Bytes of a group: the slots' bytes, and where their mini-pages begin.
const GROUP_BYTES: u32 = GROUP * 3;
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
    /// Mini-pages begin at multiples of a unit, which is a power of two.
    unit_bits: u32,
    /// Where mini-pages begin.
    pub(super) heap: u32,
}

impl Shape {
    pub(super) fn new(page_size: u32) -> Self {
        let groups = (page_size / BYTES_PER_SLOT / GROUP).max(1);
        let unit = (page_size >> 16).next_power_of_two().max(8);
        let heap = (SLAB_HEAD + groups * GROUP_BYTES).next_multiple_of(unit);
        Self { page: page_size, groups, unit_bits: unit.trailing_zeros(), heap }
    }

    pub(super) fn slots(self) -> u32 {
        self.groups * GROUP
    }

    /// Whether a slab has room for so many mini-pages of together `bytes` bytes.
    pub(super) fn holds(self, number: u32, bytes: u32) -> bool {
        number <= self.slots() && bytes <= self.page - self.heap
    }

    /// Where a group begins.
    #[inline]
    fn group_at(group: u32) -> u32 {
        SLAB_HEAD + group * GROUP_BYTES
    }

    pub(super) fn byte_at(slot: u32) -> u32 {
        Self::group_at(slot / GROUP) + slot % GROUP
    }

    fn place_at(slot: u32) -> u32 {
        Self::group_at(slot / GROUP) + GROUP + slot % GROUP * 2
    }

    /// The bytes that a mini-page of so many items with together `bytes` bytes takes.
    pub(super) fn need(self, items: usize, bytes: usize) -> usize {
        (HEAD as usize + items * ENTRY as usize + bytes).next_multiple_of(1 << self.unit_bits)
    }

    /// The group in which a page of this hash is looked for first.
    #[inline]
    fn first_group(self, hash: u64) -> u32 {
        (((hash & 0xffff_ffff) * u64::from(self.groups)) >> 32) as u32
    }

    /// The group after one, round all.
    #[inline]
    fn group_after(self, group: u32) -> u32 {
        if group + 1 < self.groups { group + 1 } else { 0 }
    }

    /// All groups, in the order in which a page of this hash is looked for.
    pub(super) fn probe(self, hash: u64) -> impl Iterator<Item = u32> {
        let first = self.first_group(hash);
        (first..self.groups).chain(0..first)
    }
}

/// The byte of a slot for a page of this hash.
#[inline]
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
    /// The words from `at` on, a multiple of 8; zeros outside the slab.
    fn words<const N: usize>(&self, at: u32) -> [u64; N];

    /// The word at `at`.
    #[inline]
    fn word(&self, at: u32) -> u64 {
        self.words::<1>(at)[0]
    }
}

/// In a frame that may change hands.
impl Words for [Word] {
    #[inline]
    fn words<const N: usize>(&self, at: u32) -> [u64; N] {
        let words = self.get(at as usize / 8..).and_then(|rest| rest.first_chunk::<N>());
        words.map_or([0; N], |words| words.each_ref().map(|word| u64::from_le(word.load(Relaxed))))
    }
}

/// In a frame whose owner looks at it.
impl Words for [u8] {
    #[inline]
    fn words<const N: usize>(&self, at: u32) -> [u64; N] {
        let words = self.get(at as usize..).and_then(|rest| rest.as_chunks().0.first_chunk::<N>());
        words.map_or([0; N], |words| words.map(u64::from_le_bytes))
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

/// An item of what becomes a mini-page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) name: u32,
    pub(super) visits: u8,
    pub(super) is_dirty: bool,
    pub(super) is_hidden: bool,
    pub(super) start: u32,
    pub(super) len: u32,
}

impl From<Entry> for Part {
    fn from(Entry { name, visits, is_dirty, is_hidden, start, len, .. }: Entry) -> Self {
        Self { name, visits, is_dirty, is_hidden, start, len }
    }
}

impl Part {
    /// The entry of it, if its bytes end there.
    pub(super) fn entry(&self, end: u32) -> u64 {
        let flags = if self.is_dirty { DIRTY } else { 0 } | if self.is_hidden { HIDDEN } else { 0 };
        (u64::from(self.name) << 32) | flags | (u64::from(self.visits) << VISITS_AT) | u64::from(end)
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
}

/// Finds the mini-page of a page.
#[inline]
pub(super) fn find<W: Words + ?Sized>(words: &W, shape: Shape, page: PageId, hash: u64) -> Option<Mini> {
    let (wanted, first) = (u64::from(mark(hash)) * LOW_BITS, shape.first_group(hash));
    let mut group = first;
    loop {
        // All at once: nothing that is read waits for the bytes.
        let [marks, places @ ..] = words.words::<3>(Shape::group_at(group));
        let mut found = zero_bytes(marks ^ wanted);
        while found != 0 {
            let slot = found.trailing_zeros() / 8;
            found &= found - 1;
            let at = place(places, shape, slot);
            let [of, sizes] = words.words(at + PAGE_AT);
            if of == page.raw() {
                return Some(Mini::new(group * GROUP + slot, at, sizes));
            }
        }
        group = shape.group_after(group);
        if zero_bytes(marks) != 0 || group == first {
            return None;
        }
    }
}

/// Where the mini-page of a slot of a group begins, whose `places` these are.
#[inline]
fn place(places: [u64; 2], shape: Shape, slot: u32) -> u32 {
    let word = if slot < GROUP / 2 { places[0] } else { places[1] };
    u32::from((word >> (slot % (GROUP / 2) * 16)) as u16) << shape.unit_bits
}

/// The mini-page of a slot that has one.
pub(super) fn mini<W: Words + ?Sized>(words: &W, shape: Shape, slot: u32) -> Mini {
    let [_, places @ ..] = words.words::<3>(Shape::group_at(slot / GROUP));
    let at = place(places, shape, slot % GROUP);
    Mini::new(slot, at, words.word(at + SIZES_AT))
}

/// Says where the mini-page of a slot begins.
pub(super) fn set_place(bytes: &mut [u8], shape: Shape, slot: u32, at: u32) {
    let place = Shape::place_at(slot) as usize;
    bytes[place..place + 2].copy_from_slice(&((at >> shape.unit_bits) as u16).to_le_bytes());
}

/// Whether a slot has a mini-page.
pub(super) fn has(bytes: &[u8], slot: u32) -> bool {
    bytes[Shape::byte_at(slot) as usize] > DELETED
}

/// All mini-pages of a slab.
pub(super) fn minis(bytes: &[u8], shape: Shape) -> impl Iterator<Item = Mini> {
    (0..shape.slots()).filter(|&slot| has(bytes, slot)).map(move |slot| mini(bytes, shape, slot))
}

/// The word of its sizes.
pub(super) fn sizes(counter: u32, items: usize, bytes: u32) -> u64 {
    u64::from(counter as u16) << 48 | (items as u64) << 32 | u64::from(bytes)
}

impl Mini {
    #[inline]
    fn new(slot: u32, at: u32, sizes: u64) -> Self {
        Self { slot, at, bytes: sizes as u32, items: (sizes >> 32) as u16 as u32, counter: (sizes >> 48) as u32 }
    }

    #[inline]
    pub(super) fn entry_at(&self, index: u32) -> u32 {
        self.at + HEAD + index * ENTRY
    }

    /// The item at `index`.
    pub(super) fn entry<W: Words + ?Sized>(&self, words: &W, index: u32) -> Entry {
        self.entry_of(words, index, words.word(self.entry_at(index)))
    }

    /// The item at `index`, whose entry is there.
    #[inline]
    fn entry_of<W: Words + ?Sized>(&self, words: &W, index: u32, entry: u64) -> Entry {
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
            let entry = words.word(self.entry_at(middle));
            let found = (entry >> 32) as u32;
            if found == name {
                return Some((middle, self.entry_of(words, middle, entry)));
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
        words.word(self.at + HEAT_AT)
    }

    /// The same with what was visited since that was added last.
    pub(super) fn heat_with(&self, words: &[u8], visits: Visits<'_>, age: u32) -> u64 {
        let word = AtomicU64::new(self.heat(words));
        let hits = (0..self.items).map(|index| visits.count(self.counter + index)).map(u32::from).sum();
        (0..hits).for_each(|_| Heat::new(&word).hit(age));
        word.into_inner()
    }

    /// The log record of the last change of the page or of an item.
    pub(super) fn lsn(&self, words: &[u8]) -> u64 {
        words.word(self.at + LSN_AT)
    }

    /// The log record of the first change that is not in the page on storage, [`NEVER`] or
    /// [`HELD`].
    pub(super) fn since(&self, words: &[u8]) -> u64 {
        words.word(self.at + SINCE_AT)
    }

    /// The page.
    pub(super) fn page(&self, words: &[u8]) -> PageId {
        PageId::from_raw(words.word(self.at + PAGE_AT))
    }
}
