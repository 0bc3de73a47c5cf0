//! What is in a slab: mini-pages, and how one is found.
//!
//! ```text
//!  0        8         16                                                                page size
//!  | top    | cursor  | a byte for each of 8 * groups slots | a u16 for each slot | mini-pages |
//!  | in use | number  | 0 empty, 1 deleted, else part of    | where its mini-page |
//!  |        |         | the hash of the page                | begins, in units    |
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

use std::ops::Range;

use pagecast_core::PageId;
use pagecast_core::random::Random;
use pagecast_core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use pagecast_core::tuples::{Candidate, Heat, MOST_VISITS, SAMPLED, Trim, Visits, coldest};

/// Bytes in front of the slots' bytes.
const SLAB_HEAD: u32 = 16;
/// Bytes of a mini-page's head.
const HEAD: u32 = 40;
/// Bytes of an entry.
const ENTRY: u32 = 8;
/// Slots of a group: those whose bytes are looked at together.
const GROUP: u32 = 8;
/// Bytes of a slab for which there is a slot: the least that a mini-page with one short item takes,
/// or about that.
const BYTES_PER_SLOT: u32 = 96;

const EMPTY: u8 = 0;
const DELETED: u8 = 1;
/// The part of an entry that is the end of its item's bytes.
const END: u64 = (1 << 24) - 1;
const VISITS_AT: u32 = 24;
const DIRTY: u64 = 1 << 26;
const HIDDEN: u64 = 1 << 27;
/// Of `dirty since`: not dirty.
pub(super) const NEVER: u64 = u64::MAX;
/// Of `dirty since`: not dirty, but an item is being changed.
pub(super) const HELD: u64 = u64::MAX - 1;

/// How slabs of a page size are divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    page: u32,
    groups: u32,
    /// Mini-pages begin at multiples of this.
    unit: u32,
    /// Where mini-pages begin.
    heap: u32,
}

impl Shape {
    pub(super) fn new(page_size: u32) -> Self {
        let groups = (page_size / BYTES_PER_SLOT / GROUP).max(1);
        let unit = (page_size >> 16).next_power_of_two().max(8);
        let heap = (SLAB_HEAD + groups * GROUP * 3).next_multiple_of(unit);
        Self { page: page_size, groups, unit, heap }
    }

    fn slots(self) -> u32 {
        self.groups * GROUP
    }

    fn byte_at(self, slot: u32) -> u32 {
        SLAB_HEAD + slot
    }

    fn place_at(self, slot: u32) -> u32 {
        SLAB_HEAD + self.slots() + slot * 2
    }

    /// The bytes that a mini-page of so many items with together `bytes` bytes takes.
    pub(super) fn need(self, items: usize, bytes: usize) -> usize {
        (HEAD as usize + items * ENTRY as usize + bytes).next_multiple_of(self.unit as usize)
    }

    /// The groups in which a page of this hash may be, the first first.
    fn probe(self, hash: u64) -> impl Iterator<Item = u32> {
        let first = (((hash & 0xffff_ffff) * u64::from(self.groups)) >> 32) as u32;
        (first..self.groups).chain(0..first)
    }
}

/// The byte of a slot for a page of this hash.
fn mark(hash: u64) -> u8 {
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
    at: u32,
    items: u32,
    /// Its counter in the visits of the slab's frame.
    counter: u32,
    bytes: u32,
}

/// An item of a mini-page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) name: u32,
    pub(super) visits: u8,
    pub(super) is_dirty: bool,
    is_hidden: bool,
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
fn place<W: Words + ?Sized>(words: &W, shape: Shape, slot: u32) -> u32 {
    let at = shape.place_at(slot);
    let word = words.word(at & !7) >> ((at & 7) * 8);
    u32::from(word as u16) * shape.unit
}

#[inline]
fn mini<W: Words + ?Sized>(words: &W, slot: u32, at: u32) -> Mini {
    let head = words.word(at + 24);
    Mini { slot, at, bytes: head as u32, items: (head >> 32) as u16 as u32, counter: (head >> 48) as u32 }
}

