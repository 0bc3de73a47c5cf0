//! Items that are changed without their page, and their way into it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use pagecast_core::PageId;
use pagecast_core::policy::Access;

use super::mini_page::Part;
use super::mini_page::{Entry, HELD, Mini, NEVER, find, minis};
use super::slab::{Parts, Slab};
use super::{TupleBuffer, among, hash};
use crate::cache::load::Load;
use crate::cache::{Cache, Loading};
use crate::sync::atomic::Ordering;
use crate::token::Owned;

/// One mini-page in so many may hold changes; those of others go into their pages.
const CHANGED_SHARE: u32 = 4;
/// As many may in any case.
const LEAST_CHANGED: u32 = 16;

/// An item that is being changed without its page (T9). Dropped, it leaves the item as it was.
pub(crate) struct Updating {
    cache: Arc<Cache>,
    /// What the page appears as to others; taken when this ends.
    loading: Option<Loading>,
    page: PageId,
    name: u32,
}

/// What a page has to get before anybody sees it.
struct Changes {
    items: Vec<(u32, Vec<u8>)>,
    /// The log records of the first and the last change.
    records: (u64, u64),
}

impl Cache {
    /// Begins to change an item of `len` bytes without its page. `None` if it has to be changed in
    /// the page: that is resident or on its way, or has no mini-page with the item. If the item is
    /// known to be there (`is_blind`), it may be missing in the mini-page.
    pub(crate) fn begin_update(
        self: &Arc<Self>,
        access: Access,
        (name, len): (u32, usize),
        is_blind: bool,
    ) -> Option<Updating> {
        let (tuples, page) = (self.tuples.as_ref()?, access.page);
        let mut shard = self.table.shard(page).lock();
        if self.is_there(page, &shard) || self.loads.load(Relaxed) >= self.max_loads {
            return None;
        }
        let mut slabs = tuples.sets[self.set_of(tuples, page) as usize].slabs.lock();
        let owned = slab_of(&mut slabs, page)?;
        let words = self.memory.read_owned(owned);
        let mini = find(words, tuples.shape, page, hash(page))?;
        let is_new = mini.since(words) == NEVER;
        if is_new && tuples.is_full_of_changes() {
            return None;
        }
        match mini.find_any(words, name) {
            Some((_, entry)) if entry.len as usize == len => {
                self.change(tuples, owned, |slab| slab.set_since(&mini, mini.since(slab.bytes).min(HELD)));
            }
            None if is_blind => self.add_item(tuples, owned, &mini, (name, len))?,
            _ => return None,
        }
        tuples.changed.fetch_add(is_new.into(), Ordering::Relaxed);
        self.loads.fetch_add(1, Relaxed);
        let load = Load::new(access);
        shard.insert(page, load.clone());
        drop((slabs, shard));
        Some(Updating { cache: self.clone(), loading: Some(Loading::new(self.clone(), load)), page, name })
    }

    /// Makes room for an item that the mini-page does not have. `None` if there is none.
    fn add_item(&self, tuples: &TupleBuffer, owned: &mut Owned, mini: &Mini, item: (u32, usize)) -> Option<()> {
        let (name, len) = (item.0, u32::try_from(item.1).ok()?);
        let words = self.memory.read_owned(owned);
        let (page, since) = (mini.page(words), mini.since(words).min(HELD));
        let (mut items, mut bytes) = (mini.parts(words), Vec::new());
        for part in &mut items {
            let from = part.start as usize;
            part.start = bytes.len() as u32;
            bytes.extend_from_slice(&words[from..][..part.len as usize]);
        }
        let start = bytes.len() as u32;
        bytes.resize(bytes.len() + item.1, 0);
        let new = Part { name, visits: 1, is_dirty: false, is_hidden: true, start, len };
        items.insert(items.partition_point(|part| part.name < name), new);
        tuples.room.slot(items.len() as u32, bytes.len() as u32)?;
        let (lsn, heat, hash) = (mini.lsn(words), mini.heat(words), hash(page));
        let parts = Parts { page, hash, lsn, heat, since, items: &items, bytes: &bytes };
        self.widen(tuples, owned, mini, &parts)
    }

    /// Puts a wider mini-page in the place of one, if others can leave for it.
    fn widen(&self, tuples: &TupleBuffer, owned: &mut Owned, mini: &Mini, parts: &Parts<'_>) -> Option<()> {
        let (age, visits) = (tuples.ages.now(), tuples.visits(owned.index()));
        self.change(tuples, owned, |slab| {
            // While it is held it does not give way itself.
            let former = mini.since(slab.bytes);
            slab.set_since(mini, HELD.min(former));
            let need = parts.need(tuples.shape) as u32;
            let gone = slab.make_room(need, visits, age, &mut tuples.random.fork());
            tuples.counts.evicted.fetch_add(gone.whole.into(), Relaxed);
            tuples.counts.trimmed.fetch_add(gone.trimmed.into(), Relaxed);
            // It may have moved.
            let mini = slab.find(parts.page, parts.hash)?;
            if !slab.has_room(need) {
                slab.set_since(&mini, former);
                return None;
            }
            slab.remove(&mini);
            slab.insert(parts).then_some(())
        })
    }

