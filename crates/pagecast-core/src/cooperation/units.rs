//! Records of units, and how a page leads to those that hold it.
//!
//! A unit has a stretch of the arena, with `w` words for its blocks:
//!
//! ```text
//! resident  w      blocks that are in the pool, as far as is known
//! known     w      blocks of which that is known
//! wanted    w      blocks of the load that is under way
//! nodes     w + 1  one for each 64 blocks of the relation that it touches: next node, the unit
//! needs     see needs.rs
//! ```

use super::Unit;
use super::bits::Bits;
use super::layout::{UNIT_WORDS, header};
use super::needs::Need;
use super::state::{State, half, mistaken};
use crate::words::{NIL, join, split};
use crate::{PageId, RelationId};

// Words of a unit.
const RELATION_FIRST: usize = 0;
/// How many blocks, and how many references: chunks that are not done, and the load.
const BLOCKS_REFERENCES: usize = 1;
const STRETCH_CAPACITY: usize = 2;
/// The number of the load under way; 0 for none.
const LOAD: usize = 3;
/// For whom it was loaded last.
const LOADER: usize = 4;
/// How many chunks are handed out to be read by those who took them; the next free record.
const READING_NEXT: usize = 5;

/// A unit's record. Place and size of its stretch were checked when it was opened.
#[derive(Clone, Copy)]
pub(super) struct UnitRecord<'a> {
    pub(super) state: State<'a>,
    pub(super) number: u32,
    at: usize,
    stretch: usize,
    width: usize,
    capacity: u32,
}

impl<'a> State<'a> {
    #[inline]
    pub(super) fn unit(self, number: u32) -> Option<UnitRecord<'a>> {
        let at = self.layout.unit(number)?;
        let (stretch, capacity) = split(self.words.get(at + STRETCH_CAPACITY));
        let width = self.upper(at + BLOCKS_REFERENCES).div_ceil(64) as usize;
        let stretch = stretch as usize;
        // Damage must not lead out of the arena, nor make loops long.
        let size = self.unit_words(width, capacity)?;
        let (width, capacity) = if self.layout.holds(stretch, size) { (width, capacity) } else { (0, 0) };
        Some(UnitRecord { state: self, number, at, stretch, width, capacity })
    }

    fn unit_words(self, width: usize, capacity: u32) -> Option<usize> {
        (capacity as usize).checked_mul(self.need_words(width))?.checked_add(4 * width + 1)
    }

    /// Whether a unit is being loaded, and whether a scan reads it for itself.
    #[inline]
    pub(super) fn business(self, unit: u32) -> (bool, bool) {
        let at = self.layout.unit(unit).unwrap_or(usize::MAX - UNIT_WORDS);
        (self.words.get(at + LOAD) != 0 && !mistaken!(LoadedTwice), self.upper(at + READING_NEXT) != 0)
    }

    /// Units with a node in the chain of `block`'s bucket; some do not hold the block.
    fn chain(self, relation: RelationId, block: u32) -> impl Iterator<Item = UnitRecord<'a>> {
        let mut node = self.words.get(self.layout.bucket(relation, block)) as u32;
        let mut steps = self.layout.config.words;
        core::iter::from_fn(move || {
            if node == NIL || steps == 0 || !self.layout.holds(node as usize, 1) {
                return None;
            }
            steps -= 1;
            let (next, unit) = split(self.words.get(node as usize));
            node = next;
            self.unit(unit)
        })
    }

    /// Units that hold `page`: more than one if neighbours share it. One may come twice.
    pub(super) fn units_with(self, page: PageId) -> impl Iterator<Item = UnitRecord<'a>> {
        self.chain(page.relation(), page.block()).filter(move |unit| unit.index_of(page).is_some())
    }

    pub(super) fn find_unit(self, name: Unit) -> Option<UnitRecord<'a>> {
        self.chain(name.relation, name.first).find(|unit| unit.name() == name)
    }

    /// A unit that nobody has yet. `None` if there is no room, with the words that are needed.
    pub(super) fn new_unit(self, name: Unit) -> Result<UnitRecord<'a>, Option<usize>> {
        let number = self.words.get(header::FREE_UNIT) as u32;
        let at = self.layout.unit(number).ok_or(None)?;
        let width = name.blocks.div_ceil(64) as usize;
        let size = self.unit_words(width, 1).ok_or(None)?;
        let stretch = self.allocate(size).ok_or(Some(size))?;
        self.words.set(header::FREE_UNIT, u64::from(self.lower(at + READING_NEXT)));
        self.words.set(at + RELATION_FIRST, join(name.relation.0, name.first));
        self.words.set(at + BLOCKS_REFERENCES, join(name.blocks, 0));
        self.words.set(at + STRETCH_CAPACITY, join(stretch, 1));
        self.words.set(at + LOAD, 0);
        self.words.set(at + LOADER, super::MemberId::NOBODY.raw());
        self.words.set(at + READING_NEXT, 0);
        let (members, units) = self.counts();
        self.set_counts(members, units.wrapping_add(1));
        let unit = self.unit(number).ok_or(None)?;
        unit.enter();
        Ok(unit)
    }

    /// Puts all records of units on the free list.
    pub(super) fn free_all_units(self) {
        for number in 0..self.layout.config.units {
            let next = if number + 1 == self.layout.config.units { NIL } else { number + 1 };
            if let Some(at) = self.layout.unit(number) {
                self.words.set(at + READING_NEXT, u64::from(next));
                self.words.set(at + BLOCKS_REFERENCES, 0);
            }
        }
        self.words.set(header::FREE_UNIT, 0);
    }
}

