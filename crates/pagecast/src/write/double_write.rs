// STOP, please read /work/dur/AAA-two-engineers-are-in-this-worktree.txt: a second engineer has rewritten this file already
// (kv log format 3: faults 3, 4, 5, 8 done and tested; double_write faults 6, 7 under way) in /tmp/dur/wt, branch durability-kv.
// Please take faults 9 and 10 and the pool tests; answer in /tmp/dur/ANSWER.txt; `git checkout` this file.
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
//! copy of an earlier cycle is never needed, by (D2). (D4) After the records of a batch there is a
//! header that is none, so that what a failed batch has left there is not taken for later copies.
//!
//! Suits storage that writes less than a page atomically, with a log that holds changes and no
//! whole pages. Cost: each page is written twice, the copies of a batch in sequence, and each batch
//! waits for one sync more. A batch's copies are written together, and then its pages, where the
//! storage can; one batch follows the other.
//!
//! ```text
//!  record:  4096 bytes of header | the run's pages           the next record follows
//!  header:  magic 8 | cycle 8 | number in the cycle 4 | first block 4 | pages 4 | page size 4 | checksum of pages 4 |
//!           length of path 4 | path | ... | CRC-32 of the header 4
//! ```

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::{self, IoSliceMut};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
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

const MAGIC: [u8; 8] = *b"pgc-dw\0\x02";
const HEADER: usize = 4096;
/// Bytes of a header before the path, and after it.
const FIXED: usize = 40;
const MAX_PATH: usize = HEADER - FIXED - 4;

/// Protection against torn pages.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DoubleWriteOptions {
    /// The file of the area. Made if there is none; of this pool alone.
    pub path: PathBuf,
    /// Bytes of copies before the data files are synced and the area begins anew. Default: 64 MiB.
    pub bytes: u64,
}

impl DoubleWriteOptions {
    /// An area of 64 MiB in this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), bytes: 64 << 20 }
    }

    /// Sets [`bytes`](Self::bytes).
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }
}

pub(super) struct DoubleWrite {
    storage: Arc<dyn Storage>,
    bytes: u64,
    position: Mutex<Position>,
}

/// Where the next record goes.
struct Position {
    cycle: u64,
    number: u32,
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

    /// The next cycle's begin.
    fn begin_anew(&mut self) {
        *self = Self { cycle: self.cycle + 1, number: 0, offset: 0, unsettled: HashSet::new() };
    }
}

impl DoubleWrite {
    /// Opens the area, and restores the pages that a crash tore.
    pub(super) fn open(device: &Device, options: &DoubleWriteOptions) -> Result<Self, PoolError> {
        let failed = |source| PoolError::Open { path: options.path.clone(), source: Arc::new(source) };
        let storage = device.open_to_write(&options.path, true).map_err(failed)?;
        let (mut records, mut offset) = (Vec::<Record>::new(), 0);
        while let Some(record) = Record::read(storage.as_ref(), offset)
            .map_err(|source| PoolError::io(&options.path, offset, HEADER as u64, source))?
        {
            let is_next = records.last().is_none_or(|last| last.cycle == record.cycle);
            if !is_next || record.number as usize != records.len() {
                break;
            }
            offset += record.len();
            records.push(record);
        }
        let cycle = records.last().map_or(0, |last| last.cycle);
        restore(device, &records)?;
        let position = Mutex::new(Position { cycle: cycle + 1, number: 0, offset: 0, unsettled: HashSet::new() });
        Ok(Self { storage, bytes: options.bytes, position })
    }

    /// Whether records can name the file.
    pub(super) fn accepts(&self, path: &Path) -> Result<(), PoolError> {
        let len = path.as_os_str().len();
        if len <= MAX_PATH {
            return Ok(());
        }
        let source =
            io::Error::other(format!("its name has {len} bytes, and the double-write area names at most {MAX_PATH}"));
        Err(PoolError::Open { path: path.to_owned(), source: Arc::new(source) })
    }

