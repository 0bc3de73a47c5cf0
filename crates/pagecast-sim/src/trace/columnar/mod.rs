//! Our own trace format: columns, compressed by zstd, scans included. `docs/trace-format.md` is its
//! description.
//!
//! Columns compress well because neighbours in a column are alike: pages are stored as differences
//! within their scan or stream, so that a sequential scan is a run of ones. Blocks of up to
//! [`BLOCK`] records keep reader and writer in bounded memory, and each is checked by itself.

mod read;
mod varint;
mod write;

pub use read::ColumnarReader;
pub use write::ColumnarWriter;

/// The first bytes of a file, the version among them.
pub const MAGIC: &[u8; 8] = b"PGCTRC\x00\x01";

/// At most this many records in a block.
pub const BLOCK: usize = 1 << 16;

/// No block, and no text in the head, is larger than this when decompressed.
const MAX_COLUMNS: usize = 1 << 26;

// What a record is; stored one byte each.
const READ: u8 = 0;
const WRITE: u8 = 1;
const SCAN_READ: u8 = 2;
const SCAN_WRITE: u8 = 3;
const REGISTER: u8 = 4;
const REPORT: u8 = 5;
const FINISH: u8 = 6;
const PACE: u8 = 7;
const WAIT: u8 = 8;
/// A registration that [`REGISTER`] has no words for.
const REGISTER_WIDE: u8 = 9;
const TUPLE_READ: u8 = 10;
const TUPLE_WRITE: u8 = 11;
const ROWS: u8 = 12;
/// As [`REGISTER_WIDE`], with the query's number in front.
const REGISTER_KNOWN: u8 = 13;
const CHANGED: u8 = 14;
const CLOCK: u8 = 15;

// What a part of such a registration is.
const RUNS: u8 = 0;
const CORRELATED: u8 = 1;
const CORRELATED_DESCENDING: u8 = 2;

/// The columns of a block, each a byte string.
///
/// kinds: a byte a record. streams: the difference to the record before. scans: for requests of a
/// scan, reports and ends, the difference to the scan named before. pages: for requests, the
/// difference to the last page of the same scan, or of the same stream outside scans. values: what
/// else a record has to say.
#[derive(Default)]
struct BlockColumns {
    kinds: Vec<u8>,
    streams: Vec<u8>,
    scans: Vec<u8>,
    pages: Vec<u8>,
    values: Vec<u8>,
}

impl BlockColumns {
    const COUNT: usize = 5;

    fn all(&self) -> [&Vec<u8>; Self::COUNT] {
        [&self.kinds, &self.streams, &self.scans, &self.pages, &self.values]
    }

    fn all_mut(&mut self) -> [&mut Vec<u8>; Self::COUNT] {
        [&mut self.kinds, &mut self.streams, &mut self.scans, &mut self.pages, &mut self.values]
    }
}

/// What differences are taken against; starts anew with every block, so that a block stands for
/// itself.
#[derive(Default)]
struct Before {
    stream: u64,
    scan: u64,
    pages: hashbrown::HashMap<(bool, u32), u64, foldhash::fast::FixedState>,
}

impl Before {
    /// The last page of a scan, or of a stream outside scans.
    fn page(&mut self, of_scan: bool, number: u32) -> &mut u64 {
        self.pages.entry((of_scan, number)).or_insert(0)
    }
}

#[cfg(test)]
mod tests;
