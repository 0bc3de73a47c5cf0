//! What the files of the log hold, and reading them back.
//!
//! ```text
//!  file:    header, 4096 bytes | block, 4096 bytes | block | ...
//!  header:  magic 8 | format 4 | page size 4 | store 8 | life 8 | after 8 | start 8 | from 8 | capacity 8 |
//!           CRC-32 of these 4 | zeros | at 512, a note of the other file: life 8 | durable 8 | CRC-32 of both 4 | zeros
//!  block:   mark | 4056 bytes of records, which go on in the next block | the same mark
//!  mark:    life 8 | durable 8 | CRC-32 of these and of the block's number 4
//!  record:  length of what follows its checksum 4 | CRC-32 of life, place and what follows 4 | kind 1 | content
//! ```
//!
//! A record's place is its number, its `Lsn`: the header's `start` is the place of the first one.
//! Records before `from` are not needed. If some of the other file are, their end is `after`.
//! Each time a file is begun it has a new life. Since the checksum covers life and place, what an
//! earlier life left behind the last record is no record.
//!
//! **The durable end.** A block says what was durable when it was written, in its first sector and
//! in its last one. So a record that is not whole is one of two things. Before the last durable end
//! that any mark knows, something has damaged it. Behind that it is of the last flush, which a
//! crash may have torn and nobody has acknowledged: there the log ends. A store that goes notes its
//! end in the header of the other file. So nothing of it passes for torn, were it zeroed to the
//! end.
//!
//! **The next file.** A file that is full ends with a record that names the life of the other one.
//! That is durable before a record follows there. So neither can be lost unnoticed, and a header
//! that no record names was begun in vain.

use std::io::{self, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagecast::storage::{Storage, read_full};

use crate::{Error, Result};

/// Bytes before the first record. Requests to the device are multiples of it.
pub(crate) const BLOCK: usize = 4096;
/// The place of the very first record: above [`Lsn::NONE`](pagecast::Lsn::NONE).
pub(crate) const FIRST: u64 = BLOCK as u64;
/// Bytes of a mark, of which a block has one on each side of its records.
const MARK: usize = 20;
/// Bytes of records in a block.
pub(crate) const ROOM: usize = BLOCK - 2 * MARK;
const MAGIC: [u8; 8] = *b"pgckvlog";
/// The format of pages and log: it grows whenever bytes of either mean something else. Of format 1,
/// a changed entry was named by its place in the page, not by its key. Format 2 had no blocks, and
/// took any record that was not whole for the end.
pub(crate) const FORMAT: u32 = 3;
/// Bytes of a record before its kind.
const PREFIX: usize = 8;

/// What a record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordKind {
    /// Pages were changed, all of them or none.
    Batch = 1,
    /// The records before the place that it names are not needed any more.
    Checkpoint = 2,
    /// The log goes on in the other file, in the life that it names.
    Next = 3,
}

/// Bytes that a record with such a content takes.
pub(crate) fn record_length(content: usize) -> u64 {
    (PREFIX + 1 + content) as u64
}

/// Bytes of a file whose records may take `capacity` bytes, and with them a checkpoint's and what
/// names the next file.
pub(crate) fn file_length(capacity: u64) -> u64 {
    let records = capacity.saturating_add(ROOM as u64).div_ceil(ROOM as u64);
    records.saturating_add(1).saturating_mul(BLOCK as u64)
}

/// Where in a file the byte `at` of its records is.
fn offset_of(at: u64) -> u64 {
    BLOCK as u64 + at / ROOM as u64 * BLOCK as u64 + MARK as u64 + at % ROOM as u64
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) page_size: u32,
    /// The number of the store, which its data file has, too.
    pub(crate) store: u64,
    pub(crate) life: u64,
    pub(crate) after: u64,
    pub(crate) start: u64,
    pub(crate) from: u64,
    pub(crate) capacity: u64,
}

/// Bytes of a header before its checksum.
const FIELDS: usize = 64;
/// Where the first block has its note: in a sector of its own, so that a write that is torn leaves
/// the header as it was.
const NOTE: usize = 512;

