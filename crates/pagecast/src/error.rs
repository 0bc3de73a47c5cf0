//! What can go wrong, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagecast_core::PageId;
use pagecast_core::policy::PolicyError;
use pagecast_core::predictor::{FormatError, RegisterError};
use thiserror::Error;

/// An error of the pool. Cheap to clone: one failed read is told to all who waited for it.
#[derive(Clone, Debug, Error)]
pub enum PoolError {
    /// Every frame is pinned or being filled. Reads go past the pool instead; a pin cannot.
    #[error("no frame is free: all {frames} are pinned or being filled; give the pool more memory or hold fewer pins")]
    NoFrame {
        /// How many frames the pool has.
        frames: u32,
    },
    /// The file is not the one that was opened: replaced, rewritten, truncated or removed.
    #[error("{}: the file changed while it was being read ({how}); open it again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// What differs.
        how: String,
    },
    /// A read failed.
    #[error("{}: reading {len} bytes at offset {offset} failed: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Where in the file, in bytes.
        offset: u64,
        /// How many bytes were wanted.
        len: u64,
        /// The operating system's word.
        source: Arc<io::Error>,
    },
    /// The file cannot be opened.
    #[error("{}: cannot be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The operating system's word.
        source: Arc<io::Error>,
    },
    /// The file has more pages than a page number can tell apart.
    #[error("{}: {len} bytes are more than {max} pages of {page_size} bytes; use larger pages", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        len: u64,
        /// The page size in bytes.
        page_size: u32,
        /// The largest number of pages.
        max: u32,
    },
    /// The relation was opened by another pool.
    #[error("{}: was opened by another pool; open it in the one that reads it", path.display())]
    OtherPool {
        /// The file.
        path: PathBuf,
    },
    /// A page or byte range that the file does not have.
    #[error("{}: bytes {start}..{end} are asked for, but the file has {len}", path.display())]
    OutOfBounds {
        /// The file.
        path: PathBuf,
        /// The first byte asked for.
        start: u64,
        /// The end of what is asked for.
        end: u64,
        /// The file's length in bytes.
        len: u64,
    },
    /// The memory given does not hold one frame and what goes with it.
    #[error("a pool of {given} bytes is too small: pages of {page_size} bytes need at least {minimum} bytes")]
    TooSmall {
        /// The bytes given.
        given: u64,
        /// The page size in bytes.
        page_size: u32,
        /// The fewest bytes that make a pool.
        minimum: u64,
    },
    /// More memory than the pool was made for.
    #[error("a pool made for at most {maximum} bytes cannot get {given}; make it with a larger max_memory")]
    AboveMaximum {
        /// The bytes given.
        given: u64,
        /// The most it can get.
        maximum: u64,
    },
    /// The page size cannot be used.
    #[error("a page size of {given} bytes cannot be used: it must be a multiple of 4096 and at most {max}")]
    PageSize {
        /// The bytes given.
        given: u32,
        /// The largest page size.
        max: u32,
    },
    /// The share of the frames for pages ahead cannot be used.
    #[error("a prefetch share of {given} cannot be used: it must be from 0 to {max}")]
    PrefetchShare {
        /// The share given.
        given: f64,
        /// The largest share.
        max: f64,
    },
    /// The policy cannot be built.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The scan cannot be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The predictor's configuration has no room for a scan.
    #[error(transparent)]
    Predictor(#[from] FormatError),
    /// The operating system refuses memory or threads.
    #[error("the pool cannot be set up: {what}: {source}")]
    Setup {
        /// What was asked of the system.
        what: &'static str,
        /// Its answer.
        source: Arc<io::Error>,
    },
    /// A load ended without a result, because something panicked on its way. The page can be asked for again.
    #[error("the load of block {} of relation {} was abandoned after a panic", page.block(), page.relation().0)]
    Abandoned {
        /// The page.
        page: PageId,
    },
}

impl PoolError {
    pub(crate) fn io(path: &Path, offset: u64, len: u64, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), offset, len, source: Arc::new(source) }
    }

    pub(crate) fn setup(what: &'static str, source: io::Error) -> Self {
        Self::Setup { what, source: Arc::new(source) }
    }
}
