//! Scans on a progress axis, and from them the estimate of a page's next access.
//!
//! Sources: Świtakowski 2011, §4.3 (`RegisterScan`, `PageNextConsumption`: tuples behind, tuples
//! consumed, speed) and Khalaji et al., PVLDB 18(13) 2025, §3 (`EstimateNextAccess`: distance over
//! speed, minimum over the page's scans).
//!
//! A scan maps pages to *positions* on an axis of its own, from 0 to its length, and reports how
//! far it is. A page is wanted in `(position of the page - position of the scan) * pace` ticks;
//! pace is ticks per position. What a position is, only the host knows: blocks for a sequential
//! scan, rows for a column scan, ranks for a bitmap scan. Of a scan that reads in any order
//! positions are *chunks*, each done or not, and the pages of what is not done are wanted in half
//! the time of all that is not done (Świtakowski 2011, §4.4; deviations in `chunks.rs`).
//!
//! Deviations, and why:
//! * Both sources keep a list of scans per page or per group of 1 MiB. Here a relation has a list
//!   of *parts* (one per scan that reads it), and a part holds runs of blocks that are searched by
//!   bisection. Memory and the cost of registration then depend on the number of runs and not on
//!   the size of the database, and no block has a record.
//! * Speed is smoothed over about the last eight reports (see [`Predictor::report`]); the authors'
//!   code takes the last interval alone, which a scan that reports in bursts turns into noise.
//! * Between two reports the scan is assumed to go on at its pace, by at most its last step. The
//!   sources let it stand still, which makes the pages just ahead of a scan look later than they
//!   are.
//! * A scan that reads page by page has come to the page that it misses, whenever it reports
//!   ([`missed`]). In the sources only reports tell.
//! * Who knows when a page was last used can ask with that ([`last_use`]): what a scan has read
//!   since its last report is then not taken for what it wants at once, unless it reads all pages
//!   of a position at a chunk and says so before. The sources have nothing like it.
//! * Estimates are computed when asked for and never cached; the authors' code keeps each for up to
//!   10 s.
//! * A scan may be *expected*: the same record, with its start ahead ([`Registry::expect`]). Its
//!   pages are wanted once it has begun and come to them, later the less sure that is. The sources
//!   know running scans only.
//!
//! Suits workloads whose queries know what they will read: sequential, bitmap and column scans,
//! alone or many over the same data, in an order or in whichever costs least. It says nothing about
//! pages that no scan has registered.
//!
//! Cost: registration O(runs + words of bitsets); report O(1), lock-free; an estimate
//! ([`next_access`](crate::oracle::Oracle::next_access)) asks the one or two scans that come first
//! to the page's cell of 256 blocks, each O(log runs) at worst and mostly O(1), and once per cell
//! and change among the scans it asks all scans of the relation; it never blocks. Memory: see
//! [`PredictorConfig`]; nothing per block, nothing per frame.
//!
//! ```
//! use pagecast_core::oracle::{Oracle, Question};
//! use pagecast_core::predictor::{Pages, Part, PredictorConfig, Registry, Run, ScanKind, ScanSpec};
//! use pagecast_core::{PageId, RelationId, sync::atomic::AtomicU64};
//! use std::sync::Arc;
//!
//! let config = PredictorConfig { scans: 8, parts: 8, runs: 64, ..PredictorConfig::EMPTY };
//! let memory: Arc<[AtomicU64]> = (0..config.words()).map(|_| AtomicU64::new(0)).collect();
//! let mut registry = Registry::format(memory, config)?;
//! let predictor = registry.predictor();
//!
//! // 100 blocks that hold 5000 rows, 50 in each; the axis is rows.
//! let table = RelationId(7);
//! let runs = [Run { first: 0, blocks: 100, position: 0, span: 5000 }];
//! let parts = [Part { relation: table, pages: Pages::Runs(&runs) }];
//! let scan = registry.register(&ScanSpec { kind: ScanKind(0), length: 5000, parts: &parts }, 0)?;
//!
//! predictor.report(scan, 1000, 2000); // 1000 rows in 2000 ticks
//! assert_eq!(predictor.next_access(Question::new(PageId::new(table, 60), 2000)), Some(4000)); // 2000 rows on, 2 ticks each
//! assert_eq!(predictor.next_access(Question::new(PageId::new(table, 5), 2000)), None); // behind the scan
//! registry.finish(scan, 2000);
//! assert_eq!(predictor.next_access(Question::new(PageId::new(table, 60), 2000)), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`missed`]: Predictor::missed
//! [`last_use`]: crate::oracle::Question::last_use

// From the bottom up: correlation, records, error, layout, pages, cell, expectation, scan, chunks,
// marks, reader, nearest, follow, registry, expect. A module uses those before it
// (`tests/layers.rs` of the pool).
mod cell;
mod chunks;
mod correlation;
mod error;
mod expect;
mod expectation;
mod follow;
mod layout;
mod marks;
mod nearest;
mod pages;
mod reader;
mod records;
mod registry;
mod scan;

