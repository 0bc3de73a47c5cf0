//! Copies of pages in an area of their own, before they are written in place: a crash in the middle
//! of a write leaves one of the two whole.
//!
//! The idea is InnoDB's double-write buffer (its manual, "Doublewrite Buffer"). Deviations: the
//! area is a circle that is filled before its data files are synced, where InnoDB syncs them after
//! each batch; a page that is sealed is restored only if its seal is broken, and any other always,
//! since nothing tells whether it is whole.
//!
//! Invariants: (D1) a page is written in place only when its copy is durable in the area. (D2) A
//! copy is overwritten only when its file was synced after the page was written in place; as long
//! as that has failed for some page, the area grows. (D3) Each opening of the area is a session
//! with a higher number than all before, which its first block says before there is a record of it.
//! A record counts only in its session. (D4) No two records of a session have one number, and each
//! names the one before it; so what an earlier round, or a batch that failed, has left behind the
//! last record does not continue them. Later ones are newer.
//!
//! Files are named as they are seen from the area's folder: so the area goes with them when the
//! folder is moved, copied, or opened by another name.
//!
//! Suits storage that writes less than a page atomically, with a log that holds changes and no
//! whole pages. Cost: each page is written twice, the copies of a batch in sequence, and each batch
//! waits for one sync more; the first of a session for two. A batch's copies are written together,
//! and then its pages, where the storage can; one batch follows the other.

mod name;
mod record;

use std::collections::{HashMap, HashSet};
use std::io::{self, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagecast_core::PageId;

use super::Writer;
use super::batch::Batch;
use super::log::Durable;
use crate::PoolError;
use crate::io::Buffer;
use crate::seal;
use crate::storage::{Device, DirectIo, MAX_REQUEST, Storage, Storing, read_full, write_all, write_full};
use crate::sync::Mutex;
use name::{file_of, name_of};
use record::{HEADER, MAX_NAME, Record, first_block, header, session_of};

/// Protection against torn pages.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DoubleWriteOptions {
    /// The file of the area. Made if there is none; of this pool alone.
    pub path: PathBuf,
    /// Bytes of copies before the data files are synced and the area begins anew. Default: 64 MiB.
    pub bytes: u64,
    /// Whose pages they are: a number that no other database has. An area of another owner is
    /// refused, so that nothing of it is restored. Default: 0.
    pub owner: u64,
}

impl DoubleWriteOptions {
    /// An area of 64 MiB in this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), bytes: 64 << 20, owner: 0 }
    }

    /// Sets [`bytes`](Self::bytes).
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// Sets [`owner`](Self::owner).
    #[must_use]
    pub fn owner(mut self, owner: u64) -> Self {
        self.owner = owner;
        self
    }
}

pub(super) struct DoubleWrite {
    storage: Arc<dyn Storage>,
    bytes: u64,
    owner: u64,
    position: Mutex<Position>,
}

/// Where the next record goes.
struct Position {
    session: u64,
    /// Whether the first block says so.
    is_begun: bool,
    /// The number of the last record, and of the one before the next in the area: 0 if that is the
    /// first.
    number: u64,
    before: u64,
    offset: u64,
    /// Pages whose last write in place has failed, and may have torn them: their copies are needed.
    unsettled: HashSet<PageId>,
}

impl Position {
    /// Begins anew, unless nothing is written yet or some copies are needed; whether it does.
    fn begin_anew_if_settled(&mut self, writer: &Writer) -> Result<bool, PoolError> {
        let may_begin = self.unsettled.is_empty() && self.before > 0;
        if may_begin {
            writer.sync_all()?;
            (self.before, self.offset) = (0, HEADER as u64);
        }
        Ok(may_begin)
    }
}

impl DoubleWrite {
    /// Opens the area, and restores the pages that a crash tore.
    pub(super) fn open(device: &Device, options: &DoubleWriteOptions) -> Result<Self, PoolError> {
        let failed = |source| PoolError::Open { path: options.path.clone(), source: Arc::new(source) };
        let storage = device.open_to_write(&options.path, true).map_err(failed)?;
        let session = session_of(storage.as_ref(), options.owner).map_err(failed)?;
        let (mut records, mut offset) = (Vec::<Record>::new(), HEADER as u64);
        while let Some(record) = Record::read(storage.as_ref(), offset)
            .map_err(|source| PoolError::io(&options.path, offset, HEADER as u64, source))?
        {
            let before = records.last().map_or(0, |last| last.number);
            if record.session != session || record.before != before || record.number <= before {
                break;
            }
            offset += record.len();
            records.push(record);
        }
        restore(device, &options.path, &records)?;
        let (session, offset, unsettled) = (session + 1, HEADER as u64, HashSet::new());
        let position = Mutex::new(Position { session, is_begun: false, number: 0, before: 0, offset, unsettled });
        Ok(Self { storage, bytes: options.bytes, owner: options.owner, position })
    }

    /// Whether records can name the file.
    pub(super) fn accepts(&self, path: &Path) -> Result<(), PoolError> {
        let len = name_of(path, self.storage.path()).as_os_str().len();
        if len <= MAX_NAME {
            return Ok(());
        }
        let what = format!("its name, seen from the double-write area, has {len} bytes, and at most {MAX_NAME} fit");
        Err(PoolError::Open { path: path.to_owned(), source: Arc::new(io::Error::other(what)) })
    }