impl Mini {
    fn entry_at(&self, index: u32) -> u32 {
        self.at + HEAD + index * ENTRY
    }

    /// The item at `index`.
    #[inline]
    fn entry<W: Words + ?Sized>(&self, words: &W, index: u32) -> Entry {
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
        let part = |entry: Entry| {
            let Entry { name, visits, is_dirty, is_hidden, start, len, .. } = entry;
            Part { name, visits, is_dirty, is_hidden, start, len }
        };
        self.entries(words).map(part).collect()
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

/// What becomes a mini-page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    pub(super) page: PageId,
    pub(super) hash: u64,
    /// The log record of the page's last change.
    pub(super) lsn: u64,
    pub(super) heat: u64,
    /// Since which record it is dirty.
    pub(super) since: u64,
    /// In the order of their names, each once; their bytes are in `bytes`.
    pub(super) items: &'a [Part],
    pub(super) bytes: &'a [u8],
}

/// An item of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) name: u32,
    pub(super) visits: u8,
    pub(super) is_dirty: bool,
    pub(super) is_hidden: bool,
    pub(super) start: u32,
    pub(super) len: u32,
}

impl Part {
    /// The entry of it, if its bytes end there.
    fn entry(&self, end: u32) -> u64 {
        let flags = if self.is_dirty { DIRTY } else { 0 } | if self.is_hidden { HIDDEN } else { 0 };
        (u64::from(self.name) << 32) | flags | (u64::from(self.visits) << VISITS_AT) | u64::from(end)
    }

    fn range(&self) -> Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
}

impl Parts<'_> {
    /// The bytes that it takes in a slab.
    pub(super) fn need(&self, shape: Shape) -> usize {
        shape.need(self.items.len(), self.items.iter().map(|part| part.len as usize).sum())
    }
}

/// What a slab has lost to make room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Gone {
    /// Mini-pages that went whole.
    pub(super) whole: u32,
    /// Mini-pages that went on with fewer items.
    pub(super) trimmed: u32,
}

/// A slab in the hands of somebody who may change it.
///
/// Invariants: (S1) the mini-pages of the slots do not overlap, lie between the heap's begin and
/// `top`, and take `in use` bytes together. (S2) A page has one mini-page at most, and is found
/// from the group on that its hash says.
pub(super) struct Slab<'a> {
    pub(super) shape: Shape,
    pub(super) bytes: &'a mut [u8],
}

