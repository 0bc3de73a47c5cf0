//! The device below stores that open their files themselves: whoever reads a file by `pread64`, as
//! `std::os::unix::fs::FileExt` does, reads the real device, or waits first as long as a declared
//! one takes for as many bytes. The definition here goes before the C library's. The only unsafe
//! code of this benchmark.
//!
//! The real device: what the operating system's cache has of these bytes is dropped before they are
//! read, and it reads nothing ahead. So no store has more memory than another. Bytes that were
//! written and are not on the device yet cannot be dropped: they come from the cache.
//!
//! pagecast reads by system calls without the C library: past that cache, or from a device of its
//! own with the same model.

use std::io::IoSliceMut;
use std::path::Path;
use std::sync::Arc;
use std::sync::{PoisonError, RwLock};

use pagecast::storage::{DeclaredModel, Device, MemoryFiles, Storage};

/// The most bytes of a read whose time is known.
const MOST: usize = 1 << 20;
/// What the operating system's cache holds together at most: of a part of that it drops nothing.
const FOLIO: libc::off64_t = 2 << 20;

/// A file on the declared device, as long as the largest read; none for the real one.
static SLOW: RwLock<Option<Arc<dyn Storage>>> = RwLock::new(None);

/// From now on reads take as long as on this device, or are of the real one.
pub fn declare(model: Option<DeclaredModel>) {
    let slow = model.map(|model| {
        let files = MemoryFiles::new();
        files.write("slow", vec![0; MOST]);
        Device::new(files, Some(model)).open(Path::new("slow")).expect("it was written")
    });
    *SLOW.write().unwrap_or_else(PoisonError::into_inner) = slow;
}

/// Reads from a file: from the device, or no earlier than the declared one allows.
///
/// # Safety
///
/// As `pread64(2)`: `memory` is that of `count` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pread64(
    file: libc::c_int,
    memory: *mut libc::c_void,
    count: libc::size_t,
    offset: libc::off64_t,
) -> libc::ssize_t {
    let slow = SLOW.read().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(slow) = slow {
        // Only the time counts.
        let mut bytes = vec![0; count.min(MOST)];
        slow.read_at(0, &mut [IoSliceMut::new(&mut bytes)]).expect("it is in memory");
    } else {
        let first = offset / FOLIO * FOLIO;
        let bytes = (offset - first + count as libc::off64_t + FOLIO - 1) / FOLIO * FOLIO;
        // SAFETY: advice about a file has no memory; of what is no file it is refused.
        unsafe {
            libc::posix_fadvise64(file, 0, 0, libc::POSIX_FADV_RANDOM);
            libc::posix_fadvise64(file, first, bytes, libc::POSIX_FADV_DONTNEED);
        }
    }
    // SAFETY: the caller's own arguments, by which the system call answers as the function does.
    let read = unsafe { libc::syscall(libc::SYS_pread64, file, memory, count, offset) };
    read as libc::ssize_t
}
