//! A file that is written beside its place, and takes it when it is whole.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{self, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::faults::call;
use super::{Owned, sync_folder};

const PREFIX: &str = ".pagecast-unfinished-";
/// Links that lead to nothing are followed this far, as the kernel does it.
const LINKS: usize = 40;

/// A file on its way. Dropped before it is finished, it leaves what was there. Its errors name the
/// file and what failed.
#[derive(Debug)]
pub struct WholeFile {
    own: Owned,
    target: PathBuf,
    is_new: bool,
    /// After the file, so that they are empty by then.
    folders: NewFolders,
}

impl WholeFile {
    /// Begins what becomes the file that `path` leads to, with the permissions of the one that is
    /// there.
    ///
    /// # Errors
    /// The file system fails, or what is there is no file or may not be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::begin(path, None)
    }

    /// The same, with the folders of the file, which go with the last of such files.
    ///
    /// # Errors
    /// As of [`create`](Self::create).
    pub fn create_in(path: &Path, folders: &NewFolders) -> io::Result<Self> {
        Self::begin(path, Some(folders))
    }

    fn begin(path: &Path, folders: Option<&NewFolders>) -> io::Result<Self> {
        let path = path::absolute(path)?;
        let what = "looking at what is there";
        let (target, old) = tried(&path, what, || call(&path, what, || look(&path)))?;
        let own = tried(&target, "beginning a file beside it", || {
            folders.map_or(Ok(()), |folders| folders.make(folder_of(&target)))?;
            Owned::file(folder_of(&target), PREFIX)
        })?;
        let file = Self { own, target, is_new: old.is_none(), folders: folders.cloned().unwrap_or_default() };
        if let Some(permissions) = old {
            file.call("giving it the old one's permissions", |file| file.set_permissions(permissions))?;
        }
        Ok(file)
    }

    /// Writes all of `bytes`. Several threads may write at once.
    ///
    /// # Errors
    /// The file system fails.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.call("writing beside it", |file| file.write_all_at(bytes, offset))
    }

    /// Puts the files in their places, durably. None takes its place before all are synced.
    ///
    /// # Errors
    /// The file system fails. Those that took no other file's place are not there then; of the
    /// others each is the old file or the new one.
    pub fn finish<F: Borrow<Self>>(files: &[F]) -> io::Result<()> {
        let files = || files.iter().map(Borrow::borrow);
        files().try_for_each(|file| file.call("syncing it", File::sync_all))?;
        let mut placed = 0;
        let mut place = |file: &Self| {
            file.call("renaming it into its place", |_| fs::rename(file.own.path(), &file.target))?;
            placed += 1;
            Ok(())
        };
        let done = files().try_for_each(&mut place).and_then(|()| sync_folders(files()));
        if done.is_err() {
            for file in files().take(placed).filter(|file| file.is_new) {
                let _ = file.call("removing it", |_| fs::remove_file(&file.target));
            }
        }
        done
    }

    fn call<T>(&self, what: &'static str, operate: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        tried(&self.target, what, || call(&self.target, what, || operate(self.own.open())))
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.call("writing beside it", |mut file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where a path leads to, and the permissions of the file that is there.
fn look(path: &Path) -> io::Result<(PathBuf, Option<Permissions>)> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {
            File::options().write(true).open(path)?;
            Ok((path.canonicalize()?, Some(found.permissions())))
        }
        Ok(_) => Err(io::Error::other("it is no file")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let mut target = path.to_owned();
            for _ in 0..LINKS {
                let Ok(link) = target.read_link() else { return Ok((target, None)) };
                target = folder_of(&target).join(link);
            }
            Err(error)
        }
        Err(error) => Err(error),
    }
}

/// Says of what fails which file it was for.
fn tried<T>(target: &Path, what: &'static str, operate: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("cannot write {}: {what}: {error}", target.display()));
    operate().map_err(named)
}

