//! Files in memory: for tests, examples and measurements without a disk.

use std::collections::HashMap;
use std::io::{self, IoSliceMut, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{DirectIo, Generation, Opener, Storage};

/// A set of files in memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles(Arc<Mutex<HashMap<PathBuf, Content>>>);

#[derive(Clone, Debug)]
struct Content {
    bytes: Arc<[u8]>,
    written: u64,
}

impl MemoryFiles {
    /// No files yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates or replaces a file. Storage that is open on its name keeps the old content and notices the change.
    pub fn write(&self, path: impl Into<PathBuf>, bytes: impl Into<Arc<[u8]>>) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let path = path.into();
        let written = files.get(&path).map_or(0, |old| old.written + 1);
        files.insert(path, Content { bytes: bytes.into(), written });
    }

    fn get(&self, path: &Path) -> io::Result<Content> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.get(path).cloned().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

impl Opener for MemoryFiles {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Storage>> {
        let content = self.get(path)?;
        Ok(Arc::new(MemoryFile { files: self.clone(), path: path.to_owned(), content }))
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

struct MemoryFile {
    files: MemoryFiles,
    path: PathBuf,
    content: Content,
}

fn generation(content: &Content) -> Generation {
    let size = content.bytes.len() as u64;
    let written = i128::from(content.written);
    Generation { device: 0, inode: 0, size, modified: written, changed: written }
}

impl Storage for MemoryFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn generation(&self) -> Generation {
        generation(&self.content)
    }

    fn current(&self) -> io::Result<Generation> {
        Ok(generation(&self.files.get(&self.path)?))
    }

    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let start = offset.min(self.len()) as usize;
        let mut rest = &self.content.bytes[start..];
        let before = rest.len();
        for buf in bufs {
            let take = buf.len().min(rest.len());
            (&mut buf[..take]).write_all(&rest[..take])?;
            rest = &rest[take..];
        }
        Ok(before - rest.len())
    }

    fn direct(&self) -> DirectIo {
        DirectIo::Direct
    }
}
