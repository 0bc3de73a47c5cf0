//! Pages that are pinned to be changed.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::cache::{Cache, Exclusive};
use crate::paged_file::PagedFile;
use crate::seal::Lsn;
use crate::write::Writer;
use crate::{PageGuard, PoolError};

/// A page that is pinned by this alone, and may be changed. Everyone else who wants it waits until
/// this goes.
///
/// With a log, each change ends with [`logged`](Self::logged): the record's number, taken from the
/// log while this exists. Until the log is durable to it, the page is not written. A change whose
/// record is not given before this goes (because of a panic, say) makes the pool read-only with
/// [`PoolError::Unlogged`]: the page must not reach storage, and the log cannot bring it back.
///
/// A pin to read cannot be written through:
///
/// ```compile_fail,E0594
/// # use pagecast::{Pool, PoolOptions};
/// # let pool = Pool::new(PoolOptions::default()).unwrap();
/// # let table = pool.open("table".as_ref()).unwrap();
/// let mut page = table.pin(0, None).unwrap();
/// page[0] = 1;
/// ```
///
/// and no pin can be given back twice:
///
/// ```compile_fail,E0382
/// # use pagecast::{Pool, PoolOptions};
/// # let pool = Pool::new(PoolOptions::default()).unwrap();
/// # let table = pool.open_to_write("table".as_ref(), &Default::default()).unwrap();
/// let page = table.pin_mut(0, None).unwrap();
/// drop(page);
/// drop(page);
/// ```
///
/// nor can the bytes be used after the pin:
///
/// ```compile_fail,E0505
/// # use pagecast::{Pool, PoolOptions};
/// # let pool = Pool::new(PoolOptions::default()).unwrap();
/// # let table = pool.open_to_write("table".as_ref(), &Default::default()).unwrap();
/// let mut page = table.pin_mut(0, None).unwrap();
/// let bytes = &mut page[..];
/// drop(page);
/// bytes[0] = 1;
/// ```
#[must_use = "the page is unpinned at once if the pin is dropped"]
pub struct PageGuardMut<'a> {
    cache: &'a Cache,
    writer: &'a Writer,
    relation: Arc<PagedFile>,
    /// Taken when the pin goes only.
    exclusive: Option<Exclusive>,
    /// Whether a change waits for its log record.
    is_unlogged: bool,
}

impl<'a> PageGuardMut<'a> {
    pub(crate) fn new(cache: &'a Cache, writer: &'a Writer, relation: Arc<PagedFile>, exclusive: Exclusive) -> Self {
        Self { cache, writer, relation, exclusive: Some(exclusive), is_unlogged: false }
    }

    /// All changes so far are in the log, the last of them as record `at`.
    pub fn logged(&mut self, at: Lsn) {
        self.is_unlogged = false;
        if let Some(exclusive) = &mut self.exclusive {
            exclusive.changed(at.0);
        }
    }

    /// An item of the page was asked for by its name.
    pub(crate) fn visit(&self, item: u32) {
        if let Some(exclusive) = &self.exclusive {
            self.cache.visit(exclusive.frame(), item);
        }
    }

    /// Where the page's bytes are, for those who write through a pointer; null where there is no
    /// page. Unlike a mutable borrow this is no change by itself: whoever writes says so by
    /// [`logged`](Self::logged), with [`Lsn::NONE`] where there is no log.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.exclusive.as_mut().map_or(std::ptr::null_mut(), |exclusive| exclusive.bytes_mut().as_mut_ptr())
    }

    /// The log record of the page's last change, as its seal or [`logged`](Self::logged) said;
    /// [`Lsn::NONE`] if neither did. What recovery compares its records with.
    pub fn lsn(&self) -> Lsn {
        self.exclusive.as_ref().map_or(Lsn::NONE, |exclusive| Lsn(exclusive.lsn()))
    }

    /// Lets others read the page, and keeps a pin to read it too.
    pub fn downgrade(mut self) -> Option<PageGuard<'a>> {
        self.settle();
        let held = self.exclusive.take()?.downgrade()?;
        Some(PageGuard::new(self.cache, held))
    }

    /// What was changed and not logged must never be written.
    fn settle(&mut self) {
        let Some(exclusive) = self.exclusive.as_mut().filter(|_| self.is_unlogged) else { return };
        if self.writer.has_log() || std::thread::panicking() {
            let (path, block) = (self.relation.path().to_owned(), exclusive.page().block());
            self.writer.latch.fail(PoolError::Unlogged { path, block });
        }
        exclusive.changed(Lsn::NONE.0);
        self.is_unlogged = false;
    }
}

impl Deref for PageGuardMut<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.exclusive.as_ref().map_or(&[], Exclusive::bytes)
    }
}

impl DerefMut for PageGuardMut<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.is_unlogged = true;
        self.exclusive.as_mut().map_or(&mut [], Exclusive::bytes_mut)
    }
}

impl Drop for PageGuardMut<'_> {
    fn drop(&mut self) {
        // Before the exclusive pin goes, so that nobody writes the page in between.
        self.settle();
    }
}

impl fmt::Debug for PageGuardMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageGuardMut({} bytes, {})", self.len(), self.lsn())
    }
}
