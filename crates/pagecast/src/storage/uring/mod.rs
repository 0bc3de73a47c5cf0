//! Local files through io_uring, where the kernel lets us: many requests in one system call, by few
//! threads.
//!
//! Files are opened by the rules of [`super::local`], O_DIRECT and its fallback included. Requests
//! that come one by one (`read_at`, `write_at`) are positional; those of errands
//! ([`Storage::serve`]) go through a ring of the calling thread's own, made when it is first
//! needed. Each answer is handed over as it comes, and another errand takes its place. A kernel
//! without io_uring, or one that forbids it (a container's filter of system calls does, often), is
//! found out when the device is made; [`Opener::describe`] says why, and requests are then
//! positional, one after the other, by as many threads as for [`LocalFiles`](super::LocalFiles).

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod ring;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod slot;

use std::io::{self, IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::batch::run_alone;
use super::forward::forward;
use super::local::LocalFile;
use super::{Errand, Errands, LocalFiles, Opener, Storage};

/// Threads that submit to rings; each has up to [`UNDER_WAY`] requests under way.
const THREADS: u32 = 4;
/// How many requests a thread has under way: enough to share the price of a system call, and few
/// enough to leave some to the other threads.
const UNDER_WAY: usize = 16;

/// Local files, read and written through io_uring where the kernel lets us.
#[derive(Clone, Debug)]
pub(crate) struct UringFiles {
    /// Why there is no ring, as soon as that is known.
    refused: Arc<OnceLock<String>>,
}

impl UringFiles {
    /// Finds out whether there is io_uring.
    pub(crate) fn new() -> Self {
        let files = Self { refused: Arc::default() };
        thread::probe().unwrap_or_else(|error| files.refuse(&error));
        files
    }

    /// Why requests are positional; `None` if they go through io_uring.
    pub(crate) fn refused(&self) -> Option<&str> {
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

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        LocalFiles.make_folder(path)
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
    /// What a direct file refuses goes the way of positional requests, which know what to do.
    fn settle(&self, errand: &mut (dyn Errand + '_), answer: io::Result<usize>) -> io::Result<usize> {
        let Some(mut request) = errand.request() else { return answer };
        match answer {
            Ok(bytes) => {
                self.file.transferred(&request, bytes);
                Ok(bytes)
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => request.run(&self.file),
            Err(error) => Err(error),
        }
    }
}

impl Storage for UringFile {
    forward!(file);

    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.file.read_at(offset, bufs)
    }

    fn serve<'e>(&self, next: &mut Errands<'_, 'e>) {
        // A file that cannot be opened again says so to each errand, below.
        if self.files.refused().is_none()
            && let Ok(file) = self.file.file()
            && let Err(broken) = thread::serve(&file, next, &mut |e, answer| self.settle(e, answer))
        {
            self.files.refuse(&broken.error);
            broken.left.into_iter().for_each(|errand| run_alone(&self.file, errand));
        }
        // After a ring has done its work there is nothing left.
        while let Some(errand) = next() {
            run_alone(&self.file, errand);
        }
    }

    fn write_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.file.write_at(offset, bufs)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

/// A ring that failed: why, and what it had not done.
struct Broken<'e> {
    error: io::Error,
    left: Vec<Box<dyn Errand + 'e>>,
}

/// What becomes of an answer before the errand gets it.
type Settle<'s> = dyn FnMut(&mut (dyn Errand + '_), io::Result<usize>) -> io::Result<usize> + 's;

/// The ring of each thread.
#[cfg(target_os = "linux")]
mod thread {
    use std::cell::Cell;
    use std::fs::File;
    use std::io;
    use std::os::fd::AsFd;

    use super::super::Errands;
    use super::ring::Ring;
    use super::{Broken, Settle};

    thread_local!(static RING: Cell<Option<Ring>> = const { Cell::new(None) });

    pub(super) fn probe() -> io::Result<()> {
        Ring::new().map(drop)
    }

    /// Runs the errands. A ring that fails is closed. It is out of its place meanwhile: an errand
    /// that comes back here as it ends gets another one.
    pub(super) fn serve<'e>(
        file: &File,
        next: &mut Errands<'_, 'e>,
        settle: &mut Settle<'_>,
    ) -> Result<(), Broken<'e>> {
        let unmade = |error| Broken { error, left: Vec::new() };
        let mut ring = RING.take().map_or_else(Ring::new, Ok).map_err(unmade)?;
        ring.serve(file.as_fd(), next, settle)?;
        RING.set(Some(ring));
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
mod thread {
    use std::fs::File;
    use std::io;

    use super::super::Errands;
    use super::{Broken, Settle};

    pub(super) fn probe() -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this system has none"))
    }

    pub(super) fn serve<'e>(_: &File, _: &mut Errands<'_, 'e>, _: &mut Settle<'_>) -> Result<(), Broken<'e>> {
        probe().map_err(|error| Broken { error, left: Vec::new() })
    }
}
