//! Loads at work: what is read into frames, and how it ends.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::{Part, Run, pages};
use crate::PoolError;
use crate::cache::Loading;
use crate::flash::FlashCopy;
use crate::paged_file::PagedFile;
use crate::stats::Counter;
use crate::storage::{Buffers, Errand, Reading, Request};

/// Pages on their way into their frames.
pub(super) struct LoadErrand<E> {
    relation: Arc<PagedFile>,
    extent: Extent,
    /// Gone when it has ended.
    reading: Option<Reading<Run>>,
    /// What is done when the storage has answered.
    end: E,
    /// Whether it is given up when nobody waits any more: who pays for requests wants none for
    /// nothing.
    may_be_given_up: bool,
    /// Whether it was. Somebody may join its pages since.
    was_given_up: bool,
}

/// Loads whose storage has answered, or has not been asked to the end.
pub(super) struct Read {
    run: Run,
    extent: Extent,
    answer: io::Result<usize>,
    was_given_up: bool,
}

/// What is read of a file.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) offset: u64,
    /// Bytes that there are, as far as the file goes.
    bytes: u64,
}

impl Extent {
    pub(super) fn new(relation: &PagedFile, offset: u64, bytes: usize) -> Self {
        Self { offset, bytes: (bytes as u64).min(relation.len().saturating_sub(offset)) }
    }

    /// Whether all of it was read.
    pub(super) fn is_whole(self, answer: &io::Result<usize>) -> bool {
        answer.as_ref().is_ok_and(|&read| read as u64 == self.bytes)
    }

    /// Fails unless all of it was read.
    pub(super) fn check(self, relation: &PagedFile, answer: io::Result<usize>) -> Result<(), PoolError> {
        let source = match answer {
            whole if self.is_whole(&whole) => return Ok(()),
            Ok(read) => io::Error::new(io::ErrorKind::UnexpectedEof, format!("the file ended after {read}")),
            Err(error) => error,
        };
        Err(relation.read_error(self.offset, self.bytes, source))
    }
}

impl<E: FnMut(Read)> LoadErrand<E> {
    pub(super) fn new(relation: Arc<PagedFile>, mut run: Run, may_be_given_up: bool, end: E) -> Self {
        let first = run.iter().find_map(Part::page).map_or(0, |loading| loading.access().page.block());
        let offset = u64::from(first) * u64::from(relation.page_size());
        let extent = Extent::new(&relation, offset, run.pieces().iter().map(|piece| piece.len()).sum());
        let reading = Some(Reading::new(relation.storage().as_ref(), offset, run));
        Self { relation, extent, reading, end, may_be_given_up, was_given_up: false }
    }

    fn is_wanted(&self) -> bool {
        let mut pages = self.reading.iter().flat_map(|reading| reading.buffers()).filter_map(Part::page);
        !self.may_be_given_up || pages.any(Loading::is_wanted)
    }
}

impl<E: FnMut(Read)> Errand for LoadErrand<E> {
    fn request(&mut self) -> Option<Request<'_>> {
        // A file that is known to have changed is not asked any more.
        self.relation.check_known().ok()?;
        if !self.is_wanted() {
            self.was_given_up = true;
            return None;
        }
        self.reading.as_mut()?.request()
    }

    fn answer(&mut self, answer: io::Result<usize>) {
        if let Some(reading) = &mut self.reading {
            reading.answer(answer);
        }
    }

    fn end(mut self: Box<Self>) {
        if let Some((answer, run)) = self.reading.take().map(Reading::outcome) {
            (self.end)(Read { run, extent: self.extent, answer, was_given_up: self.was_given_up });
        }
    }
}

impl<E> Drop for LoadErrand<E> {
    fn drop(&mut self) {
        if let Some((_, run)) = self.reading.take().map(Reading::outcome) {
            let answer = Err(io::Error::other("the storage panicked"));
            let outcome = self.extent.check(&self.relation, answer);
            pages(run).for_each(|loading| end(&self.relation, loading, &outcome));
        }
    }
}

/// Ends a load of a storage that was given its errand: as [`end_all`], or without its pages if
/// nobody wants them. Those that somebody has asked for meanwhile are returned, to be loaded anew.
pub(super) fn end_alone(relation: &PagedFile, mut read: Read) -> Vec<Loading> {
    if read.was_given_up && !read.extent.is_whole(&read.answer) {
        let run = std::mem::take(&mut read.run);
        return pages(run).filter_map(Loading::end_unless_wanted).collect();
    }
    end_all(relation, vec![read]);
    Vec::new()
}

/// Ends loads whose storage has answered: with bytes of the relation's own generation, or with what
/// is wrong.
pub(super) fn end_all(relation: &PagedFile, read: Vec<Read>) {
    if read.is_empty() {
        return;
    }
    // After the reads, so that a change before their last byte is seen; and first of all, since a
    // change explains the rest.
    let unchanged = relation.verify_read();
    for Read { run, extent, answer, .. } in read {
        let outcome = unchanged.clone().and_then(|()| extent.check(relation, answer));
        // A panic (of a policy, say) fails what it meets, by its drop, and not the others.
        let _ = catch_unwind(AssertUnwindSafe(|| match &outcome {
            Ok(()) => pages(run).for_each(|loading| end(relation, loading, &outcome)),
            // The first page last: who waits for it may ask again at once, for the others, too.
            Err(_) => pages(run).rev().for_each(|loading| end(relation, loading, &outcome)),
        }));
    }
}

/// Fills a load from its copy on flash, and ends it. It comes back if the copy is none, or if the
/// file is known to have changed.
pub(super) fn end_copy(relation: &PagedFile, copy: FlashCopy, mut loading: Loading) -> Option<Loading> {
    let len = relation.page_len(loading.access().page.block());
    if relation.check_known().is_err() || !copy.read(loading.bytes(), len) {
        return Some(loading);
    }
    copy.served(len);
    end(relation, loading, &relation.check_known());
    None
}

pub(super) fn end(relation: &PagedFile, mut loading: Loading, outcome: &Result<(), PoolError>) {
    let block = loading.access().page.block();
    let verified = outcome.clone().and_then(|()| relation.verify_page(block, loading.bytes()));
    // Before anybody sees the page.
    let merged = verified.and_then(|page| match loading.apply_changes(page.len) {
        Ok(()) => Ok(page),
        Err(item) => Err(PoolError::Displaced { path: relation.path().to_owned(), block, item }),
    });
    match merged {
        Ok(page) => {
            loading.count(Counter::Loads, 1);
            loading.count(Counter::BytesRead, u64::from(relation.page_len(block)));
            loading.publish(page.len, page.lsn.0);
        }
        Err(error) => {
            loading.count(Counter::FailedLoads, 1);
            loading.fail(error);
        }
    }
}
