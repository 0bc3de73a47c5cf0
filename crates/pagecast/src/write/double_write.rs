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
//! as that has failed for some page, the area grows. (D3) Of one cycle, later copies are newer; a
//! copy of an earlier cycle is never needed, by (D2). Each pool that opens the area begins with a
//! number that no cycle had. (D4) No two records of a cycle have one number, and each names the one
//! before it. So what a batch that failed has left behind the last record does not continue them.
//! (D5) A copy names its file as it lies from the folder of the files. So that may be moved, copied
//! or called otherwise, and a copy is never written elsewhere. (D6) The checksum of a header covers
//! the area's owner: a copy of another database is none.
//!
//! Suits storage that writes less than a page atomically, with a log that holds changes and no
//! whole pages. Cost: each page is written twice, the copies of a batch in sequence, and each batch
//! waits for one sync more. A batch's copies are written together, and then its pages, where the
//! storage can; one batch follows the other.
//!
//! ```text
//!  record:  4096 bytes of header | the run's pages           the next record follows
//!  header:  magic 8 | cycle 8 | number in the cycle 4 | number of the record before 4 | first block 4 | pages 4 |
//!           page size 4 | checksum of pages 4 | length of name 4 | name | ... | CRC-32 of owner and header 4
//! ```

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSliceMut};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use pagecast_core::PageId;

use super::Writer;
use super::batch::{Batch, Run};
use super::log::Durable;
use crate::PoolError;
use crate::io::Buffer;
use crate::seal;
use crate::storage::{Device, MAX_REQUEST, Storage, Storing, read_full, write_all, write_full};
use crate::sync::Mutex;

/// The last byte is the version. Of version 2, a copy named its file as it was opened.
const MAGIC: [u8; 8] = *b"pgc-dw\0\x03";
const HEADER: usize = 4096;
/// Bytes of a header before the name, and after it.
const FIXED: usize = 44;
const MAX_NAME: usize = HEADER - FIXED - 4;

/// Protection against torn pages.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DoubleWriteOptions {
    /// The file of the area. Made if there is none; of this pool alone.
    pub path: PathBuf,
    /// The folder in which, or below which, the files are that are written. Copies name them from
    /// there, so that it may be moved. Default: the folder of the area.
    pub folder: PathBuf,
    /// Bytes of copies before the data files are synced and the area begins anew. Default: 64 MiB.
    pub bytes: u64,
    /// Whose pages they are: a number that no other database has, so that no page of another one is
    /// restored if their files were mixed up. Default: 0.
    pub owner: u64,
}

impl DoubleWriteOptions {
    /// An area of 64 MiB in this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { folder: path.parent().unwrap_or(Path::new("")).to_owned(), path, bytes: 64 << 20, owner: 0 }
    }

    crate::setters! {
        folder: impl Into<PathBuf>,
        bytes: u64,
        owner: u64,
    }
}

pub(super) struct DoubleWrite {
    storage: Arc<dyn Storage>,
    folder: PathBuf,
    bytes: u64,
    owner: u64,
    position: Mutex<Position>,
}

/// Where the next record goes.
struct Position {
    cycle: u64,
    /// The last number that was used, and that of the last record; 0 if there is none.
    number: u32,
    before: u32,
    offset: u64,
    /// Pages whose last write in place has failed, and may have torn them: their copies are needed.
    unsettled: HashSet<PageId>,
}

impl Position {
    /// Begins anew, unless nothing is written yet or some copies are needed; whether it does.
    fn begin_anew_if_settled(&mut self, writer: &Writer) -> Result<bool, PoolError> {
        let may_begin = self.unsettled.is_empty() && self.offset > 0;
        if may_begin {
            writer.sync_all()?;
            self.begin_anew();
        }
        Ok(may_begin)
    }

    /// The begin of a cycle.
    fn new(cycle: u64) -> Self {
        Self { cycle, number: 0, before: 0, offset: 0, unsettled: HashSet::new() }
    }

    /// The next cycle's begin.
    fn begin_anew(&mut self) {
        *self = Self::new(self.cycle.wrapping_add(1));
    }
}

