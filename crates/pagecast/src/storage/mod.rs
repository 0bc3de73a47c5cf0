//! Where pages come from: one small blocking trait, and its implementations.
//!
//! A wrapper or a test double is a few lines, so that failing, slow and changing storage can be put
//! under the same pool that reads real files.

mod batch;
mod declared;
mod descriptors;
mod device;
mod fault;
mod forward;
mod generation;
mod local;
mod memory;
#[cfg(feature = "object-store")]
mod objects;
mod uring;

use std::io::{self, IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::Arc;

#[cfg(all(test, not(pagecast_shuttle)))]
pub(crate) use batch::read_all;
pub(crate) use batch::{Buffers, Reading, Storing, write_all};
pub use batch::{Errand, Errands, Request, Transfer, read_full, write_full};
pub use declared::DeclaredModel;
pub use device::{Device, DeviceStats};
pub use fault::{Fault, FaultStorage, Faults, WriteFault};
pub use generation::{Changed, Generation};
pub use local::LocalFiles;
pub use memory::MemoryFiles;
#[cfg(feature = "object-store")]
pub use objects::{
    FaultStore, MeteredStore, ObjectFault, ObjectOptions, Objects, StoreModel, StoreRequests, StoreStats,
    store_message, without_secrets,
};
use uring::UringFiles;

use crate::PoolError;

/// The most bytes that one request reads or writes, unless its storage takes longer ones
/// ([`RequestShape`]). A storage opened through a device answers a longer one with this much.
pub const MAX_REQUEST: usize = 4 << 20;

/// Whether reads go to the device itself or through the operating system's cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirectIo {
    /// The operating system keeps no copy.
    Direct,
    /// The operating system caches what is read, too.
    Buffered {
        /// Why not directly.
        reason: String,
    },
}

/// Which requests a storage answers with profit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestShape {
    /// The most bytes that one request reads.
    pub max_bytes: usize,
    /// A request reads over as many bytes that nobody wants, rather than that there are two: what
    /// lies far away answers late, however short the request. 0: only neighbours are one request.
    pub max_gap: usize,
}

impl Default for RequestShape {
    fn default() -> Self {
        Self { max_bytes: MAX_REQUEST, max_gap: 0 }
    }
}

/// Opens files by name.
pub trait Opener: Send + Sync {
    /// Opens the file as it is now.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Storage>>;

    /// Opens the file to be written too, alone; with `create`, makes an empty one if there is none.
    /// Then its name is safe from a crash when this returns, also if an earlier process made it.
    fn open_to_write(&self, path: &Path, create: bool) -> io::Result<Arc<dyn Storage>> {
        let _ = (path, create);
        Err(io::Error::new(io::ErrorKind::Unsupported, format!("{} cannot be written", self.describe())))
    }

    /// Makes the folder, and those above it that are missing, if it is not there. The names of all
    /// of them are safe from a crash when this returns. Nothing to do where files have no folders.
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        let _ = path;
        Ok(())
    }

    /// How many threads make requests with profit.
    fn threads(&self) -> u32 {
        DeclaredModel::OUTSTANDING
    }

    /// One line for reports: "local files, O_DIRECT".
    fn describe(&self) -> String;
}

/// One open file of a device. Calls block, and may come from many threads at once.
///
/// A file that was opened to be read is one fixed generation. One that was opened to be written
/// changes by our own writes, and stays the same file for as long as its name stands for it. Who
/// implements only reading leaves out the last four methods.
pub trait Storage: Send + Sync {
    /// The name it was opened by.
    fn path(&self) -> &Path;

    /// What was opened.
    fn generation(&self) -> Generation;

    /// What the name stands for now.
    fn current(&self) -> io::Result<Generation>;

    /// Fills `bufs` from `offset` on, in order, and says how many bytes it read. Fewer than asked
    /// for is allowed; 0 means that the file ends at `offset`. One call is one request to the
    /// device.
    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// The power of two of which offsets and buffer addresses and lengths must be multiples.
    fn alignment(&self) -> usize {
        1
    }

    /// Which requests it answers with profit.
    fn request_shape(&self) -> RequestShape {
        RequestShape::default()
    }