    /// Writes the batch, first into the area, then in place.
    pub(super) fn write(&self, batch: Batch, log: Durable, writer: &Writer) -> Result<(), PoolError> {
        // Held to the end: nobody begins anew over copies of a batch that is not in place yet (D2).
        let mut position = self.position.lock();
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
        // The last header stays blank (D4).
        let mut copies = Buffer::new(len + HEADER);
        let mut at = 0;
        for (number, run) in (position.number..).zip(batch.runs()) {
            let record = &mut copies.bytes_mut()[at..at + HEADER + run.bytes.len()];
            record[HEADER..].copy_from_slice(run.bytes);
            record[..HEADER].copy_from_slice(&header(&run, position.cycle, number));
            at += record.len();
        }
        self.write_copies(position.offset, copies.bytes(), writer)?;
        position.number += batch.runs().count() as u32;
        position.offset += len as u64;
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

fn header(run: &Run<'_>, cycle: u64, number: u32) -> [u8; HEADER] {
    let path = run.relation.path().as_os_str().as_bytes();
    let page_size = run.relation.page_size();
    let mut fixed = Vec::with_capacity(FIXED);
    fixed.extend(MAGIC);
    fixed.extend(cycle.to_le_bytes());
    let pages = run.bytes.len() as u32 / page_size;
    for field in [number, run.first, pages, page_size, checksum(run.bytes, page_size), path.len() as u32] {
        fixed.extend(field.to_le_bytes());
    }
    let mut header = [0; HEADER];
    header[..FIXED].copy_from_slice(&fixed);
    header[FIXED..FIXED + path.len()].copy_from_slice(path);
    let checksum = crc32fast::hash(&header[..HEADER - 4]);
    header[HEADER - 4..].copy_from_slice(&checksum.to_le_bytes());
    header
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
    first: u32,
    page_size: u32,
    path: PathBuf,
    pages: Buffer,
}

impl Record {
    /// The record at `offset`, if there is one and it is whole.
    fn read(area: &dyn Storage, offset: u64) -> io::Result<Option<Self>> {
        let mut head = Buffer::new(HEADER);
        if read_full(area, offset, &mut [IoSliceMut::new(head.bytes_mut())])? < HEADER {
            return Ok(None);
        }
        let head = head.bytes();
        let field = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if head[..8] != MAGIC || field(HEADER - 4) != crc32fast::hash(&head[..HEADER - 4]) {
            return Ok(None);
        }
        let (count, page_size, path_len) = (field(24), field(28), field(36) as usize);
        let len = u64::from(count) * u64::from(page_size);
        if path_len > MAX_PATH || len == 0 || len > area.len() || page_size % HEADER as u32 != 0 {
            return Ok(None);
        }
        let mut pages = Buffer::new(len as usize);
        let read = read_full(area, offset + HEADER as u64, &mut [IoSliceMut::new(pages.bytes_mut())])?;
        if read as u64 != len || checksum(pages.bytes(), page_size) != field(32) {
            return Ok(None);
        }
        Ok(Some(Self {
            cycle: u64::from(field(8)) | u64::from(field(12)) << 32,
            number: field(16),
            first: field(20),
            page_size,
            path: OsStr::from_bytes(&head[FIXED..FIXED + path_len]).into(),
            pages,
        }))
    }

    fn len(&self) -> u64 {
        (HEADER + self.pages.bytes().len()) as u64
    }
}

/// Writes in place those pages that are not whole there, each from its newest copy. A file that is
/// gone, or ends before the page, has lost more than a torn page: its log brings that back.
fn restore(device: &Device, records: &[Record]) -> Result<(), PoolError> {
    let mut files: HashMap<&Path, Option<Arc<dyn Storage>>> = HashMap::new();
    let mut seen = HashSet::new();
    for record in records.iter().rev() {
        let path = record.path.as_path();
        if !files.contains_key(path) {
            files.insert(path, open_if_there(device, path)?);
        }
        let Some(Some(file)) = files.get(path) else { continue };
        let pages = (record.first..).zip(record.pages.bytes().chunks(record.page_size as usize));
        for (block, copy) in pages.filter(|&(block, _)| seen.insert((path, block))) {
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
