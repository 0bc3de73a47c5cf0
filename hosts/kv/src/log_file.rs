//! What the files of the log hold, and reading them back.
//!
//! ```text
//!  file:    header, 4096 bytes | mark, 4096 bytes | sector | sector | ...
//!  header:  magic 8 | format 4 | page size 4 | store 8 | life 8 | start 8 | from 8 | capacity 8 | CRC-32 of these 4 | zeros
//!  mark:    life 8 | durable 8 | CRC-32 of these 4 | zeros
//!  sector:  CRC-32 of its number and what follows 4 | CRC-32 of the sector before 4 | life 8 | used 2 | 494
//!  record:  length of what follows 4 | kind 1 | content            the records are the used bytes of all sectors
//! ```
//!
//! A record's place is its number, its `Lsn`: the header's `start` is the place of the first one.
//! Records before `from` are not needed. Each time a file is begun it has a new life.
//!
//! A device writes a sector whole or not at all. So each says for itself what it is, and what a
//! crash has torn is told from what is damaged:
//!
//! * Sectors are a chain: each names the checksum of the one before, the first one that of the
//!   header. The log ends where the chain does. What earlier lives or torn flushes have left behind
//!   it does not continue it.
//! * A sector that should continue the chain and is neither whole nor zeros is damaged.
//! * Each flush writes a mark, too: up to which place all was durable when it began. If the chain
//!   ends before that place, what was durable is missing. A file that counts has a mark.
//!
//! One thing cannot be told apart: sectors of the last flush that are as they were before it, of a
//! flush that a power cut kept from the device. The second was not acknowledged.

use std::io::{self, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagecast::storage::{Storage, read_full, write_full};

use crate::{Error, Result};

/// Requests to the device are multiples of it.
pub(crate) const BLOCK: usize = 4096;
/// Bytes before the first sector.
const BEGIN: usize = 2 * BLOCK;
/// What a device writes whole.
const SECTOR: usize = 512;
/// Bytes of a sector before those of records.
const HEAD: usize = 18;
/// Bytes of records in a sector.
const ROOM: usize = SECTOR - HEAD;
const MAGIC: [u8; 8] = *b"pgckvlog";
/// The format of pages and log: it grows whenever bytes of either mean something else. Of format 1,
/// a changed entry was named by its place in the page, not by its key. Of format 2, records had
/// their own checksums, and nothing said what had been durable.
pub(crate) const FORMAT: u32 = 3;
/// Bytes of a record before its kind.
const PREFIX: usize = 4;

/// What a record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordKind {
    /// Pages were changed, all of them or none.
    Batch = 1,
    /// The records before the place that it names are not needed any more.
    Checkpoint = 2,
    /// The log goes on in the other file, in the life that it names. The last record of a file.
    Switch = 3,
}

/// Bytes that a record with such a content takes.
pub(crate) fn record_length(content: usize) -> u64 {
    (PREFIX + 1 + content) as u64
}

/// Bytes of a file whose batches take so many, with room for checkpoints and a switch behind them.
pub(crate) fn file_length(capacity: u64) -> u64 {
    let sectors = (capacity + BLOCK as u64).div_ceil(ROOM as u64);
    (BEGIN as u64 + sectors * SECTOR as u64).next_multiple_of(BLOCK as u64)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) page_size: u32,
    /// A number that no other store has.
    pub(crate) store: u64,
    pub(crate) life: u64,
    pub(crate) start: u64,
    pub(crate) from: u64,
    pub(crate) capacity: u64,
}

/// Bytes of a header before its checksum.
const FIELDS: usize = 56;

impl Header {
    pub(crate) fn block(&self) -> Vec<u8> {
        let mut block = MAGIC.to_vec();
        block.extend(FORMAT.to_le_bytes());
        block.extend(self.page_size.to_le_bytes());
        for field in [self.store, self.life, self.start, self.from, self.capacity] {
            block.extend(field.to_le_bytes());
        }
        block.extend(crc32fast::hash(&block).to_le_bytes());
        block.resize(BLOCK, 0);
        block
    }

    /// Where the chain of sectors begins.
    fn checksum(&self) -> u32 {
        short(&self.block(), FIELDS)
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
        let [store, life, start, from, capacity] = [16, 24, 32, 40, 48].map(|at| long(block, at));
        Ok(Some(Self { page_size: short(block, 12), store, life, start, from, capacity }))
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

/// The mark of a life: all before place `durable` is durable.
pub(crate) fn mark(life: u64, durable: u64, block: &mut [u8]) {
    block.fill(0);
    block[..8].copy_from_slice(&life.to_le_bytes());
    block[8..16].copy_from_slice(&durable.to_le_bytes());
    let checksum = crc32fast::hash(&block[..16]);
    block[16..20].copy_from_slice(&checksum.to_le_bytes());
}

/// What a mark says, if it is one of this life.
fn marked(block: &[u8], life: u64) -> Option<u64> {
    let is_whole = short(block, 16) == crc32fast::hash(&block[..16]);
    (is_whole && long(block, 0) == life).then(|| long(block, 8))
}

/// A whole sector.
struct Sector<'a> {
    checksum: u32,
    before: u32,
    life: u64,
    records: &'a [u8],
}

/// The checksum of what follows it in sector `number`.
fn checksum(number: u64, rest: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(rest);
    hasher.finalize()
}

impl<'a> Sector<'a> {
    /// Of bytes that were read back; `None` if they are no whole sector.
    fn of(bytes: &'a [u8], number: usize) -> Option<Self> {
        let used = usize::from(u16::from_le_bytes([*bytes.get(16)?, *bytes.get(17)?]));
        let records = bytes.get(HEAD..HEAD + used)?;
        let is_whole = bytes.len() == SECTOR && short(bytes, 0) == checksum(number as u64, &bytes[4..]);
        is_whole.then(|| Self { checksum: short(bytes, 0), before: short(bytes, 4), life: long(bytes, 8), records })
    }

