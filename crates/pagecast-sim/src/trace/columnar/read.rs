//! Reads our format, believing nothing that it has not checked.

use super::varint::{take, take_difference};
use super::{
    BLOCK, Before, BlockColumns, CHANGED, CLOCK, CORRELATED, CORRELATED_DESCENDING, FINISH, MAGIC, MAX_COLUMNS, PACE,
    READ, REGISTER, REGISTER_KNOWN, REGISTER_WIDE, REPORT, ROWS, RUNS, SCAN_READ, SCAN_WRITE, TUPLE_READ, TUPLE_WRITE,
    WAIT, WRITE,
};
use crate::trace::{Action, Extent, MAX_NUMBER, Place, Record, Registration, Rows, Source, TraceError};
use pagecast_core::forecast::Clock;
use pagecast_core::predictor::Run;
use pagecast_core::{PageId, RelationId};
use std::io::BufRead;

/// Streams the records of a file.
pub struct ColumnarReader<R> {
    input: R,
    /// Bytes read so far, and where the block began that is being read.
    offset: u64,
    block: u64,
    origin: String,
    plain: Vec<u8>,
    /// What is left of each column, as ranges of `plain`.
    left: [std::ops::Range<usize>; BlockColumns::COUNT],
    before: Before,
    records: u64,
    scans: u32,
    ended: bool,
}

impl<R: BufRead> ColumnarReader<R> {
    /// Reads the head of the file.
    ///
    /// # Errors
    ///
    /// The file does not begin as the format does, or cannot be read.
    pub fn new(input: R) -> Result<Self, TraceError> {
        let mut reader = Self {
            input,
            offset: 0,
            block: 0,
            origin: String::new(),
            plain: Vec::new(),
            left: Default::default(),
            before: Before::default(),
            records: 0,
            scans: 0,
            ended: false,
        };
        let magic: [u8; MAGIC.len()] = reader.array()?;
        if magic[..7] != MAGIC[..7] {
            return Err(reader.fault("this is no pagecast trace: it does not begin with PGCTRC"));
        }
        if magic[7] != MAGIC[7] {
            return Err(reader.fault(format!("version {} of the format; this program reads version 1", magic[7])));
        }
        let length = reader.length("origin")?;
        let origin = reader.bytes(length)?;
        reader.origin = String::from_utf8_lossy(&origin).into_owned();
        Ok(reader)
    }

