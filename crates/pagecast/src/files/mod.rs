//! Files that are there whole or not at all.
//!
//! What becomes a file is written beside its place, synced, renamed, and its folder synced. Where
//! that fails it is removed. A process that is killed leaves it, under a name that whoever next
//! writes into the folder knows and removes.

pub mod faults;
mod owned;
mod whole;

use std::fs::File;
use std::io;
use std::path::Path;

pub use owned::Owned;
pub use whole::{NewFolders, WholeFile};

/// Makes `bytes` the file `path`.
///
/// # Errors
/// The file system fails. What was there is as it was, unless syncing its folder failed.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = WholeFile::create(path)?;
    file.write_at(bytes, 0)?;
    WholeFile::finish(&[file])
}

/// Whether this process has begun files that are not whole yet.
pub fn are_unfinished() -> bool {
    Owned::are_files()
}

/// For the end of a process: removes its temporary folders and files that are not whole, also those
/// that a thread still uses. What the thread does with them fails from here on.
pub fn leave_nothing() {
    Owned::remove_all();
}

/// Makes the names in a folder safe from a crash, as far as its file system knows how to.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    match File::open(or_here(path))?.sync_all() {
        // Read-only images and some network file systems have no sync of folders (EINVAL).
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// A folder by a name that can be opened.
fn or_here(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}
