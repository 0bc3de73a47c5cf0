//! What the area holds.
//!
//! ```text
//!  area:    first block, 4096 bytes | record | record | ...
//!  block:   magic 8 | session 8 | owner 8 | CRC-32 of these 4 | zeros
//!  record:  4096 bytes of header | the run's pages
//!  header:  magic 8 | session 8 | number 8 | number of the record before 8 | first block 4 | pages 4 | page size 4 |
//!           checksum of pages 4 | length of name 4 | name | ... | CRC-32 of the header 4
//! ```

use std::ffi::OsStr;
use std::io::{self, IoSliceMut};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::io::Buffer;
use crate::storage::{Storage, read_full};
use crate::write::batch::Run;

const MAGIC: [u8; 8] = *b"pgc-dw\0\x03";
/// Bytes of the magic that every version has.
const ANY_VERSION: usize = 7;
pub(super) const HEADER: usize = 4096;
/// Bytes of a header before the name, and of all but the name.
const FIXED: usize = 52;
pub(super) const MAX_NAME: usize = HEADER - FIXED - 4;
/// Bytes of the first block before its checksum.
const FIRST: usize = 24;

/// The first block.
pub(super) fn first_block(session: u64, owner: u64) -> Buffer {
    let mut memory = Buffer::new(HEADER);
    let block = memory.bytes_mut();
    block[..8].copy_from_slice(&MAGIC);
    block[8..16].copy_from_slice(&session.to_le_bytes());
    block[16..FIRST].copy_from_slice(&owner.to_le_bytes());
    let checksum = crc32fast::hash(&block[..FIRST]);
    block[FIRST..FIRST + 4].copy_from_slice(&checksum.to_le_bytes());
    memory
}

/// The last session of an area: 0 if there was none.
pub(super) fn session_of(area: &dyn Storage, owner: u64) -> io::Result<u64> {
    let mut block = Buffer::new(HEADER);
    let read = read_full(area, 0, &mut [IoSliceMut::new(block.bytes_mut())])?;
    let block = &block.bytes()[..read];
    if block.iter().all(|&byte| byte == 0) {
        return Ok(0);
    }
    let refused = |what: &str| Err(io::Error::other(what.to_owned()));
    if block.len() < FIRST + 4 || block[..ANY_VERSION] != MAGIC[..ANY_VERSION] {
        return refused("is not a double-write area; name another file");
    }
    if block[..8] != MAGIC {
        return refused(
            "is a double-write area of another version, and may be needed; open and close its files with that version",
        );
    }
    let session = long(block, 8);
    if block[..FIRST + 4] != first_block(session, long(block, 16)).bytes()[..FIRST + 4] {
        return refused("its first block is damaged; without this file, a page that was torn is refused as it is read");
    }
    match long(block, 16) == owner {
        true => Ok(session),
        false => refused("holds copies of the pages of another database; put back the file that belongs there"),
    }
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

/// With the numbers of session, record, and record before.
pub(super) fn header(run: &Run<'_>, name: &Path, numbers: [u64; 3]) -> [u8; HEADER] {
    let (name, page_size) = (name.as_os_str().as_bytes(), run.relation.page_size());
    let mut fixed = Vec::with_capacity(FIXED);
    fixed.extend(MAGIC);
    numbers.iter().for_each(|number| fixed.extend(number.to_le_bytes()));
    let pages = run.bytes.len() as u32 / page_size;
    for field in [run.first, pages, page_size, checksum(run.bytes, page_size), name.len() as u32] {
        fixed.extend(field.to_le_bytes());
    }
    let mut header = [0; HEADER];
    header[..FIXED].copy_from_slice(&fixed);
    header[FIXED..FIXED + name.len()].copy_from_slice(name);
    let checksum = crc32fast::hash(&header[..HEADER - 4]);
    header[HEADER - 4..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Of the pages of a record. Not their CRC-32: a sealed page ends in its own, and the CRC-32 of a
/// message with its own is the same for all messages. Then whole pages of an earlier record
/// would pass for those of this one.
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
pub(super) struct Record {
    pub(super) session: u64,
    pub(super) number: u64,
    pub(super) before: u64,
    pub(super) first: u32,
    pub(super) page_size: u32,
    pub(super) name: PathBuf,
    pub(super) pages: Buffer,
}

impl Record {
    /// The record at `offset`, if there is one and it is whole.
    pub(super) fn read(area: &dyn Storage, offset: u64) -> io::Result<Option<Self>> {
        let mut head = Buffer::new(HEADER);
        if read_full(area, offset, &mut [IoSliceMut::new(head.bytes_mut())])? < HEADER {
            return Ok(None);
        }
        let head = head.bytes();
        let field = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if head[..8] != MAGIC || field(HEADER - 4) != crc32fast::hash(&head[..HEADER - 4]) {
            return Ok(None);
        }
        let (count, page_size, name_len) = (field(36), field(40), field(48) as usize);
        let len = u64::from(count) * u64::from(page_size);
        if name_len > MAX_NAME || len == 0 || len > area.len() || page_size % HEADER as u32 != 0 {
            return Ok(None);
        }
        let mut pages = Buffer::new(len as usize);
        let read = read_full(area, offset + HEADER as u64, &mut [IoSliceMut::new(pages.bytes_mut())])?;
        if read as u64 != len || checksum(pages.bytes(), page_size) != field(44) {
            return Ok(None);
        }
        Ok(Some(Self {
            session: long(head, 8),
            number: long(head, 16),
            before: long(head, 24),
            first: field(32),
            page_size,
            name: OsStr::from_bytes(&head[FIXED..FIXED + name_len]).into(),
            pages,
        }))
    }

    pub(super) fn len(&self) -> u64 {
        (HEADER + self.pages.bytes().len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::{self, Lsn};

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
