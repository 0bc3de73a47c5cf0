//! Writes our format.

use super::varint::{put, put_difference};
use super::{
    BLOCK, Before, BlockColumns, CHANGED, CLOCK, CORRELATED, CORRELATED_DESCENDING, FINISH, MAGIC, PACE, READ,
    REGISTER, REGISTER_KNOWN, REGISTER_WIDE, REPORT, ROWS, RUNS, SCAN_READ, SCAN_WRITE, TUPLE_READ, TUPLE_WRITE, WAIT,
    WRITE,
};
use crate::trace::{Action, Extent, Record, Registration, Rows, Source, TraceError};
use pagecast_core::forecast::Clock;
use pagecast_core::predictor::Run;
use std::io::{self, Write};

/// zstd's own default; on the open traces level 9 gains 4 % for four times the time.
const LEVEL: i32 = 3;

/// Writes records block by block. [`ColumnarWriter::finish`] must be called: a file without its end
/// mark counts as cut off.
pub struct ColumnarWriter<W: Write> {
    out: W,
    columns: BlockColumns,
    before: Before,
    records: u64,
}

impl<W: Write> ColumnarWriter<W> {
    /// Begins a file. `origin` says where the trace comes from, in a line or a few.
    ///
    /// # Errors
    ///
    /// Those of writing.
    pub fn new(mut out: W, origin: &str) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        out.write_all(&(origin.len() as u32).to_le_bytes())?;
        out.write_all(origin.as_bytes())?;
        Ok(Self { out, columns: BlockColumns::default(), before: Before::default(), records: 0 })
    }

    /// Appends a record.
    ///
    /// # Errors
    ///
    /// Those of writing.
    pub fn push(&mut self, record: &Record) -> io::Result<()> {
        let columns = &mut self.columns;
        put_difference(&mut columns.streams, u64::from(record.stream), self.before.stream);
        self.before.stream = u64::from(record.stream);
        let mut name_scan = |scans: &mut Vec<u8>, scan: u32| {
            put_difference(scans, u64::from(scan), self.before.scan);
            self.before.scan = u64::from(scan);
        };
        let kind = match &record.action {
            Action::Request { page, write, scan } => {
                if let Some(scan) = scan {
                    name_scan(&mut columns.scans, *scan);
                }
                let last = self.before.page(scan.is_some(), scan.unwrap_or(record.stream));
                put_difference(&mut columns.pages, page.raw(), std::mem::replace(last, page.raw()));
                match (scan, write) {
                    (None, false) => READ,
                    (None, true) => WRITE,
                    (Some(_), false) => SCAN_READ,
                    (Some(_), true) => SCAN_WRITE,
                }
            }
            Action::Tuple { page, item, write } => {
                let last = self.before.page(false, record.stream);
                put_difference(&mut columns.pages, page.raw(), std::mem::replace(last, page.raw()));
                put(&mut columns.values, u64::from(*item));
                if *write { TUPLE_WRITE } else { TUPLE_READ }
            }
            Action::Rows(relation, Rows { page, count, bytes }) => {
                for value in [relation.0, *page, *count, *bytes] {
                    put(&mut columns.values, u64::from(value));
                }
                ROWS
            }
            Action::Register(registration) => put_registration(&mut columns.values, registration),
            Action::Report { scan, position } => {
                name_scan(&mut columns.scans, *scan);
                put(&mut columns.values, *position);
                REPORT
            }
            Action::Finish { scan } => {
                name_scan(&mut columns.scans, *scan);
                FINISH
            }
            Action::Pace { ticks } => {
                put(&mut columns.values, u64::from(*ticks));
                PACE
            }
            Action::Wait { until } => {
                put(&mut columns.values, *until);
                WAIT
            }
            Action::Changed(relation) => {
                put(&mut columns.values, u64::from(relation.0));
                CHANGED
            }
            Action::Clock(Clock { start, ticks_per_second }) => {
                put(&mut columns.values, *start);
                put(&mut columns.values, *ticks_per_second);
                CLOCK
            }
        };
        columns.kinds.push(kind);
        self.records += 1;
        // A registration can be large; the second bound keeps blocks far below what readers accept.
        if columns.kinds.len() == BLOCK || columns.values.len() > 1 << 22 { self.block() } else { Ok(()) }
    }

    /// Appends all of `source`; returns how many records.
    ///
    /// # Errors
    ///
    /// Those of `source`, and those of writing as an error without a file.
    pub fn push_all(&mut self, source: &mut dyn Source) -> Result<u64, TraceError> {
        let before = self.records;
        while let Some(record) = source.next()? {
            self.push(&record).map_err(|error| TraceError::io(crate::trace::Place::Whole, &error))?;
        }
        Ok(self.records - before)
    }

    /// Ends the file and gives back what it was written to, flushed.
    ///
    /// # Errors
    ///
    /// Those of writing.
    pub fn finish(mut self) -> io::Result<W> {
        if !self.columns.kinds.is_empty() {
            self.block()?;
        }
        self.out.write_all(&0u32.to_le_bytes())?;
        self.out.write_all(&self.records.to_le_bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn block(&mut self) -> io::Result<()> {
        let mut plain = Vec::new();
        for column in self.columns.all() {
            plain.extend_from_slice(&(column.len() as u32).to_le_bytes());
        }
        for column in self.columns.all_mut() {
            plain.append(column);
        }
        let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
        compressor.include_checksum(true)?;
        let packed = compressor.compress(&plain)?;
        self.out.write_all(&(packed.len() as u32).to_le_bytes())?;
        self.out.write_all(&packed)?;
        self.before = Before::default();
        Ok(())
    }
}

/// Puts a registration in the narrowest words that there are for it, and says which.
pub(super) fn put_registration(out: &mut Vec<u8>, registration: &Registration) -> u8 {
    let Registration { scan, kind, length, parts, template } = registration;
    let wide = template.is_some() || parts.iter().any(|(_, extent)| !matches!(extent, Extent::Runs(_)));
    if let Some(template) = template {
        put(out, *template);
    }
    put(out, u64::from(*scan));
    out.push(*kind);
    put(out, *length);
    if wide {
        // Scans of several workers were of this kind, too, and had their number here.
        put(out, 0);
    }
    put(out, parts.len() as u64);
    for (relation, extent) in parts {
        put(out, u64::from(relation.0));
        match extent {
            Extent::Runs(runs) => {
                if wide {
                    out.push(RUNS);
                }
                put_runs(out, runs);
            }
            Extent::Correlated { run, scatter, descending } => {
                out.push(if *descending { CORRELATED_DESCENDING } else { CORRELATED });
                put(out, *scatter);
                put_run(out, run, (0, 0));
            }
        }
    }
    match (template, wide) {
        (Some(_), _) => REGISTER_KNOWN,
        (None, true) => REGISTER_WIDE,
        (None, false) => REGISTER,
    }
}

fn put_runs(out: &mut Vec<u8>, runs: &[Run]) {
    put(out, runs.len() as u64);
    let mut end = (0, 0);
    for run in runs {
        end = put_run(out, run, end);
    }
}

/// Puts a run as differences to `(block, position)` where the run before it ended; where this one
/// ends.
fn put_run(out: &mut Vec<u8>, run: &Run, (block, position): (u64, u64)) -> (u64, u64) {
    put_difference(out, u64::from(run.first), block);
    put(out, u64::from(run.blocks));
    put_difference(out, run.position, position);
    put(out, run.span);
    (u64::from(run.first) + u64::from(run.blocks), run.position + run.span)
}
