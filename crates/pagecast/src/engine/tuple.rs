//! A request for an item: answered by a mini-page, or by its page.

use std::sync::Arc;

use pagecast_core::tuples::Tuple;

use super::Engine;
use crate::PoolError;
use crate::cache::{Client, ItemRoom};
use crate::layout::{TupleLayout, within};
use crate::paged_file::PagedFile;

impl Engine {
    /// Copies an item, and says how long it is. `None` if its page has no such item.
    #[inline]
    pub(crate) fn read_item(
        self: &Arc<Self>,
        client: &mut impl Client,
        (relation, layout): (&Arc<PagedFile>, &dyn TupleLayout),
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
        if let Some(length) = found {
            self.learn(page, Some(Tuple { name: item, length: length as u32 }), None, false);
        }
        Ok(found)
    }

    fn read_item_of_page(
        self: &Arc<Self>,
        client: &mut impl Client,
        (relation, layout): (&Arc<PagedFile>, &dyn TupleLayout),
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
}