impl Header {
    pub(crate) fn block(&self) -> Vec<u8> {
        let mut block = MAGIC.to_vec();
        block.extend(FORMAT.to_le_bytes());
        block.extend(self.page_size.to_le_bytes());
        for field in [self.store, self.life, self.after, self.start, self.from, self.capacity] {
            block.extend(field.to_le_bytes());
        }
        block.extend(crc32fast::hash(&block).to_le_bytes());
        block.resize(BLOCK, 0);
        block
    }

    /// Whether no file of the log came before, nor a recovery.
    pub(crate) fn is_first(&self) -> bool {
        self.start == FIRST
    }

    /// `None`: the file was never begun.
    fn of(block: &[u8], path: &Path) -> Result<Option<Self>> {
        if block.iter().take(NOTE).all(|&byte| byte == 0) {
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
        if !is_sum(short(block, FIELDS), crc32fast::hash(&block[..FIELDS])) {
            return Err(Error::DamagedLog { path: path(), offset: 0, what: "the header's checksum is wrong" });
        }
        let [store, life, after, start, from, capacity] = std::array::from_fn(|at| long(block, 16 + 8 * at));
        Ok(Some(Self { page_size: short(block, 12), store, life, after, start, from, capacity }))
    }
}

/// What was durable of the other file of the log, in which life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    pub(crate) life: u64,
    pub(crate) durable: u64,
}

impl Note {
    /// Puts it into the first block of a file.
    pub(crate) fn put(self, block: &mut [u8]) {
        block[NOTE..NOTE + 8].copy_from_slice(&self.life.to_le_bytes());
        block[NOTE + 8..NOTE + 16].copy_from_slice(&self.durable.to_le_bytes());
        let checksum = crc32fast::hash(&block[NOTE..NOTE + 16]);
        block[NOTE + 16..NOTE + 20].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The one in the first block of a file.
    pub(crate) fn of(block: &[u8]) -> Option<Self> {
        let note = block.get(NOTE..NOTE + 20)?;
        is_sum(short(note, 16), crc32fast::hash(&note[..16]))
            .then(|| Self { life: long(note, 0), durable: long(note, 8) })
    }
}

/// What a block says was durable, if it is of this life.
fn durable_by(number: u64, block: &[u8], life: u64) -> Option<u64> {
    let marks = [&block[..MARK], &block[BLOCK - MARK..]];
    let known = |mark: &&[u8]| long(mark, 0) == life && is_sum(short(mark, MARK - 4), mark_checksum(number, mark));
    marks.into_iter().filter(known).map(|mark| long(mark, 8)).max()
}

/// The checksum of what a block says of itself.
fn mark_checksum(number: u64, mark: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(&mark[..MARK - 4]);
    hasher.finalize()
}

/// The blocks from the one that begins with byte `at` of the records on: `records`, and zeros to
/// the end of the last. `durable` is what is durable now.
pub(crate) fn blocks<'m>(life: u64, durable: u64, at: u64, records: &[u8], memory: &'m mut Aligned) -> &'m [u8] {
    let first = at / ROOM as u64;
    let count = records.len().div_ceil(ROOM).max(1);
    let bytes = memory.of_length(count * BLOCK);
    let mut rest = records;
    for (number, block) in (first..).zip(bytes.chunks_exact_mut(BLOCK)) {
        let mut mark = [0; MARK];
        mark[..8].copy_from_slice(&life.to_le_bytes());
        mark[8..16].copy_from_slice(&durable.to_le_bytes());
        let checksum = mark_checksum(number, &mark);
        mark[16..].copy_from_slice(&checksum.to_le_bytes());
        block[..MARK].copy_from_slice(&mark);
        block[MARK + ROOM..].copy_from_slice(&mark);
        let (part, others) = rest.split_at(rest.len().min(ROOM));
        let (used, left) = block[MARK..MARK + ROOM].split_at_mut(part.len());
        used.copy_from_slice(part);
        left.fill(0);
        rest = others;
    }
    bytes
}

/// Where the block that begins with byte `at` of the records is in the file.
pub(crate) fn block_offset(at: u64) -> u64 {
    BLOCK as u64 + at / ROOM as u64 * BLOCK as u64
}

fn short(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(short(bytes, at)) | u64::from(short(bytes, at + 4)) << 32
}