    /// Writes it.
    fn put(&self, number: u64, into: &mut [u8]) -> u32 {
        into.fill(0);
        into[4..8].copy_from_slice(&self.before.to_le_bytes());
        into[8..16].copy_from_slice(&self.life.to_le_bytes());
        into[16..18].copy_from_slice(&(self.records.len() as u16).to_le_bytes());
        into[HEAD..HEAD + self.records.len()].copy_from_slice(self.records);
        let checksum = checksum(number, &into[4..]);
        into[..4].copy_from_slice(&checksum.to_le_bytes());
        checksum
    }
}

/// The end of a file: what is to be written next.
///
/// Sectors that are full and durable are written again with the block that they share, each as it
/// was: what a torn write leaves of them is the same.
#[derive(Clone)]
pub(crate) struct Tail {
    life: u64,
    /// Where the block begins that is written next, in bytes of the file.
    pub(crate) offset: u64,
    /// Sectors of the block that are full and durable.
    full: Vec<u8>,
    /// The checksum of the sector before those that are not.
    before: u32,
    /// The bytes of records from there on.
    pending: Vec<u8>,
}

impl Tail {
    /// Of a file that was just begun.
    pub(crate) fn new(header: &Header) -> Self {
        let before = header.checksum();
        Self { life: header.life, offset: BEGIN as u64, full: Vec::new(), before, pending: Vec::new() }
    }

    /// Adds a record.
    pub(crate) fn append(&mut self, kind: RecordKind, content: &[u8]) {
        self.pending.extend((content.len() as u32 + 1).to_le_bytes());
        self.pending.push(kind as u8);
        self.pending.extend(content);
    }

    /// What a flush writes, all before place `durable` being durable.
    pub(crate) fn frame<'m>(&self, durable: u64, memory: &'m mut Aligned) -> Frame<'m> {
        let length = self.full.len() + self.pending.len().div_ceil(ROOM) * SECTOR;
        let (block, bytes) = memory.of_length(BLOCK + length.next_multiple_of(BLOCK)).split_at_mut(BLOCK);
        mark(self.life, durable, block);
        bytes[..self.full.len()].copy_from_slice(&self.full);
        bytes[length..].fill(0);
        let first = (self.offset - BEGIN as u64) / SECTOR as u64;
        let mut before = self.before;
        let sectors = bytes[..length].chunks_mut(SECTOR).zip(first..).skip(self.full.len() / SECTOR);
        for ((sector, number), records) in sectors.zip(self.pending.chunks(ROOM)) {
            before = Sector { checksum: 0, before, life: self.life, records }.put(number, sector);
        }
        Frame { mark: block, sectors: bytes, offset: self.offset, records: self.pending.len() }
    }

    /// These sectors, with so many bytes of records, are durable now.
    fn written(&mut self, sectors: &[u8], records: usize) {
        let more = records / ROOM * SECTOR;
        let full = &sectors[..self.full.len() + more];
        if more > 0 {
            self.before = short(full, full.len() - SECTOR);
            self.pending.drain(..records / ROOM * ROOM);
        }
        let done = full.len() / BLOCK * BLOCK;
        self.offset += done as u64;
        self.full = full[done..].to_vec();
    }
}

/// What one flush writes.
pub(crate) struct Frame<'m> {
    mark: &'m [u8],
    sectors: &'m [u8],
    pub(crate) offset: u64,
    /// Bytes of records in the sectors, from the first that is not full and durable on.
    records: usize,
}

impl Frame<'_> {
    /// Writes all of it, and syncs nothing.
    pub(crate) fn write(&self, file: &dyn Storage) -> io::Result<()> {
        write_full(file, self.offset, self.sectors)?;
        write_full(file, BLOCK as u64, self.mark)
    }

    /// It is durable now.
    pub(crate) fn is_durable(&self, tail: &mut Tail) {
        tail.written(self.sectors, self.records);
    }
}

/// A record that was read back.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) place: u64,
    pub(crate) kind: RecordKind,
    pub(crate) content: &'a [u8],
}

