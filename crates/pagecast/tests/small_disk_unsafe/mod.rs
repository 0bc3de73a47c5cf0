//! A disk that is full soon. The only unsafe code of this test.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Mounts a file system in memory, of so many bytes, on an empty folder. Only the calling thread
/// and those that it starts see it, and it goes with the last of them.
pub(crate) fn mount(folder: &Path, bytes: u64) -> io::Result<()> {
    let done = |answer| if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: takes no pointers; std shares no state with the kernel that a thread's own mounts
    // would upset.
    done(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    let (nothing, root) = (std::ptr::null(), c"/".as_ptr());
    // SAFETY: a word that lives for ever, and no other pointers. What is mounted from here on is
    // not seen elsewhere.
    done(unsafe { libc::mount(c"none".as_ptr(), root, nothing, libc::MS_REC | libc::MS_PRIVATE, nothing.cast()) })?;
    let (folder, options) = (CString::new(folder.as_os_str().as_bytes())?, CString::new(format!("size={bytes}"))?);
    let kind = c"tmpfs".as_ptr();
    // SAFETY: all of these words live during the call.
    done(unsafe { libc::mount(kind, folder.as_ptr(), kind, 0, options.as_ptr().cast()) })
}