impl DoubleWrite {
    /// Opens the area, and restores the pages that a crash tore.
    pub(super) fn open(device: &Device, options: &DoubleWriteOptions) -> Result<Self, PoolError> {
        let failed = |source| PoolError::Open { path: options.path.clone(), source: Arc::new(source) };
        let storage = device.open_to_write(&options.path, true).map_err(failed)?;
        let unread = |offset| move |source| PoolError::io(&options.path, offset, HEADER as u64, source);
        if let Some(version) = other_version(storage.as_ref()).map_err(unread(0))? {
            let ours = MAGIC[7];
            return Err(failed(io::Error::other(format!(
                "it is a double-write area of version {version}, and this is {ours}; open and close its files with \
                 the version that wrote it"
            ))));
        }
        let (mut records, mut offset) = (Vec::<Record>::new(), 0);
        while let Some(record) = Record::read(storage.as_ref(), options.owner, offset).map_err(unread(offset))? {
            let (cycle, before) = records.last().map_or((record.cycle, 0), |last| (last.cycle, last.number));
            if (record.cycle, record.before) != (cycle, before) {
                break;
            }
            offset += record.len();
            records.push(record);
        }
        if !records.is_empty() {
            // A process that died may have left them in the system's cache only.
            storage.sync().map_err(|error| sync_error(storage.as_ref(), error))?;
        }
        restore(device, &options.folder, &records)?;
        // Random, and with that none that any record of the area has (D3).
        let position = Mutex::new(Position::new(RandomState::new().hash_one(0)));
        let (folder, bytes, owner) = (options.folder.clone(), options.bytes, options.owner);
        Ok(Self { storage, folder, bytes, owner, position })
    }

    /// Whether records can name the file.
    pub(super) fn accepts(&self, path: &Path) -> Result<(), PoolError> {
        self.name(path).map(drop)
    }

    /// What records call the file (D5).
    fn name(&self, path: &Path) -> Result<PathBuf, PoolError> {
        let refused = |why: String| PoolError::Open { path: path.to_owned(), source: Arc::new(io::Error::other(why)) };
        let Some(name) = name_from(&self.folder, path) else {
            return Err(refused(format!(
                "it is not in the folder of double writes, which is {}, or below it; name another folder by \
                 DoubleWriteOptions::folder",
                if self.folder == Path::new("") { Path::new(".") } else { &self.folder }.display()
            )));
        };
        match name.as_os_str().len() {
            ..=MAX_NAME => Ok(name),
            len => Err(refused(format!(
                "its name has {len} bytes from the folder of double writes on, and at most {MAX_NAME} can be named"
            ))),
        }
    }

    /// Writes the batch, first into the area, then in place.
    pub(super) fn write(&self, batch: Batch, log: Durable, writer: &Writer) -> Result<(), PoolError> {
        // Held to the end: nobody begins anew over copies of a batch that is not in place yet (D2).
        let mut position = self.position.lock();
        // Whose sync failed while we waited (W5).
        writer.latch.may_write()?;
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
            let name = self.name(run.relation.path())?;
            // Never used again, whatever becomes of this batch (D4).
            position.number += 1;
            let record = &mut copies.bytes_mut()[at..at + HEADER + run.bytes.len()];
            record[HEADER..].copy_from_slice(run.bytes);
            let of = [position.number, before];
            record[..HEADER].copy_from_slice(&header(&run, &name, self.owner, position.cycle, of));
            at += record.len();
            before = position.number;
        }
        self.write_copies(position.offset, copies.bytes(), writer)?;
        (position.before, position.offset) = (before, position.offset + len as u64);
        position.unsettled.extend(batch.pages());
        Ok(())
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
        let blank = Buffer::new(HEADER);
        self.write_copies(0, blank.bytes(), writer)?;
        position.begin_anew();
        Ok(())
    }
}

fn sync_error(storage: &dyn Storage, source: io::Error) -> PoolError {
    PoolError::Sync { path: storage.path().to_owned(), source: Arc::new(source) }
}

/// The way from a folder down to a file, if there is one.
fn name_from(folder: &Path, path: &Path) -> Option<PathBuf> {
    let absolute = |path: &Path| std::path::absolute(if path == Path::new("") { Path::new(".") } else { path }).ok();
    // As they are called first: that needs no working folder.
    let as_called = path.strip_prefix(folder).ok().filter(|name| goes_down(name)).map(Path::to_owned);
    as_called.or_else(|| {
        let (path, folder) = (absolute(path)?, absolute(folder)?);
        path.strip_prefix(folder).ok().filter(|name| goes_down(name)).map(Path::to_owned)
    })
}

/// Whether a name leads from a folder to something in it.
fn goes_down(name: &Path) -> bool {
    name != Path::new("") && name.components().all(|part| matches!(part, Component::Normal(_)))
}

/// `of` is the record's number, and that of the one before it.
fn header(run: &Run<'_>, name: &Path, owner: u64, cycle: u64, of: [u32; 2]) -> [u8; HEADER] {
    let name = name.as_os_str().as_bytes();
    let page_size = run.relation.page_size();
    let mut fixed = Vec::with_capacity(FIXED);
    fixed.extend(MAGIC);
    fixed.extend(cycle.to_le_bytes());
    let pages = run.bytes.len() as u32 / page_size;
    for field in [of[0], of[1], run.first, pages, page_size, checksum(run.bytes, page_size), name.len() as u32] {
        fixed.extend(field.to_le_bytes());
    }
    let mut header = [0; HEADER];
    header[..FIXED].copy_from_slice(&fixed);
    header[FIXED..FIXED + name.len()].copy_from_slice(name);
    let checksum = header_checksum(&header, owner);
    header[HEADER - 4..].copy_from_slice(&checksum.to_le_bytes());
    header
}

