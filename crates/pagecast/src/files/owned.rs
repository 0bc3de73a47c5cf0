//! Names that go with the process that has them.
//!
//! A process that is killed leaves what it has, and the next that takes such a name in the same
//! folder removes it. A lock says whether the owner lives: the kernel gives it back however a
//! process ends.

use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::faults::call;

/// The file in a folder that has its lock. Of a file it is the file itself.
const LOCK: &str = "lock";
/// Attempts at a name that no sweep takes away.
const ATTEMPTS: usize = 8;

/// What this process has.
static ALIVE: Mutex<Vec<(Kind, PathBuf)>> = Mutex::new(Vec::new());

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    File,
    Folder,
}

/// A file or a folder under a name that nobody else has. It goes when this is dropped, or with what
/// the next one sweeps.
#[derive(Debug)]
pub struct Owned {
    path: PathBuf,
    kind: Kind,
    /// Locked for as long as the name is used.
    lock: File,
}

impl Owned {
    /// A new folder in `parent` that its user alone may enter, with a name that begins with
    /// `prefix`. Those of dead processes are removed.
    ///
    /// # Errors
    /// The file system fails.
    pub fn folder(parent: &Path, prefix: &str) -> io::Result<Self> {
        Self::new(Kind::Folder, parent, prefix)
    }

    /// The same of a file.
    pub(super) fn file(folder: &Path, prefix: &str) -> io::Result<Self> {
        Self::new(Kind::File, folder, prefix)
    }

    fn new(kind: Kind, parent: &Path, prefix: &str) -> io::Result<Self> {
        let mut last = io::Error::other("no name is left");
        for _ in 0..ATTEMPTS {
            match Self::attempt(kind, parent, prefix) {
                Ok(owned) => {
                    owned.sweep(parent, prefix);
                    return Ok(owned);
                }
                // A sweep of another process has come between, and taken it for a dead one's.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::WouldBlock) => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn attempt(kind: Kind, parent: &Path, prefix: &str) -> io::Result<Self> {
        let process = std::process::id();
        let path = parent.join(format!("{prefix}{process}-{:016x}", RandomState::new().hash_one(process)));
        if kind == Kind::Folder {
            call(&path, "making a folder", || DirBuilder::new().mode(0o700).create(&path))?;
        }
        let file = kind.lock_of(&path);
        let made = call(&file, "making a file", || File::options().write(true).create_new(true).open(&file));
        if made.as_ref().is_err_and(|error| error.kind() != ErrorKind::AlreadyExists) {
            kind.remove(&path);
        }
        let owned = Self { path, kind, lock: made? };
        ALIVE.lock().push((kind, owned.path.clone()));
        call(&file, "locking it", || match owned.lock.try_lock() {
            // A file system without locks has nobody who sweeps.
            Err(fs::TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(()),
            locked => Ok(locked?),
        })?;
        let is_ours = call(&file, "looking at it", || Ok(fs::metadata(&file)?.ino() == owned.lock.metadata()?.ino()))?;
        if is_ours { Ok(owned) } else { Err(ErrorKind::NotFound.into()) }
    }

    /// Whether this process has such files.
    pub(super) fn are_files() -> bool {
        ALIVE.lock().iter().any(|(kind, _)| *kind == Kind::File)
    }

    /// Removes all that this process has, whoever uses it still.
    pub(super) fn remove_all() {
        std::mem::take(&mut *ALIVE.lock()).iter().for_each(|(kind, path)| kind.remove(path));
    }

    /// Removes what dead processes have left. What fails is left to the next one.
    fn sweep(&self, parent: &Path, prefix: &str) {
        let Ok(own) = fs::symlink_metadata(&self.path) else { return };
        for path in fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let is_named = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()));
            // A link is none of ours, and neither is the folder of another user.
            let is_like = |found: fs::Metadata| match self.kind {
                Kind::File => found.is_file(),
                Kind::Folder => found.is_dir() && found.uid() == own.uid(),
            };
            if is_named && path != self.path && fs::symlink_metadata(&path).is_ok_and(is_like) {
                self.kind.remove_if_dead(&path);
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Of a file, itself.
    pub(super) fn open(&self) -> &File {
        &self.lock
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // What stays is swept by the next one; what took another name is not there.
        self.kind.remove(&self.path);
        ALIVE.lock().retain(|(_, path)| *path != self.path);
    }
}

impl Kind {
    fn lock_of(self, path: &Path) -> PathBuf {
        if self == Self::File { path.to_owned() } else { path.join(LOCK) }
    }

    fn remove(self, path: &Path) {
        let remove = || if self == Self::File { fs::remove_file(path) } else { fs::remove_dir_all(path) };
        let _ = call(path, "removing it", remove);
    }

    fn remove_if_dead(self, path: &Path) {
        // Some network file systems lock only what may be written.
        match File::options().write(true).open(self.lock_of(path)) {
            Ok(lock) if lock.try_lock().is_ok() => self.remove(path),
            // Its owner died before it had a lock, or is about to make one and then takes another
            // name.
            Err(error) if error.kind() == ErrorKind::NotFound && self == Self::Folder => _ = fs::remove_dir(path),
            _ => {}
        }
    }
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PREFIX: &str = "pagecast-spill-";

    #[test]
    fn folders_of_the_dead_are_swept_and_no_others() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let (dead, new, foreign) = (at("pagecast-spill-1-dead"), at("pagecast-spill-1-new"), at("datafusion-x"));
        for folder in [&dead, &new, &foreign] {
            fs::create_dir(folder).unwrap();
        }
        fs::create_dir(dead.join("datafusion-a")).unwrap();
        fs::write(dead.join("datafusion-a/rows"), "rows").unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        fs::write(foreign.join(LOCK), "").unwrap();
        let link = at("pagecast-spill-1-link");
        std::os::unix::fs::symlink(&foreign, &link).unwrap();
        let file = at("pagecast-spill-file");
        fs::write(&file, "").unwrap();

        let one = Owned::folder(parent.path(), PREFIX).unwrap();
        assert!(!dead.exists() && !new.exists());
        assert!(foreign.exists() && link.exists() && file.exists());
        assert_eq!(fs::metadata(one.path()).unwrap().mode() & 0o777, 0o700);
        let two = Owned::folder(parent.path(), PREFIX).unwrap();
        assert!(one.path().exists() && two.path().exists());
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && two.path().exists());
    }

    #[test]
    fn many_at_once_take_none_from_each_other() {
        for kind in [Kind::File, Kind::Folder] {
            let parent = tempfile::tempdir().unwrap();
            let have_and_leave = || {
                for _ in 0..50 {
                    let owned = Owned::new(kind, parent.path(), PREFIX).unwrap();
                    fs::write(kind.lock_of(owned.path()), "rows").unwrap();
                    std::thread::yield_now();
                    assert!(kind.lock_of(owned.path()).exists());
                }
            };
            std::thread::scope(|scope| (0..8).for_each(|_| _ = scope.spawn(have_and_leave)));
            assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        }
    }
}
