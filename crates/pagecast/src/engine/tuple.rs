//! A request for an item: answered by a mini-page, or by its page.

use std::sync::Arc;

use pagecast_core::PageId;
use pagecast_core::tuples::Tuple;

use super::Engine;
use crate::PoolError;
use crate::blocking::block_on;
use crate::cache::{Anyone, Client, ItemRoom, Loading, Request};
use crate::io::Batch;
use crate::layout::{TupleLayout, within};
use crate::paged_file::PagedFile;
use crate::seal::Lsn;
use crate::sync::unless_mistaken;

/// Pages that are brought at once to be written.
const BROUGHT_AT_ONCE: usize = 64;

impl Engine {
    /// Copies an item, and says how long it is. `None` if its page has no such item.
    #[inline]
    pub(crate) fn read_item(
        self: &Arc<Self>,
        client: &mut impl Client,
        (relation, layout): (&Arc<PagedFile>, &Arc<dyn TupleLayout>),
        (block, item): (u32, u32),
        into: &mut (impl ItemRoom + ?Sized),
    ) -> Result<Option<usize>, PoolError> {
        let page = relation.page(block);
        let found = match relation.is_current() {
            true => self.cache.copy_item(client, page, item, into),
            false => None,
        };
        let found = match found {
            Some(_) => found,
            None => self.read_item_of_page(client, (relation, layout), (block, item), into)?,
        };
        if self.is_watched
            && let Some(length) = found
        {
            self.learn(page, Some(Tuple { name: item, length: length as u32 }), None, false);
        }
        Ok(found)
    }

    #[cold]
    fn read_item_of_page(
        self: &Arc<Self>,
        client: &mut impl Client,
        (relation, layout): (&Arc<PagedFile>, &Arc<dyn TupleLayout>),
        (block, item): (u32, u32),
        into: &mut (impl ItemRoom + ?Sized),
    ) -> Result<Option<usize>, PoolError> {
        let at_once = self.page_unless_observed(relation, block);
        let page = self.pin_at(client, relation, (block, at_once), None)?;
        let place = layout.locate(&page, item).and_then(|range| within(page.len(), range));
        let Some(bytes) = place.and_then(|range| page.get(range)) else { return Ok(None) };
        let room = into.room(bytes.len());
        let len = room.len();
        room.copy_from_slice(&bytes[..len]);
        if let Some(frame) = page.frame() {
            self.cache.visit(frame, item);
        }
        Ok(Some(bytes.len()))
    }

    /// Changes an item without its page, if that can be done: the answer, or what was not called.
    pub(crate) fn update_item<L: FnOnce() -> Lsn>(
        self: &Arc<Self>,
        relation: &Arc<PagedFile>,
        (block, item): (u32, u32),
        bytes: &[u8],
        is_blind: bool,
        logged: L,
    ) -> Result<Option<L>, PoolError> {
        // Only a sealed page says on storage as of which record it is; and nobody reads it past the
        // pool.
        if !relation.is_sealed() || relation.page_len(block) < relation.page_size() {
            return Ok(Some(logged));
        }
        relation.check_known()?;
        let access = self.access(relation.page(block), None, true, None);
        let Some(updating) = self.cache.begin_update(access, (item, bytes.len()), is_blind) else {
            return Ok(Some(logged));
        };
        // After the item is ours: whoever shut the latch either waits for us or is seen here.
        let may_change = self.writer.latch.may_change();
        let others = match &may_change {
            Ok(()) => {
                let lsn = logged();
                updating.finish(bytes, lsn.0)
            }
            Err(_) => updating.cancel(),
        };
        if let Some(loading) = others {
            self.begin(relation, loading);
        }
        let tuple = Tuple { name: item, length: bytes.len() as u32 };
        self.learn(access.page, Some(tuple), None, true);
        may_change.map(|()| None)
    }

    fn begin(self: &Arc<Self>, relation: &Arc<PagedFile>, loading: Loading) {
        let mut batch = Batch::new(&self.threads, relation, self.due(None));
        self.start(loading, &mut batch);
        batch.submit();
    }

    /// Loads the pages of items that were changed without them, from before log record `upto`, so
    /// that they can be written (T6 of the cache). `None`: all of them.
    pub(crate) fn bring_changes(self: &Arc<Self>, upto: Option<Lsn>) -> Result<(), PoolError> {
        self.cache.learn_checkpoint();
        let pages = self.cache.changed_pages(upto.map(|lsn| lsn.0));
        let window = (self.cache.page_frames() as usize / 8).clamp(1, BROUGHT_AT_ONCE);
        for pages in pages.chunk_by(|a, b| a.relation() == b.relation()) {
            // A file that was replaced takes its changes with it.
            let Some(relation) = self.relation(pages[0].relation()) else { continue };
            for pages in pages.chunks(window) {
                self.bring_all(&relation, pages)?;
            }
        }
        // Those whose mini-pages were gone already: others are about to make them dirty.
        unless_mistaken!(LOOKED_AT_ONCE, self.cache.pass_all_shards());
        Ok(())
    }

    /// Loads pages of one relation, neighbours in one request, and waits for them.
    fn bring_all(self: &Arc<Self>, relation: &Arc<PagedFile>, pages: &[PageId]) -> Result<(), PoolError> {
        let mut batch = Batch::new(&self.threads, relation, self.due(None));
        let (mut waiters, mut left) = (Vec::new(), Vec::new());
        for page in pages {
            match self.load(&mut Anyone, relation, page.block(), None, false) {
                Request::Hit(held) => self.cache.unpin(held),
                Request::Joined { waiter, .. } => waiters.push((page, waiter)),
                Request::Started(loading, waiter) => {
                    self.start(loading, &mut batch);
                    waiters.push((page, waiter));
                }
                Request::Full => left.push(page),
            }
        }
        batch.submit();
        for (page, waiter) in waiters {
            match block_on(waiter)? {
                Some(held) => self.cache.unpin(held),
                None => left.push(page),
            }
        }
        for page in left {
            let held = block_on(self.hold(&mut Anyone, relation, page.block(), None, false))?;
            self.cache.unpin(held);
        }
        Ok(())
    }
}
