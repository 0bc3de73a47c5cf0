//! The folder for what does not fit the memory limit: one for each engine, in the temporary folder
//! of the machine.
//!
//! A process that is killed leaves its folder behind, and the next one removes it. A lock on a file
//! in it says whether its owner lives: the kernel gives the lock back however a process ends.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rand::random;

const PREFIX: &str = "pagecast-spill-";
const LOCK: &str = "lock";
/// Attempts at a name that nobody has, and that no sweep takes away.
const ATTEMPTS: usize = 8;

/// A folder of this process's own. It goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Spill {
    path: PathBuf,
    /// Held for as long as the folder is used.
    _lock: File,
}

impl Spill {
    /// A new folder in `parent`, in which those of dead processes are removed.
    pub(crate) fn new(parent: &Path) -> io::Result<Self> {
        let mut last = io::Error::other("no name is left");
        for _ in 0..ATTEMPTS {
            match Self::attempt(parent) {
                Ok(spill) => {
                    sweep(parent, &spill.path);
                    return Ok(spill);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn attempt(parent: &Path) -> io::Result<Self> {
        let path = parent.join(format!("{PREFIX}{}-{:016x}", std::process::id(), random::<u64>()));
        DirBuilder::new().mode(0o700).create(&path)?;
        let locked = || {
            let file = path.join(LOCK);
            let lock = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file)?;
            lock.try_lock()?;
            // A sweep of another process may have come between, and taken it for a dead one's.
            if fs::metadata(&file)?.ino() == lock.metadata()?.ino() {
                Ok(lock)
            } else {
                Err(io::ErrorKind::Other.into())
            }
        };
        match locked() {
            Ok(lock) => Ok(Self { path, _lock: lock }),
            Err(error) => {
                let _ = fs::remove_dir_all(&path);
                Err(error)
            }
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        // What stays is swept by the next one.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders whose owners are dead. `own` is ours. What fails is left to the next one.
fn sweep(parent: &Path, own: &Path) {
    let Ok(user) = fs::metadata(own).map(|own| own.uid()) else { return };
    for path in fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let is_named = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
        // A link is none of ours, and neither is the folder of another user.
        let is_ours = || fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir() && found.uid() == user);
        if is_named && path != own && is_ours() {
            let _ = remove_if_dead(&path);
        }
    }
}

fn remove_if_dead(path: &Path) -> io::Result<()> {
    let file = path.join(LOCK);
    match fs::symlink_metadata(&file) {
        // Its owner died before it had a lock, or is about to make one and then takes another name.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return fs::remove_dir(path),
        Err(error) => return Err(error),
        Ok(found) if !found.is_file() => return Ok(()),
        Ok(_) => {}
    }
    let lock = File::open(&file)?;
    lock.try_lock()?;
    fs::remove_dir_all(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

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

        let one = Spill::new(parent.path()).unwrap();
        assert!(!dead.exists() && !new.exists());
        assert!(foreign.exists() && link.exists() && file.exists());
        assert_eq!(fs::metadata(one.path()).unwrap().mode() & 0o777, 0o700);
        let two = Spill::new(parent.path()).unwrap();
        assert!(one.path().exists() && two.path().exists());
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && two.path().exists());
    }

    #[test]
    fn many_at_once_take_none_from_each_other() {
        let parent = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let spill = Spill::new(parent.path()).unwrap();
                        fs::write(spill.path().join("rows"), "rows").unwrap();
                        std::thread::yield_now();
                        assert!(spill.path().join("rows").exists());
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
