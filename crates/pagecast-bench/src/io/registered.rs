//! What buffers that are registered with the kernel are worth: one ring, no pool. The only unsafe code of this benchmark.
//!
//! The same random reads into the same 64 MiB, 16 under way, once by addresses, which the kernel looks up and holds for
//! each request anew, and once by buffers of 2 MiB that it holds from the start.

use std::fs::OpenOptions;
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, types};
use pagecast_core::random::Random;
use rustix::fs::OFlags;

const MEMORY: usize = 64 << 20;
const BUFFER: usize = 2 << 20;
const UNDER_WAY: usize = 16;

/// Memory to read into. It is never given back and nobody looks at it, so that the kernel may write to it whenever it
/// likes: no request has to be waited for.
pub(crate) struct Memory(*mut u8);

impl Memory {
    pub(crate) fn new() -> Self {
        let bytes = vec![1u8; MEMORY + BUFFER].leak();
        let aligned = bytes.as_mut_ptr().align_offset(BUFFER).min(BUFFER);
        Self(bytes.as_mut_ptr().wrapping_add(aligned))
    }

    /// One of the places for a request, of which each has its own.
    fn place(&self, request: usize, turn: u32, page_size: usize) -> *mut u8 {
        let turns = MEMORY / page_size / UNDER_WAY;
        self.0.wrapping_add((turn as usize % turns * UNDER_WAY + request) * page_size)
    }
}

/// Reads random pages for as long as `length`, and says how many.
pub(crate) fn run(
    memory: &Memory,
    path: &Path,
    page_size: u32,
    registered: bool,
    seed: u64,
    length: Duration,
) -> io::Result<u64> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path)?;
    let pages = u32::try_from(file.metadata()?.len() / u64::from(page_size)).unwrap_or(u32::MAX);
    let mut ring = IoUring::new(UNDER_WAY as u32)?;
    if registered {
        let buffers: Vec<_> = (0..MEMORY / BUFFER).map(|i| slice(memory.0.wrapping_add(i * BUFFER), BUFFER)).collect();
        // SAFETY: an `IoSliceMut` is an `iovec`, by the promise of std.
        let buffers = unsafe { std::slice::from_raw_parts(buffers.as_ptr().cast(), buffers.len()) };
        // SAFETY: the memory stays for ever.
        unsafe { ring.submitter().register_buffers(buffers) }?;
    }
    let (fd, size, mut random) = (types::Fd(file.as_raw_fd()), page_size as usize, Random::new(seed));
    let mut lists: [_; UNDER_WAY] = std::array::from_fn(|_| slice(memory.0, 0));
    let (begin, mut reads, mut idle) = (Instant::now(), 0, (0..UNDER_WAY).collect::<Vec<_>>());
    while begin.elapsed() < length {
        for request in idle.drain(..) {
            let place = memory.place(request, random.below(1 << 20), size);
            let offset = u64::from(random.below(pages)) * u64::from(page_size);
            let buffer = (place.addr() - memory.0.addr()) / BUFFER;
            let entry = if registered {
                opcode::ReadFixed::new(fd, place, page_size, buffer as u16).offset(offset).build()
            } else {
                lists[request] = slice(place, size);
                opcode::Readv::new(fd, (&raw mut lists[request]).cast(), 1).offset(offset).build()
            };
            // SAFETY: the memory stays for ever, and the kernel has read the list when the request is submitted.
            unsafe { ring.submission().push(&entry.user_data(request as u64)) }
                .map_err(|_| io::Error::other("the ring is full"))?;
        }
        ring.submit_and_wait(1)?;
        for completion in ring.completion() {
            if completion.result() != page_size as i32 {
                return Err(io::Error::other(format!("a read came to {}", completion.result())));
            }
            reads += 1;
            idle.push(completion.user_data() as usize);
        }
    }
    Ok(reads)
}

fn slice(start: *mut u8, len: usize) -> IoSliceMut<'static> {
    // SAFETY: within the memory, which stays for ever; nobody looks at the bytes.
    IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(start, len) })
}
