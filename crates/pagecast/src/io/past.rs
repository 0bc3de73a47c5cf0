//! Reads past the pool, for which there were no frames.

use std::io::{self, IoSliceMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::load::Extent;
use super::{ALIGNMENT, Answer, Buffer, PastRead};
use crate::PoolError;
use crate::paged_file::PagedFile;
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
}

impl Buffers for Buffer {
    fn pieces(&mut self) -> Vec<&mut [u8]> {
        vec![self.bytes_mut()]
    }
}

/// A read past the pool that keeps no thread.
pub(super) struct PastErrand {
    relation: Arc<PagedFile>,
    extent: Extent,
    /// Gone when it has ended.
    reading: Option<Reading<Buffer>>,
    answer: Arc<Answer>,
}

impl PastErrand {
    /// Of a relation that nobody writes.
    pub(super) fn new(read: PastRead, answer: Arc<Answer>) -> Self {
        let PastRead { relation, offset, len } = read;
        let mut buffer = Buffer::new(len.next_multiple_of(ALIGNMENT));
        let extent = Extent::new(&relation, offset, buffer.bytes_mut().len());
        let reading = Some(Reading::new(relation.storage().as_ref(), offset, buffer));
        Self { relation, extent, reading, answer }
    }

    fn outcome(&mut self, reading: Reading<Buffer>) -> Result<Buffer, PoolError> {
        let (answer, buffer) = reading.outcome();
        self.relation.verify_read()?;
        self.extent.check(&self.relation, answer)?;
        Ok(buffer)
    }
}

impl Errand for PastErrand {
    fn request(&mut self) -> Option<Request<'_>> {
        self.relation.check_known().ok()?;
        // Whoever waits has the answer, too.
        if Arc::strong_count(&self.answer) == 1 {
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
        if let Some(reading) = self.reading.take() {
            let outcome = self.outcome(reading);
            self.answer.set(outcome);
        }
    }
}

impl Drop for PastErrand {
    fn drop(&mut self) {
        if self.reading.take().is_some() {
            let panicked = io::Error::other("the storage panicked");
            self.answer.set(self.extent.check(&self.relation, Err(panicked)).map(|()| Buffer::new(0)));
        }
    }
}
