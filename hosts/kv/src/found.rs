//! Which files make up the log of a store that is opened, and what they say has happened.
//!
//! The newer file goes on where the older one ends, if the older one names it. One that it does not
//! name and that has no record was begun in vain, unless it says that the pages have all of the
//! other. Whatever is missing of what the pages may lack is
//! an error that names file and place; nothing is taken for the end that is not (`log_file`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagecast::Lsn;
use pagecast::storage::Storage;

use crate::log_file::{Content, Header, Note, RecordKind};
use crate::{Error, Result};

/// What an opened log says has happened.
pub(crate) struct Found {
    /// Only if records of it are needed.
    older: Option<Content>,
    newer: Content,
    /// Which file the newer one is.
    pub(crate) file: usize,
    /// The last life of any file.
    pub(crate) life: u64,
    /// Records before this place are not needed.
    pub(crate) from: u64,
}

/// What is wrong with a file without a log, if it is not empty.
type NoLog = Option<Error>;
/// A file with a log or without.
type Known = std::result::Result<Content, NoLog>;

impl Found {
    /// What the two files hold; `None` if neither was ever begun.
    pub(crate) fn read(files: &[Arc<dyn Storage>; 2]) -> Result<Option<Self>> {
        let path = |at: usize| files[at].path();
        let [(one, note_of_other), (other, note_of_one)] = [content(&files[0])?, content(&files[1])?];
        Ok(Some(match (noted(one, note_of_one), noted(other, note_of_other)) {
            (Err(None), Err(None)) => return Ok(None),
            (Err(Some(error)), Err(_)) | (Err(None), Err(Some(error))) => return Err(error),
            (Ok(one), Err(why)) => Self::of_one(one, 0, why, path(1))?,
            (Err(why), Ok(one)) => Self::of_one(one, 1, why, path(0))?,
            (Ok(one), Ok(other)) if one.header.life < other.header.life => Self::of_both(one, other, 1)?,
            (Ok(one), Ok(other)) => Self::of_both(other, one, 0)?,
        }))
    }

    /// One file has a log, and the other one, at `other`, has none.
    fn of_one(one: Content, file: usize, why: NoLog, other: &Path) -> Result<Self> {
        let missing = why.unwrap_or_else(|| damaged(other, "it is empty, and records of it are needed"));
        if one.next.is_some() || needed_from(&one) < one.header.start {
            return Err(missing);
        }
        Self::new(None, one, file)
    }

    /// `file` is which of the two the newer one is.
    fn of_both(older: Content, newer: Content, file: usize) -> Result<Self> {
        if older.header.store != newer.header.store {
            return Err(damaged(&newer.path, "it is of another store than the other file of the log"));
        }
        if older.header.life == newer.header.life {
            return Err(damaged(&newer.path, "it is of the same life as the other file of the log"));
        }
        let is_named = older.next == Some(newer.header.life);
        // What its header says of the pages was true before it was written.
        let is_all_on_pages = newer.header.from >= older.end.max(older.durable);
        if !is_named && !is_all_on_pages && newer.end == newer.header.start {
            let (life, after) = (newer.header.life, newer.header.after);
            if older.end < after {
                return Err(older.damaged("a record is missing that the pages may lack"));
            }
            if older.next.is_some() {
                return Err(damaged(&newer.path, "it is not the file in which the log goes on"));
            }
            return Ok(Self { life, ..Self::new(None, older, 1 - file)? });
        }
        if newer.next.is_some() {
            return Err(damaged(&older.path, "the log goes on in it, and it is older"));
        }
        if needed_from(&newer) >= newer.header.start {
            return Self::new(None, newer, file);
        }
        if !is_named || older.end != newer.header.after {
            return Err(older.damaged("a record is missing that the pages may lack"));
        }
        Self::new(Some(older), newer, file)
    }

    fn new(older: Option<Content>, newer: Content, file: usize) -> Result<Self> {
        older.iter().chain([&newer]).try_for_each(Content::check)?;
        let (from, life) = (needed_from(&newer), newer.header.life);
        if older.is_none() && from < newer.header.start {
            return Err(damaged(&newer.path, "records of the other file are needed, and are not there"));
        }
        Ok(Self { older, newer, file, life, from })
    }

    /// Whether nothing was ever put into the store.
    pub(crate) fn is_new(&self) -> bool {
        self.newer.header.is_first() && self.newer.records().all(|record| record.kind != RecordKind::Batch)
    }

    pub(crate) fn header(&self) -> &Header {
        &self.newer.header
    }

    /// Where the records end.
    pub(crate) fn end(&self) -> Lsn {
        Lsn(self.newer.end)
    }

    /// See [`Content::tail`].
    pub(crate) fn tail(&self) -> (u64, u64, Vec<u8>) {
        self.newer.tail()
    }

    /// What is wrong if a page is of a record that the log does not have.
    pub(crate) fn ends_too_early(&self) -> Error {
        self.newer.damaged("it ends here, and a page is of a later record")
    }

    /// The batches that pages may lack, in their order.
    pub(crate) fn batches(&self) -> impl Iterator<Item = (Lsn, &[u8])> {
        let records = self.older.iter().flat_map(Content::records).chain(self.newer.records());
        let batches = records.filter(|record| record.kind == RecordKind::Batch && record.place >= self.from);
        batches.map(|record| (Lsn(record.place), record.content))
    }
}

/// What a file holds, or why it holds no log, and its note of the other one. A file that is none of
/// ours is an error.
fn content(file: &Arc<dyn Storage>) -> Result<(Known, Option<Note>)> {
    let (content, note) = Content::read(file)?;
    let known = match content {
        Ok(content) => content.ok_or(None),
        Err(error @ Error::DamagedLog { .. }) => Err(Some(error)),
        Err(error) => return Err(error),
    };
    Ok((known, note))
}

/// A file with what the other one notes of it.
fn noted(mut file: Known, note: Option<Note>) -> Known {
    if let (Ok(content), Some(note)) = (&mut file, note)
        && note.life == content.header.life
    {
        content.durable = content.durable.max(note.durable);
    }
    file
}

/// Records of before are not needed.
fn needed_from(newer: &Content) -> u64 {
    newer.checkpointed.unwrap_or(newer.header.from)
}

fn damaged(path: &Path, what: &'static str) -> Error {
    Error::DamagedLog { path: PathBuf::from(path), offset: 0, what }
}
