//! Pinned pages that borrow nothing.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::engine::Engine;
use crate::page_guard::PageGuard;
use crate::token::Held;

/// A page that stays where it is while this exists, as with a [`PageGuard`], for those who cannot
/// keep a borrow of the relation: it goes into tasks and threads, and becomes the owner of bytes
/// that others share without a copy. It keeps the pool, and costs an atomic more than a guard that
/// borrows.
///
/// ```
/// # use pagecast::storage::{Device, MemoryFiles};
/// # use pagecast::{Pool, PoolOptions};
/// # let files = MemoryFiles::new();
/// # files.write("table", vec![7u8; 300_000]);
/// # let pool = Pool::new(PoolOptions::default().memory(8 << 20).device(Device::new(files, None)))?;
/// let page = pool.open("table".as_ref())?.pin_owned(0, None)?;
/// // Arrow makes a `Buffer` of these without a copy, too.
/// let bytes = bytes::Bytes::from_owner(page);
/// let row = bytes.slice(100..108);
/// drop(bytes);
/// assert_eq!((&row[..], pool.pinned()), (&[7; 8][..], 1));
/// drop(row);
/// assert_eq!(pool.pinned(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the page is unpinned at once if the guard is dropped"]
pub struct OwnedPageGuard {
    /// Goes after the pin.
    engine: Arc<Engine>,
    /// Taken on drop only.
    held: Option<Held>,
}

impl OwnedPageGuard {
    /// Of the same engine's page.
    pub(crate) fn new(engine: &Arc<Engine>, page: PageGuard<'_>) -> Self {
        Self { engine: Arc::clone(engine), held: page.into_held() }
    }
}

impl Deref for OwnedPageGuard {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.held.as_ref().map_or(&[], |held| self.engine.cache.bytes(held))
    }
}

impl AsRef<[u8]> for OwnedPageGuard {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for OwnedPageGuard {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.engine.cache.unpin(held);
        }
    }
}

impl fmt::Debug for OwnedPageGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnedPageGuard({} bytes)", self.len())
    }
}
