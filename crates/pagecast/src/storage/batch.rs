//! Several requests at once, and reads that go on until they are full.

use std::io::{self, IoSlice, IoSliceMut};

use super::{MAX_REQUEST, Storage};

/// One of several requests that are made at once.
pub struct Request<'a, 'b> {
    /// The first byte, as for a request alone.
    pub offset: u64,
    /// Which way, and from or to where.
    pub transfer: Transfer<'a, 'b>,
    /// What came of it: how many bytes, as for a request alone. Interrupted, before it was made.
    pub answer: io::Result<usize>,
}

/// Which way bytes go, and between which buffers and the file.
pub enum Transfer<'a, 'b> {
    /// From the file.
    Read(&'a mut [IoSliceMut<'b>]),
    /// Into the file.
    Write(&'a [IoSlice<'b>]),
}

impl<'a, 'b> Request<'a, 'b> {
    /// A request that has not been made.
    pub fn new(offset: u64, transfer: Transfer<'a, 'b>) -> Self {
        Self { offset, transfer, answer: Err(io::ErrorKind::Interrupted.into()) }
    }

    /// Makes it, alone.
    pub fn run(&mut self, storage: &(impl Storage + ?Sized)) {
        self.answer = match &mut self.transfer {
            Transfer::Read(bufs) => storage.read_at(self.offset, bufs),
            Transfer::Write(bufs) => storage.write_at(self.offset, bufs),
        };
    }
}

/// A read that goes on until its buffers are full or the file ends.
pub struct Reading<'a, 'b> {
    offset: u64,
    bufs: &'a mut [IoSliceMut<'b>],
    progress: Progress,
}

#[derive(Default)]
struct Progress {
    done: usize,
    ended: Option<io::Result<()>>,
}

/// The next request of a reading.
struct Step<'a> {
    offset: u64,
    /// How many bytes before it are there.
    start: usize,
    rest: Vec<IoSliceMut<'a>>,
    progress: &'a mut Progress,
}

impl<'a, 'b> Reading<'a, 'b> {
    /// A read of `bufs` from `offset` on.
    pub fn new(offset: u64, bufs: &'a mut [IoSliceMut<'b>]) -> Self {
        Self { offset, bufs, progress: Progress::default() }
    }

    /// How many bytes there were.
    pub fn outcome(self) -> io::Result<usize> {
        let wanted = self.bufs.iter().map(|buf| buf.len()).sum();
        self.progress.ended.unwrap_or(Ok(())).map(|()| self.progress.done.min(wanted))
    }

    /// What is to be asked for next; nothing if it has ended. A short answer that broke the alignment is read again
    /// from the last aligned byte.
    fn step(&mut self, len: u64, alignment: usize) -> Option<Step<'_>> {
        let wanted: usize = self.bufs.iter().map(|buf| buf.len()).sum();
        let end = len.saturating_sub(self.offset).min(wanted as u64) as usize;
        if self.progress.ended.is_some() || self.progress.done >= end {
            return None;
        }
        let start = self.progress.done - self.progress.done % alignment;
        let rest = part(self.bufs, start, MAX_REQUEST);
        Some(Step { offset: self.offset + start as u64, start, rest, progress: &mut self.progress })
    }
}

impl Step<'_> {
    fn take(self, answer: io::Result<usize>) {
        match answer {
            Ok(read) if self.start + read > self.progress.done => self.progress.done = self.start + read,
            Ok(_) => self.progress.ended = Some(Ok(())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => self.progress.ended = Some(Err(error)),
        }
    }
}

/// At most `limit` bytes of `bufs` after the first `skip`.
fn part<'a>(bufs: &'a mut [IoSliceMut<'_>], mut skip: usize, mut limit: usize) -> Vec<IoSliceMut<'a>> {
    let mut rest = Vec::with_capacity(bufs.len());
    for buf in bufs {
        let cut = skip.min(buf.len());
        skip -= cut;
        let take = limit.min(buf.len() - cut);
        limit -= take;
        if take > 0 {
            rest.push(IoSliceMut::new(&mut buf[cut..cut + take]));
        }
    }
    rest
}

/// Reads several places of a file at once, each until its buffers are full or the file ends, however the storage cuts
/// its answers.
pub fn read_all(storage: &dyn Storage, readings: &mut [Reading<'_, '_>]) {
    let alignment = storage.alignment();
    loop {
        let len = storage.len();
        let mut steps: Vec<_> = readings.iter_mut().filter_map(|reading| reading.step(len, alignment)).collect();
        if steps.is_empty() {
            return;
        }
        let mut requests: Vec<_> =
            steps.iter_mut().map(|step| Request::new(step.offset, Transfer::Read(&mut step.rest))).collect();
        storage.submit(&mut requests);
        let answers: Vec<_> = requests.into_iter().map(|request| request.answer).collect();
        steps.into_iter().zip(answers).for_each(|(step, answer)| step.take(answer));
    }
}

/// [`read_all`] of one place; how many bytes there were.
pub fn read_full(storage: &dyn Storage, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let mut reading = [Reading::new(offset, bufs)];
    read_all(storage, &mut reading);
    let [reading] = reading;
    reading.outcome()
}