impl Slab<'_> {
    /// An empty slab.
    pub(super) fn clear(&mut self) {
        self.bytes[..self.shape.heap as usize].fill(0);
        self.set_top(self.shape.heap, 0);
    }

    fn set(&mut self, at: u32, word: u64) {
        self.bytes[at as usize..at as usize + 8].copy_from_slice(&word.to_le_bytes());
    }

    /// Where the next mini-page would begin, and the bytes of those there are.
    fn top(&self) -> (u32, u32) {
        let word = self.bytes.word(0);
        (word as u32, (word >> 32) as u32)
    }

    fn set_top(&mut self, top: u32, in_use: u32) {
        self.set(0, u64::from(in_use) << 32 | u64::from(top));
    }

    /// The bytes of its mini-pages.
    pub(super) fn in_use(&self) -> u32 {
        self.top().1
    }

    /// The next counter, and how many mini-pages there are.
    fn tally(&self) -> (u32, u32) {
        let word = self.bytes.word(8);
        (word as u32, (word >> 32) as u32)
    }

    fn set_tally(&mut self, counter: u32, number: u32) {
        self.set(8, u64::from(number) << 32 | u64::from(counter));
    }

    /// How many mini-pages it has.
    pub(super) fn number(&self) -> u32 {
        self.tally().1
    }

    /// How many items they have.
    pub(super) fn items(&self) -> u32 {
        self.minis().map(|mini| mini.items).sum()
    }

    fn mark(&self, slot: u32) -> u8 {
        self.bytes[self.shape.byte_at(slot) as usize]
    }

    fn has(&self, slot: u32) -> bool {
        self.mark(slot) > DELETED
    }

    fn at_slot(&self, slot: u32) -> Mini {
        mini(&*self.bytes, slot, place(&*self.bytes, self.shape, slot))
    }

    /// Its mini-pages.
    pub(super) fn minis(&self) -> impl Iterator<Item = Mini> {
        (0..self.shape.slots()).filter(|&slot| self.has(slot)).map(|slot| self.at_slot(slot))
    }

    /// The mini-page of a page.
    pub(super) fn find(&self, page: PageId, hash: u64) -> Option<Mini> {
        find(&*self.bytes, self.shape, page, hash)
    }

    /// Takes a mini-page away.
    pub(super) fn remove(&mut self, mini: &Mini) {
        let group = mini.slot / GROUP * GROUP;
        let is_end = (group..group + GROUP).any(|slot| self.mark(slot) == EMPTY);
        // Nobody looks beyond a group with an empty byte.
        self.bytes[self.shape.byte_at(mini.slot) as usize] = if is_end { EMPTY } else { DELETED };
        let ((top, in_use), (counter, number)) = (self.top(), self.tally());
        self.set_top(top, in_use - mini.bytes);
        self.set_tally(counter, number - 1);
    }

    /// Puts a mini-page in, if there is room at the end of the slab and a slot. The page has none.
    pub(super) fn insert(&mut self, parts: &Parts<'_>) -> bool {
        let need = parts.need(self.shape) as u32;
        let (at, in_use) = self.top();
        let Some(slot) = self.free_slot(parts.hash).filter(|_| need <= self.shape.page - at) else { return false };
        let (counter, number) = self.tally();
        self.bytes[self.shape.byte_at(slot) as usize] = mark(parts.hash);
        let place = self.shape.place_at(slot) as usize;
        self.bytes[place..place + 2].copy_from_slice(&((at / self.shape.unit) as u16).to_le_bytes());
        self.set(at, parts.page.raw());
        self.set(at + 8, parts.heat);
        self.set(at + 16, parts.lsn);
        self.set(at + 24, u64::from(counter as u16) << 48 | (parts.items.len() as u64) << 32 | u64::from(need));
        self.set(at + 32, parts.since);
        let mut end = 0;
        let data = at + HEAD + parts.items.len() as u32 * ENTRY;
        for (part, entry) in parts.items.iter().zip((at + HEAD..).step_by(ENTRY as usize)) {
            let place = (data + end) as usize..(data + end + part.len) as usize;
            self.bytes[place].copy_from_slice(&parts.bytes[part.range()]);
            end += part.len;
            self.set(entry, part.entry(end));
        }
        self.set_top(at + need, in_use + need);
        self.set_tally(u32::from((counter as u16).wrapping_add(parts.items.len() as u16)), number + 1);
        true
    }

    fn free_slot(&self, hash: u64) -> Option<u32> {
        let slots = |group: u32| group * GROUP..(group + 1) * GROUP;
        self.shape.probe(hash).flat_map(slots).find(|&slot| !self.has(slot))
    }

    /// Whether `need` bytes and a slot are free, maybe in pieces.
    pub(super) fn has_room(&self, need: u32) -> bool {
        need <= self.shape.page - self.shape.heap - self.in_use() && self.number() < self.shape.slots()
    }

    /// Makes room for `need` bytes at the end of the slab and for a slot: the coldest leave.
    pub(super) fn make_room(&mut self, need: u32, visits: Visits<'_>, age: u32, random: &mut Random) -> Gone {
        let mut gone = Gone::default();
        if !self.has_room(need) {
            self.note_visits(visits, age);
            while !self.has_room(need) && self.evict(age, random, &mut gone) {}
        }
        if need > self.shape.page - self.top().0 {
            self.compact();
        }
        gone
    }

    /// Adds what was visited since this was done last to the items' visits and to the heat of their
    /// mini-pages.
    pub(super) fn note_visits(&mut self, visits: Visits<'_>, age: u32) {
        for slot in 0..self.shape.slots() {
            if !self.has(slot) {
                continue;
            }
            let mini = self.at_slot(slot);
            let word = AtomicU64::new(self.bytes.word(mini.at + 8));
            let mut is_visited = false;
            for index in 0..mini.items {
                let new = visits.count(mini.counter + index);
                if new > 0 {
                    is_visited = true;
                    (0..new).for_each(|_| Heat::new(&word).hit(age));
                    self.add_visits(mini.entry_at(index), new);
                }
            }
            if is_visited {
                self.set(mini.at + 8, word.load(Relaxed));
            }
        }
        visits.clear();
    }

    fn add_visits(&mut self, entry_at: u32, new: u8) {
        let visits = ((self.bytes.word(entry_at) >> VISITS_AT) as u8 & MOST_VISITS).saturating_add(new);
        self.set_visits(entry_at, visits.min(MOST_VISITS));
    }

    fn set_visits(&mut self, entry_at: u32, visits: u8) {
        let entry = self.bytes.word(entry_at);
        let cleared = entry & !(u64::from(MOST_VISITS) << VISITS_AT);
        self.set(entry_at, cleared | u64::from(visits) << VISITS_AT);
    }

    /// The coldest of some mini-pages goes, whole or in part. False if there is none that may.
    fn evict(&mut self, age: u32, random: &mut Random, gone: &mut Gone) -> bool {
        let Some(victim) = self.coldest(age, random) else { return false };
        let words = &*self.bytes;
        match Trim::of(victim.entries(words).map(|entry| entry.visits)) {
            Trim::Whole => {
                self.remove(&victim);
                gone.whole += 1;
            }
            trim => {
                self.trim(&victim, trim);
                gone.trimmed += 1;
            }
        }
        true
    }

    fn coldest(&mut self, age: u32, random: &mut Random) -> Option<Mini> {
        let sampled = self.sampled(random);
        let candidates: Vec<_> = sampled.iter().map(|mini| self.candidate(mini, age)).collect();
        coldest(candidates).map(|at| sampled[at])
    }

    /// Some mini-pages that may go.
    fn sampled(&self, random: &mut Random) -> Vec<Mini> {
        let may_go = |mini: &Mini| mini.since(self.bytes) == NEVER;
        if self.shape.slots() <= 4 * SAMPLED as u32 {
            return self.minis().filter(may_go).collect();
        }
        // Drawn slots, and if few of them are taken, those that follow.
        let start = random.below(self.shape.slots());
        let drawn = (0..SAMPLED as u32).map(|_| random.below(self.shape.slots())).collect::<Vec<_>>();
        let following = (start..self.shape.slots()).chain(0..start);
        let sampled = drawn.into_iter().chain(following).filter(|&slot| self.has(slot));
        sampled.map(|slot| self.at_slot(slot)).filter(may_go).take(SAMPLED).collect()
    }

    /// How a mini-page stands, after its items' visits were halved if that is due.
    fn candidate(&mut self, mini: &Mini, age: u32) -> Candidate {
        let word = AtomicU64::new(self.bytes.word(mini.at + 8));
        let heat = Heat::new(&word);
        let halvings = heat.halvings(age);
        if halvings > 0 {
            self.set(mini.at + 8, word.load(Relaxed));
            for index in 0..mini.items {
                let visits = mini.entry(&*self.bytes, index).visits;
                self.set_visits(mini.entry_at(index), visits.checked_shr(halvings).unwrap_or(0));
            }
        }
        let least = mini.entries(&*self.bytes).map(|entry| entry.visits).min().unwrap_or(0);
        Candidate { hits: heat.hits(age), bytes: mini.bytes, least }
    }

    /// The mini-page goes on with the items that `trim` leaves.
    fn trim(&mut self, mini: &Mini, trim: Trim) {
        let kept: Vec<Entry> = mini.entries(&*self.bytes).filter(|entry| trim.keeps(entry.visits)).collect();
        let data = mini.entry_at(kept.len() as u32);
        // Forwards and in order: no item is written over before it has moved.
        let mut end = 0;
        for entry in &kept {
            let from = entry.start as usize..(entry.start + entry.len) as usize;
            self.bytes.copy_within(from, (data + end) as usize);
            end += entry.len;
        }
        let mut end = 0;
        for (index, entry) in (0..).zip(&kept) {
            end += entry.len;
            let Entry { name, visits, is_dirty, is_hidden, start, len, .. } = *entry;
            let part = Part { name, visits, is_dirty, is_hidden, start, len };
            self.set(mini.entry_at(index), part.entry(end));
        }
        let bytes = self.shape.need(kept.len(), end as usize) as u32;
        self.set(mini.at + 24, u64::from(mini.counter) << 48 | (kept.len() as u64) << 32 | u64::from(bytes));
        let (top, in_use) = self.top();
        self.set_top(top, in_use - (mini.bytes - bytes));
    }

    /// Says since when a mini-page is dirty.
    pub(super) fn set_since(&mut self, mini: &Mini, since: u64) {
        self.set(mini.at + 32, since);
    }

    /// Changes an item to other bytes of its length, as log record `lsn` says. That is a hit.
    pub(super) fn store(&mut self, mini: &Mini, place: u32, bytes: &[u8], lsn: u64, age: u32) {
        self.add_visits(mini.entry_at(place), 1);
        let word = AtomicU64::new(mini.heat(self.bytes));
        Heat::new(&word).hit(age);
        self.set(mini.at + 8, word.load(Relaxed));
        let entry = mini.entry(&*self.bytes, place);
        self.bytes[entry.start as usize..][..entry.len as usize].copy_from_slice(bytes);
        let word = self.bytes.word(mini.entry_at(place));
        self.set(mini.entry_at(place), word & !HIDDEN | DIRTY);
        self.set(mini.at + 16, mini.lsn(self.bytes).max(lsn));
        self.set_since(mini, mini.since(self.bytes).min(lsn));
    }

    /// Moves the mini-pages together.
    fn compact(&mut self) {
        let mut minis: Vec<Mini> = self.minis().collect();
        minis.sort_unstable_by_key(|mini| mini.at);
        let mut top = self.shape.heap;
        for mini in minis {
            if mini.at != top {
                self.bytes.copy_within(mini.at as usize..(mini.at + mini.bytes) as usize, top as usize);
                let place = self.shape.place_at(mini.slot) as usize;
                self.bytes[place..place + 2].copy_from_slice(&((top / self.shape.unit) as u16).to_le_bytes());
            }
            top += mini.bytes;
        }
        let in_use = self.in_use();
        self.set_top(top, in_use);
    }

    /// Panics if an invariant does not hold.
    pub(super) fn check(&self, hash: impl Fn(PageId) -> u64) {
        let mut minis: Vec<Mini> = self.minis().collect();
        minis.sort_unstable_by_key(|mini| mini.at);
        let (top, in_use) = self.top();
        assert_eq!(minis.len() as u32, self.number(), "(S1): a mini-page is lost");
        assert_eq!(minis.iter().map(|mini| mini.bytes).sum::<u32>(), in_use, "(S1): bytes are lost");
        let end = minis.iter().fold(self.shape.heap, |end, mini| {
            assert!(end <= mini.at, "(S1): mini-pages overlap");
            mini.at + mini.bytes
        });
        assert!(end <= top && top <= self.shape.page, "(S1): a mini-page outside");
        for mini in &minis {
            let page = mini.page(self.bytes);
            let found = self.find(page, hash(page)).map(|found| found.slot);
            assert_eq!(found, Some(mini.slot), "(S2): {page:?} is not found");
        }
    }
}
