//! What can be wrong with memory, and with a scan that wants to register.

use super::records::{KINDS, MAX_LENGTH};
use crate::sync::atomic::Ordering::Acquire;
use crate::words::Words;
use core::fmt;

/// The memory cannot hold a predictor or a manager of cooperation, or does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FormatError {
    /// Fewer words than the configuration needs.
    TooSmall {
        /// Words that were given.
        given: usize,
        /// Words that are needed; see [`PredictorConfig::words`](super::PredictorConfig::words) and
        /// [`CooperationConfig::words`](crate::cooperation::CooperationConfig::words).
        needed: usize,
    },
    /// A count of the configuration is 0 where it may not be, or the whole has no size on this
    /// machine.
    BadConfig,
    /// The memory was not formatted by this version.
    NotFormatted {
        /// The first word as found.
        found: u64,
    },
}

impl FormatError {
    /// Fails unless memory was formatted with `magic` as its first word.
    pub(crate) fn unless_formatted(words: Words<'_>, magic: u64) -> Result<(), Self> {
        // Acquire: pairs with the Release at the end of formatting, so the rest of the header is
        // there too.
        let found = words.load(0, Acquire);
        if found == magic { Ok(()) } else { Err(Self::NotFormatted { found }) }
    }

    /// Fails unless there are `needed` words.
    pub(crate) fn unless_holds(words: Words<'_>, needed: usize) -> Result<(), Self> {
        let given = words.0.len();
        if given < needed { Err(Self::TooSmall { given, needed }) } else { Ok(()) }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { given, needed } => {
                write!(f, "{needed} words of memory are needed and {given} were given")
            }
            Self::BadConfig => f.write_str(
                "the configuration needs room for at least one scan and one part or unit, and less than 2^32 words in all",
            ),
            Self::NotFormatted { found } => {
                write!(f, "the memory was not formatted by this version of pagecast: its first word is {found:#018x}")
            }
        }
    }
}

impl core::error::Error for FormatError {}

/// Why a scan was not registered. Nothing of it is left behind; the scan may run without
/// predictions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RegisterError {
    /// As many scans are running as the configuration allows.
    TooManyScans {
        /// The configuration's `scans`.
        limit: u32,
    },
    /// The scan's parts and those of the running scans are more than the configuration allows.
    TooManyParts {
        /// The parts of this scan.
        wanted: usize,
        /// The configuration's `parts`.
        limit: u32,
    },
    /// No stretch of free memory is long enough for the runs or the bitset of a part.
    NoSpace {
        /// The part, from 0.
        part: u32,
        /// Words (of 8 bytes) that it needs in one stretch.
        words: u64,
    },
    /// No stretch of free memory is long enough for the chunks of a scan without order.
    NoSpaceForChunks {
        /// How many chunks it has.
        chunks: u64,
        /// Words (of 8 bytes) that they need in one stretch.
        words: u64,
    },
    /// The scan's kind is not below [`KINDS`](super::KINDS).
    BadKind {
        /// The kind.
        kind: u8,
    },
    /// The axis is longer than [`MAX_LENGTH`](super::MAX_LENGTH).
    TooLong {
        /// The length.
        length: u64,
    },
    /// Something is wrong with the pages of a part.
    BadPages {
        /// The part, from 0.
        part: u32,
        /// The run within the part, from 0; 0 for a bitset.
        run: u32,
        /// What is wrong.
        fault: PagesFault,
    },
}

/// What is wrong with a run or a bitset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PagesFault {
    /// The run has no block.
    Empty,
    /// It goes past the largest block number, 2^32 - 1.
    PastLastBlock,
    /// It goes past the length of the scan's axis.
    PastLength,
    /// The run begins or ends before the one in front of it does.
    OutOfOrder,
    /// A scan without order reads all of a run, or of the bitset, at more positions than one.
    HasOrder,
    /// The run of a scan without order lies at no chunk: its position is the length.
    NoChunk,
}

impl RegisterError {
    /// Whether the scan is in order and there is no room for it now. It runs unpredicted then.
    pub const fn is_full(&self) -> bool {
        use RegisterError::{NoSpace, NoSpaceForChunks, TooManyParts, TooManyScans};
        matches!(self, TooManyScans { .. } | TooManyParts { .. } | NoSpace { .. } | NoSpaceForChunks { .. })
    }
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyScans { limit } => write!(f, "all {limit} places for running scans are taken"),
            Self::TooManyParts { wanted, limit } => {
                write!(f, "no room for the scan's {wanted} parts: running scans share {limit}")
            }
            Self::NoSpace { part, words } => {
                write!(f, "part {part} needs {words} words for its runs or bitset, and no free stretch is that long")
            }
            Self::NoSpaceForChunks { chunks, words } => {
                write!(f, "{chunks} chunks need {words} words, and no free stretch is that long")
            }
            Self::BadKind { kind } => write!(f, "scan kind {kind} is not below {KINDS}"),
            Self::TooLong { length } => write!(f, "an axis of {length} positions is longer than {MAX_LENGTH}"),
            Self::BadPages { part, run, fault } => {
                let fault = match fault {
                    PagesFault::Empty => "has no block",
                    PagesFault::PastLastBlock => "goes past block 2^32 - 1",
                    PagesFault::PastLength => "goes past the length of the scan's axis",
                    PagesFault::OutOfOrder => "begins or ends before the run in front of it does",
                    PagesFault::HasOrder => {
                        "has an order: a scan without order gives runs only, each with span 0 at its chunk's position"
                    }
                    PagesFault::NoChunk => "lies at no chunk: positions of a scan without order are below its length",
                };
                write!(f, "part {part}, run {run} {fault}")
            }
        }
    }
}

impl core::error::Error for RegisterError {}
