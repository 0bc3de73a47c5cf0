//! What can go wrong, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagecast_core::PageId;
use pagecast_core::cooperation::Refusal;
use pagecast_core::policy::PolicyError;
use pagecast_core::predictor::{FormatError, RegisterError};
use thiserror::Error;

/// An error of the pool. Cheap to clone: one failed read is told to all who waited for it.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
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
    /// A write failed. The pages stay dirty and in the pool.
    #[error("{}: writing {len} bytes at offset {offset} failed: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Where in the file, in bytes.
        offset: u64,
        /// How many bytes were to be written.
        len: u64,
        /// The operating system's word.
        source: Arc<io::Error>,
    },
    /// A file could not be made safe from a crash. What it holds now, nobody knows.
    #[error("{}: making it safe from a crash failed: {source}", path.display())]
    Sync {
        /// The file.
        path: PathBuf,
        /// The operating system's word.
        source: Arc<io::Error>,
    },
    /// The host's log could not be made durable. The pages that wait for it stay dirty and in the
    /// pool.
    #[error("{lsn}: the log cannot be made durable to it: {source}")]
    Log {
        /// The record that a page waits for.
        lsn: crate::seal::Lsn,
        /// The log's word.
        source: Arc<io::Error>,
    },
    /// Nothing is changed or written any more after what happened. Pages can still be read.
    #[error("the pool is read-only since: {cause}; open the files anew and recover them from the log")]
    ReadOnly {
        /// What happened.
        cause: Box<PoolError>,
    },
    /// A page was changed, and given back without the log record of that change.
    #[error("{}: page {block} was changed without a log record; call `logged` before the pin goes", path.display())]
    Unlogged {
        /// The file.
        path: PathBuf,
        /// The page.
        block: u32,
    },
    /// The pool was closed: its pages can be read, not changed.
    #[error("the pool is closed to changes; open the files in another one")]
    Closed,
    /// The relation was closed by [`Relation::close`](crate::Relation::close).
    #[error("{}: the relation was closed; open the file again", path.display())]
    RelationClosed {
        /// The file.
        path: PathBuf,
    },
    /// Files that are open to be written are closed with their pool.
    #[error("{}: is open to be written; it closes with its pool", path.display())]
    OpenToWrite {
        /// The file.
        path: PathBuf,
    },
    /// The file was opened to be read only.
    #[error("{}: was opened to be read; open it with `open_to_write` to change its pages", path.display())]
    NotWritable {
        /// The file.
        path: PathBuf,
    },
    /// The pages of this file are sealed, so that bytes of it cannot be read across pages.
    #[error("{}: its pages are sealed; pin them instead of reading ranges of bytes", path.display())]
    Sealed {
        /// The file.
        path: PathBuf,
    },
    /// A page is not what was written: torn, damaged, or never sealed.
    #[error("{}: page {block} does not match its checksum; restore it from a backup or from the log", path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
        /// The page.
        block: u32,
    },
    /// A page was found where another one belongs.
    #[error("{}: page {found} is found in the place of page {block}; restore both from a backup or from the log", path.display())]
    Misplaced {
        /// The file.
        path: PathBuf,
        /// The page that belongs there.
        block: u32,
        /// The page that it says it is.
        found: u32,
    },
    /// The file was written with pages of another size.
    #[error("{}: has pages of {found} bytes, but the pool's have {given}; make the pool with `page_size: {found}`", path.display())]
    OtherPageSize {
        /// The file.
        path: PathBuf,
        /// The pool's page size in bytes.
        given: u32,
        /// The file's page size in bytes.
        found: u32,
    },
    /// The file does not end at the end of a page.
    #[error("{}: {len} bytes are no whole number of pages of {page_size} bytes; it was cut off, or has another page size", path.display())]
    PartialPage {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        len: u64,
        /// The page size in bytes.
        page_size: u32,
    },
    /// The file has fewer pages than its owner says.
    #[error("{}: has {pages} pages, but at least {declared} are declared; recover it from the log", path.display())]
    Shorter {
        /// The file.
        path: PathBuf,
        /// The pages that it has.
        pages: u32,
        /// The pages that it should have.
        declared: u32,
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
    /// A page that the file does not have.
    #[error("{}: page {block} is asked for, but the file has {pages}, counted from 0", path.display())]
    NoPage {
        /// The file.
        path: PathBuf,
        /// The page asked for.
        block: u32,
        /// How many pages the file has.
        pages: u32,
    },
    /// A byte range that the file does not have.
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
    /// The memory given is more than there is.
    #[error(
        "a pool of {given} bytes is more than the {limit} bytes of memory that this process can have; ask for less"
    )]
    MoreThanMemory {
        /// The bytes given: the most that the pool may ever have.
        given: u64,
        /// The machine's memory, or less where a control group limits it.
        limit: u64,
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
    /// The room for the tier on flash does not hold one page and what goes with it.
    #[error("{}: {given} bytes are too few for a tier on flash: a page of {page_size} bytes needs at least {minimum}", path.display())]
    FlashTooSmall {
        /// The tier's file.
        path: PathBuf,
        /// The bytes given.
        given: u64,
        /// The page size in bytes.
        page_size: u32,
        /// The fewest bytes that make a tier.
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
    /// The items of the relation's pages are known already; a relation has one layout.
    #[error("{}: has a layout of items already; use the handle that was made with it", path.display())]
    LayoutKnown {
        /// The file.
        path: PathBuf,
    },
    /// The layout does not find an item any more that was changed without its page. The change
    /// stays in the tuple buffer and in the log.
    #[error("{}: page {block} has no place for its item {item}, which was changed; the layout is not what it was", path.display())]
    Displaced {
        /// The file.
        path: PathBuf,
        /// The page.
        block: u32,
        /// The item.
        item: u32,
    },
    /// An item cannot be changed to another length, or is not in its page.
    #[error("{}: page {block} has no item {item} of {len} bytes; change the whole page with `pin_mut`", path.display())]
    NoItem {
        /// The file.
        path: PathBuf,
        /// The page.
        block: u32,
        /// The item.
        item: u32,
        /// The bytes that it was to have.
        len: usize,
    },
    /// No more relations can have a reserve.
    #[error("{}: no frames can be reserved: {most} relations have a reserve; give one of them up", path.display())]
    TooManyReserved {
        /// The file.
        path: PathBuf,
        /// How many can have one at once.
        most: usize,
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
    /// A load ended without a result, because something panicked on its way. The page can be asked
    /// for again.
    #[error("the load of block {} of relation {} was abandoned after a panic", page.block(), page.relation().0)]
    Abandoned {
        /// The page.
        page: PageId,
    },
}

/// Why a scan without order was not registered. Nothing of it is left; it may read in an order of
/// its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum UnorderedError {
    /// The predictor does not take it.
    #[error(transparent)]
    Predictor(#[from] RegisterError),
    /// It cannot cooperate with others.
    #[error(transparent)]
    Cooperation(#[from] Refusal),
}

impl PoolError {
    pub(crate) fn io(path: &Path, offset: u64, len: u64, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), offset, len, source: Arc::new(source) }
    }

    pub(crate) fn setup(what: &'static str, source: io::Error) -> Self {
        Self::Setup { what, source: Arc::new(source) }
    }
}
