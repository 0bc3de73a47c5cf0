//! libCacheSim's oracleGeneral: 24 bytes a request, little endian: u32 time, u64 id, u32 size, i64
//! next access.
//!
//! Only the id is used. Id 0 is reserved there; the other way round, [`write_oracle_general`] adds
//! 1 to every id.

use super::error::{Place, TraceError};
use super::{Record, Source};
use pagecast_core::PageId;
use std::io::{BufRead, Read, Write};

const RECORD: usize = 24;

pub(crate) struct OracleGeneral<R> {
    input: R,
    offset: u64,
    buffer: Vec<u8>,
    at: usize,
}

impl<R: BufRead> OracleGeneral<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, offset: 0, buffer: Vec::new(), at: 0 }
    }

    /// Reads the next whole records; false at the end.
    fn fill(&mut self) -> Result<bool, TraceError> {
        const RECORDS: usize = 1 << 12;
        self.offset += self.at as u64;
        self.at = 0;
        self.buffer.clear();
        let mut input = (&mut self.input).take((RECORDS * RECORD) as u64);
        let place = Place::Byte(self.offset);
        input.read_to_end(&mut self.buffer).map_err(|error| TraceError::io(place, &error))?;
        let whole = self.buffer.len() / RECORD * RECORD;
        if whole == 0 && !self.buffer.is_empty() {
            let cause = format!("{} bytes of a record of {RECORD}: the file is truncated", self.buffer.len());
            return Err(TraceError::at(place, cause));
        }
        Ok(whole > 0)
    }
}

/// The id in a record.
#[inline]
fn id(record: &[u8]) -> u64 {
    u64::from_le_bytes(record[4..12].try_into().expect("the slice is 8 bytes long"))
}

impl<R: BufRead> Source for OracleGeneral<R> {
    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        if self.buffer.len() - self.at < RECORD {
            let rest = self.buffer.len() - self.at;
            if rest > 0 {
                let place = Place::Byte(self.offset + self.at as u64);
                let cause = format!("{rest} bytes of a record of {RECORD}: the file is truncated");
                return Err(TraceError::at(place, cause));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
        let id = id(&self.buffer[self.at..self.at + RECORD]);
        if id == 0 {
            let place = Place::Byte(self.offset + self.at as u64 + 4);
            return Err(TraceError::at(place, "page id 0, which the format reserves: the file is corrupt"));
        }
        self.at += RECORD;
        Ok(Some(Record::request(PageId::from_raw(id), false)))
    }

    /// What is left in the buffer, up to an id that `next` will refuse.
    fn reads(&mut self, pages: &mut Vec<PageId>) -> Result<(), TraceError> {
        let before = pages.len();
        let ids = self.buffer[self.at..].chunks_exact(RECORD).map(id).take_while(|&id| id != 0);
        pages.extend(ids.map(PageId::from_raw));
        self.at += (pages.len() - before) * RECORD;
        Ok(())
    }
}

/// Writes `requests` in oracleGeneral, ids plus 1, with the true next access of each. The next
/// accesses need the whole trace at once.
///
/// # Errors
///
/// Those of writing.
///
/// # Panics
///
/// If there are 2^31 requests or more.
pub fn write_oracle_general(requests: &[PageId], out: &mut dyn Write) -> std::io::Result<()> {
    let next = pagecast_core::policy::NextUses::of(requests);
    for (at, page) in requests.iter().enumerate() {
        let mut record = [0u8; RECORD];
        record[..4].copy_from_slice(&(at as u32).to_le_bytes());
        record[4..12].copy_from_slice(&page.raw().wrapping_add(1).to_le_bytes());
        record[12..16].copy_from_slice(&1u32.to_le_bytes());
        let next = next.after(at).map_or(-1, |next| next as i64 + 1);
        record[16..].copy_from_slice(&next.to_le_bytes());
        out.write_all(&record)?;
    }
    Ok(())
}
