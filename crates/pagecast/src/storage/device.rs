//! A device: where files are opened, what its requests cost, and how many there were.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use super::batch::run_alone;
use super::declared::{Declared, DeclaredModel};
use super::forward::forward;
use super::{
    DirectIo, Errand, Errands, LocalFiles, MAX_REQUEST, Opener, Request, Storage, Transfer, UringFiles, head, head_of,
};

/// What a device has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceStats {
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// Times that a file was made safe from a crash.
    pub syncs: u64,
    /// Requests that failed.
    pub failed: u64,
}

/// Where files are opened. Clones share their statistics and their declared bandwidth.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    opener: Box<dyn Opener>,
    model: Option<Declared>,
    requests: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    syncs: AtomicU64,
    failed: AtomicU64,
    /// Why the operating system's cache came between, the first time that it did.
    buffered: OnceLock<String>,
}

impl Device {
    /// The local file system, past the operating system's cache where it allows that.
    pub fn local() -> Self {
        Self::new(LocalFiles, None)
    }

    /// The local file system through io_uring: many requests in one system call. Where the kernel
    /// refuses, as [`local`](Self::local); [`describe`](Self::describe) then says why.
    pub fn uring() -> Self {
        Self::new(UringFiles::new(), None)
    }

    /// Local files that answer no faster than `model` says, for honest measurements of slower
    /// storage.
    pub fn declared(model: DeclaredModel) -> Self {
        Self::new(LocalFiles, Some(model))
    }

    /// Files from anywhere, at the speed of `model` if there is one.
    pub fn new(opener: impl Opener + 'static, model: Option<DeclaredModel>) -> Self {
        Self(Arc::new(Inner {
            opener: Box::new(opener),
            model: model.map(Declared::new),
            requests: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            buffered: OnceLock::new(),
        }))
    }

    /// Opens the file as it is now. Its reads count here.
    pub fn open(&self, path: &Path) -> io::Result<Arc<dyn Storage>> {
        Ok(self.metered(self.0.opener.open(path)?))
    }

    /// Opens the file to be written too, alone; with `create`, makes an empty one if there is none.
    pub fn open_to_write(&self, path: &Path, create: bool) -> io::Result<Arc<dyn Storage>> {
        Ok(self.metered(self.0.opener.open_to_write(path, create)?))
    }

    /// Makes the folder, and those above it that are missing, if it is not there. The names of all
    /// of them are safe from a crash when this returns.
    pub fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.0.opener.make_folder(path)
    }

    /// The storage, its requests counted here, and as slow as this device is declared to be.
    pub fn metered(&self, storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
        self.note_buffering(storage.as_ref());
        Arc::new(Metered { storage, device: self.clone() })
    }

    /// Requests and bytes so far, of all files.
    pub fn stats(&self) -> DeviceStats {
        DeviceStats {
            requests: self.0.requests.load(Relaxed),
            bytes_read: self.0.bytes_read.load(Relaxed),
            bytes_written: self.0.bytes_written.load(Relaxed),
            syncs: self.0.syncs.load(Relaxed),
            failed: self.0.failed.load(Relaxed),
        }
    }

    /// How many threads make requests with profit. Of a declared device, as many as requests
    /// overlap.
    pub fn threads(&self) -> u32 {
        self.0.model.as_ref().map_or_else(|| self.0.opener.threads(), Declared::outstanding)
    }

    /// The declared model, if this device has one.
    pub fn model(&self) -> Option<DeclaredModel> {
        self.0.model.as_ref().map(Declared::model)
    }

    /// One line for reports; says so if the speed is declared, and if reads had to go through the
    /// operating system's cache, and why.
    pub fn describe(&self) -> String {
        let mut line = self.0.opener.describe();
        if let Some(model) = &self.0.model {
            line = format!("declared: {}; {line}", model.model());
        }
        if let Some(reason) = self.0.buffered.get() {
            line = format!("{line}; buffered: {reason}");
        }
        line
    }

    /// Runs a request as fast as the device is.
    fn paced(&self, request: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        match &self.0.model {
            None => request(),
            Some(model) => model.paced(request),
        }
    }

    fn note_buffering(&self, storage: &dyn Storage) {
        if self.0.buffered.get().is_none()
            && let DirectIo::Buffered { reason } = storage.direct()
        {
            // Whoever comes first names the reason.
            let _ = self.0.buffered.set(reason);
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.describe())
    }
}

/// A file of a device: counted, cut into requests, and as slow as the device is declared to be.
struct Metered {
    storage: Arc<dyn Storage>,
    device: Device,
}

impl Storage for Metered {
    forward!(storage);

    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut request = head(bufs, self.storage.request_shape().max_bytes);
        self.request(&self.device.0.bytes_read, || self.storage.read_at(offset, &mut request))
    }

    /// A declared device makes requests one by one: each has a thread, and a latency of its own.
    fn serve<'e>(&self, next: &mut Errands<'_, 'e>) {
        if self.device.0.model.is_some() {
            while let Some(errand) = next() {
                run_alone(self, errand);
            }
            return;
        }
        self.storage.serve(&mut || Some(Box::new(MeteredErrand { errand: next()?, file: self, writes: false })));
    }

    fn starts_errands(&self) -> bool {
        self.device.0.model.is_none() && self.storage.starts_errands()
    }

    fn start(self: Arc<Self>, errand: Box<dyn Errand + Send>) {
        if self.starts_errands() {
            let storage = Arc::clone(&self.storage);
            storage.start(Box::new(MeteredErrand { errand, file: self, writes: false }));
        } else {
            run_alone(self.as_ref(), errand);
        }
    }

    fn write_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let request = head_of(bufs, MAX_REQUEST);
        self.request(&self.device.0.bytes_written, || self.storage.write_at(offset, &request))
    }

    fn sync(&self) -> io::Result<()> {
        // A sync waits for the device once, but carries no bytes of its own.
        self.device.paced(|| self.storage.sync().map(|()| 0))?;
        self.device.0.syncs.fetch_add(1, Relaxed);
        Ok(())
    }
}

impl Metered {
    /// Makes one request and counts it, its bytes in `total`.
    fn request(&self, total: &AtomicU64, request: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        let answer = self.device.paced(request);
        self.count(total, &answer);
        answer
    }

    fn count(&self, total: &AtomicU64, answer: &io::Result<usize>) {
        match answer {
            Ok(bytes) => {
                self.device.note_buffering(self.storage.as_ref());
                self.device.0.requests.fetch_add(1, Relaxed);
                total.fetch_add(*bytes as u64, Relaxed);
            }
            Err(_) => {
                self.device.0.failed.fetch_add(1, Relaxed);
            }
        }
    }
}

/// An errand whose answers are counted.
struct MeteredErrand<F, E: ?Sized> {
    errand: Box<E>,
    file: F,
    /// The request under way.
    writes: bool,
}

impl<F: Deref<Target = Metered>, E: Errand + ?Sized> Errand for MeteredErrand<F, E> {
    fn request(&mut self) -> Option<Request<'_>> {
        let request = self.errand.request()?;
        self.writes = matches!(request.transfer, Transfer::Write(_));
        Some(request)
    }

    fn answer(&mut self, answer: io::Result<usize>) {
        let inner = &self.file.device.0;
        self.file.count(if self.writes { &inner.bytes_written } else { &inner.bytes_read }, &answer);
        self.errand.answer(answer);
    }

    fn end(self: Box<Self>) {
        self.errand.end();
    }
}
