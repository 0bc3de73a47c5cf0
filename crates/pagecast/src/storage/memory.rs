//! Files in memory: for tests, examples and measurements without a disk.

use std::collections::HashMap;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{DirectIo, Generation, Opener, Storage};

/// A set of files in memory. Clones share it. Nothing of it survives the process, so that a sync
/// does nothing.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles(Arc<Mutex<HashMap<PathBuf, Content>>>);

#[derive(Clone, Debug)]
struct Content {
    bytes: Arc<[u8]>,
    /// How many files had this name before.
    inode: u64,
    writes: u64,
}

impl MemoryFiles {
    /// No files yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates or replaces a file. Storage that is open on its name keeps the old content and
    /// notices the change.
    pub fn write(&self, path: impl Into<PathBuf>, bytes: impl Into<Arc<[u8]>>) {
        let mut files = self.lock();
        let path = path.into();
        let inode = files.get(&path).map_or(0, |old| old.inode + 1);
        files.insert(path, Content { bytes: bytes.into(), inode, writes: 0 });
    }

    /// What the file holds now.
    ///
    /// # Errors
    ///
    /// There is no such file.
    pub fn read(&self, path: &Path) -> io::Result<Arc<[u8]>> {
        Ok(self.get(path)?.bytes)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Content>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, path: &Path) -> io::Result<Content> {
        self.lock().get(path).cloned().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

impl Opener for MemoryFiles {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Storage>> {
        let content = self.get(path)?;
        Ok(Arc::new(MemoryFile { files: self.clone(), path: path.to_owned(), content, writable: false }))
    }

    fn open_to_write(&self, path: &Path, create: bool) -> io::Result<Arc<dyn Storage>> {
        if create && self.get(path).is_err() {
            self.write(path, []);
        }
        let content = self.get(path)?;
        Ok(Arc::new(MemoryFile { files: self.clone(), path: path.to_owned(), content, writable: true }))
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

struct MemoryFile {
    files: MemoryFiles,
    path: PathBuf,
    /// As it was when it was opened.
    content: Content,
    writable: bool,
}

impl MemoryFile {
    /// What is read: the file as it was opened, or as it is if it is ours to write.
    fn bytes(&self) -> io::Result<Arc<[u8]>> {
        if self.writable { self.with(|content| content.bytes.clone()) } else { Ok(self.content.bytes.clone()) }
    }

    /// The file that was opened, as it is now, unless another one has its name.
    fn with<R>(&self, action: impl FnOnce(&mut Content) -> R) -> io::Result<R> {
        let mut files = self.files.lock();
        let now = files.get_mut(&self.path).filter(|now| now.inode == self.content.inode);
        now.map(action).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn change(&self, change: impl FnOnce(&mut Content)) -> io::Result<()> {
        if !self.writable {
            return Err(super::read_only());
        }
        self.with(|content| {
            content.writes += 1;
            change(content);
        })
    }
}

fn generation(content: &Content) -> Generation {
    Generation::of_memory(content.inode, content.bytes.len() as u64, content.writes)
}

/// Makes the content `len` bytes long.
fn resize(content: &mut Content, len: usize) {
    let mut bytes = content.bytes.to_vec();
    bytes.resize(len, 0);
    content.bytes = bytes.into();
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
        let bytes = self.bytes()?;
        let mut rest = &bytes[bytes.len().min(offset as usize)..];
        rest.read_vectored(bufs)
    }

    fn direct(&self) -> DirectIo {
        DirectIo::Direct
    }

    fn len(&self) -> u64 {
        self.bytes().map_or(self.content.bytes.len(), |bytes| bytes.len()) as u64
    }

    fn is_writable(&self) -> bool {
        self.writable
    }

    fn write_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let (start, len) = (offset as usize, bufs.iter().map(|buf| buf.len()).sum::<usize>());
        self.change(|content| {
            if content.bytes.len() < start + len {
                resize(content, start + len);
            }
            // Copied only if somebody reads the old content at this moment.
            let mut rest = &mut Arc::make_mut(&mut content.bytes)[start..start + len];
            for buf in bufs {
                let (part, after) = rest.split_at_mut(buf.len());
                part.copy_from_slice(buf);
                rest = after;
            }
        })?;
        Ok(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.change(|_| {})
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|content| resize(content, len as usize))
    }
}
