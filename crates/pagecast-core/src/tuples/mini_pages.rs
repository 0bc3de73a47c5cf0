//! The mini-pages of a [`super::Model`], and who of them gives way.

use super::heat::{AGE, Ages, Candidate, Heat, SAMPLED, coldest};
use super::items::{Item, ItemList, Items};
use super::keep::{Trim, Weight};
use super::room::Room;
use super::{Keep, Slot, Tuple};
use crate::policy::PageIndex;
use crate::random::Random;
use crate::sync::atomic::AtomicU64;
use crate::{PageId, Tick};
use alloc::vec::Vec;

/// Visited items that few pages exceed.
const USUAL_ITEMS: usize = 64;

/// A page's items without their page.
#[derive(Debug)]
struct MiniPage {
    page: PageId,
    heat: AtomicU64,
    items: ItemList,
    /// Of its slot ([`Slot::per_slab`]).
    per_slab: u32,
}

/// All mini-pages. Invariants: (I1) `index` leads from a page to its place; (I2) `used` is the sum
/// of their charges, and `held` of their items.
#[derive(Debug)]
pub(super) struct MiniPages {
    room: Room,
    places: Vec<MiniPage>,
    /// How many there may be; one more for a moment, that is made before another gives way.
    bound: u32,
    index: PageIndex,
    used: u64,
    /// Items of all of them.
    held: u32,
    ages: Ages,
    /// When this age began, and how long the one before was.
    began: (u32, Tick),
    lasted: Option<Tick>,
    random: Random,
    /// For [`MiniPages::dissolve`]: the items of the page, and which of them are kept.
    looked: Vec<Item>,
    kept: Vec<bool>,
}

impl MiniPages {
    /// What one takes in a model at most, in bytes, its slots of the index included.
    pub(super) const BYTES: u32 = size_of::<MiniPage>() as u32 + 22;

    /// At most `bound`, which are as many as there is memory for at once.
    pub(super) fn new(room: Room, bound: u32, seed: u64) -> Self {
        let places = bound as usize + 1;
        Self {
            room,
            places: Vec::with_capacity(places),
            bound,
            index: PageIndex::with_capacity(places),
            used: 0,
            held: 0,
            ages: Ages::default(),
            began: (0, 0),
            lasted: None,
            random: Random::new(seed),
            looked: Vec::with_capacity(USUAL_ITEMS),
            kept: Vec::with_capacity(USUAL_ITEMS),
        }
    }

    /// Whether they take more than `capacity` bytes, or there are too many.
    pub(super) fn exceed(&self, capacity: u64) -> bool {
        self.used > capacity || self.places.len() > self.bound as usize
    }

    /// How long a mini-page stays if its like are made as fast as in the last age; forever, as long
    /// as none has passed.
    pub(super) fn stay(&self) -> Tick {
        let share = |ticks: Tick| ticks / Tick::from(AGE) * self.places.len() as Tick / Tick::from(self.held.max(1));
        self.lasted.map_or(Tick::MAX, share)
    }

    fn charge(&self, per_slab: u32) -> u64 {
        u64::from(self.room.charge(per_slab))
    }

    fn place(&self, page: PageId) -> Option<u32> {
        self.index.find(page, |at| self.places[at as usize].page == page)
    }

    /// Looks for an item of `page`, and counts the hit. A write changes it, or puts it there unread
    /// if its page has a mini-page with room. Whether it is there.
    pub(super) fn find(&mut self, items: &mut Items, page: PageId, Tuple { name, length }: Tuple, write: bool) -> bool {
        let Some(at) = self.place(page) else { return false };
        if let Some(item) = items.find(&self.places[at as usize].items, name) {
            item.visit();
            item.set_dirty(item.is_dirty() || write);
        } else if !write || !self.widen(items, at, Item::new(name, length, true)) {
            return false;
        }
        Heat::new(&self.places[at as usize].heat).hit(self.ages.now());
        true
    }

    /// Adds an item to the mini-page at `at` if there is a slot for it.
    fn widen(&mut self, items: &mut Items, at: u32, item: Item) -> bool {
        let mini = &mut self.places[at as usize];
        let (count, bytes) = items.sum(&mini.items);
        let Some(slot) = self.room.slot(count + 1, bytes.saturating_add(item.length())) else { return false };
        if !items.push(&mut mini.items, item) {
            return false;
        }
        self.held += 1;
        self.refit(at, slot);
        true
    }

    /// Notes that the mini-page at `at` has another slot.
    fn refit(&mut self, at: u32, slot: Slot) {
        let before = core::mem::replace(&mut self.places[at as usize].per_slab, slot.per_slab);
        self.used = self.used - self.charge(before) + self.charge(slot.per_slab);
    }

    /// Takes the mini-page of `page` away, with its items and hits: its page is being loaded.
    pub(super) fn take(&mut self, items: &Items, page: PageId) -> Option<(ItemList, u32)> {
        let at = self.place(page)?;
        let mini = self.remove(at);
        self.held -= items.sum(&mini.items).0;
        let hits = Heat::new(&mini.heat).outliving(self.ages.now());
        Some((mini.items, hits))
    }

