//! Reads past the pool, for which there were no frames.

use std::io::{self, IoSliceMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::load::{Extent, end};
use super::{ALIGNMENT, Answer, Brought, Buffer, Job, PastRead, Queue};
use crate::PoolError;
use crate::cache::{Carried, Loading};
use crate::paged_file::PagedFile;
use crate::stats::Counter;
use crate::storage::{Buffers, Errand, Reading, Request, read_full};

impl PastRead {
    pub(crate) fn run(self) -> Result<Buffer, PoolError> {
        let mut buffer = Buffer::new(self.len.next_multiple_of(ALIGNMENT));
        let (relation, bytes) = (self.relation.as_ref(), buffer.bytes_mut());
        relation.check_known()?;
        let extent = Extent::new(relation, self.offset, bytes.len());
        // Not while a page of it is written: what is read past the pool has no frame that would
        // keep it whole.
        let _whole = relation.shared_on_storage();
        let storage = relation.storage().as_ref();
        let read = AssertUnwindSafe(|| read_full(storage, self.offset, &mut [IoSliceMut::new(bytes)]));
        let answer = catch_unwind(read).unwrap_or_else(|_| Err(io::Error::other("the storage panicked")));
        // After the read, and first of all: a change explains the rest.
        relation.verify_read()?;
        extent.check(relation, answer)?;
        Ok(buffer)
    }

    /// Its one page out of the copy on flash, if that is whole and the file is not known to have
    /// changed.
    fn copied(&mut self) -> Option<Buffer> {
        let copy = self.copy.take()?;
        self.relation.check_known().ok()?;
        let (mut page, len) = (Buffer::new(self.relation.page_size() as usize), self.len as u32);
        if !copy.read(page.bytes_mut(), len) {
            return None;
        }
        copy.served(len);
        Some(page)
    }
}

impl Buffers for Buffer {
    fn pieces(&mut self) -> Vec<&mut [u8]> {
        vec![self.bytes_mut()]
    }
}

/// A read past the pool that keeps no thread, and that brings pages along.
///
/// They get their frames when their bytes are here. What lies far away is long on its way, and a
/// frame that waits for it holds nothing that could be hit.
pub(super) struct PastErrand {
    queue: Arc<Queue>,
    relation: Arc<PagedFile>,
    extent: Extent,
    /// Gone when it has ended.
    reading: Option<Reading<Buffer>>,
    loads: Vec<Loading>,
    answer: Arc<Answer>,
    /// Whether it was not asked to the end, for want of those who wait.
    is_given_up: bool,
}

impl PastErrand {
    /// Of a relation that nobody writes. The pages of `loads` lie within what is read. A copy on
    /// flash that is whole ends it at once.
    pub(super) fn start(queue: Arc<Queue>, mut read: PastRead, loads: Vec<Loading>, answer: Arc<Answer>) {
        let copied = read.copied();
        let PastRead { relation, offset, len, .. } = read;
        let (storage, room) = (relation.storage().clone(), len.next_multiple_of(ALIGNMENT));
        let extent = Extent::new(&relation, offset, room);
        let mut errand = Self { queue, relation, extent, reading: None, loads, answer, is_given_up: false };
        if let Some(page) = copied {
            let outcome = errand.outcome(errand.relation.check_known(), page);
            errand.answer.set(outcome);
        } else {
            errand.reading = Some(Reading::new(storage.as_ref(), offset, Buffer::new(room)));
            storage.start(Box::new(errand));
        }
    }

    /// Whether the reader waits, who has the answer, too, or somebody for one of the pages.
    fn is_wanted(&self) -> bool {
        Arc::strong_count(&self.answer) > 1 || self.loads.iter().any(Loading::is_wanted)
    }

    /// Ends the loads that nobody wants, and asks anew for the others, which somebody has joined
    /// meanwhile.
    fn give_up(&mut self) {
        for loading in self.loads.drain(..).filter_map(Loading::end_unless_wanted) {
            let block = loading.access().page.block();
            let offset = u64::from(block) * u64::from(self.relation.page_size());
            let len = self.relation.page_len(block) as usize;
            let read = PastRead { relation: Arc::clone(&self.relation), offset, len, copy: None };
            self.queue.submit(Job::Past(read, vec![loading], Answer::new()), 0);
        }
    }

    fn answered(&mut self, answer: io::Result<usize>, buffer: Buffer) -> Result<Brought, PoolError> {
        let checked = self.relation.verify_read().and_then(|()| self.extent.check(&self.relation, answer));
        self.outcome(checked, buffer)
    }

    fn outcome(&mut self, checked: Result<(), PoolError>, buffer: Buffer) -> Result<Brought, PoolError> {
        if let Err(error) = checked {
            // The first page last: who waits for it may ask again at once, for the others, too.
            self.loads.drain(..).rev().for_each(|loading| loading.fail(error.clone()));
            return Err(error);
        }
        let (buffer, mut unplaced) = (Arc::new(buffer), 0);
        for loading in self.loads.drain(..) {
            // A panic (of a policy, say) fails the load that it meets, by its drop.
            let placed = AssertUnwindSafe(|| place(&self.queue, &self.relation, self.extent, loading, &buffer));
            unplaced += catch_unwind(placed).unwrap_or(0);
        }
        Ok(Brought { buffer, unplaced })
    }
}

/// Makes the load's part of `buffer` a page, if there is a frame; how many bytes found none.
fn place(queue: &Queue, relation: &PagedFile, extent: Extent, mut loading: Loading, buffer: &Arc<Buffer>) -> u64 {
    let block = loading.access().page.block();
    let at = (u64::from(block) * u64::from(relation.page_size()) - extent.offset) as usize;
    loading.carry(Carried { memory: buffer.clone(), at, len: relation.page_len(block) as usize });
    if (queue.find_frame)(&mut loading) {
        let (frame, page) = (loading.bytes(), &buffer.bytes()[at..]);
        let len = frame.len().min(page.len());
        frame[..len].copy_from_slice(&page[..len]);
        end(relation, loading, &Ok(()));
        return 0;
    }
    let bytes = relation.page_len(block).into();
    loading.count(Counter::BytesRead, bytes);
    loading.count(Counter::BypassedBytes, bytes);
    loading.give_up();
    bytes
}

impl Errand for PastErrand {
    fn request(&mut self) -> Option<Request<'_>> {
        self.relation.check_known().ok()?;
        if !self.is_wanted() {
            self.is_given_up = true;
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
        let Some((answer, buffer)) = self.reading.take().map(Reading::outcome) else { return };
        if self.is_given_up && !self.extent.is_whole(&answer) {
            return self.give_up();
        }
        let outcome = self.answered(answer, buffer);
        self.answer.set(outcome);
    }
}

impl Drop for PastErrand {
    fn drop(&mut self) {
        if self.reading.take().is_some() {
            let panicked = Err(io::Error::other("the storage panicked"));
            let outcome = self.answered(panicked, Buffer::new(0));
            self.answer.set(outcome);
        }
    }
}
