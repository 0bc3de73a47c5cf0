//! Shares of the pool that are set by hand, where somebody knows better than the policy.

use super::Pool;
use crate::cache::{Capped, MAX_KEEPS};
use crate::{PoolError, Relation};

impl Pool {
    /// Bounds the resident pages of `relation` to `frames`, at least 1, or lifts the bound. When it
    /// has as many, each further load takes the frame of its oldest page that nobody holds, and the
    /// policy is not asked. Pages that are pinned and those on their way come on top. A file that
    /// changes is another relation, without a bound.
    ///
    /// # Errors
    ///
    /// The relation is another pool's.
    ///
    /// ```
    /// # use pagecast::storage::{Device, MemoryFiles};
    /// # use pagecast::{Pool, PoolOptions};
    /// # let files = MemoryFiles::new();
    /// # files.write("log", vec![7u8; 64 << 16]);
    /// # let pool = Pool::new(PoolOptions::default().memory(8 << 20).device(Device::new(files, None)))?;
    /// let log = pool.open("log".as_ref())?;
    /// pool.cap(&log, Some(4))?;
    /// for block in 0..log.pages() {
    ///     drop(pool.pin(&log, block, None)?);
    /// }
    /// assert_eq!(pool.snapshot().relations[0].resident, 4);
    /// # Ok::<(), pagecast::PoolError>(())
    /// ```
    pub fn cap(&self, relation: &Relation, frames: Option<u32>) -> Result<(), PoolError> {
        relation.check(self.0.identity())?;
        self.0.cache.cap(Capped::Relation(relation.id()), frames);
        Ok(())
    }

    /// Keeps up to `frames` pages of `relation`: while no more of it are resident, evictions pass
    /// over them as long as they find another. With 0 its pages are like any others again. Set it
    /// before the relation is read; set later, it counts pages that come or go meanwhile wrongly. A
    /// file that changes is another relation, which is not kept.
    ///
    /// Kept pages are out of the policy's reach: keep a small part of the pool only.
    ///
    /// # Errors
    ///
    /// The relation is another pool's, or 16 others are kept ([`PoolError::TooManyKept`]).
    pub fn keep(&self, relation: &Relation, frames: u32) -> Result<(), PoolError> {
        relation.check(self.0.identity())?;
        match self.0.cache.keep(relation.id(), frames) {
            true => Ok(()),
            false => Err(PoolError::TooManyKept { path: relation.path().to_owned(), most: MAX_KEEPS }),
        }
    }
}