fn header_checksum(header: &[u8], owner: u64) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&owner.to_le_bytes());
    sum.update(&header[..HEADER - 4]);
    sum.finalize()
}

/// Of the pages of a record. Not their CRC-32: a sealed page ends in its own, and the CRC-32 of a
/// message with its own is the same for all messages. Then whole pages of an earlier cycle would
/// pass for those of this record.
fn checksum(pages: &[u8], page_size: u32) -> u32 {
    let mut sums = crc32fast::Hasher::new();
    for page in pages.chunks(page_size as usize) {
        let (rest, last) = page.split_at(page.len() - 4);
        sums.update(&crc32fast::hash(rest).to_le_bytes());
        sums.update(last);
    }
    sums.finalize()
}

/// A whole record, read back.
struct Record {
    cycle: u64,
    number: u32,
    before: u32,
    first: u32,
    page_size: u32,
    name: PathBuf,
    pages: Buffer,
}

impl Record {
    /// The record at `offset`, if there is one and it is whole.
    fn read(area: &dyn Storage, owner: u64, offset: u64) -> io::Result<Option<Self>> {
        let mut head = Buffer::new(HEADER);
        if read_full(area, offset, &mut [IoSliceMut::new(head.bytes_mut())])? < HEADER {
            return Ok(None);
        }
        let head = head.bytes();
        let field = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        // A fuzzer does not know checksums.
        let is_whole = cfg!(fuzzing) || field(HEADER - 4) == header_checksum(head, owner);
        if head[..8] != MAGIC || !is_whole {
            return Ok(None);
        }
        let (count, page_size, name_len) = (field(28), field(32), field(40) as usize);
        let len = u64::from(count) * u64::from(page_size);
        if name_len > MAX_NAME || len == 0 || len > area.len() || page_size % HEADER as u32 != 0 {
            return Ok(None);
        }
        let name = PathBuf::from(OsStr::from_bytes(&head[FIXED..FIXED + name_len]));
        if !goes_down(&name) {
            return Ok(None);
        }
        let mut pages = Buffer::new(len as usize);
        let read = read_full(area, offset + HEADER as u64, &mut [IoSliceMut::new(pages.bytes_mut())])?;
        if read as u64 != len || !cfg!(fuzzing) && checksum(pages.bytes(), page_size) != field(36) {
            return Ok(None);
        }
        Ok(Some(Self {
            cycle: u64::from(field(8)) | u64::from(field(12)) << 32,
            number: field(16),
            before: field(20),
            first: field(24),
            page_size,
            name,
            pages,
        }))
    }

    fn len(&self) -> u64 {
        (HEADER + self.pages.bytes().len()) as u64
    }
}

/// The version of the area, if it is one of another version that has copies.
fn other_version(area: &dyn Storage) -> io::Result<Option<u8>> {
    let mut head = Buffer::new(HEADER);
    let read = read_full(area, 0, &mut [IoSliceMut::new(head.bytes_mut())])?;
    let [name @ .., version] = MAGIC;
    let found = head.bytes()[name.len()];
    Ok((read == HEADER && head.bytes()[..name.len()] == name && found != version).then_some(found))
}

/// Writes in place those pages that are not whole there, each from its newest copy. A file that is
/// gone, or ends before the page, has lost more than a torn page: its log brings that back.
fn restore(device: &Device, folder: &Path, records: &[Record]) -> Result<(), PoolError> {
    let mut files: HashMap<&Path, Option<Arc<dyn Storage>>> = HashMap::new();
    let mut seen = HashSet::new();
    for record in records.iter().rev() {
        let name = record.name.as_path();
        if !files.contains_key(name) {
            files.insert(name, open_if_there(device, &folder.join(name))?);
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
    let is_sealed = seal::verify(copy, block).is_ok();
    if read < copy.len() || is_sealed && seal::verify(page.bytes(), block).is_ok() {
        return Ok(());
    }
    page.bytes_mut().copy_from_slice(copy);
    write_full(file, offset, page.bytes()).map_err(|error| write_error(file, offset, copy.len(), error))
}

fn write_error(storage: &dyn Storage, offset: u64, len: usize, source: io::Error) -> PoolError {
    PoolError::Write { path: storage.path().to_owned(), offset, len: len as u64, source: Arc::new(source) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::Lsn;

    #[test]
    fn sealed_pages_are_told_apart() {
        let sealed = |block: u32, fill: u8| {
            let mut page = vec![fill; 4096];
            seal::seal(&mut page, block, Lsn(7));
            page
        };
        let sums = [sealed(1, 0), sealed(2, 0), sealed(1, 9), [sealed(1, 0), sealed(2, 0)].concat(), vec![0; 4096]]
            .map(|pages| checksum(&pages, 4096));
        assert!((0..sums.len()).all(|at| !sums[..at].contains(&sums[at])), "{sums:?}");
    }
}
