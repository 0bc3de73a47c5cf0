//! A slab in the hands of somebody who changes it: mini-pages come, go, are trimmed and moved
//! together. What is where in it is in `mini_page`.

use pagecast_core::PageId;
use pagecast_core::random::Random;
use pagecast_core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use pagecast_core::tuples::{Candidate, Heat, MOST_VISITS, SAMPLED, Trim, Visits, coldest};

use super::mini_page::{
    DELETED, DIRTY, EMPTY, ENTRY, Entry, GROUP, HEAD, HEAT_AT, HIDDEN, LSN_AT, Mini, NEVER, PAGE_AT, Part, SINCE_AT,
    SIZES_AT, Shape, VISITS_AT, Words, find, has, mark, mini, minis, set_place, sizes,
};

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
/// `top`, take `in use` bytes and have `items` items together. (S2) A page has one mini-page at
/// most, and is found from the group on that its hash says.
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
        self.bytes.word(16) as u32
    }

    fn set_items(&mut self, items: u32) {
        self.set(16, items.into());
    }

    fn mark(&self, slot: u32) -> u8 {
        self.bytes[Shape::byte_at(slot) as usize]
    }

    fn has(&self, slot: u32) -> bool {
        has(self.bytes, slot)
    }

    fn at_slot(&self, slot: u32) -> Mini {
        mini(&*self.bytes, self.shape, slot)
    }

    /// Its mini-pages.
    pub(super) fn minis(&self) -> impl Iterator<Item = Mini> {
        minis(self.bytes, self.shape)
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
        self.bytes[Shape::byte_at(mini.slot) as usize] = if is_end { EMPTY } else { DELETED };
        let ((top, in_use), (counter, number)) = (self.top(), self.tally());
        self.set_top(top, in_use - mini.bytes);
        self.set_tally(counter, number - 1);
        self.set_items(self.items() - mini.items);
    }

    /// Puts a mini-page in, if there is room at the end of the slab and a slot. The page has none.
    pub(super) fn insert(&mut self, parts: &Parts<'_>) -> bool {
        let need = parts.need(self.shape) as u32;
        let (at, in_use) = self.top();
        let Some(slot) = self.free_slot(parts.hash).filter(|_| need <= self.shape.page - at) else { return false };
        let (counter, number) = self.tally();
        self.bytes[Shape::byte_at(slot) as usize] = mark(parts.hash);
        set_place(self.bytes, self.shape, slot, at);
        self.set(at + HEAT_AT, parts.heat);
        self.set(at + LSN_AT, parts.lsn);
        self.set(at + SINCE_AT, parts.since);
        self.set(at + PAGE_AT, parts.page.raw());
        self.set(at + SIZES_AT, sizes(counter, parts.items.len(), need));
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
        self.set_items(self.items() + parts.items.len() as u32);
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
            let heat = mini.heat_with(self.bytes, visits, age);
            self.set(mini.at + HEAT_AT, heat);
            for index in 0..mini.items {
                self.add_visits(mini.entry_at(index), visits.count(mini.counter + index));
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
        let word = AtomicU64::new(self.bytes.word(mini.at + HEAT_AT));
        let heat = Heat::new(&word);
        let halvings = heat.halvings(age);
        if halvings > 0 {
            self.set(mini.at + HEAT_AT, word.load(Relaxed));
            for index in 0..mini.items {
                let visits = mini.entry(&*self.bytes, index).visits;
                self.set_visits(mini.entry_at(index), visits.checked_shr(halvings).unwrap_or(0));
            }
        }
        let least = mini.entries(&*self.bytes).map(|entry| entry.visits).min().unwrap_or(0);
        // Those with changes are no candidates.
        Candidate { hits: heat.hits(age), bytes: mini.bytes, least, must_clean: false }
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
            self.set(mini.entry_at(index), Part::from(*entry).entry(end));
        }
        let bytes = self.shape.need(kept.len(), end as usize) as u32;
        self.set(mini.at + SIZES_AT, sizes(mini.counter, kept.len(), bytes));
        let (top, in_use) = self.top();
        self.set_top(top, in_use - (mini.bytes - bytes));
        self.set_items(self.items() - (mini.items - kept.len() as u32));
    }

    /// Says since when a mini-page is dirty.
    pub(super) fn set_since(&mut self, mini: &Mini, since: u64) {
        self.set(mini.at + SINCE_AT, since);
    }

    /// Changes an item to other bytes of its length, as log record `lsn` says. That is a hit.
    pub(super) fn store(&mut self, mini: &Mini, place: u32, bytes: &[u8], lsn: u64, age: u32) {
        self.add_visits(mini.entry_at(place), 1);
        let word = AtomicU64::new(mini.heat(self.bytes));
        Heat::new(&word).hit(age);
        self.set(mini.at + HEAT_AT, word.load(Relaxed));
        let entry = mini.entry(&*self.bytes, place);
        self.bytes[entry.start as usize..][..entry.len as usize].copy_from_slice(bytes);
        let word = self.bytes.word(mini.entry_at(place));
        self.set(mini.entry_at(place), word & !HIDDEN | DIRTY);
        self.set(mini.at + LSN_AT, mini.lsn(self.bytes).max(lsn));
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
                set_place(self.bytes, self.shape, mini.slot, top);
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
        assert_eq!(minis.iter().map(|mini| mini.items).sum::<u32>(), self.items(), "(S1): items are lost");
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
