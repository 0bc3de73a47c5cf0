//! What a table needs of a file system to be changed. A test puts one between that dies in the
//! middle.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file system that tables are changed in. Reading goes past it.
pub trait Disk: Debug + Send + Sync {
    /// Begins a file that is not there yet.
    ///
    /// # Errors
    /// It is there, or the file system fails.
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>>;

    /// Gives a file a second name that nobody has yet.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`]: somebody has it. Or the file system fails.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// How many names a file has. After a link that failed this tells whether it was made: over a
    /// network a request that is sent again finds its own link.
    ///
    /// # Errors
    /// The file system fails.
    fn names(&self, path: &Path) -> io::Result<u64>;

    /// Gives a file another name, and the file of that name goes.
    ///
    /// # Errors
    /// The file system fails.
    fn replace(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The file system fails.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes a folder, and those that it lies in.
    ///
    /// # Errors
    /// The file system fails.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// Waits until the names in a folder are durable.
    ///
    /// # Errors
    /// The file system fails.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// A file that is written once.
pub trait NewFile: Write + Send {
    /// Waits until what was written is durable.
    ///
    /// # Errors
    /// The file system fails.
    fn sync(&mut self) -> io::Result<()>;
}

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalDisk;

impl NewFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

impl Disk for LocalDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        Ok(Box::new(OpenOptions::new().write(true).create_new(true).open(path)?))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn names(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.nlink())
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        match File::open(path)?.sync_all() {
            // Read-only images and some network file systems have no sync of folders (EINVAL).
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        }
    }
}
