//! What the statements of a session may take of the heap.
//!
//! `--memory` bounds what DataFusion's operators keep by their own account. That account has gaps:
//! texts in an `array_agg`, what a function makes, batches on their way, both copies while a join
//! makes one batch of its side. So the heap itself is looked at, between batches and before a
//! function makes much; what has grown beyond the limit, and a margin for such gaps in the account
//! of those who are right, ends the statement that asks for more, unless it holds next to nothing
//! itself.

use std::fmt;

use datafusion::common::{DataFusionError, Result};

use crate::heap_unsafe;
use crate::held::Held;

/// Most bytes that one call of a function makes, or one batch of a join, whatever the limit is.
pub(crate) const LARGEST: u64 = 1 << 30;

/// The least margin.
const MARGIN: u64 = 128 << 20;

fn margin(limit: u64) -> u64 {
    MARGIN.max(limit / 4)
}

/// A statement that holds no more than this part of the memory is not ended for what others hold.
const SMALL: u64 = 128;

/// A session's limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    limit: Option<u64>,
    /// In use when the session began.
    before: u64,
}

impl Budget {
    /// From now on at most so many bytes.
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self { limit, before: heap_unsafe::in_use() }
    }

    pub(crate) fn has_limit(self) -> bool {
        self.limit.is_some()
    }

    /// Bytes that may be made at once.
    pub(crate) fn at_once(self) -> u64 {
        self.limit.map_or(LARGEST, |limit| limit.min(LARGEST))
    }

    /// Whether the statement would still hold next to nothing with so many bytes more.
    pub(crate) fn is_small(self, more: u64) -> bool {
        let own = Held::current().map_or(0, |held| held.bytes() as u64);
        self.limit.is_none_or(|limit| own.saturating_add(more) <= limit / SMALL)
    }

    /// Whether `more` bytes fit in the limit beside what others hold. An eighth is left for what
    /// they become: a row group is larger once it is decoded.
    pub(crate) fn has_room(self, more: u64) -> bool {
        let own = Held::current().map_or(0, |held| held.bytes() as u64);
        let others = heap_unsafe::in_use().saturating_sub(self.before).saturating_sub(own);
        self.limit.is_none_or(|limit| others.saturating_add(more) <= limit - (limit / 8).min(MARGIN / 2))
    }

    /// Fails if with `more` bytes the heap would be larger than it may.
    pub(crate) fn check(self, more: u64, who: &str) -> Result<()> {
        let Some(limit) = self.limit else { return Ok(()) };
        if Held::current().is_some() && self.is_small(more) {
            return Ok(());
        }
        self.check_within(limit.saturating_add(margin(limit)), more, who)
    }

    /// The same for what is read, beside what is being read: half of the margin is left to who is
    /// at work already.
    pub(crate) fn check_read(self, more: u64, beside: u64) -> Result<()> {
        let Some(limit) = self.limit else { return Ok(()) };
        if self.is_small(more) {
            return Ok(());
        }
        let most = limit.saturating_add(margin(limit) / 2).saturating_sub(beside);
        self.check_within(most, more, "reading a row group")
    }

    fn check_within(self, most: u64, more: u64, who: &str) -> Result<()> {
        let taken = heap_unsafe::in_use().saturating_sub(self.before);
        match taken.saturating_add(more) <= most {
            true => Ok(()),
            false => Err(Self::exceeded(self.limit.unwrap_or(most), taken, more, who)),
        }
    }

    #[cold]
    fn exceeded(limit: u64, taken: u64, more: u64, who: &str) -> DataFusionError {
        let more = if more == 0 { String::new() } else { format!(", and {who} would make {more}") };
        over(format!("statements take {taken} bytes of memory{more}; the limit is {limit}"))
    }
}

/// A statement that takes too much. It is no `ResourcesExhausted` of DataFusion's, whose operators
/// would begin anew with less.
#[derive(Debug)]
pub struct OverBudget(String);

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resources exhausted: {}", self.0)
    }
}

impl std::error::Error for OverBudget {}

/// The error that ends such a statement.
pub(crate) fn over(what: String) -> DataFusionError {
    DataFusionError::External(Box::new(OverBudget(what)))
}
