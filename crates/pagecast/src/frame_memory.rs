//! The bytes of the frames: one anonymous mapping, cut into pages. The only module of the pool with unsafe code.
//!
//! Who may touch which bytes is decided by the tokens of [`crate::cache`]: an [`Owned`] is the only one of its frame and
//! excludes every [`Held`] of it; a [`Held`] excludes an [`Owned`]. The functions here turn tokens into slices.

use std::io;
use std::ptr::{NonNull, null_mut};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::cache::{Held, Owned};

/// Memory for `frames` pages, each aligned to 4096 bytes, zero at first and taken from the system when first touched.
pub(crate) struct FrameMemory {
    base: NonNull<u8>,
    bytes: usize,
    page_size: usize,
    frames: u32,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread.
unsafe impl Send for FrameMemory {}
// SAFETY: shared access hands out slices by token only; the tokens exclude a writer beside anyone else.
unsafe impl Sync for FrameMemory {}

impl FrameMemory {
    /// Maps the memory. `page_size` is a multiple of 4096, neither factor is 0.
    pub(crate) fn new(frames: u32, page_size: u32) -> io::Result<Self> {
        let page_size = page_size as usize;
        let too_large = || io::Error::new(io::ErrorKind::OutOfMemory, "more than this machine can address");
        let bytes =
            page_size.checked_mul(frames as usize).filter(|&n| n <= isize::MAX as usize).ok_or_else(too_large)?;
        // SAFETY: no address is asked for, so that no existing mapping is replaced.
        let base = unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(too_large)?;
        Ok(Self { base, bytes, page_size, frames })
    }

    #[inline]
    fn page(&self, frame: u32) -> NonNull<u8> {
        assert!(frame < self.frames, "frame {frame} is of another pool");
        // SAFETY: the frame is below their number, so the offset is within the mapping, which is below isize::MAX.
        unsafe { self.base.add(frame as usize * self.page_size) }
    }

    /// The page that is pinned.
    #[inline]
    pub(crate) fn read<'a>(&'a self, held: &'a Held) -> &'a [u8] {
        let page = self.page(held.index());
        // SAFETY: within the mapping and initialised (by the system to zero). While `held` exists the frame is resident
        // with a pin, so that no `Owned` of it exists and nobody writes; what was written before is visible by the
        // Acquire of the pin.
        unsafe { std::slice::from_raw_parts(page.as_ptr(), self.page_size) }
    }

    /// The page that is being filled.
    pub(crate) fn write<'a>(&'a self, owned: &'a mut Owned) -> &'a mut [u8] {
        let page = self.page(owned.index());
        // SAFETY: within the mapping and initialised. `owned` is the frame's only token, and it is borrowed mutably for
        // as long as the slice lives; those who read the page before are done by the Acquire of the claim.
        unsafe { std::slice::from_raw_parts_mut(page.as_ptr(), self.page_size) }
    }
}

impl Drop for FrameMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and every slice of it borrowed this value. A refusal would leak memory only.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