impl<'a> UnitRecord<'a> {
    half!(blocks, upper, BLOCKS_REFERENCES);
    half!(
        /// 0 in a record that is free.
        references, lower, BLOCKS_REFERENCES, set_references, set_lower);
    half!(
        /// How many chunks are being read by those who took them.
        reading, upper, READING_NEXT, set_reading, set_upper);

    pub(super) fn name(self) -> Unit {
        let (relation, first) = split(self.state.words.get(self.at + RELATION_FIRST));
        Unit { relation: RelationId(relation), first, blocks: self.blocks() }
    }

    /// The number of the load under way; 0 for none.
    #[inline]
    pub(super) fn load(self) -> u64 {
        self.state.words.get(self.at + LOAD)
    }

    pub(super) fn set_load(self, load: u64) {
        self.state.words.set(self.at + LOAD, load);
    }

    /// For whom it was loaded last, packed.
    pub(super) fn loader(self) -> u64 {
        self.state.words.get(self.at + LOADER)
    }

    pub(super) fn set_loader(self, loader: u64) {
        self.state.words.set(self.at + LOADER, loader);
    }

    #[inline]
    fn index_of(self, page: PageId) -> Option<u32> {
        let name = self.name();
        let index = page.block().checked_sub(name.first)?;
        (name.relation == page.relation() && index < name.blocks).then_some(index)
    }

    pub(super) fn page(self, index: u32) -> PageId {
        let name = self.name();
        PageId::new(name.relation, name.first.wrapping_add(index))
    }

