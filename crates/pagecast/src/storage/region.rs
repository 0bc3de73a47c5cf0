//! Memory that requests read into again and again, so that the kernel may hold it for them (io_uring's registered
//! buffers: `IORING_REGISTER_BUFFERS2`, `IORING_OP_READ_FIXED`).
//!
//! A ring holds the memory behind a buffer from its registration until it lets go, whatever becomes of the addresses
//! meanwhile: a frame whose memory was given back would come up with new memory, and be read into the old. So memory is
//! held in chunks of whole frames, and given back through here. Invariants:
//!
//! * (H1) A chunk is held only if each of its frames was read into since its memory was last given back. So holding takes
//!   no memory that the pool does not use already.
//! * (H2) A frame's mark is taken off under the lock, after every holder has let go of its chunk, and its memory is given
//!   back after that; holders take hold under the lock. So what is held is what the addresses stand for.
//! * (H3) A request is made for a frame that its maker owns, by the chunk only if its ring seems to hold it. Who gives back
//!   owns the frame as well, so it is another frame of the chunk. A ring that is told to let go keeps the memory until its
//!   requests under way have ended; those that come too late find nothing in the chunk's place, fail with `EFAULT`, and are
//!   made again by address. If the chunk is held anew meanwhile, the request meets memory that is right, by (H2).
//!
//! A frame without a mark is given back without the lock. Marks are set by who owns the frame, as whoever gives it back
//! does later: the frame changing hands is what makes the mark visible, and its atomic need not be more than relaxed.
//!
//! Cost: a look at a word for each request; a lock and a system call for each chunk that a ring takes or lets go of; one
//! bit a frame, and in each ring one byte for 4 MiB.

#[cfg(all(test, pagecast_shuttle))]
mod exploration;

use std::io;
use std::ops::Range;
use std::sync::{Arc, Weak};

use super::MAX_REQUEST;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::{Mutex, unless_mistaken};

/// What a ring may have registered at once, in buffers. (`IORING_MAX_REG_BUFFERS` of the kernel.)
const MAX_CHUNKS: usize = 1 << 14;
const BITS: usize = u64::BITS as usize;

/// The memory of a pool's frames, as storage sees it: where it is, which of it is in use, and who holds it for requests.
/// A device that wants no part of it leaves it alone.
pub struct Region {
    start: usize,
    /// Bytes of a frame.
    frame: usize,
    frames: usize,
    /// Frames of a chunk; the last one may have fewer.
    chunk: usize,
    /// A mark for each frame that was read into since its memory was given back; a chunk begins with a word.
    marks: Box<[AtomicU64]>,
    holders: Mutex<Vec<Weak<dyn Holder>>>,
}

/// Who holds chunks of a region: a ring. Called under the region's lock.
pub(super) trait Holder: Send + Sync {
    /// Takes hold of a chunk, which is at these addresses.
    fn hold(&self, chunk: usize, addresses: Range<usize>) -> io::Result<()>;

    /// Holds the chunk no more as soon as the requests for it that are under way have ended.
    fn let_go(&self, chunk: usize) -> io::Result<()>;
}

