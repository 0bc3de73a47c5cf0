//! A file that is written beside its place, and takes it when it is whole.
//!
//! A process that is killed leaves what it wrote under a name of its own, and whoever next writes
//! into the folder removes it. A lock says whether its owner lives.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;
use rand::random;

const PREFIX: &str = ".pagecast-unfinished-";
/// Attempts at a name that no sweep takes away.
const ATTEMPTS: usize = 8;

/// Folders that were not there before a statement.
pub(super) type Made = Arc<Mutex<BTreeSet<PathBuf>>>;

/// It goes with everything that was made for it, unless it has taken its place.
#[derive(Debug)]
pub(super) struct Beside {
    file: File,
    path: PathBuf,
    target: PathBuf,
    made: Made,
    is_whole: AtomicBool,
}

impl Beside {
    /// Begins what becomes the file `target`.
    pub(super) fn new(target: &Path, made: &Made) -> io::Result<Self> {
        // What a link leads to is written, and not the link.
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        let old = match OpenOptions::new().write(true).open(&target) {
            Ok(_) if !fs::metadata(&target)?.is_file() => return Err(io::Error::other("it is no file")),
            Ok(old) => Some(old.metadata()?.permissions()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let folder = target.parent().unwrap_or(Path::new("/"));
        made.lock().extend(folder.ancestors().take_while(|folder| !folder.exists()).map(Path::to_owned));
        fs::create_dir_all(folder)?;
        sweep(folder);
        let (file, path) = locked(folder)?;
        let beside = Self { file, path, target, made: Arc::clone(made), is_whole: AtomicBool::new(false) };
        if let Some(permissions) = old {
            beside.file.set_permissions(permissions)?;
        }
        Ok(beside)
    }

    pub(super) fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Takes its place, and is durable in it.
    pub(super) fn finish(&self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, &self.target)?;
        self.is_whole.store(true, Relaxed);
        let folder = self.target.parent().unwrap_or(Path::new("/"));
        match File::open(folder)?.sync_all() {
            // Some network file systems have no sync of folders.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if *self.is_whole.get_mut() {
            return;
        }
        // What stays is swept by the next one; folders go with the last file in them.
        let _ = fs::remove_file(&self.path);
        self.made.lock().iter().rev().for_each(|folder| _ = fs::remove_dir(folder));
    }
}

/// A new file in the folder, with a lock on it.
fn locked(folder: &Path) -> io::Result<(File, PathBuf)> {
    let mut last = io::Error::other("no name is left");
    for _ in 0..ATTEMPTS {
        let path = folder.join(format!("{PREFIX}{}-{:016x}", std::process::id(), random::<u64>()));
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let locked = match file.try_lock() {
            // A file system without locks has nobody who sweeps.
            Err(fs::TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            locked => locked.map_err(io::Error::from),
        };
        // A sweep of another process may have come between.
        match locked.and_then(|()| Ok(fs::metadata(&path)?.ino() == file.metadata()?.ino())) {
            Ok(true) => return Ok((file, path)),
            Ok(false) => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Removes what dead processes left in the folder. What fails is left to the next one.
fn sweep(folder: &Path) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let is_named = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
        let is_file = || fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        if is_named && is_file() && File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn it_takes_the_place_of_a_file_and_keeps_its_permissions_and_links() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&real, &link).unwrap();
        let beside = Beside::new(&link, &Made::default()).unwrap();
        beside.write_at(b"w", 2).unwrap();
        beside.write_at(b"ne", 0).unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"old");
        beside.finish().unwrap();
        drop(beside);
        assert!(link.is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_the_dead_left_is_swept_and_what_the_living_write_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(format!("{PREFIX}1-0"));
        fs::write(&left, "half").unwrap();
        let one = Beside::new(&folder.path().join("one"), &Made::default()).unwrap();
        let other = Beside::new(&folder.path().join("other"), &Made::default()).unwrap();
        assert!(!left.exists() && one.path.exists() && other.path.exists());
        drop(one);
        other.finish().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_file_is_refused() {
        assert!(Beside::new(Path::new("/dev/null"), &Made::default()).is_err());
        assert!(Beside::new(&std::env::temp_dir(), &Made::default()).is_err());
    }
}