pub use correlation::scatter;
pub use error::{FormatError, PagesFault, RegisterError};
pub use layout::PredictorConfig;
pub use reader::Predictor;
pub use records::{KINDS, MAX_LENGTH};
pub use registry::Registry;

use crate::{RelationId, ScanId, Tick};
// Shared with the manager of cooperation; here so that the modules name them as their own.
use crate::{arena, words};

/// What sort of scan it is, from 0 to [`KINDS`]` - 1`; a host numbers its own. Scans of one kind
/// share the running estimate of pace that a new one starts from, so their positions should mean
/// the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScanKind(pub u8);

/// Neighbouring blocks that a scan reads one after the other.
///
/// Block `first + i` lies at `position + span * i / blocks`, rounded down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Run {
    /// The first block.
    pub first: u32,
    /// How many blocks; at least 1, and the last one must have a number.
    pub blocks: u32,
    /// The position of the first block.
    pub position: u64,
    /// How many positions the blocks cover; 0 when all are read at once. `position + span` is
    /// within the axis. Of a scan all of whose runs are read at once, what it has not reported is
    /// taken for unread, however much time has passed.
    pub span: u64,
}

impl Run {
    /// A scan of all `blocks` blocks of a relation that begins at block `start` and goes on from
    /// block 0 at the end, as synchronized scans do; positions are blocks. Of `start` 0 or past the
    /// end the second run has no blocks and is to be left out.
    pub const fn wrapping(start: u32, blocks: u32) -> [Run; 2] {
        let start = if start < blocks { start } else { 0 };
        let (front, back) = (start as u64, (blocks - start) as u64);
        let whole = Run { first: start, blocks: blocks - start, position: 0, span: back };
        let wrapped = Run { first: 0, blocks: start, position: back, span: front };
        // In the order of blocks, as registration wants them.
        if start == 0 { [whole, wrapped] } else { [wrapped, whole] }
    }
}

/// The blocks of one relation that a scan reads.
#[derive(Clone, Copy, Debug)]
pub enum Pages<'a> {
    /// Runs in the order of their first block, no run ending before the one in front of it does.
    /// They may overlap, as neighbouring column chunks do that meet inside a block; a block in many
    /// runs costs a look at each of them.
    Runs(&'a [Run]),
    /// A set of blocks, each as many positions after `position` as there are blocks of the set
    /// before it.
    Bitset {
        /// The block of the lowest bit of the first word.
        first: u32,
        /// Bit `i` of word `w` stands for block `first + 64 * w + i`.
        words: &'a [u64],
        /// The position of the first block of the set.
        position: u64,
    },
    /// Neighbouring blocks that an index scan reads nearly in their order; see [`scatter`].
    Correlated {
        /// The blocks, and the positions that they would have were the order perfect.
        run: Run,
        /// How many positions in front of its place and behind it a block may be read.
        scatter: u64,
        /// Whether the last block comes first.
        descending: bool,
    },
}

/// One relation's share of a scan.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The relation. It may occur in several parts.
    pub relation: RelationId,
    /// What is read of it.
    pub pages: Pages<'a>,
}

/// What a scan says of itself when it begins.
#[derive(Clone, Copy, Debug)]
pub struct ScanSpec<'a> {
    /// Whose running estimate it starts from.
    pub kind: ScanKind,
    /// The end of its axis, at most [`MAX_LENGTH`].
    pub length: u64,
    /// What it reads. None is allowed: a scan whose pages were all pruned.
    pub parts: &'a [Part<'a>],
}

/// When a scan that does not run yet will probably begin.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Expectation {
    /// When it is expected to begin; a moment that has passed means that it is overdue.
    pub start: Tick,
    /// By how many ticks it is usually earlier or later. Its pages are never expected sooner.
    pub spread: Tick,
    /// How sure it is, above 0 and at most 1; other values are taken for the nearest of these. Of
    /// 0.5 its pages are expected in twice the time.
    pub trust: f32,
}

/// A running or expected scan, as seen at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ScanView {
    /// Its name.
    pub id: ScanId,
    /// Its kind.
    pub kind: ScanKind,
    /// Where it stands: all positions before this one are done.
    pub position: u64,
    /// The end of its axis.
    pub length: u64,
    /// Ticks per position, above 0.
    pub pace: f64,
    /// How many parts it has.
    pub parts: u32,
    /// The relation of its first part, if it has one.
    pub relation: Option<RelationId>,
    /// When it was registered; of an expected one, when it is expected to begin.
    pub started: Tick,
    /// Whether it reads its positions in any order: these are chunks, and `position` is how many
    /// are done.
    pub unordered: bool,
    /// Of a scan that is expected and does not run: when, and how sure that is.
    pub expected: Option<Expectation>,
}
