//! Open files in the caller's hands: each knows its pool, so that none is read through another.

use std::fmt;
use std::future::Future;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use pagecast_core::policy::Access;
use pagecast_core::{PageId, RelationId, ScanId};

use crate::blocking::block_on;
use crate::cache::{Anyone, Capped, Exclusive, MAX_RESERVES, Upgrade};
use crate::engine::{self, Engine, ReadResult, ReadStats};
use crate::io::{ALIGNMENT, PastRead};
use crate::owned_page_guard::OwnedPageGuard;
use crate::paged_file::PagedFile;
use crate::storage::{Generation, Storage};
use crate::token::Held;
use crate::{PageGuard, PageGuardMut, PoolError};

/// One generation of a file, open in a pool. Page `k` is bytes
/// `k * page_size .. (k + 1) * page_size`; the last one ends with the file.
///
/// Clones are the same relation. Each keeps its pool: the pool's memory and threads go when the
/// [`Pool`](crate::Pool), its scans and its relations are all dropped.
#[derive(Clone)]
pub struct Relation {
    pub(crate) engine: Arc<Engine>,
    /// The engine knows the file alone, so that the two do not keep each other.
    pub(crate) file: Arc<PagedFile>,
}

/// What it is.
impl Relation {
    pub(crate) fn new(engine: Arc<Engine>, file: Arc<PagedFile>) -> Self {
        Self { engine, file }
    }

    /// Whether what a session or scan of this engine has is of use to it.
    #[inline]
    pub(crate) fn is_of(&self, engine: &Arc<Engine>) -> bool {
        Arc::ptr_eq(&self.engine, engine)
    }

    /// The number under which its pages are known to policies, predictor and recorder.
    pub fn id(&self) -> RelationId {
        self.file.id()
    }

    /// The name it was opened by.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        self.file.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> u32 {
        self.file.page_size()
    }

    /// How many pages it has.
    pub fn pages(&self) -> u32 {
        self.file.pages()
    }

    /// Page `block`, as policies and predictor know it.
    pub fn page(&self, block: u32) -> PageId {
        self.file.page(block)
    }

    /// The generation of the file that its pages are of.
    pub fn generation(&self) -> Generation {
        self.file.generation()
    }

    /// The open file below.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        self.file.storage()
    }

    /// Looks at the file, and remembers a change.
    ///
    /// # Errors
    ///
    /// The file has changed ([`PoolError::Changed`]), or cannot be looked at.
    pub fn verify(&self) -> Result<(), PoolError> {
        self.file.verify()
    }

    /// Whether its pages may be changed.
    pub fn is_writable(&self) -> bool {
        self.file.is_writable()
    }

    /// Whether its pages carry a checksum, in their last [`SEAL_BYTES`](crate::SEAL_BYTES) bytes.
    pub fn is_sealed(&self) -> bool {
        self.file.is_sealed()
    }
}

/// Its end.
impl Relation {
    /// Closes the file for all who have this relation, and frees its frames: after a table was
    /// dropped, say. Pages that are pinned stay as long as they are; every later request fails with
    /// [`PoolError::RelationClosed`]. Who opens the file again gets another relation. Without this
    /// a file stays open while it is in use or has pages in the pool.
    ///
    /// ```
    /// # use pagecast::storage::{Device, MemoryFiles};
    /// # use pagecast::{Pool, PoolError, PoolOptions};
    /// # let files = MemoryFiles::new();
    /// # files.write("table", vec![7u8; 300_000]);
    /// # let pool = Pool::new(PoolOptions::default().memory(8 << 20).device(Device::new(files, None)))?;
    /// let table = pool.open("table".as_ref())?;
    /// table.read_blocking(&[0..300_000], None)?;
    /// table.close()?;
    /// assert_eq!(pool.snapshot().frames.resident, 0);
    /// assert!(matches!(table.pin(0, None), Err(PoolError::RelationClosed { .. })));
    /// # Ok::<(), PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The file is open to be written ([`PoolError::OpenToWrite`]): what was changed is written by
    /// the pool, which closes it.
    pub fn close(&self) -> Result<(), PoolError> {
        self.engine.close_relation(&self.file)
    }
}

