//! Files of the local file system, read past the operating system's cache where it allows that.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{DirectIo, Generation, Opener, Storage};

/// Direct reads must be aligned to the device's logical block; 4096 covers the devices of today. A device that wants
/// more refuses, and its files are read buffered.
const ALIGNMENT: usize = 4096;

/// The local file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalFiles;

impl Opener for LocalFiles {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(LocalFile::open(path)?))
    }

    fn describe(&self) -> String {
        format!("local files, {}", direct::NAME)
    }
}

struct LocalFile {
    path: PathBuf,
    file: File,
    generation: Generation,
    direct: Mutex<DirectIo>,
}

impl LocalFile {
    fn open(path: &Path) -> io::Result<Self> {
        let (file, direct) = direct::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let generation = generation(&metadata);
        Ok(Self { path: path.to_owned(), file, generation, direct: Mutex::new(direct) })
    }

    /// After a refusal of a direct read: reads through the operating system's cache from now on, and remembers why.
    /// False if this is what is done already.
    fn fall_back(&self, error: &io::Error) -> io::Result<bool> {
        let mut direct = self.direct.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*direct, DirectIo::Buffered { .. }) {
            return Ok(false);
        }
        direct::give_up(&self.file)?;
        *direct = DirectIo::Buffered { reason: format!("a direct read was refused: {error}") };
        Ok(true)
    }
}

impl Storage for LocalFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn generation(&self) -> Generation {
        self.generation
    }

    fn current(&self) -> io::Result<Generation> {
        Ok(generation(&std::fs::metadata(&self.path)?))
    }

    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match rustix::io::preadv(&self.file, bufs, offset) {
            // Another thread may have fallen back between our read and now; the second try then is buffered as well.
            Err(rustix::io::Errno::INVAL) => {
                let refusal = io::Error::from(rustix::io::Errno::INVAL);
                let was_direct = self.fall_back(&refusal)?;
                rustix::io::preadv(&self.file, bufs, offset).map_err(|error| match was_direct {
                    true => error.into(),
                    false => refusal,
                })
            }
            answer => Ok(answer?),
        }
    }

    fn alignment(&self) -> usize {
        ALIGNMENT
    }

    fn direct(&self) -> DirectIo {
        self.direct.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn generation(metadata: &std::fs::Metadata) -> Generation {
    let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    Generation {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.size(),
        modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
        changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
    }
}

/// Linux, Android and FreeBSD: a flag at open, that a file system may refuse then or at the first read.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
mod direct {
    use super::*;
    use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl};

    pub(super) const NAME: &str = "O_DIRECT";

    pub(super) fn open(path: &Path) -> io::Result<(File, DirectIo)> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags | OFlags::DIRECT, Mode::empty()) {
            Ok(file) => Ok((file.into(), DirectIo::Direct)),
            Err(rustix::io::Errno::INVAL) => {
                let reason = "the file system refuses O_DIRECT".to_owned();
                Ok((File::open(path)?, DirectIo::Buffered { reason }))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn give_up(file: &File) -> io::Result<()> {
        Ok(fcntl_setfl(file, fcntl_getfl(file)? - OFlags::DIRECT)?)
    }
}

/// Apple's systems: caching is switched off for an open file.
#[cfg(target_vendor = "apple")]
mod direct {
    use super::*;
    use rustix::fs::fcntl_nocache;

    pub(super) const NAME: &str = "F_NOCACHE";

    pub(super) fn open(path: &Path) -> io::Result<(File, DirectIo)> {
        let file = File::open(path)?;
        let direct = match fcntl_nocache(&file, true) {
            Ok(()) => DirectIo::Direct,
            Err(error) => DirectIo::Buffered { reason: format!("F_NOCACHE is refused: {error}") },
        };
        Ok((file, direct))
    }

    pub(super) fn give_up(file: &File) -> io::Result<()> {
        Ok(fcntl_nocache(file, false)?)
    }
}

/// Other Unix systems: through the operating system's cache.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd", target_vendor = "apple")))]
mod direct {
    use super::*;

    pub(super) const NAME: &str = "buffered";

    pub(super) fn open(path: &Path) -> io::Result<(File, DirectIo)> {
        let reason = "this system has no direct reads that pagecast knows".to_owned();
        Ok((File::open(path)?, DirectIo::Buffered { reason }))
    }

    pub(super) fn give_up(_file: &File) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::read_full;
    use super::*;

    #[test]
    fn reads_the_unaligned_end_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let content: Vec<u8> = (0..10_000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let file = LocalFile::open(&path).unwrap();
        let mut memory = vec![0; 8192 + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        let read = read_full(&file, 4096, &mut [IoSliceMut::new(&mut memory[start..start + 8192])]).unwrap();
        assert_eq!(&memory[start..start + read], &content[4096..]);
    }

    #[test]
    fn an_unaligned_read_falls_back_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, [7; 5000]).unwrap();
        let file = LocalFile::open(&path).unwrap();
        if file.direct() != DirectIo::Direct {
            println!("skipped: {:?}", file.direct());
            return;
        }
        let mut memory = [0; 11];
        assert_eq!(file.read_at(3, &mut [IoSliceMut::new(&mut memory)]).unwrap(), 11);
        assert_eq!(memory, [7; 11]);
        println!("{:?}", file.direct());
    }

    #[test]
    fn a_change_names_the_file_and_what_differs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, [1; 100]).unwrap();
        let file = LocalFile::open(&path).unwrap();
        file.verify_unchanged().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(&path, [2; 100]).unwrap();
        let error = file.verify_unchanged().unwrap_err().to_string();
        assert!(error.contains("data") && error.contains("same size"), "{error}");
        std::fs::write(&path, [2; 99]).unwrap();
        assert!(file.verify_unchanged().unwrap_err().to_string().contains("from 100 to 99 bytes"));
        std::fs::remove_file(&path).unwrap();
        assert!(file.verify_unchanged().unwrap_err().to_string().contains("removed"));
    }

    #[test]
    fn a_folder_is_not_a_file() {
        assert!(LocalFile::open(std::env::temp_dir().as_path()).is_err());
    }
}
