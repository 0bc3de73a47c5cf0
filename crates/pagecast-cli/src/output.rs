//! What verbs write: result files; and the flags of every measuring verb.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
pub(crate) use pagecast_sim::report::text::Table;
#[cfg(feature = "sql")]
pub(crate) use pagecast_sim::report::text::{harmless, printable};
use tempfile::NamedTempFile;

use crate::failure::usage;

/// The flags that every measuring verb takes.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct OutputArgs {
    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write one self-contained page with charts
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

impl OutputArgs {
    /// Fails now, before hours of work, where a result file could not be written at the end.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        check_writable("--json", self.json.as_deref())?;
        check_writable("--html", self.html.as_deref())
    }
}

/// Fails if the file that `flag` names could not be written; changes nothing.
pub(crate) fn check_writable(flag: &str, path: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let refused = |what: &dyn fmt::Display| usage(format!("{flag}: cannot write {}: {what}", path.display()));
    match Place::of(path).map_err(|error| refused(&error))? {
        // What is there may be opened, but a pipe only when somebody reads it.
        Place::File(file) => File::options().write(true).open(file).map(drop).map_err(|error| refused(&error)),
        Place::New(file) => tempfile::tempfile_in(folder_of(&file)).map(drop).map_err(|error| refused(&error)),
        Place::Pipe(_) | Place::Stdout => Ok(()),
    }
}

/// Writes `contents` to `path`: a file never has half of it, unless its folder takes no other one
/// beside it.
pub(crate) fn write_whole(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    let write = || -> io::Result<()> {
        let mut file = ResultFile::create(path)?;
        file.write_all(contents)?;
        file.finish()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// What a path leads to, through symbolic links.
enum Place {
    /// A regular file.
    File(PathBuf),
    /// Nothing yet.
    New(PathBuf),
    /// A pipe, a terminal, `/dev/null`: it takes what is written, and is never replaced.
    Pipe(PathBuf),
    /// What standard output is. Opened again, a file would begin anew and lose what is printed.
    Stdout,
}

impl Place {
    fn of(path: &Path) -> io::Result<Self> {
        let refused = |what: &str| Err(io::Error::other(format!("it is {what}, not a file")));
        match path.metadata() {
            Ok(found) if is_stdout(&found) => Ok(Self::Stdout),
            Ok(found) if found.is_file() => Ok(Self::File(path.canonicalize()?)),
            Ok(found) if found.is_dir() => refused("a folder"),
            Ok(found) => match special(&found) {
                None => Ok(Self::Pipe(path.to_owned())),
                Some(what) => refused(what),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => match path.read_link() {
                // A link to nothing yet.
                Ok(target) => Self::of(&folder_of(path).join(target)),
                Err(_) => Ok(Self::New(path.to_owned())),
            },
            Err(error) => Err(error),
        }
    }
}

#[cfg(unix)]
fn is_stdout(found: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    let stdout = std::fs::metadata("/dev/stdout");
    // `/dev/null` is there for everybody to open.
    !is_null(found) && stdout.is_ok_and(|stdout| (stdout.dev(), stdout.ino()) == (found.dev(), found.ino()))
}

#[cfg(unix)]
fn is_null(found: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/dev/null").is_ok_and(|null| (null.dev(), null.ino()) == (found.dev(), found.ino()))
}

/// What is neither a file nor something to write into.
#[cfg(unix)]
fn special(found: &Metadata) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt;
    let kind = found.file_type();
    if kind.is_block_device() {
        Some("a disk")
    } else if kind.is_socket() {
        Some("a socket")
    } else {
        None
    }
}

#[cfg(not(unix))]
fn is_stdout(_found: &Metadata) -> bool {
    false
}

#[cfg(not(unix))]
fn special(_found: &Metadata) -> Option<&'static str> {
    Some("something else")
}

/// A result on its way to where a path leads. Dropped before it is finished, it leaves a file as it
/// was.
#[derive(Debug)]
pub(crate) enum ResultFile {
    /// Takes the place of a file, or becomes one.
    Beside(NamedTempFile, PathBuf),
    /// Goes into what is there as it comes.
    Into(File),
    Stdout,
}

impl ResultFile {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        match Place::of(path)? {
            Place::Stdout => Ok(Self::Stdout),
            Place::Pipe(path) => Ok(Self::Into(File::options().write(true).open(path)?)),
            Place::New(path) => {
                let file = NamedTempFile::new_in(folder_of(&path))?;
                make_readable(file.as_file())?;
                Ok(Self::Beside(file, path))
            }
            Place::File(path) => {
                let old = File::options().write(true).open(&path)?;
                match NamedTempFile::new_in(folder_of(&path)) {
                    Ok(file) => {
                        file.as_file().set_permissions(old.metadata()?.permissions())?;
                        Ok(Self::Beside(file, path))
                    }
                    // A file in a folder that is not the user's to change is still the user's to
                    // write.
                    Err(_) => old.set_len(0).map(|()| Self::Into(old)),
                }
            }
        }
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        match self {
            Self::Beside(file, path) => file.persist(path).map(drop).map_err(|error| error.error),
            Self::Into(_) | Self::Stdout => Ok(()),
        }
    }
}

