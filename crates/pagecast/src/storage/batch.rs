//! Several requests at once, each answered as it comes, and requests that go on until they are
//! done.

use std::io::{self, IoSlice, IoSliceMut};

use super::{MAX_REQUEST, Storage};

/// What is asked of a storage: one request.
pub struct Request<'a> {
    /// The first byte, as for a request alone.
    pub offset: u64,
    /// Which way, and from or to where.
    pub transfer: Transfer<'a>,
}

/// Which way bytes go, and between which buffers and the file.
pub enum Transfer<'a> {
    /// From the file.
    Read(Vec<IoSliceMut<'a>>),
    /// Into the file.
    Write(Vec<IoSlice<'a>>),
}

impl Request<'_> {
    /// Makes it, alone, and says how many bytes it came to.
    pub fn run(&mut self, storage: &(impl Storage + ?Sized)) -> io::Result<usize> {
        match &mut self.transfer {
            Transfer::Read(bufs) => storage.read_at(self.offset, bufs),
            Transfer::Write(bufs) => storage.write_at(self.offset, bufs),
        }
    }
}

/// Something that takes requests, one after the other, and owns or borrows the memory that they
/// need.
///
/// A storage may have many errands under way, one request of each. It asks for the request, makes
/// it, tells the answer, and so on until there is no further request; then it ends the errand, at
/// once, whatever others are doing.
pub trait Errand {
    /// The request to make now; the same again until it is answered. None: the errand is done.
    fn request(&mut self) -> Option<Request<'_>>;

    /// What came of the request: how many bytes, or why not.
    fn answer(&mut self, answer: io::Result<usize>);

    /// There is no further request. An errand that is dropped without this was given up: the
    /// storage panicked.
    fn end(self: Box<Self>);
}

/// Where a storage gets its errands from: the next one, or none for now.
pub type Errands<'n, 'e> = dyn FnMut() -> Option<Box<dyn Errand + 'e>> + 'n;

/// Runs an errand to its end, one request after the other.
pub(super) fn run_alone(storage: &(impl Storage + ?Sized), mut errand: Box<dyn Errand + '_>) {
    while let Some(mut request) = errand.request() {
        let answer = request.run(storage);
        drop(request);
        errand.answer(answer);
    }
    errand.end();
}

/// Memory to be filled, in pieces.
pub trait Buffers {
    /// The pieces in order; the same ones each time.
    fn pieces(&mut self) -> Vec<&mut [u8]>;
}

impl Buffers for &mut [IoSliceMut<'_>] {
    fn pieces(&mut self) -> Vec<&mut [u8]> {
        self.iter_mut().map(|buf| &mut **buf).collect()
    }
}

/// A read that goes on until its buffers are full or the file ends, however the storage cuts its
/// answers.
pub struct Reading<B> {
    offset: u64,
    /// Bytes from there to the end of the file, as it was.
    left: u64,
    alignment: usize,
    max_bytes: usize,
    buffers: B,
    progress: Progress,
}

/// How far an errand is.
#[derive(Default)]
struct Progress {
    /// Where the request under way begins, in bytes.
    start: usize,
    done: usize,
    ended: Option<io::Result<()>>,
}

impl Progress {
    /// Where the next request begins, if there are bytes before `end` and nothing has failed. A
    /// short answer that broke the alignment is asked for again from the last aligned byte.
    fn next(&mut self, end: usize, alignment: usize) -> Option<usize> {
        let goes_on = self.ended.is_none() && self.done < end;
        self.start = self.done - self.done % alignment;
        goes_on.then_some(self.start)
    }

    fn take(&mut self, answer: io::Result<usize>) {
        match answer {
            Ok(bytes) if self.start + bytes > self.done => self.done = self.start + bytes,
            Ok(_) => self.ended = Some(Ok(())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => self.ended = Some(Err(error)),
        }
    }
}

impl<B: Buffers> Reading<B> {
    /// A read into `buffers` from `offset` of `storage` on.
    pub fn new(storage: &dyn Storage, offset: u64, buffers: B) -> Self {
        let left = storage.len().saturating_sub(offset);
        let (alignment, max_bytes) = (storage.alignment(), storage.request_shape().max_bytes);
        Self { offset, left, alignment, max_bytes, buffers, progress: Progress::default() }
    }