/// Makes the names of the files safe, and those of the folders that were made for them.
fn sync_folders<'f>(files: impl Iterator<Item = &'f WholeFile>) -> io::Result<()> {
    let mut synced = BTreeSet::new();
    for file in files {
        let made = file.folders.made().clone();
        let names = made.iter().map(PathBuf::as_path).chain([file.target.as_path()]);
        for folder in names.map(folder_of) {
            if !synced.contains(folder) {
                file.call("syncing its folder", |_| sync_folder(folder))?;
                synced.insert(folder.to_owned());
            }
        }
    }
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// Folders that were not there before. Those that are empty go with the last copy of this.
#[derive(Clone, Default, Debug)]
pub struct NewFolders(Arc<Made>);

#[derive(Default, Debug)]
struct Made(Mutex<BTreeSet<PathBuf>>);

impl NewFolders {
    fn make(&self, folder: &Path) -> io::Result<()> {
        self.made().extend(folder.ancestors().take_while(|folder| !folder.exists()).map(Path::to_owned));
        call(folder, "making a folder", || fs::create_dir_all(folder))
    }

    fn made(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let made = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        made.iter().rev().for_each(|folder| _ = fs::remove_dir(folder));
    }
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::super::faults::{Plan, Planned};
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn it_takes_the_place_of_a_file_and_keeps_its_permissions_and_links() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, Permissions::from_mode(0o640)).unwrap();
        symlink(&real, &link).unwrap();
        let whole = WholeFile::create(&link).unwrap();
        whole.write_at(b"w", 2).unwrap();
        whole.write_at(b"ne", 0).unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"old");
        WholeFile::finish(&[whole]).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names(folder.path()), ["link", "real"]);
    }

    #[test]
    fn what_the_dead_left_is_swept_and_what_the_living_write_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(format!("{PREFIX}1-0"));
        fs::write(&left, "half").unwrap();
        let one = WholeFile::create(&folder.path().join("one")).unwrap();
        let other = WholeFile::create(&folder.path().join("other")).unwrap();
        assert!(!left.exists() && one.own.path().exists() && other.own.path().exists());
        drop(one);
        WholeFile::finish(&[other]).unwrap();
        assert_eq!(names(folder.path()), ["other"]);
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let cycle = folder.path().join("cycle");
        symlink("cycle", &cycle).unwrap();
        let nowhere = folder.path().join("no/such");
        for (path, what) in [
            (Path::new("/dev/null"), "looking"),
            (folder.path(), "looking"),
            (&cycle, "looking"),
            (&nowhere, "beginning"),
        ] {
            let error = WholeFile::create(path).unwrap_err().to_string();
            assert!(error.contains(path.to_str().unwrap()) && error.contains(what), "{error}");
        }
    }

    /// Two files in a folder that is new, of which one replaces another.
    fn write_two(folder: &Path) -> io::Result<()> {
        let folders = NewFolders::default();
        let files = ["old", "new/new"].map(|name| WholeFile::create_in(&folder.join(name), &folders));
        let files = files.into_iter().collect::<io::Result<Vec<_>>>()?;
        files.iter().try_for_each(|file| file.write_at(b"whole", 0))?;
        WholeFile::finish(&files)
    }

    #[test]
    fn whichever_call_fails_files_are_there_whole_or_not_at_all() {
        for how in [Planned::Nothing, Planned::All] {
            let mut failed = BTreeSet::new();
            for call in 0.. {
                let folder = tempfile::tempdir().unwrap();
                let old = folder.path().join("old");
                fs::write(&old, "before").unwrap();
                let plan = Plan::new(folder.path(), call, how);
                let done = write_two(folder.path());
                let Some(what) = plan.failed() else {
                    done.unwrap();
                    assert_eq!((names(folder.path()), call > 15), (vec!["new".to_owned(), "old".to_owned()], true));
                    break;
                };
                drop(plan);
                failed.insert(what);
                let (found, new) = (fs::read(&old).unwrap(), folder.path().join("new/new"));
                let is_whole = || new.exists() && fs::read(&new).unwrap() == b"whole";
                // What fails is the removal of what is in its place by then.
                let Err(error) = done else {
                    assert!(what == "removing it" && is_whole() && found == b"whole");
                    continue;
                };
                assert!(found == b"before" || found == b"whole", "{what}: {found:?}");
                assert!(!new.exists() || what.starts_with("renaming") && is_whole(), "{what}");
                let error = error.to_string();
                assert!(error.contains(folder.path().to_str().unwrap()) && error.contains("as planned"), "{error}");
                let expected = if new.exists() { vec!["new", "old"] } else { vec!["old"] };
                assert_eq!(names(folder.path()), expected, "{what}");
                assert_eq!(new.exists(), folder.path().join("new").exists(), "{what}");
            }
            assert!(failed.len() >= 9, "{failed:?}");
        }
    }

    #[test]
    fn what_cannot_be_removed_goes_with_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let given_up = WholeFile::create(&path).unwrap();
        let plan = Plan::new(folder.path(), 0, Planned::Nothing);
        drop(given_up);
        assert_eq!(plan.failed(), Some("removing it"));
        drop(plan);
        assert!(names(folder.path())[0].starts_with(PREFIX));
        super::super::write(&path, b"whole").unwrap();
        assert_eq!((names(folder.path()), fs::read(&path).unwrap()), (vec!["file".to_owned()], b"whole".to_vec()));
    }
}
