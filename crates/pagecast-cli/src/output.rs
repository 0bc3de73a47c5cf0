//! What verbs write: result files; and the flags of every measuring verb.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use pagecast::files::WholeFile;
pub(crate) use pagecast_sim::report::text::Table;
#[cfg(feature = "sql")]
pub(crate) use pagecast_sim::report::text::{harmless, printable};

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
    let opened = Place::of(path).and_then(|place| match place {
        Place::File => open_beside(path).map(drop),
        // A pipe can be opened only when somebody reads it.
        Place::Pipe | Place::Stdout => Ok(()),
    });
    opened.map_err(|error| usage(format!("{flag}: {error}")))
}

/// Writes `contents` to `path`: a file never has half of it, unless its folder takes no other one
/// beside it.
pub(crate) fn write_whole(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    let mut file = ResultFile::create(path)?;
    file.write_all(contents)?;
    Ok(file.finish()?)
}

/// What a path leads to, through symbolic links.
enum Place {
    /// A regular file, or nothing yet.
    File,
    /// A pipe, a terminal, `/dev/null`: it takes what is written, and is never replaced.
    Pipe,
    /// What standard output is. Opened again, a file would begin anew and lose what is printed.
    Stdout,
}

impl Place {
    fn of(path: &Path) -> io::Result<Self> {
        let refused = |what| Err(failed(path, &io::Error::other(format!("it is {what}, not a file"))));
        match path.metadata() {
            Ok(found) if is("/dev/stdout", &found) && !is("/dev/null", &found) => Ok(Self::Stdout),
            Ok(found) if found.is_dir() => refused("a folder"),
            Ok(found) if found.file_type().is_block_device() => refused("a disk"),
            Ok(found) if found.file_type().is_socket() => refused("a socket"),
            Ok(found) if !found.is_file() => Ok(Self::Pipe),
            // What fails is told by who begins the file.
            Ok(_) | Err(_) => Ok(Self::File),
        }
    }
}

fn is(name: &str, found: &Metadata) -> bool {
    std::fs::metadata(name).is_ok_and(|named| (named.dev(), named.ino()) == (found.dev(), found.ino()))
}

fn failed(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
}

/// A result on its way to where a path leads. Dropped before it is finished, it leaves a file as it
/// was.
#[derive(Debug)]
pub(crate) enum ResultFile {
    /// Takes the place of a file, or becomes one.
    Beside(WholeFile),
    /// Goes into what is there as it comes.
    Into(File, PathBuf),
    Stdout,
}

/// A file in a folder that is not the user's to change is still the user's to write.
fn open_beside(path: &Path) -> io::Result<ResultFile> {
    WholeFile::create(path).map(ResultFile::Beside).or_else(|error| {
        let old = (error.kind() == io::ErrorKind::PermissionDenied).then(|| File::options().write(true).open(path));
        old.and_then(Result::ok).map(|old| ResultFile::Into(old, path.to_owned())).ok_or(error)
    })
}

impl ResultFile {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let named = |error| failed(path, &error);
        match Place::of(path)? {
            Place::Stdout => Ok(Self::Stdout),
            Place::Pipe => Ok(Self::Into(File::options().write(true).open(path).map_err(named)?, path.to_owned())),
            Place::File => {
                let file = open_beside(path)?;
                if let Self::Into(old, _) = &file {
                    old.set_len(0).map_err(named)?;
                }
                Ok(file)
            }
        }
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        match self {
            Self::Beside(file) => WholeFile::finish(&[file]),
            Self::Into(..) | Self::Stdout => Ok(()),
        }
    }
}

impl Write for ResultFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Beside(file) => file.write(bytes),
            Self::Into(file, path) => file.write(bytes).map_err(|error| failed(path, &error)),
            Self::Stdout => io::stdout().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout => io::stdout().flush(),
            Self::Beside(_) | Self::Into(..) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use pagecast::files::faults::{Plan, Planned};

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

    #[test]
    fn whichever_call_fails_a_result_is_there_whole_or_not_at_all() {
        let contents = vec![b'n'; 1 << 20];
        for (how, old) in [Planned::Nothing, Planned::All].into_iter().flat_map(|how| [(how, true), (how, false)]) {
            for call in 0.. {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("out.json");
                if old {
                    std::fs::write(&path, b"old").unwrap();
                }
                let plan = Plan::new(folder.path(), call, how);
                let done = write_whole(&path, &contents);
                let Some(what) = plan.failed() else {
                    done.unwrap();
                    assert!(call > 5);
                    break;
                };
                let found = std::fs::read(&path).ok();
                let is_whole = found.as_ref() == Some(&contents);
                assert!(is_whole || found == old.then(|| b"old".to_vec()), "{what}");
                assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), usize::from(found.is_some()), "{what}");
                match done {
                    Ok(()) => assert!(is_whole && what == "removing it"),
                    Err(error) => {
                        let error = error.to_string();
                        assert!(error.starts_with("cannot write ") && error.contains("out.json: "), "{error}");
                    }
                }
            }
        }
    }
}