/// Its pages, to read.
impl Relation {
    /// Pins page `block`, and reads it first if it is not resident.
    ///
    /// # Errors
    ///
    /// No frame is free ([`PoolError::NoFrame`]), the file has no such page or has changed, or its
    /// read failed.
    #[inline]
    pub fn pin(&self, block: u32, scan: Option<ScanId>) -> Result<PageGuard<'_>, PoolError> {
        self.engine.pin(&mut Anyone, &self.file, block, scan)
    }

    /// As [`pin`](Self::pin), without blocking the thread. The load begins with the call's first
    /// poll and goes on if the future is dropped.
    pub fn pin_async(
        &self,
        block: u32,
        scan: Option<ScanId>,
    ) -> impl Future<Output = Result<PageGuard<'_>, PoolError>> + Send + use<'_> {
        self.engine.pin_async(Anyone, self.file.clone(), block, scan)
    }

    /// As [`pin`](Self::pin), with a guard that borrows nothing.
    ///
    /// # Errors
    ///
    /// As [`pin`](Self::pin).
    pub fn pin_owned(&self, block: u32, scan: Option<ScanId>) -> Result<OwnedPageGuard, PoolError> {
        Ok(OwnedPageGuard::new(&self.engine, self.pin(block, scan)?))
    }

    /// As [`pin_async`](Self::pin_async), with a guard that borrows nothing.
    ///
    /// # Errors
    ///
    /// As [`pin`](Self::pin).
    pub async fn pin_owned_async(&self, block: u32, scan: Option<ScanId>) -> Result<OwnedPageGuard, PoolError> {
        Ok(OwnedPageGuard::new(&self.engine, self.pin_async(block, scan).await?))
    }

    /// Reads byte ranges through the pool. Missing pages that are neighbours are read in one
    /// request; where no frame is free, past the pool. Work begins with the first poll; dropping
    /// the future gives up all it holds.
    ///
    /// # Errors
    ///
    /// A range is outside the file, the file has changed, or a read failed.
    pub fn read(
        &self,
        ranges: &[Range<u64>],
        scan: Option<ScanId>,
    ) -> impl Future<Output = Result<ReadResult, PoolError>> + Send + 'static + use<> {
        engine::read(self.engine.clone(), Anyone, self.file.clone(), ranges.to_vec(), scan)
    }

    /// As [`read`](Self::read), in this thread.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_blocking(&self, ranges: &[Range<u64>], scan: Option<ScanId>) -> Result<ReadResult, PoolError> {
        block_on(self.read(ranges, scan))
    }

    /// Reads bytes past the pool, in this thread: what its caller keeps in another form, as a
    /// decoded footer. The device counts it, the pool does not. Of a file that we write these are
    /// the bytes on storage.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_uncached_blocking(&self, range: Range<u64>) -> Result<Vec<u8>, PoolError> {
        engine::check(&self.file, std::slice::from_ref(&range))?;
        let skip = (range.start % ALIGNMENT as u64) as usize;
        let (offset, len) = (range.start - skip as u64, skip + (range.end - range.start) as usize);
        let read = PastRead { relation: self.file.clone(), offset, len, copy: None };
        Ok(read.run()?.bytes()[skip..len].to_vec())
    }

    /// As [`read_blocking`](Self::read_blocking), into memory of the caller's that need not have
    /// been written: from byte `offset` on, as many bytes as it has. Returns it, written. After an
    /// error it may hold anything.
    ///
    /// ```
    /// # use pagecast::storage::{Device, MemoryFiles};
    /// # use pagecast::{Pool, PoolError, PoolOptions};
    /// # let files = MemoryFiles::new();
    /// # files.write("table", vec![7u8; 300_000]);
    /// # let pool = Pool::new(PoolOptions::default().memory(8 << 20).device(Device::new(files, None)))?;
    /// let table = pool.open("table".as_ref())?;
    /// let mut row = Box::new_uninit_slice(100);
    /// let (bytes, stats) = table.read_into_blocking(65_500, &mut row, None)?;
    /// assert_eq!((&*bytes, stats.pages), (&[7; 100][..], 2));
    /// # Ok::<(), PoolError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_into_blocking<'m>(
        &self,
        offset: u64,
        memory: &'m mut [MaybeUninit<u8>],
        scan: Option<ScanId>,
    ) -> Result<(&'m mut [u8], ReadStats), PoolError> {
        block_on(engine::read_into(self.engine.clone(), Anyone, self.file.clone(), (offset, memory), scan))
    }
}

