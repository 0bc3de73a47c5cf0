//! Why a join of two tables is not done chunk by chunk: what a scan's line in EXPLAIN says.

use std::fmt;

/// Why a join stays as it was planned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    Because(&'static str),
    FewChunks { chunks: usize, least: usize },
    Divided { percent: u64 },
    Small { memory: u64 },
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Because(why) => write!(f, "{why}"),
            Self::FewChunks { chunks, least } => write!(f, "it has {chunks} chunks of {least} that it needs"),
            Self::Divided { percent } => write!(f, "row groups overlap: it would read {percent} % more"),
            Self::Small { memory } => write!(f, "it takes {memory} KiB at most"),
        }
    }
}
