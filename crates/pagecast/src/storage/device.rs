//! A device: where files are opened, what its requests cost, and how many there were.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use super::declared::{Declared, DeclaredModel};
use super::{DirectIo, Generation, LocalFiles, Storage, head};

/// The most bytes that one request reads. A storage opened through a device answers a longer read with this much.
pub const MAX_REQUEST: usize = 4 << 20;

/// Opens files by name.
pub trait Opener: Send + Sync {
    /// Opens the file as it is now.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Storage>>;

    /// One line for reports: "local files, O_DIRECT".
    fn describe(&self) -> String;
}

/// What a device has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceStats {
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
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
    failed: AtomicU64,
    /// Why the operating system's cache came between, the first time that it did.
    buffered: OnceLock<String>,
}

impl Device {
    /// The local file system, past the operating system's cache where it allows that.
    pub fn local() -> Self {
        Self::new(LocalFiles, None)
    }

    /// Local files that answer no faster than `model` says, for honest measurements of slower storage.
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
            failed: AtomicU64::new(0),
            buffered: OnceLock::new(),
        }))
    }

    /// Opens the file as it is now. Its reads count here.
    pub fn open(&self, path: &Path) -> io::Result<Arc<dyn Storage>> {
        let storage = self.0.opener.open(path)?;
        self.note_buffering(storage.as_ref());
        Ok(Arc::new(Metered { storage, device: self.clone() }))
    }

    /// Requests and bytes so far, of all files.
    pub fn stats(&self) -> DeviceStats {
        DeviceStats {
            requests: self.0.requests.load(Relaxed),
            bytes_read: self.0.bytes_read.load(Relaxed),
            failed: self.0.failed.load(Relaxed),
        }
    }

    /// How many requests at once the device takes with profit.
    pub fn outstanding(&self) -> u32 {
        self.0.model.as_ref().map_or(DeclaredModel::OUTSTANDING, Declared::outstanding)
    }

    /// The declared model, if this device has one.
    pub fn model(&self) -> Option<DeclaredModel> {
        self.0.model.as_ref().map(Declared::model)
    }

    /// One line for reports; says so if the speed is declared, and if reads had to go through the operating system's
    /// cache, and why.
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
    fn path(&self) -> &Path {
        self.storage.path()
    }

    fn generation(&self) -> Generation {
        self.storage.generation()
    }

    fn current(&self) -> io::Result<Generation> {
        self.storage.current()
    }

    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut request = head(bufs, MAX_REQUEST);
        let mut read = || self.storage.read_at(offset, &mut request);
        let answer = match &self.device.0.model {
            None => read(),
            Some(model) => model.paced(read),
        };
        match answer {
            Ok(bytes) => {
                self.device.note_buffering(self.storage.as_ref());
                self.device.0.requests.fetch_add(1, Relaxed);
                self.device.0.bytes_read.fetch_add(bytes as u64, Relaxed);
            }
            Err(_) => {
                self.device.0.failed.fetch_add(1, Relaxed);
            }
        }
        answer
    }

    fn alignment(&self) -> usize {
        self.storage.alignment()
    }

    fn direct(&self) -> DirectIo {
        self.storage.direct()
    }
}