    fn block_set(self, number: usize) -> Bits<'a> {
        Bits { words: self.state.words, at: self.stretch + number * self.width, count: self.width }
    }

    #[inline]
    pub(super) fn resident(self) -> Bits<'a> {
        self.block_set(0)
    }

    fn known(self) -> Bits<'a> {
        self.block_set(1)
    }

    pub(super) fn wanted(self) -> Bits<'a> {
        self.block_set(2)
    }

    /// Notes that `page` has come or gone; its place in the unit if that is news.
    pub(super) fn note(self, page: PageId, present: bool) -> Option<u32> {
        let index = self.index_of(page)?;
        self.known().put(index, true);
        self.resident().put(index, present).then_some(index)
    }

    pub(super) fn needs(self) -> impl Iterator<Item = Need<'a>> {
        self.need_places().filter(|need| need.chunks() > 0)
    }

    /// The places for needs, free ones too.
    fn need_places(self) -> impl Iterator<Item = Need<'a>> {
        let (first, size) = (self.stretch + 4 * self.width + 1, self.state.need_words(self.width));
        (0..self.capacity as usize).map(move |index| Need { state: self.state, at: first + index * size })
    }

    /// The need-mask of one of its needs.
    #[inline]
    pub(super) fn mask(self, need: Need<'a>) -> Bits<'a> {
        need.mask(self.width)
    }

    /// Whether two of its needs concern each other: the same, or with a block in common.
    #[inline]
    pub(super) fn meet(self, one: Need<'a>, other: Need<'a>) -> bool {
        one.at == other.at || self.mask(one).meets(self.mask(other))
    }

    /// The need with this mask, which is made if there is none yet. An error says how many words
    /// are missing.
    pub(super) fn need_of(
        self,
        mask: &[u64],
        resident: &impl Fn(PageId) -> bool,
    ) -> Result<(UnitRecord<'a>, Need<'a>), usize> {
        if let Some(need) = self.needs().find(|&need| is(self.mask(need), mask)) {
            return Ok((self, need));
        }
        let free = |unit: Self| unit.need_places().find(|need| need.chunks() == 0);
        let unit = if free(self).is_some() { self } else { self.grow()? };
        let need = free(unit).ok_or(usize::MAX)?;
        unit.begin(need, mask, resident);
        Ok((unit, need))
    }

    /// Makes `need` one that nobody has yet.
    fn begin(self, need: Need<'a>, mask: &[u64], resident: &impl Fn(PageId) -> bool) {
        let own = self.mask(need);
        let given = mask.iter().copied().chain(core::iter::repeat(0));
        (0..own.count).zip(given).for_each(|(index, bits)| self.state.words.set(own.at + index, bits));
        for block in own.iter() {
            if self.known().put(block, true) {
                self.resident().put(block, resident(self.page(block)));
            }
        }
        let pages = own.len();
        need.begin(self.number, pages, pages.wrapping_sub(own.common(self.resident())), self.loader());
        for other in self.needs().filter(|&other| self.meet(other, need)) {
            need.sharers().add_all(other.members());
        }
    }

    /// Moves to a stretch with room for more needs.
    fn grow(self) -> Result<Self, usize> {
        let old = self.state.unit_words(self.width, self.capacity).unwrap_or(0);
        let capacity = self.capacity.saturating_add(self.capacity / 2).saturating_add(1);
        let size = self.state.unit_words(self.width, capacity).unwrap_or(usize::MAX);
        let stretch = self.state.allocate(size).ok_or(size)?;
        self.leave();
        for index in 0..old {
            self.state.words.set(stretch as usize + index, self.state.words.get(self.stretch + index));
        }
        self.state.release(self.stretch, old);
        self.state.words.set(self.at + STRETCH_CAPACITY, join(stretch, capacity));
        let moved = Self { stretch: stretch as usize, capacity, ..self };
        moved.enter();
        for need in moved.needs() {
            for head in [need.head(), need.out_head()] {
                self.state.list(head).for_each(|chunk| chunk.set_need_at(need.at as u32));
            }
        }
        Ok(moved)
    }

    /// A reference less; the last one frees the unit.
    pub(super) fn release(self) {
        let references = self.references().saturating_sub(1);
        self.set_references(references);
        if references > 0 {
            return;
        }
        self.leave();
        self.state.release(self.stretch, self.state.unit_words(self.width, self.capacity).unwrap_or(0));
        let (members, units) = self.state.counts();
        self.state.set_counts(members, units.wrapping_sub(1));
        self.state.words.set(self.at + STRETCH_CAPACITY, 0);
        self.state.words.set(self.at + READING_NEXT, self.state.words.get(header::FREE_UNIT));
        self.state.words.set(header::FREE_UNIT, u64::from(self.number));
    }

    /// Frees the unit if nobody has a reference, as after a refusal.
    pub(super) fn drop_unreferenced(self) {
        if self.references() == 0 {
            self.release();
        }
    }

    /// Nodes of the unit, each with the bucket that it belongs to.
    fn nodes(self) -> impl Iterator<Item = (usize, usize)> {
        let name = self.name();
        let last = name.first.saturating_add(name.blocks.saturating_sub(1));
        let count = (last / 64 - name.first / 64) as usize + 1;
        let nodes = self.stretch + 3 * self.width;
        (0..count.min(self.width + 1)).map(move |index| {
            let block = (name.first / 64).wrapping_add(index as u32).wrapping_mul(64);
            (nodes + index, self.state.layout.bucket(name.relation, block))
        })
    }

    fn enter(self) {
        let words = self.state.words;
        for (node, bucket) in self.nodes() {
            words.set(node, join(words.get(bucket) as u32, self.number));
            words.set(bucket, node as u64);
        }
    }

    fn leave(self) {
        let words = self.state.words;
        for (node, bucket) in self.nodes() {
            let next = split(words.get(node)).0;
            if words.get(bucket) == node as u64 {
                words.set(bucket, u64::from(next));
                continue;
            }
            let mut before = words.get(bucket) as usize;
            for _ in 0..self.state.layout.config.words {
                match self.state.upper(before) as usize {
                    _ if !self.state.layout.holds(before, 1) => break,
                    following if following == node => {
                        self.state.set_upper(before, next);
                        break;
                    }
                    following => before = following,
                }
            }
        }
    }
}

/// Whether a set of blocks is the one of a mask, whose words at the end may be missing.
fn is(own: Bits<'_>, mask: &[u64]) -> bool {
    own.words().zip(mask.iter().copied().chain(core::iter::repeat(0))).all(|(own, given)| own == given)
}
