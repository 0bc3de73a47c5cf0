//! What a policy may ask about the future.

use crate::{PageId, Tick};

/// When will this page be wanted next?
///
/// ```
/// use pagecast_core::oracle::Question;
/// use pagecast_core::{PageId, RelationId};
///
/// let page = PageId::new(RelationId(1), 7);
/// let exact = Question::new(page, 1000);
/// let among_others = Question { last_use: Some(900), above: Some(50), ..exact };
/// assert_eq!(exact.last_use.or(exact.above), None);
/// assert_eq!(among_others.page, page);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// The page.
    pub page: PageId,
    /// The moment of the question.
    pub now: Tick,
    /// When the page was used last, if that is known: a scan that was expected to use the page may
    /// have done so then.
    pub last_use: Option<Tick>,
    /// If set, only an answer above it matters. An answer that is not above it may be too high, but
    /// not above it. A search for the page that is wanted last sets the latest answer so far.
    pub above: Option<Tick>,
}

impl Question {
    /// Asks for an exact answer about a page of whose last use nothing is known.
    #[inline]
    pub const fn new(page: PageId, now: Tick) -> Self {
        Self { page, now, last_use: None, above: None }
    }
}

/// Knows, exactly or by estimate, when a page will be wanted next.
pub trait Oracle {
    /// Ticks from the moment of the question until its page is next accessed; `None` when nobody is
    /// known to want it.
    fn next_access(&self, question: Question) -> Option<Tick>;

    /// A number that changes whenever a scan begins or ends: earlier answers may not hold any more.
    fn scan_changes(&self) -> u64 {
        0
    }
}

/// Knows of no scan: for pools and traces without registrations.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoScans;

impl Oracle for NoScans {
    fn next_access(&self, _question: Question) -> Option<Tick> {
        None
    }
}
