//! What can go wrong, and what to do about it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use pagecast::PoolError;
use thiserror::Error;

/// An error of a store.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool could not read or write a page.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A file of the store cannot be opened.
    #[error("{}: cannot be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The operating system's word.
        source: Arc<io::Error>,
    },
    /// Another store, in this process or another one, has it open.
    #[error("{}: another process has this store open; close it there first", path.display())]
    Locked {
        /// The store's log.
        path: PathBuf,
    },
    /// A file with the name of one of ours.
    #[error("{}: is not a file of a pagecast-kv store; open another folder", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A file of one store among those of another.
    #[error("{}: is of another store than the log beside it; put back the file that belongs there", path.display())]
    OtherStore {
        /// The file.
        path: PathBuf,
    },
    /// The pages of a store whose log is gone.
    #[error("{}: are pages of a store, and its log (log.0, log.1) is missing; restore the store from a backup", path.display())]
    NoLog {
        /// The file of the pages.
        path: PathBuf,
    },
    /// A store of a later version.
    #[error("{}: is of format {found}, and this version reads up to {known}; use a newer version", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u32,
        /// The newest format that is known here.
        known: u32,
    },
    /// A store of an earlier version, which wrote another format.
    #[error(
        "{}: is of format {found}, and this version reads {known}; copy its entries to a new store with the version \
         that wrote it",
        path.display()
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u32,
        /// The oldest format that is known here.
        known: u32,
    },
    /// A page is whole and does not say what it should.
    #[error("{}: page {block} is damaged: {what}; restore the store from a backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The page.
        block: u32,
        /// What does not fit.
        what: &'static str,
    },
    /// The log lacks records that the pages need.
    #[error("{}: the log is damaged at byte {offset}: {what}; restore the store from a backup", path.display())]
    DamagedLog {
        /// The file.
        path: PathBuf,
        /// Where in the file, in bytes.
        offset: u64,
        /// What does not fit.
        what: &'static str,
    },
    /// The log could not be written. Whether the change is lost is known when a later one succeeds,
    /// or when the store is opened again.
    #[error("{}: writing the log at byte {offset} failed: {source}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// Where in the file, in bytes.
        offset: u64,
        /// The operating system's word.
        source: Arc<io::Error>,
    },
    /// Pages that were changed earlier cannot be written, so that no more are changed. Reads go on,
    /// and so do writes as soon as the pages find room.
    #[error("nothing is changed before earlier changes are on storage: {cause}; make room, and try again")]
    Stalled {
        /// Why they are not.
        cause: PoolError,
    },
    /// A key is longer than the page size allows.
    #[error("a key of {length} bytes is longer than {limit}; use a shorter one, or larger pages for a new store")]
    KeyTooLong {
        /// Bytes of the key.
        length: usize,
        /// The most bytes of a key.
        limit: usize,
    },
    /// An entry is larger than about half a page.
    #[error(
        "key and value have {length} bytes, and at most {limit} fit; cut the value, or use larger pages for a new store"
    )]
    EntryTooLarge {
        /// Bytes of key and value.
        length: usize,
        /// The most bytes of both.
        limit: usize,
    },
    /// A batch changes more than can be kept from storage until its end.
    #[error("the batch needs {needed} {unit}, and has {limit}; cut it into several, or give the store more {remedy}")]
    BatchTooLarge {
        /// How much it takes.
        needed: u64,
        /// How much there is.
        limit: u64,
        /// Of what.
        unit: &'static str,
        /// What to give it more of.
        remedy: &'static str,
    },
}

/// What a call of a store returns.
pub type Result<T> = std::result::Result<T, Error>;
