// STOP, please read /work/dur/AAA-two-engineers-are-in-this-worktree.txt: a second engineer has rewritten this file already
// (kv log format 3: faults 3, 4, 5, 8 done and tested; double_write faults 6, 7 under way) in /tmp/dur/wt, branch durability-kv.
// Please take faults 9 and 10 and the pool tests; answer in /tmp/dur/ANSWER.txt; `git checkout` this file.
//! What the files of the log hold, and reading them back.
//!
//! ```text
//!  file:    header, 4096 bytes | record | record | ...
//!  header:  magic 8 | format 4 | page size 4 | life 8 | start 8 | from 8 | capacity 8 | CRC-32 of these 4 | zeros
//!  record:  length of what follows its checksum 4 | CRC-32 of life, place and what follows 4 | kind 1 | content
//! ```
//!
//! A record's place is its number, its `Lsn`: the header's `start` is the place of the first one.
//! Records before `from` are not needed.
//! Each time a file is begun it has a new life. Since the checksum covers life and place, what an
//! earlier life left behind the last record is no record.

use std::io::{self, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagecast::storage::{Storage, read_full};

use crate::{Error, Result};

/// Bytes before the first record. Requests to the device are multiples of it.
pub(crate) const BLOCK: usize = 4096;
const MAGIC: [u8; 8] = *b"pgckvlog";
/// The format of pages and log: it grows whenever bytes of either mean something else. Of format 1,
/// a changed entry was named by its place in the page, not by its key.
pub(crate) const FORMAT: u32 = 2;
/// Bytes of a record before its kind.
const PREFIX: usize = 8;

/// What a record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordKind {
    /// Pages were changed, all of them or none.
    Batch = 1,
    /// The records before the place that it names are not needed any more.
    Checkpoint = 2,
}

/// Bytes that a record with such a content takes.
pub(crate) fn record_length(content: usize) -> u64 {
    (PREFIX + 1 + content) as u64
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) page_size: u32,
    pub(crate) life: u64,
    pub(crate) start: u64,
    pub(crate) from: u64,
    pub(crate) capacity: u64,
}

/// Bytes of a header before its checksum.
const FIELDS: usize = 48;

impl Header {
    pub(crate) fn block(&self) -> Vec<u8> {
        let mut block = MAGIC.to_vec();
        block.extend(FORMAT.to_le_bytes());
        block.extend(self.page_size.to_le_bytes());
        for field in [self.life, self.start, self.from, self.capacity] {
            block.extend(field.to_le_bytes());
        }
        block.extend(crc32fast::hash(&block).to_le_bytes());
        block.resize(BLOCK, 0);
        block
    }

    /// `None`: the file was never begun.
    fn of(block: &[u8], path: &Path) -> Result<Option<Self>> {
        if block.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let path = || path.to_owned();
        if block.len() < BLOCK || block[..8] != MAGIC {
            return Err(Error::Foreign { path: path() });
        }
        let found = short(block, 8);
        if found > FORMAT {
            return Err(Error::Newer { path: path(), found, known: FORMAT });
        }
        if found < FORMAT {
            return Err(Error::Older { path: path(), found, known: FORMAT });
        }
        if short(block, FIELDS) != crc32fast::hash(&block[..FIELDS]) {
            return Err(Error::DamagedLog { path: path(), offset: 0, what: "the header's checksum is wrong" });
        }
        let (life, start) = (long(block, 16), long(block, 24));
        Ok(Some(Self { page_size: short(block, 12), life, start, from: long(block, 32), capacity: long(block, 40) }))
    }
}

fn short(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(short(bytes, at)) | u64::from(short(bytes, at + 4)) << 32
}

/// The checksum of a record at `place`.
fn checksum(life: u64, place: u64, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&life.to_le_bytes());
    hasher.update(&place.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

/// Adds a record to what will be written at `place`.
pub(crate) fn encode(life: u64, place: u64, kind: RecordKind, content: &[u8], into: &mut Vec<u8>) {
    let begin = into.len();
    into.extend((content.len() as u32 + 1).to_le_bytes());
    into.extend([0; 4]);
    into.push(kind as u8);
    into.extend(content);
    let checksum = checksum(life, place, &into[begin + PREFIX..]);
    into[begin + 4..begin + PREFIX].copy_from_slice(&checksum.to_le_bytes());
}

/// A record that was read back.
pub(crate) struct Record<'a> {
    pub(crate) place: u64,
    pub(crate) kind: RecordKind,
    pub(crate) content: &'a [u8],
}

/// What one file holds.
pub(crate) struct Content {
    pub(crate) path: PathBuf,
    pub(crate) header: Header,
    /// From the first record on.
    bytes: Vec<u8>,
}

