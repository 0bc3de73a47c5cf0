//! Why a scan cannot cooperate.

use core::fmt;

/// Why a scan was not registered. Nothing of it is left behind; the scan reads in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// As many scans are registered as the configuration allows.
    TooManyScans {
        /// The configuration's `scans`.
        limit: u32,
    },
    /// The scan reads units that no other reads, and there is no room for as many.
    TooManyUnits {
        /// The chunks of this scan.
        wanted: usize,
        /// Places for units that are free.
        free: u32,
        /// The configuration's `units`.
        limit: u32,
    },
    /// No stretch of free memory is long enough.
    NoSpace {
        /// Words (of 8 bytes) that are needed in one stretch.
        wanted: u64,
        /// Words that are free, in several stretches perhaps.
        free: u64,
        /// The configuration's `words`.
        limit: u32,
    },
    /// Something is wrong with a chunk.
    BadChunk {
        /// The chunk, from 0.
        chunk: usize,
        /// What is wrong.
        fault: ChunkFault,
    },
}

/// What is wrong with a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ChunkFault {
    /// The unit goes past the largest block number, 2^32 - 1.
    PastLastBlock,
    /// The need-mask has a block that the unit does not have.
    PastUnit,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyScans { limit } => write!(f, "all {limit} places for cooperating scans are taken"),
            Self::TooManyUnits { wanted, free, limit } => {
                write!(f, "the scan reads {wanted} units, and {free} of {limit} places for units are free")
            }
            Self::NoSpace { wanted, free, limit } => {
                write!(f, "cooperation needs {wanted} words in one stretch, and {free} of {limit} are free")
            }
            Self::BadChunk { chunk, fault } => {
                let fault = match fault {
                    ChunkFault::PastLastBlock => "goes past block 2^32 - 1",
                    ChunkFault::PastUnit => "needs a block that its unit does not have",
                };
                write!(f, "chunk {chunk} {fault}")
            }
        }
    }
}

impl core::error::Error for Refusal {}