/// Whether a checksum is what it should be. A fuzzer does not know: what it makes passes, and is
/// looked at.
fn is_sum(found: u32, expected: u32) -> bool {
    cfg!(fuzzing) || found == expected
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
    /// The last durable end that a block knows, or the note of the other file.
    pub(crate) durable: u64,
    /// Where the next record would go.
    pub(crate) end: u64,
    /// The life in which the log goes on in the other file.
    pub(crate) next: Option<u64>,
    /// The last place that a checkpoint names.
    pub(crate) checkpointed: Option<u64>,
}

impl Content {
    /// All that a file holds, as far as it can be read.
    pub(crate) fn read(storage: &Arc<dyn Storage>) -> Result<(Result<Option<Self>>, Option<Note>)> {
        let length = usize::try_from(storage.len()).unwrap_or(usize::MAX);
        let mut memory = Aligned::default();
        let bytes = memory.of_length(length.next_multiple_of(BLOCK).max(BLOCK));
        let read = read_full(storage.as_ref(), 0, &mut [IoSliceMut::new(bytes)])
            .map_err(|source| open_error(storage, source))?;
        let bytes = &bytes[..read];
        Ok((Self::of(bytes, storage.path()), Note::of(bytes)))
    }

    /// `None`: the file was never begun.
    pub(crate) fn of(file: &[u8], path: &Path) -> Result<Option<Self>> {
        let (head, blocks) = file.split_at(file.len().min(BLOCK));
        let Some(header) = Header::of(head, path)? else { return Ok(None) };
        let length = file_length(header.capacity);
        if (file.len() as u64) < length {
            let (offset, what) = (file.len() as u64, "the file ends too early");
            return Err(Error::DamagedLog { path: path.to_owned(), offset, what });
        }
        let blocks = blocks[..length as usize - BLOCK].chunks_exact(BLOCK);
        let known = (0..).zip(blocks.clone()).filter_map(|(number, block)| durable_by(number, block, header.life));
        let durable = known.max().unwrap_or(header.start);
        let bytes = blocks.flat_map(|block| &block[MARK..MARK + ROOM]).copied().collect();
        let (path, end) = (path.to_owned(), header.start);
        let mut content = Self { path, header, bytes, durable, end, next: None, checkpointed: None };
        content.find_end();
        Ok(Some(content))
    }

    /// Its end, and what records say of others.
    fn find_end(&mut self) {
        let (mut end, mut next, mut checkpointed) = (self.end, None, None);
        for record in self.records() {
            let number = record.content.try_into().ok().map(u64::from_le_bytes);
            match record.kind {
                RecordKind::Batch => {}
                RecordKind::Checkpoint => checkpointed = number,
                RecordKind::Next => {
                    next = number;
                    break;
                }
            }
            end = record.place + record_length(record.content.len());
        }
        (self.end, self.next, self.checkpointed) = (end, next, checkpointed);
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
        let place = self.header.start.checked_add(at as u64)?;
        let (kind, content) = body.split_first()?;
        let kind = match kind {
            1 => RecordKind::Batch,
            2 => RecordKind::Checkpoint,
            3 => RecordKind::Next,
            _ => return None,
        };
        is_sum(sum, checksum(self.header.life, place, body)).then_some(Record { place, kind, content })
    }

    /// Fails if a record is not whole that was durable.
    pub(crate) fn check(&self) -> Result<()> {
        match self.end < self.durable {
            true => Err(self.damaged("a record is not whole that was")),
            false => Ok(()),
        }
    }

    /// What is wrong where its records end.
    pub(crate) fn damaged(&self, what: &'static str) -> Error {
        let offset = offset_of(self.end - self.header.start);
        Error::DamagedLog { path: self.path.clone(), offset, what }
    }

