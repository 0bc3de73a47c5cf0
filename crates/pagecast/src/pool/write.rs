//! The pool as those who write see it.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use pagecast_core::ScanId;
use pagecast_core::policy::Access;

use super::Pool;
use crate::blocking::block_on;
use crate::cache::{Anyone, Exclusive, Upgrade};
use crate::relation::Relation;
use crate::seal::Lsn;
use crate::token::Held;
use crate::write::{WriteOptions, Written};
use crate::{PinMut, PoolError};

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
    /// let block = pool.grow(&table, 1)?;
    /// let mut page = pool.pin_mut(&table, block, None)?;
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
    pub fn open_to_write(&self, path: &Path, options: &WriteOptions) -> Result<Arc<Relation>, PoolError> {
        let engine = self.engine();
        engine.writer.latch.may_change()?;
        engine.writer.accepts(path)?;
        engine.background.start(&engine.writer, self.options().writer)?;
        let relation = self.0.open(path, Some(options))?;
        engine.writer.add(&relation);
        Ok(relation)
    }

    /// Pins page `block` alone, to change it, and reads it first if it is not resident. Blocks
    /// until others have given back their pins of it; a thread that holds one itself waits for
    /// ever.
    ///
    /// # Errors
    ///
    /// As [`pin`](Self::pin); besides, the file was opened to be read, or the pool is
    /// [read-only](PoolError::ReadOnly) or [closed](PoolError::Closed).
    pub fn pin_mut(&self, relation: &Arc<Relation>, block: u32, scan: Option<ScanId>) -> Result<PinMut<'_>, PoolError> {
        block_on(self.pin_mut_async(relation, block, scan))
    }

    /// As [`pin_mut`](Self::pin_mut), without blocking the thread.
    pub fn pin_mut_async(
        &self,
        relation: &Arc<Relation>,
        block: u32,
        scan: Option<ScanId>,
    ) -> impl Future<Output = Result<PinMut<'_>, PoolError>> + Send + use<'_> {
        let relation = relation.clone();
        async move {
            relation.check_writable()?;
            self.engine().writer.latch.may_change()?;
            let held = self.engine().hold(&mut Anyone, &relation, block, scan, true).await?;
            let exclusive = self.have_alone(&relation, block, scan, held).await?;
            // After the page is ours: whoever shut the latch either waits for us or is seen here.
            self.engine().writer.latch.may_change()?;
            Ok(PinMut::new(&self.engine().cache, &self.engine().writer, relation, exclusive))
        }
    }

    async fn have_alone(
        &self,
        relation: &Arc<Relation>,
        block: u32,
        scan: Option<ScanId>,
        mut held: Held,
    ) -> Result<Exclusive, PoolError> {
        let cache = &self.engine().cache;
        loop {
            let access = Access { page: relation.page(block), scan, write: true, at: self.engine().now() };
            match cache.upgrade(held, access) {
                Upgrade::Done(exclusive) => return Ok(exclusive),
                Upgrade::Draining(others) => return Ok(others.await),
                // Its load may end without a frame; then ours begins from the start.
                Upgrade::Busy(waiter) => match waiter.await? {
                    Some(again) => held = again,
                    None => held = self.engine().hold(&mut Anyone, relation, block, scan, true).await?,
                },
                Upgrade::Full => return Err(PoolError::NoFrame { frames: cache.frames() }),
            }
        }
    }

    /// Adds `pages` pages of zeros at the end of a file, and says which is the first of them. The
    /// new length is safe from a crash when the next [`checkpoint`](Self::checkpoint) or
    /// [`flush`](Self::flush) has returned.
    ///
    /// # Errors
    ///
    /// The file was opened to be read, storage refuses, or it would have more pages than can be
    /// numbered.
    pub fn grow(&self, relation: &Arc<Relation>, pages: u32) -> Result<u32, PoolError> {
        self.engine().check(relation)?;
        self.engine().writer.latch.may_change()?;
        relation.grow(pages)
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
        self.engine().writer.checkpoint(Some(upto))
    }

    /// As [`checkpoint`](Self::checkpoint), with every page that is dirty now, whatever the log
    /// record.
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Self::checkpoint).
    pub fn flush(&self) -> Result<Written, PoolError> {
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
        self.engine().writer.close()
    }

    /// How many pages differ from storage at this moment, and nobody writes or changes them.
    pub fn dirty(&self) -> u32 {
        self.engine().cache.dirty().len() as u32
    }
}
