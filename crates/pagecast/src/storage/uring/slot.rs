//! One request as the kernel knows it: the errand that owns its memory, and how the kernel is told of it. Unsafe: it keeps
//! errands as pointers, so that nothing claims memory that the kernel uses. (U1) and (U2) are of [`super::ring`].

use std::io;
use std::ops::Range;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;

use io_uring::{opcode, squeue, types};
use rustix::io::Errno;

use super::super::{Errand, Region, Transfer};
use super::Registering;

/// An errand and what the kernel knows of its request.
pub(super) struct Slot<'e> {
    /// From a box, and ours: a pointer, so that nothing but [`Slot::errand`] claims the memory (U1).
    errand: NonNull<dyn Errand + 'e>,
    bufs: Vec<IoVec>,
    way: Way,
}

/// How a request tells the kernel its memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Address,
    /// By a buffer that the ring has registered.
    Buffer,
    /// By address, because the buffer had gone when the request came (H3).
    Again,
}

/// The `iovec` of the C interface.
#[repr(C)]
pub(super) struct IoVec {
    pub(super) base: *mut u8,
    pub(super) len: usize,
}

impl IoVec {
    pub(super) fn addresses(&self) -> Range<usize> {
        self.base.addr()..self.base.addr() + self.len
    }
}

impl<'e> Slot<'e> {
    pub(super) fn new(errand: Box<dyn Errand + 'e>) -> Self {
        Self { errand: NonNull::from(Box::leak(errand)), bufs: Vec::new(), way: Way::Address }
    }

    /// # Safety
    ///
    /// No request of it is under way.
    pub(super) unsafe fn errand(&mut self) -> &mut (dyn Errand + 'e) {
        // SAFETY: it is from a box of ours, and by the caller's promise the kernel does not use its memory.
        unsafe { self.errand.as_mut() }
    }

    /// The next request, if there is one. `buffer` says which of the ring's buffers has these bytes of the region, if any.
    ///
    /// # Safety
    ///
    /// No request of it is under way.
    pub(super) unsafe fn entry(
        &mut self,
        file: RawFd,
        buffer: impl FnOnce(&Arc<Region>, &[IoVec]) -> Option<u16>,
    ) -> Option<squeue::Entry> {
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
        let buffer = errand.region().and_then(|region| buffer(region, &bufs)).filter(|_| self.way != Way::Again);
        self.bufs = bufs;
        let (fd, list, count) = (types::Fd(file), self.bufs.as_ptr(), self.bufs.len() as u32);
        if let (Some(buffer), [all]) = (buffer, &self.bufs[..]) {
            self.way = Way::Buffer;
            let (base, len) = (all.base, all.len as u32);
            return Some(match is_read {
                true => opcode::ReadFixed::new(fd, base, len, buffer).offset(offset).build(),
                false => opcode::WriteFixed::new(fd, base, len, buffer).offset(offset).build(),
            });
        }
        Some(match is_read {
            true => opcode::Readv::new(fd, list.cast(), count).offset(offset).build(),
            false => opcode::Writev::new(fd, list.cast(), count).offset(offset).build(),
        })
    }

    /// Takes notice of an answer, and says whether the errand is to have it; else the request is to be made again.
    pub(super) fn take(&mut self, answer: &io::Result<usize>, registering: Option<&Registering>) -> bool {
        let is_fault = |error: &io::Error| error.raw_os_error() == Some(Errno::FAULT.raw_os_error());
        match (self.way, answer) {
            (Way::Buffer, Err(error)) if is_fault(error) => {
                self.way = Way::Again;
                return false;
            }
            (Way::Buffer, _) => registering.into_iter().for_each(Registering::count),
            _ => {}
        }
        self.way = Way::Address;
        true
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
        Some(last) if last.addresses().end == base.addr() => last.len += len,
        _ => bufs.push(IoVec { base, len }),
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // SAFETY: from `Box::leak`. A slot is dropped in a flight that has waited for all requests (U2), or outside of
        // one when its own is completed.
        drop(unsafe { Box::from_raw(self.errand.as_ptr()) });
    }
}