    /// Writes the batch, first into the area, then in place.
    pub(super) fn write(&self, batch: Batch, log: Durable, writer: &Writer) -> Result<(), PoolError> {
        // Held to the end: nobody begins anew over copies of a batch that is not in place yet (D2).
        let mut position = self.position.lock();
        if !position.is_begun {
            self.write_first(position.session, writer)?;
            position.is_begun = true;
        }
        let len: u64 = batch.runs().map(|run| (HEADER + run.bytes.len()) as u64).sum();
        if position.offset + len > self.bytes {
            position.begin_anew_if_settled(writer)?;
        }
        let mut copied = self.copy(&batch, &mut position, writer);
        // Where a full disk ends the area before its size does, it begins anew as well.
        if matches!(copied, Err(PoolError::Write { .. })) && position.begin_anew_if_settled(writer)? {
            copied = self.copy(&batch, &mut position, writer);
        }
        copied?;
        batch.write(log, |page| {
            position.unsettled.remove(&page);
        })
    }

    /// Makes the copies of a batch durable at the position, and moves it on.
    fn copy(&self, batch: &Batch, position: &mut Position, writer: &Writer) -> Result<(), PoolError> {
        let len: usize = batch.runs().map(|run| HEADER + run.bytes.len()).sum();
        let mut copies = Buffer::new(len);
        let (mut at, mut before) = (0, position.before);
        for run in batch.runs() {
            // Never used again, whatever becomes of this batch (D4).
            position.number += 1;
            let record = &mut copies.bytes_mut()[at..at + HEADER + run.bytes.len()];
            record[HEADER..].copy_from_slice(run.bytes);
            let name = name_of(run.relation.path(), self.storage.path());
            record[..HEADER].copy_from_slice(&header(&run, &name, [position.session, position.number, before]));
            at += record.len();
            before = position.number;
        }
        self.write_copies(position.offset, copies.bytes(), writer)?;
        (position.before, position.offset) = (before, position.offset + len as u64);
        position.unsettled.extend(batch.pages());
        Ok(())
    }

    /// Begins a session: from here on no record of those before counts.
    fn write_first(&self, session: u64, writer: &Writer) -> Result<(), PoolError> {
        self.write_copies(0, first_block(session, self.owner).bytes(), writer)
    }

    fn write_copies(&self, offset: u64, copies: &[u8], writer: &Writer) -> Result<(), PoolError> {
        let storage = self.storage.as_ref();
        let parts = (offset..).step_by(MAX_REQUEST).zip(copies.chunks(MAX_REQUEST));
        let mut writes: Vec<_> = parts.map(|(offset, bytes)| Storing::new(storage, offset, bytes)).collect();
        write_all(storage, &mut writes);
        let written = writes.into_iter().try_for_each(Storing::outcome);
        written.map_err(|error| write_error(storage, offset, copies.len(), error))?;
        self.storage.sync().map_err(|error| {
            writer.latch.fail(sync_error(self.storage.as_ref(), error));
            writer.latch.may_write().err().unwrap_or(PoolError::Closed)
        })
    }

    /// Forgets all copies, once nothing is dirty and all is synced: the files may be replaced from
    /// now on.
    pub(super) fn empty(&self, writer: &Writer) -> Result<(), PoolError> {
        let mut position = self.position.lock();
        position.session += u64::from(position.is_begun);
        (position.is_begun, position.before, position.offset) = (false, 0, HEADER as u64);
        self.write_first(position.session, writer)?;
        position.is_begun = true;
        Ok(())
    }
}

fn sync_error(storage: &dyn Storage, source: io::Error) -> PoolError {
    PoolError::Sync { path: storage.path().to_owned(), source: Arc::new(source) }
}

/// Writes in place those pages that are not whole there, each from its newest copy. A file that is
/// gone, or ends before the page, has lost more than a torn page: its log brings that back.
fn restore(device: &Device, area: &Path, records: &[Record]) -> Result<(), PoolError> {
    let mut files: HashMap<&Path, Option<Arc<dyn Storage>>> = HashMap::new();
    let mut seen = HashSet::new();
    for record in records.iter().rev() {
        let name = record.name.as_path();
        if !files.contains_key(name) {
            files.insert(name, open_if_there(device, &file_of(name, area))?);
        }
        let Some(Some(file)) = files.get(name) else { continue };
        let pages = (record.first..).zip(record.pages.bytes().chunks(record.page_size as usize));
        for (block, copy) in pages.filter(|&(block, _)| seen.insert((name, block))) {
            restore_page(file.as_ref(), block, copy)?;
        }
    }
    for file in files.into_values().flatten() {
        file.sync().map_err(|error| sync_error(file.as_ref(), error))?;
    }
    Ok(())
}

fn open_if_there(device: &Device, path: &Path) -> Result<Option<Arc<dyn Storage>>, PoolError> {
    match device.open_to_write(path, false) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(PoolError::Open { path: path.to_owned(), source: Arc::new(source) }),
    }
}

fn restore_page(file: &dyn Storage, block: u32, copy: &[u8]) -> Result<(), PoolError> {
    let offset = u64::from(block) * copy.len() as u64;
    let mut page = Buffer::new(copy.len());
    let read = read_full(file, offset, &mut [IoSliceMut::new(page.bytes_mut())])
        .map_err(|source| PoolError::io(file.path(), offset, copy.len() as u64, source))?;
    if read < copy.len() {
        return Ok(());
    }
    let is_whole = seal::verify(copy, block).is_ok() && seal::verify(page.bytes(), block).is_ok();
    if is_whole && file.direct() == DirectIo::Direct {
        return Ok(());
    }
    // What is whole is written as it is: after a sync that failed, the system's cache may show what
    // the device does not have.
    if !is_whole {
        page.bytes_mut().copy_from_slice(copy);
    }
    write_full(file, offset, page.bytes()).map_err(|error| write_error(file, offset, copy.len(), error))
}

fn write_error(storage: &dyn Storage, offset: u64, len: usize, source: io::Error) -> PoolError {
    PoolError::Write { path: storage.path().to_owned(), offset, len: len as u64, source: Arc::new(source) }
}