    /// Where the trace comes from, as its writer said.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    fn fault(&self, cause: impl Into<String>) -> TraceError {
        TraceError::at(Place::Byte(self.block), cause)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], TraceError> {
        let mut bytes = [0; N];
        let place = Place::Byte(self.offset);
        self.input.read_exact(&mut bytes).map_err(|error| TraceError::io(place, &error))?;
        self.offset += N as u64;
        Ok(bytes)
    }

    fn length(&mut self, of: &str) -> Result<usize, TraceError> {
        let length = u32::from_le_bytes(self.array()?) as usize;
        if length > MAX_COLUMNS {
            return Err(self.fault(format!("{of} of {length} bytes: the file is corrupt")));
        }
        Ok(length)
    }

    /// `length` bytes; grows as they come, so that a wrong length costs no memory.
    fn bytes(&mut self, length: usize) -> Result<Vec<u8>, TraceError> {
        use std::io::Read;
        let mut bytes = Vec::new();
        let place = Place::Byte(self.offset);
        let read = (&mut self.input).take(length as u64).read_to_end(&mut bytes);
        let read = read.map_err(|error| TraceError::io(place, &error))?;
        if read < length {
            return Err(TraceError::io(place, &std::io::ErrorKind::UnexpectedEof.into()));
        }
        self.offset += length as u64;
        Ok(bytes)
    }

    /// Reads the next block; false at the end mark.
    fn fill(&mut self) -> Result<bool, TraceError> {
        self.block = self.offset;
        let length = self.length("a block")?;
        if length == 0 {
            return self.end().map(|()| false);
        }
        let packed = self.bytes(length)?;
        self.plain = zstd::bulk::decompress(&packed, MAX_COLUMNS)
            .map_err(|error| self.fault(format!("a damaged block: {error}")))?;
        self.before = Before::default();
        self.left = self.split().ok_or_else(|| self.fault("the columns of a block do not fill it"))?;
        Ok(true)
    }

    /// Where the columns of `plain` lie.
    fn split(&self) -> Option<[std::ops::Range<usize>; BlockColumns::COUNT]> {
        let mut at = 4 * BlockColumns::COUNT;
        let mut left: [std::ops::Range<usize>; BlockColumns::COUNT] = Default::default();
        for (i, range) in left.iter_mut().enumerate() {
            let length = self.plain.get(4 * i..4 * i + 4)?;
            let end = at.checked_add(u32::from_le_bytes(length.try_into().ok()?) as usize)?;
            *range = std::mem::replace(&mut at, end)..end;
        }
        let records = left[0].len();
        (at == self.plain.len() && (1..=BLOCK).contains(&records)).then_some(left)
    }

    /// Checks the end mark.
    fn end(&mut self) -> Result<(), TraceError> {
        let records = u64::from_le_bytes(self.array()?);
        if records != self.records {
            return Err(self.fault(format!("{records} records announced, {} found", self.records)));
        }
        let place = Place::Byte(self.offset);
        if !self.input.fill_buf().map_err(|error| TraceError::io(place, &error))?.is_empty() {
            return Err(TraceError::at(place, "bytes after the end of the trace"));
        }
        self.ended = true;
        Ok(())
    }

    /// The next record of the block.
    fn record(&mut self) -> Result<Record, &'static str> {
        const SHORT: &str = "a column ends before its records do";
        let [mut kinds, mut streams, mut scans, mut pages, mut values] = self.left.clone().map(|r| &self.plain[r]);
        let (&kind, rest) = kinds.split_first().ok_or(SHORT)?;
        kinds = rest;
        let stream = below_limit(take_difference(&mut streams, self.before.stream).ok_or(SHORT)?)?;
        self.before.stream = u64::from(stream);
        let registered = self.scans;
        let mut scan = |before: &mut Before| -> Result<u32, &'static str> {
            let scan = take_difference(&mut scans, before.scan).ok_or(SHORT)?;
            before.scan = scan;
            // (scan < registered) also bounds it to 32 bits.
            if scan < u64::from(registered) { Ok(scan as u32) } else { Err("a scan that was not registered") }
        };
        let action = match kind {
            READ | WRITE | SCAN_READ | SCAN_WRITE => {
                let scan = if kind >= SCAN_READ { Some(scan(&mut self.before)?) } else { None };
                let last = self.before.page(scan.is_some(), scan.unwrap_or(stream));
                *last = take_difference(&mut pages, *last).ok_or(SHORT)?;
                let write = matches!(kind, WRITE | SCAN_WRITE);
                Action::Request { page: PageId::from_raw(*last), write, scan }
            }
            TUPLE_READ | TUPLE_WRITE => {
                let last = self.before.page(false, stream);
                *last = take_difference(&mut pages, *last).ok_or(SHORT)?;
                let item = narrow(take(&mut values).ok_or(SHORT)?)?;
                if item == u32::MAX {
                    return Err("an item above 2^32 - 2");
                }
                Action::Tuple { page: PageId::from_raw(*last), item, write: kind == TUPLE_WRITE }
            }
            ROWS => take_rows(&mut values)?,
            REGISTER | REGISTER_WIDE | REGISTER_KNOWN => {
                let template = if kind == REGISTER_KNOWN { Some(number(&mut values)?) } else { None };
                let registration = Registration { template, ..take_registration(&mut values, kind != REGISTER)? };
                if registration.scan != self.scans {
                    return Err("scans are not numbered in order");
                }
                self.scans = below_limit(u64::from(self.scans) + 1)?;
                Action::Register(Box::new(registration))
            }
            REPORT => Action::Report { scan: scan(&mut self.before)?, position: take(&mut values).ok_or(SHORT)? },
            FINISH => Action::Finish { scan: scan(&mut self.before)? },
            PACE => Action::Pace { ticks: below_limit(take(&mut values).ok_or(SHORT)?)? },
            WAIT => Action::Wait { until: take(&mut values).ok_or(SHORT)? },
            CHANGED => Action::Changed(RelationId(narrow(take(&mut values).ok_or(SHORT)?)?)),
            CLOCK => take_clock(&mut values)?,
            _ => return Err("an unknown kind of record"),
        };
        for (range, column) in self.left.iter_mut().zip([kinds, streams, scans, pages, values]) {
            range.start = range.end - column.len();
        }
        Ok(Record { stream, action })
    }
}