    /// What is known to be durable, the block with its end, and what follows from there on.
    pub(crate) fn tail(&self) -> (u64, u64, Vec<u8>) {
        let (start, end) = (self.header.start, self.end);
        let durable = self.durable.clamp(start, end);
        let block = (durable - start) / ROOM as u64 * ROOM as u64;
        (durable, block, self.bytes[block as usize..(end - start) as usize].to_vec())
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

    const CAPACITY: u64 = 1 << 14;

    fn content(bytes: &[u8]) -> Result<Option<Content>> {
        Content::of(bytes, "log".as_ref())
    }

    /// Flushed one after the other, each when those before it were durable.
    fn log(records: &[(u64, u64, RecordKind, &[u8])]) -> Vec<u8> {
        let header =
            Header { page_size: 4096, store: 5, life: 3, after: 1000, start: 1000, from: 1000, capacity: CAPACITY };
        let mut file = header.block();
        file.resize(file_length(CAPACITY) as usize, 0);
        let (mut pending, mut durable) = (Vec::new(), 1000);
        for &(life, place, kind, content) in records {
            encode(life, place, kind, content, &mut pending);
            let mut memory = Aligned::default();
            let blocks = blocks(3, durable, 0, &pending, &mut memory);
            file[BLOCK..BLOCK + blocks.len()].copy_from_slice(blocks);
            durable = 1000 + pending.len() as u64;
        }
        file
    }

    fn two() -> Vec<u8> {
        log(&[(3, 1000, RecordKind::Batch, b"first"), (3, 1014, RecordKind::Batch, b"second")])
    }

    #[test]
    fn records_end_where_one_is_not_whole_or_of_another_life_or_place() {
        let whole = content(&two()).unwrap().unwrap();
        assert_eq!(whole.records().map(|record| record.content.len()).collect::<Vec<_>>(), [5, 6]);
        assert_eq!((whole.end, whole.tail()), (1029, (1014, 0, whole.bytes[..29].to_vec())));
        whole.check().unwrap();
        for (life, place) in [(2, 1029), (3, 1030)] {
            let kind = RecordKind::Batch;
            let bytes = log(&[(3, 1000, kind, b"first"), (3, 1014, kind, b"second"), (life, place, kind, b"third")]);
            assert_eq!(content(&bytes).unwrap().unwrap().end, 1029);
        }
    }

    #[test]
    fn a_torn_end_and_damage_before_it_are_told_apart() {
        let damaged = |byte: usize| {
            let mut bytes = two();
            bytes[BLOCK + MARK + byte] ^= 1;
            content(&bytes).unwrap().unwrap()
        };
        let torn = damaged(28);
        assert_eq!(torn.end, 1014, "of the last flush: nobody was told that it is there");
        torn.check().unwrap();
        // The second flush has said so at both ends of the block.
        let error = damaged(13).check().unwrap_err();
        assert!(matches!(error, Error::DamagedLog { offset: 4116, .. }), "{error}");
        let mut bytes = two();
        bytes[BLOCK..BLOCK + 512].fill(0);
        content(&bytes).unwrap().unwrap().check().unwrap_err();
    }

    #[test]
    fn records_go_on_in_the_next_block_and_in_the_next_file() {
        let long = vec![7; 3 * BLOCK];
        let next = 1000 + record_length(long.len());
        let bytes = log(&[(3, 1000, RecordKind::Batch, &long), (3, next, RecordKind::Next, &4u64.to_le_bytes())]);
        let found = content(&bytes).unwrap().unwrap();
        assert_eq!((found.end, found.next), (next, Some(4)));
        assert_eq!(found.records().next().unwrap().content, long);
        let (durable, block, tail) = found.tail();
        assert_eq!((durable, block), (next, 3 * ROOM as u64));
        assert_eq!(tail.len() as u64, next - 1000 - block);
        let error = content(&bytes[..bytes.len() - 1]).err().unwrap();
        assert!(matches!(error, Error::DamagedLog { what: "the file ends too early", .. }), "{error}");
    }

    #[test]
    fn a_foreign_a_newer_an_older_and_a_damaged_file_are_told_apart() {
        assert!(content(&[]).unwrap().is_none() && content(&[0; 9000]).unwrap().is_none());
        assert!(matches!(content(b"a letter to somebody"), Err(Error::Foreign { .. })));
        let with = |at: usize, byte: u8| {
            let mut bytes = two();
            bytes[at] = byte;
            content(&bytes)
        };
        assert!(matches!(with(8, 4), Err(Error::Newer { found: 4, known: 3, .. })));
        assert!(matches!(with(8, 2), Err(Error::Older { found: 2, known: 3, .. })));
        assert!(matches!(with(25, 77), Err(Error::DamagedLog { offset: 0, .. })));
    }
}