    fn remove(&mut self, at: u32) -> MiniPage {
        let last = self.places.len() as u32 - 1;
        self.index.remove(self.places[at as usize].page, at);
        if at != last {
            let moved = self.places[last as usize].page;
            self.index.remove(moved, last);
            self.index.insert(moved, at);
        }
        let mini = self.places.swap_remove(at as usize);
        self.used -= self.charge(mini.per_slab);
        mini
    }

    /// Makes a mini-page of what is worth it of a page that goes, if anything is. `before` is the
    /// hits of the one that merged into it.
    pub(super) fn dissolve(&mut self, items: &mut Items, page: PageId, mut list: ItemList, before: u32, now: Tick) {
        let Self { room, looked, kept, .. } = self;
        looked.clear();
        looked.extend(items.iter(&list));
        kept.clear();
        kept.resize(looked.len(), false);
        let weight = |at: u32| Weight { count: looked[at as usize].count(), length: looked[at as usize].length() };
        let mut keep = Keep::new(looked.len() as u32, *room, weight);
        keep.by_ref().for_each(|at| kept[at as usize] = true);
        let Some(slot) = keep.slot() else { return items.clear(list) };
        let count = kept.iter().filter(|&&kept| kept).count() as u32;
        self.held += count;
        let mut kept = kept.iter();
        items.retain(&mut list, |_| kept.next() == Some(&true));
        let heat = AtomicU64::new(0);
        Heat::new(&heat).begin(before, self.ages.now());
        self.index.insert(page, self.places.len() as u32);
        self.places.push(MiniPage { page, heat, items: list, per_slab: slot.per_slab });
        self.used += self.charge(slot.per_slab);
        self.ages.made(self.held);
        if self.ages.now() != self.began.0 {
            self.lasted = Some(now.saturating_sub(self.began.1));
            self.began = (self.ages.now(), now);
        }
    }

    /// One of those sampled gives way, whole or in part; whether it had to be cleaned.
    pub(super) fn evict(&mut self, items: &mut Items) -> bool {
        let age = self.ages.now();
        let drawn: [u32; SAMPLED] = core::array::from_fn(|_| self.random.below(self.places.len() as u32));
        let candidates = drawn.map(|at| self.candidate(items, at, age));
        let Some(at) = coldest(candidates).map(|at| drawn[at]) else { return false };
        let mini = &mut self.places[at as usize];
        let (trim, dirty) = trim(items, &mini.items);
        // All changes of a page are written together, and only if one of them would be lost.
        if dirty {
            items.clean(&mut mini.items);
        }
        let (before, _) = items.sum(&mini.items);
        items.retain(&mut mini.items, |item| trim.keeps(item.count()));
        let (count, bytes) = items.sum(&mini.items);
        self.held -= before - count;
        match self.room.slot(count, bytes) {
            Some(slot) if count > 0 => self.refit(at, slot),
            _ => _ = self.remove(at),
        }
        dirty
    }

    /// How the mini-page at `at` stands, after its items' counts were halved if that is due.
    fn candidate(&mut self, items: &mut Items, at: u32, age: u32) -> Candidate {
        let mini = &mut self.places[at as usize];
        let heat = Heat::new(&mini.heat);
        let halvings = heat.halvings(age);
        if halvings > 0 {
            items.retain(&mut mini.items, |item| {
                item.set_count(item.count().checked_shr(halvings).unwrap_or(0));
                true
            });
        }
        let least = items.iter(&mini.items).map(Item::count).min().unwrap_or(0);
        let (_, must_clean) = trim(items, &mini.items);
        Candidate { hits: heat.hits(age), bytes: self.room.charge(mini.per_slab), least, must_clean }
    }

    /// A checkpoint: how many had to be cleaned.
    pub(super) fn clean(&mut self, items: &mut Items) -> u64 {
        let mut cleaned = 0;
        for mini in &mut self.places {
            cleaned += u64::from(items.any_dirty(&mini.items));
            items.clean(&mut mini.items);
        }
        cleaned
    }

    /// Panics if an invariant is broken, or a mini-page is wider than its slot.
    pub(super) fn check(&self, items: &Items, is_resident: impl Fn(PageId) -> bool) {
        assert_eq!(self.index.len() as usize, self.places.len(), "(I1)");
        let mut used = 0;
        for (at, mini) in self.places.iter().enumerate() {
            assert_eq!(self.place(mini.page), Some(at as u32), "(I1)");
            assert!(!is_resident(mini.page), "a page is whole or dissolved, never both");
            let (count, bytes) = items.sum(&mini.items);
            assert_eq!(self.room.slot(count, bytes).map(|slot| slot.per_slab), Some(mini.per_slab));
            assert!(count > 0, "a mini-page has items");
            used += self.charge(mini.per_slab);
        }
        assert_eq!(self.used, used, "(I2)");
        let held = self.places.iter().map(|mini| items.sum(&mini.items).0).sum::<u32>();
        assert_eq!(self.held, held, "(I2)");
    }
}

/// What would leave of a mini-page with these items, and whether a change is among that.
fn trim(items: &Items, list: &ItemList) -> (Trim, bool) {
    let trim = Trim::of(items.iter(list).map(Item::count));
    (trim, items.iter(list).any(|item| item.is_dirty() && !trim.keeps(item.count())))
}