impl Write for ResultFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Beside(file, _) => file.write(bytes),
            Self::Into(file) => file.write(bytes),
            Self::Stdout => io::stdout().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Beside(file, _) => file.flush(),
            Self::Into(file) => file.flush(),
            Self::Stdout => io::stdout().flush(),
        }
    }
}

/// Temporary files are private; a result is for whoever may read the folder.
#[cfg(unix)]
fn make_readable(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn make_readable(_file: &File) -> io::Result<()> {
    Ok(())
}

/// The folder that `path` lies in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_result_replaces_the_old_one_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        write_whole(&path, b"old and long").unwrap();
        write_whole(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    mod unix {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
        use std::process::Command;

        use super::*;

        #[test]
        fn links_are_written_through() {
            let folder = tempfile::tempdir().unwrap();
            let path = |name: &str| folder.path().join(name);
            std::fs::create_dir(path("real")).unwrap();
            std::fs::write(path("real/there"), b"old").unwrap();
            std::fs::set_permissions(path("real/there"), std::fs::Permissions::from_mode(0o600)).unwrap();
            for (link, target) in [("link", "real/there"), ("dangling", "real/later"), ("twice", "dangling")] {
                symlink(target, path(link)).unwrap();
                check_writable("--json", Some(&path(link))).unwrap();
                write_whole(&path(link), link.as_bytes()).unwrap();
                assert!(path(link).is_symlink());
                assert_eq!(std::fs::read(path(link)).unwrap(), link.as_bytes());
            }
            assert_eq!(path("real/there").metadata().unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(std::fs::read_dir(path("real")).unwrap().count(), 2);
        }

        #[test]
        fn a_pipe_is_written_into() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("pipe");
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            check_writable("--json", Some(&path)).unwrap();
            let reader = std::thread::spawn({
                let path = path.clone();
                move || std::fs::read(path).unwrap()
            });
            write_whole(&path, b"results").unwrap();
            assert_eq!(reader.join().unwrap(), b"results");
            assert!(path.metadata().unwrap().file_type().is_fifo());
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        }

        #[test]
        fn devices_stay_devices() {
            write_whole(Path::new("/dev/null"), b"results").unwrap();
            assert!(Path::new("/dev/null").metadata().unwrap().file_type().is_char_device());
        }

        #[test]
        fn what_takes_no_result_is_refused_before_the_run() {
            let folder = tempfile::tempdir().unwrap();
            let socket = folder.path().join("socket");
            let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
            for (path, words) in [
                (folder.path(), "folder"),
                (&socket, "socket"),
                (Path::new("/no/such/x"), "/no/such/x"),
                (Path::new("/proc/x"), "/proc/x"),
            ] {
                let error = check_writable("--json", Some(path)).unwrap_err().to_string();
                assert!(error.starts_with("--json: cannot write ") && error.contains(words), "{error}");
                assert!(write_whole(path, b"results").is_err());
            }
            assert!(socket.metadata().unwrap().file_type().is_socket());
        }
    }
}
