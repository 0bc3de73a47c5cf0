//! One request as the kernel knows it: the errand that owns its memory, and how the kernel is told
//! of it. Unsafe: it keeps errands as pointers, so that nothing claims memory that the kernel uses.
//! (U1) and (U2) are of [`super::ring`].

use std::os::fd::RawFd;
use std::ptr::NonNull;

use io_uring::{opcode, squeue, types};

use super::super::{Errand, Transfer};

/// An errand and what the kernel knows of its request.
pub(super) struct Slot<'e> {
    /// From a box, and ours: a pointer, so that nothing but [`Slot::errand`] claims the memory
    /// (U1).
    errand: NonNull<dyn Errand + 'e>,
    bufs: Vec<IoVec>,
}

/// The `iovec` of the C interface.
#[repr(C)]
struct IoVec {
    base: *mut u8,
    len: usize,
}

impl<'e> Slot<'e> {
    pub(super) fn new(errand: Box<dyn Errand + 'e>) -> Self {
        Self { errand: NonNull::from(Box::leak(errand)), bufs: Vec::new() }
    }

    /// # Safety
    ///
    /// No request of it is under way.
    pub(super) unsafe fn errand(&mut self) -> &mut (dyn Errand + 'e) {
        // SAFETY: it is from a box of ours, and by the caller's promise the kernel does not use its
        // memory.
        unsafe { self.errand.as_mut() }
    }

    /// The next request, if there is one.
    ///
    /// # Safety
    ///
    /// No request of it is under way.
    pub(super) unsafe fn entry(&mut self, file: RawFd) -> Option<squeue::Entry> {
        let mut bufs = std::mem::take(&mut self.bufs);
        bufs.clear();
        // SAFETY: the caller's promise.
        let errand = unsafe { self.errand() };
        let mut request = errand.request()?;
        let is_read = match &mut request.transfer {
            Transfer::Read(read) => {
                read.iter_mut().for_each(|buf| add(&mut bufs, buf.as_mut_ptr(), buf.len()));
                true
            }
            Transfer::Write(write) => {
                write.iter().for_each(|buf| add(&mut bufs, buf.as_ptr().cast_mut(), buf.len()));
                false
            }
        };
        let offset = request.offset;
        drop(request);
        self.bufs = bufs;
        let (fd, list, count) = (types::Fd(file), self.bufs.as_ptr(), self.bufs.len() as u32);
        Some(match is_read {
            true => opcode::Readv::new(fd, list.cast(), count).offset(offset).build(),
            false => opcode::Writev::new(fd, list.cast(), count).offset(offset).build(),
        })
    }

    /// # Safety
    ///
    /// No request of it is under way.
    pub(super) unsafe fn into_errand(self) -> Box<dyn Errand + 'e> {
        let mut slot = std::mem::ManuallyDrop::new(self);
        drop(std::mem::take(&mut slot.bufs));
        // SAFETY: from `Box::leak`, and the only way back but `drop`, which does not run.
        unsafe { Box::from_raw(slot.errand.as_ptr()) }
    }
}

/// Adds a buffer to the list, to the last one where it goes on.
fn add(bufs: &mut Vec<IoVec>, base: *mut u8, len: usize) {
    match bufs.last_mut() {
        Some(last) if last.base.addr() + last.len == base.addr() => last.len += len,
        _ => bufs.push(IoVec { base, len }),
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // SAFETY: from `Box::leak`. A slot is dropped in a flight that has waited for all requests
        // (U2), or outside of one when its own is completed.
        drop(unsafe { Box::from_raw(self.errand.as_ptr()) });
    }
}
