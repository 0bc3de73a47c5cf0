//! Local files through io_uring, where the kernel lets us: many requests in one system call, by few threads.
//!
//! Files are opened by the rules of [`super::local`], O_DIRECT and its fallback included. Requests that come one by one
//! (`read_at`, `write_at`) are positional; those that come together ([`Storage::submit`]) go through a ring of the calling
//! thread's own, made when it is first needed. A kernel without io_uring, or one that forbids it (a container's filter of
//! system calls does, often), is found out when the device is made; [`Opener::describe`] says why, and requests are then
//! positional, one after the other, by as many threads as for [`LocalFiles`](super::LocalFiles).
//!
//! Buffers are not registered with the kernel. It would pin the memory behind them: a pool that gives memory back and
//! takes it again would read into pages that its frames do not have any more, and all of the frames would be in memory
//! from the start.

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod ring;

use std::io::{self, IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::local::LocalFile;
use super::{DirectIo, Generation, LocalFiles, Opener, Request, Storage};

/// Threads that submit to rings; each has up to [`BATCH`] requests under way.
const THREADS: u32 = 4;
/// How many requests a thread takes up at once. All are answered before the thread takes up more: enough to share the
/// price of a system call, and few enough for the first not to wait long for the last.
const BATCH: usize = 16;

/// Local files, read and written through io_uring where the kernel lets us.
#[derive(Clone, Debug)]
pub struct UringFiles {
    /// Why there is no ring, as soon as that is known.
    refused: Arc<OnceLock<String>>,
}

impl UringFiles {
    /// Finds out whether there is io_uring.
    pub fn new() -> Self {
        let files = Self { refused: Arc::default() };
        thread::probe().unwrap_or_else(|error| files.refuse(&error));
        files
    }

    /// Why requests are positional; `None` if they go through io_uring.
    pub fn refused(&self) -> Option<&str> {
        self.refused.get().map(String::as_str)
    }

    fn refuse(&self, error: &io::Error) {
        // Whoever comes first names the reason.
        let _ = self.refused.set(error.to_string());
    }
}

impl Default for UringFiles {
    fn default() -> Self {
        Self::new()
    }
}

impl Opener for UringFiles {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(UringFile { file: LocalFile::open(path)?, files: self.clone() }))
    }

    fn open_to_write(&self, path: &Path, create: bool) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(UringFile { file: LocalFile::open_to_write(path, create)?, files: self.clone() }))
    }

    fn threads(&self) -> u32 {
        if self.refused().is_none() { THREADS } else { LocalFiles.threads() }
    }

    fn describe(&self) -> String {
        match self.refused() {
            None => format!("{}, io_uring", LocalFiles.describe()),
            Some(reason) => format!("{}, positional because io_uring is refused: {reason}", LocalFiles.describe()),
        }
    }
}

struct UringFile {
    file: LocalFile,
    files: UringFiles,
}

impl UringFile {
    /// Makes the requests through the thread's ring, or says that it cannot.
    fn through_ring(&self, requests: &mut [Request<'_, '_>]) -> bool {
        if self.files.refused().is_some() {
            return false;
        }
        let run = thread::run(self.file.file(), requests);
        run.as_ref().unwrap_or_else(|error| {
            self.files.refuse(error);
            &()
        });
        run.is_ok()
    }
}

impl Storage for UringFile {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn generation(&self) -> Generation {
        self.file.generation()
    }

    fn current(&self) -> io::Result<Generation> {
        self.file.current()
    }

    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.file.read_at(offset, bufs)
    }

    fn alignment(&self) -> usize {
        self.file.alignment()
    }

    fn batch(&self) -> usize {
        if self.files.refused().is_none() { BATCH } else { 1 }
    }

    fn submit(&self, requests: &mut [Request<'_, '_>]) {
        // For one alone the shorter way.
        let made = requests.len() > 1 && self.through_ring(requests);
        for request in requests {
            // What a direct file refuses goes the way of positional requests, which know what to do.
            let is_refused = |error: &io::Error| error.kind() == io::ErrorKind::InvalidInput;
            let is_unanswered = |error: &io::Error| !made && error.kind() == io::ErrorKind::Interrupted;
            match &request.answer {
                Err(error) if is_refused(error) || is_unanswered(error) => request.run(&self.file),
                Ok(bytes) => self.file.transferred(&request.transfer, request.offset, *bytes),
                Err(_) => {}
            }
        }
    }

    fn direct(&self) -> DirectIo {
        self.file.direct()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn is_writable(&self) -> bool {
        self.file.is_writable()
    }

    fn write_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.file.write_at(offset, bufs)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
}

/// The ring of each thread.
#[cfg(target_os = "linux")]
mod thread {
    use std::cell::RefCell;
    use std::fs::File;
    use std::io;
    use std::os::fd::AsFd;

    use super::super::Request;
    use super::ring::Ring;

    thread_local!(static RING: RefCell<Option<Ring>> = const { RefCell::new(None) });

    pub(super) fn probe() -> io::Result<()> {
        Ring::new().map(drop)
    }

    /// Makes the requests. A ring that fails is closed.
    pub(super) fn run(file: &File, requests: &mut [Request<'_, '_>]) -> io::Result<()> {
        RING.with_borrow_mut(|mine| {
            let mut ring = mine.take().map_or_else(Ring::new, Ok)?;
            ring.run(file.as_fd(), requests)?;
            *mine = Some(ring);
            Ok(())
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod thread {
    use std::fs::File;
    use std::io;

    use super::super::Request;

    pub(super) fn probe() -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this system has none"))
    }

    pub(super) fn run(_file: &File, _requests: &mut [Request<'_, '_>]) -> io::Result<()> {
        probe()
    }
}
