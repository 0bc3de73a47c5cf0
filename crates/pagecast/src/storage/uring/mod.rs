//! Local files through io_uring, where the kernel lets us: many requests in one system call, by few threads.
//!
//! Files are opened by the rules of [`super::local`], O_DIRECT and its fallback included. Requests that come one by one
//! (`read_at`, `write_at`) are positional; those of errands ([`Storage::serve`]) go through a ring of the calling thread's
//! own, made when it is first needed. Each answer is handed over as it comes, and another errand takes its place. A kernel
//! without io_uring, or one that forbids it (a container's filter of system calls does, often), is found out when the
//! device is made; [`Opener::describe`] says why, and requests are then positional, one after the other, by as many
//! threads as for [`LocalFiles`](super::LocalFiles).
//!
//! With [`UringFiles::registered`], the frames of a pool are registered with each ring, in chunks and as they come into
//! use, which spares the kernel looking up and holding their memory for each request anew ([`super::region`]). It counts
//! as locked memory, once for each thread that reads; a kernel that refuses more of it (`RLIMIT_MEMLOCK`, most often)
//! leaves the rest of the pool to requests by address, and `describe` says so.

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod registered;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod ring;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod slot;

use std::io::{self, IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use super::batch::run_alone;
use super::local::LocalFile;
use super::{DirectIo, Errand, Errands, Generation, LocalFiles, Opener, Storage};

/// Threads that submit to rings; each has up to [`UNDER_WAY`] requests under way.
const THREADS: u32 = 4;
/// How many requests a thread has under way: enough to share the price of a system call, and few enough to leave some to
/// the other threads.
const UNDER_WAY: usize = 16;

/// Local files, read and written through io_uring where the kernel lets us.
#[derive(Clone, Debug)]
pub struct UringFiles {
    /// Why there is no ring, as soon as that is known.
    refused: Arc<OnceLock<String>>,
    /// Whether buffers are registered, and what has become of it.
    registering: Option<Arc<Registering>>,
}

impl UringFiles {
    /// Finds out whether there is io_uring.
    pub fn new() -> Self {
        let files = Self { refused: Arc::default(), registering: None };
        thread::probe().unwrap_or_else(|error| files.refuse(&error));
        files
    }

    /// The same, with the frames of pools registered as buffers.
    pub fn registered() -> Self {
        Self { registering: Some(Arc::default()), ..Self::new() }
    }

    /// How many requests were made by registered buffers, of all files.
    pub fn registered_requests(&self) -> u64 {
        self.registering.as_ref().map_or(0, |registering| registering.requests())
    }

    /// Why requests are positional; `None` if they go through io_uring.
    pub fn refused(&self) -> Option<&str> {
        self.refused.get().map(String::as_str)
    }

    fn describe_buffers(&self) -> String {
        let refused = self.registering.as_ref().map(|registering| registering.refused());
        match refused {
            None => String::new(),
            Some(None) => ", registered buffers".to_owned(),
            Some(Some(reason)) => format!(", buffers by address because registering is refused: {reason}"),
        }
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
            None => format!("{}, io_uring{}", LocalFiles.describe(), self.describe_buffers()),
            Some(reason) => format!("{}, positional because io_uring is refused: {reason}", LocalFiles.describe()),
        }
    }
}

/// What has become of the wish for registered buffers, of all rings of a device.
#[derive(Debug, Default)]
struct Registering {
    /// Why no more of them are registered.
    refused: OnceLock<String>,
    requests: AtomicU64,
}

impl Registering {
    fn refused(&self) -> Option<&str> {
        self.refused.get().map(String::as_str)
    }

    fn refuse(&self, error: &io::Error) {
        // Whoever comes first names the reason.
        let _ = self.refused.set(error.to_string());
    }

    /// Requests that were made by registered buffers. Relaxed: a count orders nothing.
    fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    fn count(&self) {
        self.requests.fetch_add(1, Relaxed);
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

    fn serve<'e>(&self, next: &mut Errands<'_, 'e>) {
        // A file that cannot be opened again says so to each errand, below.
        if self.files.refused().is_none()
            && let Ok(file) = self.file.file()
            && let Err(broken) = thread::serve(
                &file,
                next,
                &mut |e, answer| self.settle(e, answer),
                self.files.registering.as_deref(),
            )
        {
            self.files.refuse(&broken.error);
            broken.left.into_iter().for_each(|errand| run_alone(&self.file, errand));
        }
        // After a ring has done its work there is nothing left.
        while let Some(errand) = next() {
            run_alone(&self.file, errand);
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
    use super::{Broken, Registering, Settle};

    thread_local!(static RING: Cell<Option<Ring>> = const { Cell::new(None) });

    pub(super) fn probe() -> io::Result<()> {
        Ring::new().map(drop)
    }

    /// Runs the errands. A ring that fails is closed. It is out of its place meanwhile: an errand that comes back here as
    /// it ends gets another one.
    pub(super) fn serve<'e>(
        file: &File,
        next: &mut Errands<'_, 'e>,
        settle: &mut Settle<'_>,
        registering: Option<&Registering>,
    ) -> Result<(), Broken<'e>> {
        let unmade = |error| Broken { error, left: Vec::new() };
        let mut ring = RING.take().map_or_else(Ring::new, Ok).map_err(unmade)?;
        ring.serve(file.as_fd(), next, settle, registering)?;
        RING.set(Some(ring));
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
mod thread {
    use std::fs::File;
    use std::io;

    use super::super::Errands;
    use super::{Broken, Registering, Settle};

    pub(super) fn probe() -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this system has none"))
    }

    pub(super) fn serve<'e>(
        _: &File,
        _: &mut Errands<'_, 'e>,
        _: &mut Settle<'_>,
        _: Option<&Registering>,
    ) -> Result<(), Broken<'e>> {
        probe().map_err(|error| Broken { error, left: Vec::new() })
    }
}