/// What one file holds.
pub(crate) struct Content {
    pub(crate) path: PathBuf,
    pub(crate) header: Header,
    mark: Vec<u8>,
    /// Whether that is one.
    has_mark: bool,
    /// The file from the first sector on.
    sectors: Vec<u8>,
    /// The bytes of records in the sectors of the chain.
    records: Vec<u8>,
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
        let Some(header) = Header::of(&bytes[..read.min(BLOCK)], storage.path())? else { return Ok(None) };
        let path = storage.path().to_owned();
        if (read as u64) < file_length(header.capacity) {
            let (offset, what) = (read as u64, "the file is shorter than it was made");
            return Err(Error::DamagedLog { path, offset, what });
        }
        let (mark, sectors) = (bytes[BLOCK..BEGIN].to_vec(), bytes[BEGIN..].to_vec());
        let mut content = Self { path, header, mark, has_mark: false, sectors, records: Vec::new() };
        content.follow_chain()?;
        Ok(Some(content))
    }

    /// Reads the records, and looks whether all of them are there that were durable.
    fn follow_chain(&mut self) -> Result<()> {
        let (mut before, mut records) = (self.header.checksum(), Vec::new());
        for (number, bytes) in self.sectors.chunks(SECTOR).enumerate() {
            match Sector::of(bytes, number) {
                None if bytes.iter().any(|&byte| byte != 0) => {
                    let offset = (BEGIN + number * SECTOR) as u64;
                    return Err(self.damaged(offset, "the checksum of a sector is wrong"));
                }
                Some(sector) if sector.life == self.header.life && sector.before == before => {
                    records.extend(sector.records);
                    before = sector.checksum;
                    if sector.records.len() < ROOM {
                        break;
                    }
                }
                _ => break,
            }
        }
        self.records = records;
        let durable = marked(&self.mark, self.header.life);
        self.has_mark = durable.is_some();
        let (end, is_cut_off) = self.walk(|_| ());
        if durable.is_some_and(|durable| durable > end) || !is_cut_off {
            return Err(self.damaged(self.offset(end), "a record that was durable is missing"));
        }
        Ok(())
    }

    /// Fails unless the file says what was durable.
    pub(crate) fn check_mark(&self) -> Result<()> {
        if self.has_mark { Ok(()) } else { Err(self.damaged(BLOCK as u64, "the mark of what was durable is wrong")) }
    }

    pub(crate) fn damaged(&self, offset: u64, what: &'static str) -> Error {
        Error::DamagedLog { path: self.path.clone(), offset, what }
    }

    /// Where in the file a place is.
    pub(crate) fn offset(&self, place: u64) -> u64 {
        let at = place.saturating_sub(self.header.start);
        (BEGIN + HEAD) as u64 + at / ROOM as u64 * SECTOR as u64 + at % ROOM as u64
    }

    /// Shows each record. Where they end, and whether that is the end of the bytes or of one that
    /// goes on behind them; no if what follows is no record at all.
    fn walk<'a>(&'a self, mut show: impl FnMut(Record<'a>)) -> (u64, bool) {
        let (mut rest, mut place) = (&self.records[..], self.header.start);
        loop {
            let Some(length) = rest.get(..PREFIX).map(|_| short(rest, 0) as usize) else { return (place, true) };
            let Some(body) = rest.get(PREFIX..PREFIX + length) else { return (place, true) };
            let kind = match body.first() {
                Some(1) => RecordKind::Batch,
                Some(2) => RecordKind::Checkpoint,
                Some(3) => RecordKind::Switch,
                _ => return (place, false),
            };
            show(Record { place, kind, content: &body[1..] });
            if kind == RecordKind::Switch {
                return (place, true);
            }
            rest = &rest[PREFIX + length..];
            place += record_length(length - 1);
        }
    }

    pub(crate) fn records(&self) -> Vec<Record<'_>> {
        let mut records = Vec::new();
        self.walk(|record| records.push(record));
        records
    }

    /// Where the next record would go, in the place of a switch if there is one.
    pub(crate) fn end(&self) -> u64 {
        self.walk(|_| ()).0
    }

    /// The life in which the log goes on in the other file.
    pub(crate) fn next_life(&self) -> Option<u64> {
        let last = self.records().pop().filter(|last| last.kind == RecordKind::Switch)?;
        Some(u64::from_le_bytes(last.content.try_into().ok()?))
    }

    /// The place that the last record of a checkpoint names.
    pub(crate) fn last_checkpoint(&self) -> Option<u64> {
        let records = self.records().into_iter().rev();
        let mut checkpoints = records.filter(|record| record.kind == RecordKind::Checkpoint);
        checkpoints.find_map(|record| Some(u64::from_le_bytes(record.content.try_into().ok()?)))
    }

    /// The file up to the end of the chain, in blocks.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let used = (self.records.len().div_ceil(ROOM) * SECTOR).next_multiple_of(BLOCK);
        let mut bytes = self.header.block();
        bytes.extend(&self.mark);
        bytes.extend(&self.sectors[..used]);
        bytes
    }

    /// What is to be written behind the end.
    pub(crate) fn tail(&self) -> Tail {
        let mut tail = Tail::new(&self.header);
        let records = (self.end() - self.header.start) as usize;
        tail.pending = self.records[..records].to_vec();
        tail.written(&self.sectors, records);
        tail
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