    /// Copies the changed items of a page whose load the caller has.
    fn changes(&self, page: PageId) -> Option<Changes> {
        let tuples = self.tuples.as_ref()?;
        let mut slabs = tuples.sets[self.set_of(tuples, page) as usize].slabs.lock();
        let words = self.memory.read_owned(slab_of(&mut slabs, page)?);
        let mini = find(words, tuples.shape, page, hash(page)).filter(|mini| mini.since(words) < HELD)?;
        let bytes = |entry: &Entry| words[entry.start as usize..][..entry.len as usize].to_vec();
        let dirty = mini.entries(words).filter(|entry| entry.is_dirty);
        #[cfg(pagecast_shuttle)]
        let dirty = dirty.take(if crate::sync::mistake::made(crate::sync::mistake::PART_MERGED) { 1 } else { 99 });
        let items = dirty.map(|entry| (entry.name, bytes(&entry))).collect();
        Some(Changes { items, records: (mini.since(words), mini.lsn(words)) })
    }

    /// The pages of mini-pages that hold changes from before log record `upto`, or whose items are
    /// being changed, in order. `None`: whatever the record.
    pub(crate) fn changed_pages(&self, upto: Option<u64>) -> Vec<PageId> {
        #[cfg(pagecast_shuttle)]
        if crate::sync::mistake::made(crate::sync::mistake::CHANGES_FORGOTTEN) {
            return Vec::new();
        }
        let mut pages = Vec::new();
        let Some(tuples) = self.tuples.as_ref().filter(|_| self.changed_mini_pages() > 0) else { return pages };
        let is_due = |since: u64| since == HELD || since < HELD && upto.is_none_or(|upto| since < upto);
        for set in &tuples.sets {
            for owned in set.slabs.lock().iter() {
                let words = self.memory.read_owned(owned);
                let due = minis(words, tuples.shape).filter(|mini| is_due(mini.since(words)));
                pages.extend(due.map(|mini| mini.page(words)));
            }
        }
        pages.sort_unstable();
        pages
    }
}

/// The slab that has the mini-page of a page, if the page has one.
fn slab_of(slabs: &mut [Owned], page: PageId) -> Option<&mut Owned> {
    let slab = among(hash(page), slabs.len() as u32)?;
    slabs.get_mut(slab as usize)
}

impl TupleBuffer {
    /// Whether so many mini-pages hold changes that no other is to.
    fn is_full_of_changes(&self) -> bool {
        let most = (self.mini_pages.load(Ordering::Relaxed) / CHANGED_SHARE).max(LEAST_CHANGED);
        self.changed.load(Ordering::Relaxed) >= most
    }
}

impl Updating {
    /// The item is changed to `bytes`, as log record `lsn` says. The load to be begun, if others
    /// wait for the page.
    pub(crate) fn finish(mut self, bytes: &[u8], lsn: u64) -> Option<Loading> {
        self.end(|tuples, slab, mini, place| {
            tuples.counts.updates.fetch_add(1, Relaxed);
            slab.store(&mini, place, bytes, lsn, tuples.ages.now());
        })
    }

    /// The item stays as it was. As [`finish`](Self::finish).
    pub(crate) fn cancel(mut self) -> Option<Loading> {
        self.give_up()
    }

    fn give_up(&mut self) -> Option<Loading> {
        self.end(|tuples, slab, mini, _| {
            if mini.since(slab.bytes) == HELD {
                slab.set_since(&mini, NEVER);
                tuples.changed.fetch_sub(1, Ordering::Relaxed);
            }
        })
    }

    fn end(&mut self, work: impl FnOnce(&TupleBuffer, &mut Slab<'_>, Mini, u32)) -> Option<Loading> {
        let loading = self.loading.take()?;
        let cache = &self.cache;
        let tuples = cache.tuples.as_ref()?;
        let mut slabs = tuples.sets[cache.set_of(tuples, self.page) as usize].slabs.lock();
        // Unless its relation was dropped, a held mini-page is still there, in whatever slab.
        if let Some(owned) = slab_of(&mut slabs, self.page) {
            cache.change(tuples, owned, |slab| {
                let mini = slab.find(self.page, hash(self.page))?;
                let (place, _) = mini.find_any(&*slab.bytes, self.name)?;
                work(tuples, slab, mini, place);
                Some(())
            });
        }
        drop(slabs);
        loading.end_if_alone()
    }
}

impl Drop for Updating {
    fn drop(&mut self) {
        // Whoever waits for the page finds its load abandoned.
        drop(self.give_up());
    }
}

impl Loading {
    /// Puts the changes of its mini-page into the page, whose first `len` bytes are there (T5). The
    /// page is dirty then. Fails with the item for which the layout knows no place.
    #[inline]
    pub(crate) fn apply_changes(&mut self, len: u32) -> Result<(), u32> {
        if self.cache().changed_mini_pages() > 0 { self.apply_changes_of_page(len) } else { Ok(()) }
    }

    fn apply_changes_of_page(&mut self, len: u32) -> Result<(), u32> {
        let Some(changes) = self.cache().changes(self.access().page) else { return Ok(()) };
        let relation = self.access().page.relation();
        let layout = self.cache().tuples.as_ref().and_then(|tuples| tuples.layout(relation));
        let bytes = &mut self.bytes()[..len as usize];
        for (name, item) in &changes.items {
            // The layout is the host's: a panic in it is as if the item were not there.
            let store = || layout.as_ref().is_some_and(|layout| layout.store(bytes, *name, item));
            if !catch_unwind(AssertUnwindSafe(store)).unwrap_or(false) {
                return Err(*name);
            }
        }
        self.set_changes(changes.records);
        Ok(())
    }
}