    /// Runs the errands that `next` hands out, as many at the same time as the storage can, until
    /// it has none and all have ended. Asks for more whenever one has ended, and before it waits
    /// for others. Requests may be made in any order.
    fn serve<'e>(&self, next: &mut Errands<'_, 'e>) {
        while let Some(errand) = next() {
            batch::run_alone(self, errand);
        }
    }

    /// Whether [`start`](Self::start) leaves the caller its thread.
    fn starts_errands(&self) -> bool {
        false
    }

    /// Begins an errand that goes on while its caller does other things; it may end in any thread.
    /// Waits first while as many are under way as the storage wants. Who does not say
    /// [`starts_errands`](Self::starts_errands) runs it to its end.
    fn start(self: Arc<Self>, errand: Box<dyn Errand + Send>) {
        batch::run_alone(self.as_ref(), errand);
    }

    /// Whether the operating system's cache is in the way.
    fn direct(&self) -> DirectIo;

    /// Bytes, our own writes included.
    fn len(&self) -> u64 {
        self.generation().size()
    }

    /// Whether there are no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fails with [`PoolError::Changed`] unless the name still stands for what was opened. Of a
    /// file that we write this is the same file, no shorter than we made it.
    fn verify_unchanged(&self) -> Result<(), PoolError> {
        // Before the look at the file: another thread may make it longer right after that.
        let len = self.len();
        let how = match self.current() {
            Ok(now) if now == self.generation() => return Ok(()),
            Ok(now) if self.is_writable() && self.generation().is_grown_to(&now, len) => return Ok(()),
            Ok(now) => self.generation().difference(&now),
            Err(error) if error.kind() == io::ErrorKind::NotFound => "it was removed".to_owned(),
            Err(error) => return Err(PoolError::io(self.path(), 0, 0, error)),
        };
        Err(PoolError::Changed { path: self.path().to_owned(), how })
    }

    /// Whether each answer to a read is compared with the generation that was opened, so that
    /// nobody needs to look at the name again: a read of another content fails with [`Changed`].
    fn compares_reads(&self) -> bool {
        false
    }

    /// Whether a copy of its pages on a device of this machine may stand for them: reading them
    /// costs so much more that a copy may be worth its write, and name and generation tell its
    /// content from any other for good, also after this process.
    fn may_be_copied(&self) -> bool {
        false
    }

    /// Whether it was opened to be written.
    fn is_writable(&self) -> bool {
        false
    }

    /// Writes `bufs` from `offset` on, in order, and says how many bytes it wrote: at least one,
    /// but fewer than given is allowed. What is written beyond the end makes the file longer.
    /// Nothing is safe from a crash before [`sync`](Self::sync) has returned; until then, any part
    /// of it may be on the device. One call is one request.
    fn write_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let _ = (offset, bufs);
        Err(read_only())
    }

    /// Makes all that was written before the call, and the length, safe from a crash. After a
    /// failure nobody knows what is on the device, and a second call that succeeds does not change
    /// that.
    fn sync(&self) -> io::Result<()> {
        Err(read_only())
    }

    /// Makes the file `len` bytes long; what is added reads as zeros.
    fn set_len(&self, len: u64) -> io::Result<()> {
        let _ = len;
        Err(read_only())
    }

    /// The same for a file that is to have its room on the device from now on: where the system can
    /// promise it, later writes within `len` bytes do not fail for want of room.
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}

fn read_only() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "the file was opened to be read only")
}

/// The first `limit` bytes of `bufs`.
fn head<'a>(bufs: &'a mut [IoSliceMut<'_>], mut limit: usize) -> Vec<IoSliceMut<'a>> {
    let mut first = Vec::with_capacity(bufs.len());
    for buf in bufs {
        let take = limit.min(buf.len());
        limit -= take;
        if take > 0 {
            first.push(IoSliceMut::new(&mut buf[..take]));
        }
    }
    first
}

/// The first `limit` bytes of what is to be written.
fn head_of<'a>(bufs: &'a [IoSlice<'_>], mut limit: usize) -> Vec<IoSlice<'a>> {
    let mut first = Vec::with_capacity(bufs.len());
    for buf in bufs {
        let take = limit.min(buf.len());
        limit -= take;
        if take > 0 {
            first.push(IoSlice::new(&buf[..take]));
        }
    }
    first
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests;