impl Content {
    /// `None`: the file was never begun.
    pub(crate) fn read(storage: &Arc<dyn Storage>) -> Result<Option<Self>> {
        let length = usize::try_from(storage.len()).unwrap_or(usize::MAX);
        let mut memory = Aligned::default();
        let bytes = memory.of_length(length.next_multiple_of(BLOCK).max(BLOCK));
        let read = read_full(storage.as_ref(), 0, &mut [IoSliceMut::new(bytes)])
            .map_err(|source| open_error(storage, source))?;
        let bytes = &bytes[..read];
        let header = Header::of(&bytes[..read.min(BLOCK)], storage.path())?;
        let path = storage.path().to_owned();
        Ok(header.map(|header| Self { path, header, bytes: bytes[BLOCK..].to_vec() }))
    }

    /// Up to the first that is not whole.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let record = self.record(at)?;
            at += record_length(record.content.len()) as usize;
            Some(record)
        })
    }

    fn record(&self, at: usize) -> Option<Record<'_>> {
        let rest = self.bytes.get(at..)?;
        if rest.len() < PREFIX {
            return None;
        }
        let (length, sum) = (short(rest, 0) as usize, short(rest, 4));
        let body = rest.get(PREFIX..PREFIX + length)?;
        let place = self.header.start + at as u64;
        let (kind, content) = body.split_first()?;
        let kind = match kind {
            1 => RecordKind::Batch,
            2 => RecordKind::Checkpoint,
            _ => return None,
        };
        (checksum(self.header.life, place, body) == sum).then_some(Record { place, kind, content })
    }

    /// Where the next record would go.
    pub(crate) fn end(&self) -> u64 {
        self.records().last().map_or(self.header.start, |last| last.place + record_length(last.content.len()))
    }
}

pub(crate) fn open_error(storage: &Arc<dyn Storage>, source: io::Error) -> Error {
    Error::Open { path: storage.path().to_owned(), source: Arc::new(source) }
}

/// Memory that begins where direct requests may.
#[derive(Default)]
pub(crate) struct Aligned(Vec<u8>);

impl Aligned {
    /// So many bytes of it; they may hold anything.
    pub(crate) fn of_length(&mut self, length: usize) -> &mut [u8] {
        if self.0.len() < length + BLOCK {
            self.0 = vec![0; length + BLOCK];
        }
        let start = self.0.as_ptr().align_offset(BLOCK).min(BLOCK);
        &mut self.0[start..start + length]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use pagecast::storage::{Device, MemoryFiles};

    fn content(bytes: Vec<u8>) -> Result<Option<Content>> {
        let files = MemoryFiles::new();
        files.write("log", bytes);
        Content::read(&Device::new(files, None).open("log".as_ref()).unwrap())
    }

    fn log() -> Vec<u8> {
        let header = Header { page_size: 4096, life: 3, start: 1000, from: 1000, capacity: 1 << 20 };
        let mut bytes = header.block();
        for (place, content) in [(1000, &b"first"[..]), (1014, b"second")] {
            encode(3, place, RecordKind::Batch, content, &mut bytes);
        }
        bytes
    }

    #[test]
    fn records_end_where_one_is_not_whole_or_of_another_life_or_place() {
        let whole = content(log()).unwrap().unwrap();
        assert_eq!(whole.records().map(|record| record.content.len()).collect::<Vec<_>>(), [5, 6]);
        assert_eq!(whole.end(), 1029);
        let mut torn = log();
        *torn.last_mut().unwrap() ^= 1;
        assert_eq!(content(torn).unwrap().unwrap().end(), 1014);
        for (life, place) in [(2, 1029), (3, 1030)] {
            let mut bytes = log();
            encode(life, place, RecordKind::Batch, b"third", &mut bytes);
            assert_eq!(content(bytes).unwrap().unwrap().end(), 1029);
        }
    }

    #[test]
    fn a_foreign_a_newer_an_older_and_a_damaged_file_are_told_apart() {
        assert!(content(Vec::new()).unwrap().is_none() && content(vec![0; 9000]).unwrap().is_none());
        assert!(matches!(content(b"a letter to somebody".to_vec()), Err(Error::Foreign { .. })));
        let mut newer = log();
        newer[8] = 3;
        assert!(matches!(content(newer), Err(Error::Newer { found: 3, known: 2, .. })));
        let mut older = log();
        older[8] = 1;
        assert!(matches!(content(older), Err(Error::Older { found: 1, known: 2, .. })));
        let mut damaged = log();
        damaged[25] ^= 1;
        assert!(matches!(content(damaged), Err(Error::DamagedLog { offset: 0, .. })));
    }
}
