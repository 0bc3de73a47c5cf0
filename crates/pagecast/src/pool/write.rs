//! The pool as those who write see it.

use std::path::Path;

use super::Pool;
use crate::PoolError;
use crate::relation::Relation;
use crate::seal::Lsn;
use crate::write::{WriteOptions, Written};

impl Pool {
    /// Opens a file to change its pages, alone: nobody else may write it meanwhile. Whoever opens
    /// the same name in this pool, by this or by [`open`](Self::open), gets the same relation;
    /// readers that opened it before fail with [`PoolError::Changed`].
    ///
    /// ```
    /// use pagecast::storage::{Device, MemoryFiles};
    /// use pagecast::{Format, Pool, PoolOptions, WriteOptions};
    ///
    /// let files = MemoryFiles::new();
    /// let device = Device::new(files.clone(), None); // `Device::local()` for real files
    /// let pool = Pool::new(PoolOptions::default().memory(1 << 20).device(device))?;
    /// let sealed = WriteOptions::default().create(true).format(Format::Sealed);
    /// let table = pool.open_to_write("table".as_ref(), &sealed)?;
    ///
    /// let block = table.grow(1)?;
    /// let mut page = table.pin_mut(block, None)?;
    /// page[..5].copy_from_slice(b"hello");
    /// drop(page); // With a log: `page.logged(lsn)` first.
    /// assert_eq!(pool.flush()?.pages, 1);
    /// assert!(files.read("table".as_ref())?.starts_with(b"hello"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The file cannot be opened, somebody else writes it, or it is not what `options` say:
    /// [`PoolError::PartialPage`], [`PoolError::Shorter`], [`PoolError::OtherPageSize`].
    pub fn open_to_write(&self, path: &Path, options: &WriteOptions) -> Result<Relation, PoolError> {
        let engine = self.engine();
        engine.writer.latch.may_change()?;
        engine.writer.accepts(path)?;
        engine.background.start(&engine.writer, self.options().writer)?;
        let file = engine.open(path, Some(options))?;
        Ok(Relation::new(engine.clone(), file))
    }

    /// Writes every page whose first unwritten change is before log record `upto`, and makes all
    /// that was written safe from a crash: the log is not needed before `upto` any more. `upto` is
    /// at most the end of the log at the call, and a record is taken from the log while its page is
    /// pinned to be changed.
    ///
    /// Takes as long as writing the pages that are dirty when it is called, and the wait for those
    /// who have one of them alone; pages that become dirty meanwhile do not prolong it. A thread
    /// that holds such a pin waits for ever.
    ///
    /// # Errors
    ///
    /// A write or the log failed: the pages stay dirty, try again. A sync failed, or had failed
    /// before: [`PoolError::ReadOnly`].
    pub fn checkpoint(&self, upto: Lsn) -> Result<Written, PoolError> {
        self.engine().bring_changes(Some(upto))?;
        self.engine().writer.checkpoint(Some(upto))
    }

    /// As [`checkpoint`](Self::checkpoint), with every page that is dirty now, whatever the log
    /// record.
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Self::checkpoint).
    pub fn flush(&self) -> Result<Written, PoolError> {
        self.engine().bring_changes(None)?;
        self.engine().writer.checkpoint(None)
    }

    /// Does now what the background writer does in a round: writes up to `bytes` bytes of pages
    /// that evictions have met dirty, or that are dirty longest and more than the allowed share.
    ///
    /// # Errors
    ///
    /// A write or the log failed, or the pool is read-only.
    pub fn write_back(&self, bytes: u64) -> Result<Written, PoolError> {
        self.engine().writer.round(bytes, self.options().writer.dirty_share)
    }

    /// Lets nobody change a page any more, waits for those who do, writes all of it and makes it
    /// safe. Pages can still be read. A pool that goes without this leaves its changes to the log.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    pub fn close(&self) -> Result<(), PoolError> {
        self.engine().writer.shut();
        let brought = self.engine().bring_changes(None);
        let closed = self.engine().writer.close();
        brought.and(closed)
    }

    /// How many pages differ from storage at this moment, and nobody writes or changes them. A page
    /// of which items were changed without it is one of them.
    pub fn dirty(&self) -> u32 {
        self.engine().cache.dirty().len() as u32 + self.engine().cache.changed_mini_pages()
    }
}
