//! An item is read from the mini-page of its page, without a lock.

use pagecast_core::PageId;

use super::mini_page::{Entry, find};
use super::{TupleBuffer, among, hash};
use crate::cache::{Cache, Client};
use crate::frame_memory::copy_racing;
use crate::stats::Counter;
use crate::sync::atomic::Ordering;
use crate::sync::step;

/// How often a hit looks again when the slab changes under it, before it takes the lock.
const LOOKS: u32 = 4;

/// Where an item is copied to.
pub(crate) trait ItemRoom {
    /// Room for an item of `len` bytes; a part of it where there is no more.
    fn room(&mut self, len: usize) -> &mut [u8];
}

impl ItemRoom for [u8] {
    #[inline]
    fn room(&mut self, len: usize) -> &mut [u8] {
        let len = len.min(self.len());
        &mut self[..len]
    }
}

impl ItemRoom for Vec<u8> {
    #[inline]
    fn room(&mut self, len: usize) -> &mut [u8] {
        self.resize(len, 0);
        self
    }
}

/// What a look without a lock came to.
enum Look {
    Found(usize),
    /// The page has no mini-page, or not this item.
    Absent,
    /// The slab changed meanwhile.
    Changed,
}

impl TupleBuffer {
    /// The slab of a page of `set`, if there are `slabs` in all: what [`among`] says of the set's
    /// own, without a division. The lower bits of a slab's number are its set's.
    #[inline]
    pub(super) fn slab_of(&self, set: u32, hash: u64, slabs: u32) -> Option<u32> {
        let sets = self.sets.len() as u32;
        let half = 1 << slabs.checked_ilog2()?;
        let number = ((hash >> 32) as u32) << sets.trailing_zeros() | set;
        let slab = number & (2 * half - 1);
        let slab = if slab < slabs { slab } else { slab & (half - 1) };
        // The set may have none.
        (slab & (sets - 1) == set).then_some(slab)
    }
}

impl Cache {
    /// Copies an item of a page that has a mini-page, and says how long it is. `None` if the page
    /// has none, or none with this item.
    #[inline]
    pub(crate) fn copy_item(
        &self,
        client: &mut impl Client,
        page: PageId,
        name: u32,
        into: &mut (impl ItemRoom + ?Sized),
    ) -> Option<usize> {
        let tuples = self.tuples.as_ref()?;
        let place = (page, self.set_of(tuples, page), hash(page));
        let found = match self.look(tuples, place, name, into) {
            Look::Found(len) => Some(len),
            Look::Absent => None,
            Look::Changed => self.look_again(tuples, place, name, into),
        };
        if found.is_some() {
            client.count(self, Counter::TupleHits, 1);
        }
        found
    }

    /// Somebody changes the slab.
    #[cold]
    fn look_again(
        &self,
        tuples: &TupleBuffer,
        place: (PageId, u32, u64),
        name: u32,
        into: &mut (impl ItemRoom + ?Sized),
    ) -> Option<usize> {
        for _ in 1..LOOKS {
            match self.look(tuples, place, name, into) {
                Look::Found(len) => return Some(len),
                Look::Absent => return None,
                Look::Changed => {}
            }
        }
        self.copy_item_locked(tuples, place, name, into)
    }

    #[inline]
    fn look(
        &self,
        tuples: &TupleBuffer,
        (page, set, hash): (PageId, u32, u64),
        name: u32,
        into: &mut (impl ItemRoom + ?Sized),
    ) -> Look {
        // Acquire, here and of the frame: pairs with the Release of those who move the border.
        let slabs = tuples.slabs.load(Ordering::Acquire);
        let Some(number) = tuples.slab_of(set, hash, slabs) else { return Look::Absent };
        let frame = tuples.directory[number as usize].load(Ordering::Acquire);
        let Some(header) = self.headers.get(frame as usize) else { return Look::Changed };
        let Some(version) = header.stable_version() else { return Look::Changed };
        if !header.is_slab(number) {
            return Look::Changed;
        }
        let words = self.memory.words_unpinned(frame);
        let Some(entry) = find(words, tuples.shape, page, hash).and_then(|mini| mini.find(words, name)) else {
            return if header.is_unchanged(version) { Look::Absent } else { Look::Changed };
        };
        let Entry { start, len, counter, .. } = entry;
        if start.checked_add(len).is_none_or(|end| end > tuples.shape.page) {
            return Look::Changed;
        }
        step();
        copy_racing(words, start as usize, into.room(len as usize));
        #[cfg(pagecast_shuttle)]
        if crate::sync::mistake::made(crate::sync::mistake::NO_ITEM_VALIDATION) {
            return Look::Found(len as usize);
        }
        if !header.is_unchanged(version) {
            return Look::Changed;
        }
        tuples.visits(frame).visit(counter);
        Look::Found(len as usize)
    }

    /// The same under the lock of the page's slabs.
    fn copy_item_locked(
        &self,
        tuples: &TupleBuffer,
        (page, set, hash): (PageId, u32, u64),
        name: u32,
        into: &mut (impl ItemRoom + ?Sized),
    ) -> Option<usize> {
        let mut slabs = tuples.sets[set as usize].slabs.lock();
        let slab = among(hash, slabs.len() as u32)?;
        let owned = &mut slabs[slab as usize];
        let words = self.memory.read_owned(owned);
        let entry = find(words, tuples.shape, page, hash)?.find(words, name)?;
        let item = &words[entry.start as usize..][..entry.len as usize];
        let room = into.room(item.len());
        let len = room.len();
        room.copy_from_slice(&item[..len]);
        tuples.visits(owned.index()).visit(entry.counter);
        Some(item.len())
    }
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    use super::super::TupleConfig;
    use super::*;

    #[test]
    fn a_reader_finds_the_slab_that_its_set_has_for_the_page() {
        for shards in [1, 2, 8, 64] {
            let config = TupleConfig { max_share: 0.5, shares: None, seed: 1 };
            let tuples = TupleBuffer::new(4096, 4096, shards, config);
            for (slabs, set) in (0..300).flat_map(|slabs| (0..shards).map(move |set| (slabs, set))) {
                let of_set = (slabs + shards - 1 - set) / shards;
                for hash in (0..40).map(|page| hash(PageId::from_raw(page))) {
                    let expected = among(hash, of_set).map(|place| place * shards + set);
                    assert_eq!(tuples.slab_of(set, hash, slabs), expected, "{slabs} slabs in {shards} sets");
                }
            }
        }
    }
}