impl Region {
    /// `frames` frames of `frame` bytes from the address `start` on.
    pub(crate) fn new(start: usize, frame: usize, frames: u32) -> Arc<Self> {
        let (chunk, frames) = (Self::frames_of_a_chunk(frame, frames), frames as usize);
        let words = frames.div_ceil(chunk) * chunk.div_ceil(BITS);
        let marks = (0..words).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { start, frame, frames, chunk, marks, holders: Mutex::new(Vec::new()) })
    }

    /// A request's bytes, or more where there would be too many chunks.
    fn frames_of_a_chunk(frame: usize, frames: u32) -> usize {
        (MAX_REQUEST / frame).max((frames as usize).div_ceil(MAX_CHUNKS)).max(1)
    }

    /// Bytes that the marks of `frames` frames take.
    pub(crate) fn bytes(frame: u32, frames: u32) -> u64 {
        let chunk = Self::frames_of_a_chunk(frame as usize, frames);
        ((frames as usize).div_ceil(chunk) * chunk.div_ceil(BITS) * size_of::<AtomicU64>()) as u64
    }

    pub(super) fn chunks(&self) -> usize {
        self.frames.div_ceil(self.chunk)
    }

    fn addresses(&self, chunk: usize) -> Range<usize> {
        let end = ((chunk + 1) * self.chunk).min(self.frames);
        self.start + chunk * self.chunk * self.frame..self.start + end * self.frame
    }

    /// The word and bit of a frame's mark.
    fn mark(&self, frame: usize) -> (&AtomicU64, u64) {
        let (chunk, at) = (frame / self.chunk, frame % self.chunk);
        (&self.marks[chunk * self.chunk.div_ceil(BITS) + at / BITS], 1 << (at % BITS))
    }

    /// Whether all frames of the chunk are marked.
    fn is_full(&self, chunk: usize) -> bool {
        let frames = chunk * self.chunk..((chunk + 1) * self.chunk).min(self.frames);
        frames.step_by(BITS).all(|first| {
            let count = BITS.min(self.chunk - first % self.chunk).min(self.frames - first);
            let all = u64::MAX >> (BITS - count);
            self.mark(first).0.load(Relaxed) & all == all
        })
    }

    /// Takes notice of a request for these bytes, by who owns their frames, and says in which chunk they are. None: they
    /// are of no chunk, or of several.
    pub(super) fn note(&self, bytes: Range<usize>) -> Option<usize> {
        let frame = |address: usize| address.checked_sub(self.start).map(|offset| offset / self.frame);
        let (first, last) = (frame(bytes.start)?, frame(bytes.end.checked_sub(1)?)?);
        if last >= self.frames {
            return None;
        }
        for frame in first..=last {
            let (word, bit) = self.mark(frame);
            if word.load(Relaxed) & bit == 0 {
                word.fetch_or(bit, Relaxed);
            }
        }
        (first / self.chunk == last / self.chunk).then_some(first / self.chunk)
    }

    /// Adds a holder, which holds nothing yet.
    pub(super) fn add(&self, holder: Weak<dyn Holder>) {
        let mut holders = self.holders.lock();
        holders.retain(|holder| holder.strong_count() > 0);
        holders.push(holder);
    }

    /// Lets a holder take hold of a chunk, if all of it is in use (H1). False if it is not.
    pub(super) fn hold(&self, holder: &dyn Holder, chunk: usize) -> io::Result<bool> {
        let _lock = self.holders.lock();
        if !self.is_full(chunk) {
            return Ok(false);
        }
        holder.hold(chunk, self.addresses(chunk)).map(|()| true)
    }

    /// Runs `free`, which gives the memory of a frame back that the caller owns, when nobody holds it any more. If a
    /// holder cannot let go, the frame keeps its memory.
    pub(crate) fn give_back(&self, frame: u32, free: impl FnOnce()) {
        let (word, bit) = self.mark(frame as usize);
        if word.load(Relaxed) & bit == 0 {
            return free();
        }
        let unmark = || {
            word.fetch_and(!bit, Relaxed);
        };
        let holders = self.holders.lock();
        if !Self::all_let_go(&holders, frame as usize / self.chunk) {
            return;
        }
        unless_mistaken!(UNMARKED_LATE, unmark());
        drop(holders);
        #[cfg(pagecast_shuttle)]
        if crate::sync::mistake::made(crate::sync::mistake::UNMARKED_LATE) {
            unmark();
        }
        free();
    }

    /// Nobody may hold any of it from now on: its memory goes. Its frames have no owners any more.
    pub(crate) fn close(&self) {
        let mut holders = self.holders.lock();
        for chunk in 0..self.chunks() {
            Self::all_let_go(&holders, chunk);
        }
        holders.clear();
    }

    fn all_let_go(holders: &[Weak<dyn Holder>], chunk: usize) -> bool {
        let asked = holders.iter().filter_map(Weak::upgrade).map(|holder| holder.let_go(chunk));
        // All of them are asked, whatever one says.
        asked.filter(Result::is_err).count() == 0
    }
}