    /// The request to make now, as of an [`Errand`].
    pub fn request(&mut self) -> Option<Request<'_>> {
        let pieces = self.buffers.pieces();
        let wanted: usize = pieces.iter().map(|piece| piece.len()).sum();
        let end = self.left.min(wanted as u64) as usize;
        let start = self.progress.next(end, self.alignment)?;
        // A direct read that goes on behind the end of its file has the rest filled with zeros, and
        // so takes memory for a whole frame where a small file needs a part of one.
        let rest = (end - start).next_multiple_of(self.alignment);
        let transfer = Transfer::Read(part(pieces, start, self.max_bytes.min(rest)));
        Some(Request { offset: self.offset + start as u64, transfer })
    }

    /// What came of the request, as of an [`Errand`].
    pub fn answer(&mut self, answer: io::Result<usize>) {
        self.progress.take(answer);
    }

    /// Where it reads into.
    pub fn buffers(&self) -> &B {
        &self.buffers
    }

    /// How many bytes there were, and the buffers.
    pub fn outcome(mut self) -> (io::Result<usize>, B) {
        let wanted = self.buffers.pieces().iter().map(|piece| piece.len()).sum();
        let done = self.progress.done.min(wanted);
        (self.progress.ended.unwrap_or(Ok(())).map(|()| done), self.buffers)
    }
}

impl<B: Buffers> Errand for &mut Reading<B> {
    fn request(&mut self) -> Option<Request<'_>> {
        Reading::request(self)
    }

    fn answer(&mut self, answer: io::Result<usize>) {
        Reading::answer(self, answer);
    }

    fn end(self: Box<Self>) {}
}

/// At most `limit` bytes of `pieces` after the first `skip`.
fn part(pieces: Vec<&mut [u8]>, mut skip: usize, mut limit: usize) -> Vec<IoSliceMut<'_>> {
    let mut rest = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let cut = skip.min(piece.len());
        skip -= cut;
        let take = limit.min(piece.len() - cut);
        limit -= take;
        if take > 0 {
            rest.push(IoSliceMut::new(&mut piece[cut..cut + take]));
        }
    }
    rest
}

/// Makes several reads at once, where the storage can.
#[cfg(all(test, not(pagecast_shuttle)))]
pub(crate) fn read_all<B: Buffers>(storage: &dyn Storage, readings: &mut [Reading<B>]) {
    let mut rest = readings.iter_mut();
    storage.serve(&mut || Some(Box::new(rest.next()?)));
}

/// Reads one place until `bufs` are full or the file ends; how many bytes there were.
pub fn read_full(storage: &dyn Storage, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let mut reading = Reading::new(storage, offset, bufs);
    run_alone(storage, Box::new(&mut reading));
    reading.outcome().0
}

/// A write that goes on until all of it is written, however the storage cuts its answers. Offset
/// and length are multiples of the storage's alignment.
pub struct Storing<'a> {
    storage: &'a dyn Storage,
    offset: u64,
    bytes: &'a [u8],
    progress: Progress,
}

impl<'a> Storing<'a> {
    /// A write of `bytes` to `offset` of `storage`.
    pub fn new(storage: &'a dyn Storage, offset: u64, bytes: &'a [u8]) -> Self {
        Self { storage, offset, bytes, progress: Progress::default() }
    }

    /// Whether all of it is written.
    pub fn outcome(self) -> io::Result<()> {
        match self.progress.ended {
            Some(Err(error)) => Err(error),
            _ if self.progress.done < self.bytes.len() => Err(io::ErrorKind::WriteZero.into()),
            _ => Ok(()),
        }
    }
}

impl Errand for &mut Storing<'_> {
    fn request(&mut self) -> Option<Request<'_>> {
        let start = self.progress.next(self.bytes.len(), self.storage.alignment())?;
        let end = self.bytes.len().min(start + MAX_REQUEST);
        let transfer = Transfer::Write(vec![IoSlice::new(&self.bytes[start..end])]);
        Some(Request { offset: self.offset + start as u64, transfer })
    }

    fn answer(&mut self, answer: io::Result<usize>) {
        self.progress.take(answer);
    }

    fn end(self: Box<Self>) {}
}

/// Makes several writes at once, where the storage can.
pub(crate) fn write_all(storage: &dyn Storage, writes: &mut [Storing<'_>]) {
    let mut rest = writes.iter_mut();
    storage.serve(&mut || Some(Box::new(rest.next()?)));
}

/// Writes all of `bytes`, however the storage cuts its answers; see `Storing`.
pub fn write_full(storage: &dyn Storage, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut write = Storing::new(storage, offset, bytes);
    run_alone(storage, Box::new(&mut write));
    write.outcome()
}
