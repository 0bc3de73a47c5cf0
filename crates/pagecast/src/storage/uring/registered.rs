//! What a ring holds of a pool's memory as registered buffers. Unsafe: it gives addresses to the kernel.
//!
//! A ring has one buffer for each chunk of one region ([`Region`]): the first that it meets, until that one is gone, since
//! a thread that reads for a pool reads for no other. A chunk's buffer is empty until a request for it comes that finds
//! the whole chunk in use. What other regions or pieces of several chunks ask for goes by address, as if nothing were
//! registered. Who gives memory back empties the buffer from its own thread: the kernel takes registrations from any.

use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use io_uring::IoUring;

use super::super::region::{Holder, Region};
use super::Registering;
use super::slot::IoVec;

/// The buffers of a ring.
pub(super) struct Registration {
    ring: Arc<IoUring>,
    region: Weak<Region>,
    /// Which chunks have a buffer. Written under the region's lock; an old value read without it costs a request that is
    /// made twice, or one that is made by address (H3).
    held: Box<[AtomicBool]>,
}

impl Registration {
    /// Room for all chunks of `region`, and none of them.
    fn new(ring: &Arc<IoUring>, region: &Arc<Region>) -> io::Result<Arc<Self>> {
        let chunks = region.chunks();
        ring.submitter().register_buffers_sparse(chunks as u32)?;
        let held = (0..chunks).map(|_| AtomicBool::new(false)).collect();
        let new = Arc::new(Self { ring: ring.clone(), region: Arc::downgrade(region), held });
        let holder: Weak<Self> = Arc::downgrade(&new);
        region.add(holder);
        Ok(new)
    }

    fn is_of(&self, region: &Arc<Region>) -> bool {
        // The address is not used again as long as there is a weak pointer to it.
        std::ptr::eq(self.region.as_ptr(), Arc::as_ptr(region))
    }

    fn update(&self, chunk: usize, addresses: Range<usize>) -> io::Result<()> {
        let buffer = IoVec { base: std::ptr::without_provenance_mut(addresses.start), len: addresses.len() };
        let buffers = (&raw const buffer).cast();
        // SAFETY: an `IoVec` is an `iovec`; it lives during the call, which copies it.
        let buffers = unsafe { std::slice::from_raw_parts(buffers, 1) };
        // SAFETY: the kernel holds the memory itself, whatever becomes of the addresses. It touches it only for requests
        // whose bytes their maker has lent it (U1), and these are at the same addresses (H2).
        unsafe { self.ring.submitter().register_buffers_update(chunk as u32, buffers, None) }
    }
}

impl Holder for Registration {
    fn hold(&self, chunk: usize, addresses: Range<usize>) -> io::Result<()> {
        self.update(chunk, addresses)?;
        self.held[chunk].store(true, Relaxed);
        Ok(())
    }

    fn let_go(&self, chunk: usize) -> io::Result<()> {
        if self.held[chunk].load(Relaxed) {
            self.update(chunk, 0..0)?;
            self.held[chunk].store(false, Relaxed);
        }
        Ok(())
    }
}

/// The ring's buffer that has all of `bufs`, which are of `region`, if there is one or it can be registered now.
pub(super) fn buffer_of(
    ring: &Arc<IoUring>,
    registration: &mut Option<Arc<Registration>>,
    registering: &Registering,
    region: &Arc<Region>,
    bufs: &[IoVec],
) -> Option<u16> {
    let mut chunk = None;
    for buf in bufs {
        chunk = region.note(buf.addresses());
    }
    let chunk = chunk.filter(|_| bufs.len() == 1)?;
    let may_register = registering.refused().is_none();
    let is_held = hold(ring, registration, region, chunk, may_register).unwrap_or_else(|error| {
        registering.refuse(&error);
        false
    });
    is_held.then_some(chunk as u16)
}

/// Whether the ring holds the chunk, or can take hold of it now.
fn hold(
    ring: &Arc<IoUring>,
    registration: &mut Option<Arc<Registration>>,
    region: &Arc<Region>,
    chunk: usize,
    may_register: bool,
) -> io::Result<bool> {
    if registration.as_ref().is_some_and(|old| old.region.strong_count() == 0) {
        *registration = None;
        ring.submitter().unregister_buffers()?;
    }
    let ours = match registration {
        Some(ours) => ours,
        None if may_register => registration.insert(Registration::new(ring, region)?),
        None => return Ok(false),
    };
    if !ours.is_of(region) || ours.held[chunk].load(Relaxed) {
        return Ok(ours.is_of(region));
    }
    Ok(may_register && region.hold(ours.as_ref(), chunk)?)
}
