//! Pinned pages.

use std::fmt;
use std::ops::Deref;

use crate::cache::Cache;
use crate::seal::Lsn;
use crate::token::Held;

/// A page that stays where it is while this exists. Reads as the page's bytes; the last page of a
/// file may be short.
///
/// It borrows the pool, so that a pin costs no more than the one atomic in the frame's own line.
#[must_use = "the page is unpinned at once if the pin is dropped"]
pub struct PageGuard<'a> {
    cache: &'a Cache,
    /// Taken on drop only.
    held: Option<Held>,
}

impl<'a> PageGuard<'a> {
    #[inline]
    pub(crate) fn new(cache: &'a Cache, held: Held) -> Self {
        Self { cache, held: Some(held) }
    }

    /// The frame that the page is in.
    pub(crate) fn frame(&self) -> Option<u32> {
        self.held.as_ref().map(Held::index)
    }

    /// The pin itself, which is not given back.
    pub(crate) fn into_held(mut self) -> Option<Held> {
        self.held.take()
    }

    /// The log record of the page's last change; see
    /// [`PageGuardMut::lsn`](crate::PageGuardMut::lsn).
    pub fn lsn(&self) -> Lsn {
        self.held.as_ref().map_or(Lsn::NONE, |held| Lsn(self.cache.lsn(held)))
    }
}

impl Deref for PageGuard<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.held.as_ref().map_or(&[], |held| self.cache.bytes(held))
    }
}

impl Drop for PageGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.cache.unpin(held);
        }
    }
}

impl fmt::Debug for PageGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageGuard({} bytes)", self.len())
    }
}