/// Its pages, to write.
impl Relation {
    /// Pins page `block` alone, to change it, and reads it first if it is not resident. Blocks
    /// until others have given back their pins of it; a thread that holds one itself waits for
    /// ever.
    ///
    /// # Errors
    ///
    /// As [`pin`](Self::pin); besides, the file was opened to be read, or the pool is
    /// [read-only](PoolError::ReadOnly) or [closed](PoolError::Closed).
    pub fn pin_mut(&self, block: u32, scan: Option<ScanId>) -> Result<PageGuardMut<'_>, PoolError> {
        block_on(self.pin_mut_async(block, scan))
    }

    /// As [`pin_mut`](Self::pin_mut), without blocking the thread.
    pub async fn pin_mut_async(&self, block: u32, scan: Option<ScanId>) -> Result<PageGuardMut<'_>, PoolError> {
        let page = self.pin_to_change(block, scan).await?;
        self.engine.learn(self.page(block), None, scan, true);
        Ok(page)
    }

    /// The same without a word to those who learn from requests.
    pub(crate) async fn pin_to_change(&self, block: u32, scan: Option<ScanId>) -> Result<PageGuardMut<'_>, PoolError> {
        self.file.check_writable()?;
        self.engine.writer.latch.may_change()?;
        let held = self.engine.hold(&mut Anyone, &self.file, block, scan, true).await?;
        let exclusive = self.have_alone(block, scan, held).await?;
        // After the page is ours: whoever shut the latch either waits for us or is seen here.
        self.engine.writer.latch.may_change()?;
        Ok(PageGuardMut::new(&self.engine.cache, &self.engine.writer, self.file.clone(), exclusive))
    }

    async fn have_alone(&self, block: u32, scan: Option<ScanId>, mut held: Held) -> Result<Exclusive, PoolError> {
        let cache = &self.engine.cache;
        loop {
            let access = Access { page: self.page(block), scan, write: true, at: self.engine.now() };
            match cache.upgrade(held, access) {
                Upgrade::Done(exclusive) => return Ok(exclusive),
                Upgrade::Draining(others) => return Ok(others.await),
                // Its load may end without a frame; then ours begins from the start.
                Upgrade::Busy(waiter) => match waiter.await? {
                    Some(again) => held = again,
                    None => held = self.engine.hold(&mut Anyone, &self.file, block, scan, true).await?,
                },
                Upgrade::Full => return Err(PoolError::NoFrame { frames: cache.frames() }),
            }
        }
    }

    /// Adds `pages` pages of zeros at the end of a file, and says which is the first of them. The
    /// new length is safe from a crash when the next [`checkpoint`](crate::Pool::checkpoint) or
    /// [`flush`](crate::Pool::flush) has returned.
    ///
    /// # Errors
    ///
    /// The file was opened to be read, storage refuses, or it would have more pages than can be
    /// numbered.
    pub fn grow(&self, pages: u32) -> Result<u32, PoolError> {
        self.file.check_known()?;
        self.engine.writer.latch.may_change()?;
        self.file.grow(pages)
    }
}

/// Its share of the pool, set by hand where somebody knows better than the policy.
impl Relation {
    /// Bounds the resident pages of the relation to `frames`, at least 1, or lifts the bound. When
    /// it has as many, each further load takes the frame of its oldest page that nobody holds, and
    /// the policy is not asked. Pages that are pinned and those on their way come on top. A file
    /// that changes is another relation, without a bound.
    ///
    /// # Errors
    ///
    /// It is known that the file has changed.
    ///
    /// ```
    /// # use pagecast::storage::{Device, MemoryFiles};
    /// # use pagecast::{Pool, PoolOptions};
    /// # let files = MemoryFiles::new();
    /// # files.write("log", vec![7u8; 64 << 16]);
    /// # let pool = Pool::new(PoolOptions::default().memory(8 << 20).device(Device::new(files, None)))?;
    /// let log = pool.open("log".as_ref())?;
    /// log.cap(Some(4))?;
    /// for block in 0..log.pages() {
    ///     drop(log.pin(block, None)?);
    /// }
    /// assert_eq!(pool.snapshot().relations[0].resident, 4);
    /// # Ok::<(), pagecast::PoolError>(())
    /// ```
    pub fn cap(&self, frames: Option<u32>) -> Result<(), PoolError> {
        self.file.check_known()?;
        self.engine.cache.cap(Capped::Relation(self.id()), frames);
        Ok(())
    }

    /// Reserves up to `frames` frames for pages of the relation: while no more of it are resident,
    /// evictions pass over them as long as they find another. With 0 its pages are like any others
    /// again. Set it before the relation is read; set later, it counts pages that come or go
    /// meanwhile wrongly. A file that changes is another relation, without a reserve.
    ///
    /// Reserved frames are out of the policy's reach: reserve a small part of the pool only.
    ///
    /// # Errors
    ///
    /// It is known that the file has changed, or 16 others have a reserve
    /// ([`PoolError::TooManyReserved`]).
    pub fn reserve(&self, frames: u32) -> Result<(), PoolError> {
        self.file.check_known()?;
        match self.engine.cache.reserve(self.id(), frames) {
            true => Ok(()),
            false => Err(PoolError::TooManyReserved { path: self.path().to_owned(), most: MAX_RESERVES }),
        }
    }
}

impl fmt::Debug for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relation")
            .field("id", &self.id())
            .field("path", &self.path())
            .field("len", &self.len())
            .finish()
    }
}
