//! Traces: who asked for which page, in which order, and what the scans among them said of
//! themselves.
//!
//! A trace is a stream of [`Record`]s. Foreign formats hold page requests only; our own
//! ([`columnar`]) also holds scan registrations, their progress, and what a replay in logical time
//! needs: which stream does what, and how fast. All readers stream; what is read is bounded by the
//! reader's buffers and not by the file.

pub mod columnar;
mod compress;
mod csv;
mod decompress;
mod error;
mod format;
mod lines;
mod load;
mod numbering;
mod oracle_general;
mod text;

pub use compress::{Compressed, Compression};
pub use csv::Columns;
#[cfg(feature = "redset")]
pub(crate) use error::excerpt;
pub use error::{Place, TraceError};
pub use format::{Format, open, read_from};
pub use load::{LoadedEvent, MAX_REQUESTS, Trace};
pub use numbering::Numbering;
pub use oracle_general::write_oracle_general;
pub use text::write_text;

use pagecast_core::forecast::Clock;
use pagecast_core::predictor::Run;
use pagecast_core::{PageId, RelationId, Tick};

/// A line of work that does one thing after the other: a connection, a thread, a query stream.
/// From 0.
pub type StreamNumber = u32;

/// A scan within its trace, from 0 in the order of registration.
pub type ScanNumber = u32;

/// The largest number of streams and of scans that a trace may have; what keeps a hostile file from
/// filling memory.
pub const MAX_NUMBER: u32 = 1 << 24;

/// One thing that happened.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// Who did it; 0 in traces without streams.
    pub stream: StreamNumber,
    /// What was done.
    pub action: Action,
}

/// What a stream does.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// It asks for a page.
    Request {
        /// The page.
        page: PageId,
        /// Whether it will be written.
        write: bool,
        /// The registered scan that asks, if one does.
        scan: Option<ScanNumber>,
    },
    /// It asks for an item of a page by name.
    Tuple {
        /// The page.
        page: PageId,
        /// The item's number in the page, or a hash of its key; below [`u32::MAX`].
        item: u32,
        /// Whether it will be written, whole.
        write: bool,
    },
    /// Says how items lie in the pages of a relation, from here on.
    Rows(RelationId, Rows),
    /// It registers a scan. Numbers are given in order: 0, 1, 2...
    Register(Box<Registration>),
    /// A scan says that all positions before `position` are done.
    Report {
        /// The scan.
        scan: ScanNumber,
        /// Its position.
        position: u64,
    },
    /// A scan ends.
    Finish {
        /// The scan.
        scan: ScanNumber,
    },
    /// From now on each of the stream's requests takes `ticks` of its own work, beside the wait for
    /// a miss.
    Pace {
        /// Ticks per request; streams begin with 1.
        ticks: u32,
    },
    /// The stream does nothing before the moment `until`. Means something in logical time only.
    Wait {
        /// The moment, in ticks from the trace's beginning.
        until: Tick,
    },
    /// It has changed a relation: rows were loaded.
    Changed(RelationId),
    /// Says what the trace's ticks are, before anything that they count for.
    Clock(Clock),
}

/// How items lie in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rows {
    /// Bytes of a page.
    pub page: u32,
    /// Items that a page has.
    pub count: u32,
    /// Bytes of an item.
    pub bytes: u32,
}

impl Rows {
    /// At most so many items, and bytes of an item: a page of 1 GiB.
    pub const MOST: u32 = 1 << 30;

    /// Whether there is a page of this kind.
    pub fn fit(&self) -> bool {
        let all = u64::from(self.count) * u64::from(self.bytes);
        self.page <= Self::MOST && self.count > 0 && self.bytes > 0 && all <= u64::from(self.page)
    }
}

/// What a scan will read, as it is registered with the predictor.
#[derive(Clone, PartialEq, Debug)]
pub struct Registration {
    /// The scan's number in this trace.
    pub scan: ScanNumber,
    /// Scans of one kind share the estimate of pace that a new one starts from; below
    /// [`pagecast_core::predictor::KINDS`].
    pub kind: u8,
    /// The end of the scan's axis.
    pub length: u64,
    /// What it reads, by relation.
    pub parts: Vec<(RelationId, Extent)>,
    /// Which query it is of, if that is known: the same number says that it has come again.
    pub template: Option<u64>,
}

/// What a scan reads of a relation; see [`pagecast_core::predictor::Pages`].
#[derive(Clone, PartialEq, Debug)]
pub enum Extent {
    /// Runs, as the predictor demands in the order of their first block.
    Runs(Vec<Run>),
    /// Neighbouring blocks that an index scan reads nearly in their order.
    Correlated {
        /// The blocks, and the positions that they would have were the order perfect.
        run: Run,
        /// How many positions in front of its place and behind it a block may be read.
        scatter: u64,
        /// Whether the last block comes first.
        descending: bool,
    },
}

/// A stream of records.
pub trait Source {
    /// The next record; `None` at the end.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or what it holds is no record. After an error the source is of no
    /// further use.
    fn next(&mut self) -> Result<Option<Record>, TraceError>;

    /// Appends to `pages` what the next records ask for, as long as these only read pages, in
    /// stream 0 and outside scans; perhaps none of them. A format that holds nothing else is read
    /// faster so than record by record.
    ///
    /// # Errors
    ///
    /// As for [`Source::next`].
    fn reads(&mut self, pages: &mut Vec<PageId>) -> Result<(), TraceError> {
        let _ = pages;
        Ok(())
    }
}

impl Record {
    /// A request of stream 0 outside any scan: all that most foreign formats know.
    pub(crate) fn request(page: PageId, write: bool) -> Self {
        Self { stream: 0, action: Action::Request { page, write, scan: None } }
    }

    /// The same, or a request for an item.
    pub(crate) fn of(page: PageId, item: Option<u32>, write: bool) -> Self {
        match item {
            None => Self::request(page, write),
            Some(item) => Self { stream: 0, action: Action::Tuple { page, item, write } },
        }
    }
}
