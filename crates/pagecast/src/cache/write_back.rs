//! A page's way to storage, as far as the frames know of it.
//!
//! A page is copied under a pin and written from the copy: whoever wants to change it waits for a
//! copy, not for the device. It counts as clean from the moment of the copy; a change that comes
//! while the copy is written makes it dirty again. It cannot leave before the write has ended, so
//! that it is never read again too early (I8).

use std::sync::Arc;

use pagecast_core::{FrameId, PageId};

use super::frame::Unwritten;
use super::{Cache, Waiter};
use crate::stats::Counter;

/// Who keeps a page from being written now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Blocked {
    /// Another thread, which writes it.
    UnderWay,
    /// Somebody who has it alone.
    Exclusive,
}

/// A page that is being written. Dropped without [`done`](Self::done), its write has failed and it
/// is dirty again.
pub(crate) struct Writing {
    cache: Arc<Cache>,
    page: PageId,
    index: u32,
    /// The log record of its last change, which must be durable first.
    lsn: u64,
    /// The log record since which it is dirty.
    since: u64,
    is_done: bool,
}

impl Cache {
    /// Begins to write `page`, which was seen in this frame, if it is dirty and not being written:
    /// copies it into the front of `copy`.
    pub(crate) fn begin_write(self: &Arc<Self>, index: u32, page: PageId, copy: &mut [u8]) -> Option<Writing> {
        let header = &self.headers[index as usize];
        let held = header.pin(index)?;
        let since = if header.is_tagged(page) { header.begin_write(&held) } else { None };
        let writing = since.map(|since| {
            let bytes = self.bytes(&held);
            copy[..bytes.len()].copy_from_slice(bytes);
            Writing { cache: self.clone(), page, index, lsn: header.lsn(), since, is_done: false }
        });
        self.unpin(held);
        writing
    }

    /// Who keeps the page from being written, if anybody does.
    pub(crate) fn blocked(&self, index: u32, page: PageId) -> Option<Blocked> {
        let header = &self.headers[index as usize];
        match header.unwritten(None) {
            _ if !header.is_tagged(page) => None,
            Unwritten::UnderWay => Some(Blocked::UnderWay),
            Unwritten::Exclusive => Some(Blocked::Exclusive),
            Unwritten::Dirty | Unwritten::Nothing => None,
        }
    }

    /// The frames whose pages are not on storage up to log record `upto`, in order of their pages,
    /// and why. `None`: whatever the record.
    pub(crate) fn unwritten(&self, upto: Option<u64>) -> Vec<(PageId, u32)> {
        let headers = self.headers.iter().enumerate();
        let mut unwritten: Vec<_> = headers
            .filter(|(_, header)| header.unwritten(upto) != Unwritten::Nothing)
            .map(|(index, header)| (header.page(), index as u32))
            .collect();
        unwritten.sort_unstable();
        unwritten
    }

    /// The dirty frames, with the log record since which each is.
    pub(crate) fn dirty(&self) -> Vec<(u64, PageId, u32)> {
        let headers = self.headers.iter().enumerate();
        let dirty = headers.filter(|(_, header)| header.unwritten(None) == Unwritten::Dirty);
        dirty.map(|(index, header)| (header.dirty_since(), header.page(), index as u32)).collect()
    }

    /// Whether the frame's page is dirty or being written, up to `upto`; see
    /// [`unwritten`](Self::unwritten).
    pub(crate) fn is_unwritten(&self, index: u32, page: PageId, upto: Option<u64>) -> bool {
        let header = &self.headers[index as usize];
        header.is_tagged(page) && header.unwritten(upto) != Unwritten::Nothing
    }

    /// Whether any page is being written at this moment. Looks at every frame.
    pub(crate) fn is_writing(&self) -> bool {
        self.headers.iter().any(|header| header.unwritten(None) == Unwritten::UnderWay)
    }

    /// The frame of `page` if it is dirty and could be written now.
    pub(crate) fn find_dirty(&self, page: PageId) -> Option<u32> {
        let index = self.table.find(&self.headers, page)?;
        (self.headers[index as usize].unwritten(None) == Unwritten::Dirty).then_some(index)
    }

    /// The wait for whoever has or loads `page`.
    pub(crate) fn join(self: &Arc<Self>, page: PageId) -> Option<Waiter> {
        let shard = self.table.shard(page).lock();
        shard.get(&page).map(|load| load.join(self))
    }

    /// Waits for everyone who is between finding a page and having it alone, or in the middle of a
    /// publication: whoever comes later sees what was done before this call, and the caller all
    /// that they did.
    pub(crate) fn pass_all_shards(&self) {
        self.table.shards().for_each(|shard| drop(shard.lock()));
    }

    /// Forgets the changes of a page whose storage is gone, unless it is being written, or somebody
    /// has it alone: then it is dirty again afterwards, and met again.
    pub(crate) fn abandon(&self, index: u32, page: PageId) {
        let header = &self.headers[index as usize];
        let Some(held) = header.pin(index) else { return };
        if header.is_tagged(page) {
            header.forget_changes(&held);
        }
        self.unpin(held);
    }

    /// Remembers a page that should have left but is dirty, for whoever writes next.
    pub(super) fn want_clean(&self, pages: &[(PageId, u32)]) {
        let mut wanted = self.wanted.lock();
        let room = MAX_WANTED.saturating_sub(wanted.len());
        wanted.extend(pages.iter().take(room));
    }

    /// The dirty pages that should have left since this was asked last.
    pub(crate) fn take_wanted(&self) -> Vec<(PageId, u32)> {
        std::mem::take(&mut *self.wanted.lock())
    }
}

/// How many pages that should leave are remembered; more will be met again.
const MAX_WANTED: usize = 256;

/// How many dirty pages one eviction remembers.
pub(super) const MAX_MET: usize = 16;

impl Writing {
    pub(crate) fn page(&self) -> PageId {
        self.page
    }

    pub(crate) fn lsn(&self) -> u64 {
        self.lsn
    }

    /// The page is on storage as it was copied.
    pub(crate) fn done(mut self) {
        self.is_done = true;
        let header = &self.cache.headers[self.index as usize];
        // While the page cannot leave its frame (I8), so that the policy has it there.
        if !header.is_dirty() {
            self.cache.policy.cleaned(FrameId(self.index), self.page);
        }
        header.end_write(None);
        self.cache.statistics.add(Counter::PagesWritten, 1);
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.is_done {
            self.cache.headers[self.index as usize].end_write(Some(self.since));
            self.cache.statistics.add(Counter::FailedWrites, 1);
        }
    }
}
