//! Pages on their way to storage together: copied, sealed, and cut into runs of neighbours.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use pagecast_core::PageId;

use crate::PoolError;
use crate::cache::Writing;
use crate::io::Buffer;
use crate::paged_file::PagedFile;
use crate::seal::{self, Lsn};
use crate::storage::{MAX_REQUEST, Storing, write_all};
use crate::write::log::Durable;

/// A few requests' bytes of pages, in order of their blocks.
pub(super) struct Batch {
    buffer: Buffer,
    page_size: usize,
    pages: Vec<(Arc<PagedFile>, Writing)>,
}

/// Neighbouring pages of one relation: one request, of at most [`MAX_REQUEST`] bytes.
pub(super) struct Run<'a> {
    pub(super) relation: &'a Arc<PagedFile>,
    pub(super) first: u32,
    pub(super) bytes: &'a [u8],
}

impl Batch {
    /// For at most `pages` pages.
    pub(super) fn new(pages: usize, page_size: u32) -> Self {
        let buffer = Buffer::new(pages * page_size as usize);
        Self { buffer, page_size: page_size as usize, pages: Vec::with_capacity(pages) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// Where the next page is to be copied.
    pub(super) fn room(&mut self) -> &mut [u8] {
        let at = self.slot(self.pages.len());
        &mut self.buffer.bytes_mut()[at]
    }

    fn slot(&self, index: usize) -> Range<usize> {
        index * self.page_size..(index + 1) * self.page_size
    }

    /// Adds the page that was copied into [`room`](Self::room), and seals it if its relation is.
    pub(super) fn push(&mut self, relation: Arc<PagedFile>, writing: Writing) {
        if relation.is_sealed() {
            seal::seal(self.room(), writing.page().block(), Lsn(writing.lsn()));
        }
        self.pages.push((relation, writing));
    }

    /// The log record that must be durable before any of them is written.
    pub(super) fn lsn(&self) -> Lsn {
        Lsn(self.pages.iter().map(|(_, writing)| writing.lsn()).max().unwrap_or(0))
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        let follows = |a: &(Arc<PagedFile>, Writing), b: &(Arc<PagedFile>, Writing)| {
            a.1.page().relation() == b.1.page().relation()
                && a.1.page().block().checked_add(1) == Some(b.1.page().block())
        };
        let most = (MAX_REQUEST / self.page_size).max(1);
        let mut at = 0;
        self.pages.chunk_by(follows).flat_map(move |pages| pages.chunks(most)).map(move |pages| {
            let bytes = &self.buffer.bytes()[at * self.page_size..(at + pages.len()) * self.page_size];
            at += pages.len();
            Run { relation: &pages[0].0, first: pages[0].1.page().block(), bytes }
        })
    }

    /// The pages.
    pub(super) fn pages(&self) -> impl Iterator<Item = PageId> {
        self.pages.iter().map(|(_, writing)| writing.page())
    }

    /// Writes all of it in place. What fails stays dirty; the first error is answered when all else
    /// is written. Tells `settle` the pages that no crash can find torn any more once their file is
    /// synced.
    pub(super) fn write(self, log: Durable, mut settle: impl FnMut(PageId)) -> Result<(), PoolError> {
        assert!(log.covers(self.lsn()), "a page is written before its log");
        let runs: Vec<_> = self.runs().collect();
        let lengths = runs.iter().map(|run| run.bytes.len() / self.page_size);
        let outcomes = runs.chunk_by(|a, b| a.relation.id() == b.relation.id()).flat_map(write_runs);
        let outcomes: Vec<_> = lengths.zip(outcomes).collect();
        let mut pages = self.pages.into_iter();
        let mut first_error = Ok(());
        for (count, outcome) in outcomes {
            for (_, writing) in pages.by_ref().take(count) {
                // A file that is not ours any more was not touched.
                if matches!(outcome, Ok(()) | Err(PoolError::Changed { .. })) {
                    settle(writing.page());
                }
                if outcome.is_ok() {
                    writing.done();
                }
            }
            first_error = first_error.and(outcome);
        }
        first_error
    }
}

impl Run<'_> {
    pub(super) fn offset(&self) -> u64 {
        u64::from(self.first) * u64::from(self.relation.page_size())
    }
}

/// Writes runs of one relation, at the same time where its storage can, and says what came of each.
fn write_runs(runs: &[Run<'_>]) -> Vec<Result<(), PoolError>> {
    let Some(Run { relation, .. }) = runs.first() else { return Vec::new() };
    if let Err(error) = relation.verify() {
        return runs.iter().map(|_| Err(error.clone())).collect();
    }
    let outcomes = relation.write(|storage| {
        let mut writes: Vec<_> = runs.iter().map(|run| Storing::new(storage, run.offset(), run.bytes)).collect();
        write_all(storage, &mut writes);
        writes.into_iter().map(Storing::outcome).collect::<Vec<_>>()
    });
    let named = |(run, outcome): (&Run<'_>, io::Result<()>)| {
        outcome.map_err(|source| PoolError::Write {
            path: relation.path().to_owned(),
            offset: run.offset(),
            len: run.bytes.len() as u64,
            source: Arc::new(source),
        })
    };
    runs.iter().zip(outcomes).map(named).collect()
}