impl<R: BufRead> Source for ColumnarReader<R> {
    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        if self.ended {
            return Ok(None);
        }
        if self.left[0].is_empty() {
            if self.left.iter().any(|column| !column.is_empty()) {
                return Err(self.fault("a column goes on after the last record of its block"));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
        match self.record() {
            Ok(record) => {
                self.records += 1;
                Ok(Some(record))
            }
            Err(cause) => Err(self.fault(format!("record {} (in the block at this byte): {cause}", self.records))),
        }
    }
}

fn below_limit(number: u64) -> Result<u32, &'static str> {
    if number < u64::from(MAX_NUMBER) { Ok(number as u32) } else { Err("a number of 2^24 or more") }
}

const SHORT_REGISTRATION: &str = "a registration is cut off";

fn number(values: &mut &[u8]) -> Result<u64, &'static str> {
    take(values).ok_or(SHORT_REGISTRATION)
}

fn byte(values: &mut &[u8]) -> Result<u8, &'static str> {
    let (&byte, rest) = values.split_first().ok_or(SHORT_REGISTRATION)?;
    *values = rest;
    Ok(byte)
}

fn take_rows(values: &mut &[u8]) -> Result<Action, &'static str> {
    let mut value = || narrow(number(values)?);
    let relation = RelationId(value()?);
    let rows = Rows { page: value()?, count: value()?, bytes: value()? };
    if rows.fit() { Ok(Action::Rows(relation, rows)) } else { Err("items that do not fit in their page") }
}

fn take_clock(values: &mut &[u8]) -> Result<Action, &'static str> {
    let clock = Clock { start: number(values)?, ticks_per_second: number(values)? };
    if clock.ticks_per_second > 0 { Ok(Action::Clock(clock)) } else { Err("a clock without ticks") }
}

fn narrow(number: u64) -> Result<u32, &'static str> {
    u32::try_from(number).map_err(|_| "a block, relation or item above 2^32")
}

/// Whatever counts are announced, memory grows only as the bytes come.
pub(super) fn take_registration(values: &mut &[u8], wide: bool) -> Result<Registration, &'static str> {
    let scan = below_limit(number(values)?)?;
    let kind = byte(values)?;
    let length = number(values)?;
    let mut parts = Vec::new();
    if wide && number(values)? > 0 {
        return Err(
            "a scan of several workers, which is not read any more: convert the trace with each worker as a scan of its own",
        );
    }
    for _ in 0..number(values)? {
        let relation = RelationId(narrow(number(values)?)?);
        let extent = match if wide { byte(values)? } else { RUNS } {
            RUNS => Extent::Runs(take_runs(values)?),
            form @ (CORRELATED | CORRELATED_DESCENDING) => {
                let scatter = number(values)?;
                let (run, _) = take_run(values, (0, 0))?;
                Extent::Correlated { run, scatter, descending: form == CORRELATED_DESCENDING }
            }
            _ => return Err("a part of a scan of an unknown form"),
        };
        parts.push((relation, extent));
    }
    Ok(Registration { scan, kind, length, parts, template: None })
}

fn take_runs(values: &mut &[u8]) -> Result<Vec<Run>, &'static str> {
    let mut runs = Vec::new();
    let mut end = (0, 0);
    for _ in 0..number(values)? {
        let (run, its_end) = take_run(values, end)?;
        runs.push(run);
        end = its_end;
    }
    Ok(runs)
}

/// A run that is stored as differences to `(block, position)` where the one before it ended, and
/// where it ends itself.
fn take_run(values: &mut &[u8], (block, position): (u64, u64)) -> Result<(Run, (u64, u64)), &'static str> {
    let run = Run {
        first: narrow(take_difference(values, block).ok_or(SHORT_REGISTRATION)?)?,
        blocks: narrow(number(values)?)?,
        position: take_difference(values, position).ok_or(SHORT_REGISTRATION)?,
        span: number(values)?,
    };
    let position = run.position.checked_add(run.span).ok_or("a run that ends above 2^64")?;
    Ok((run, (u64::from(run.first) + u64::from(run.blocks), position)))
}
