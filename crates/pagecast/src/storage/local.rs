//! Files of the local file system, read and written past the operating system's cache where it
//! allows that.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::descriptors::Descriptor;
use super::{Changed, DirectIo, Generation, Opener, Request, Storage, Transfer};
use crate::files::sync_folder;

/// Direct requests must be aligned to the device's logical block; 4096 covers the devices of today.
/// A device that wants more refuses, and its files go through the cache.
const ALIGNMENT: usize = 4096;

/// The local file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalFiles;

impl Opener for LocalFiles {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(LocalFile::open(path)?))
    }

    fn open_to_write(&self, path: &Path, create: bool) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(LocalFile::open_to_write(path, create)?))
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        make_folder(path)
    }

    fn describe(&self) -> String {
        format!("local files, {}", direct::NAME)
    }
}

/// Makes a folder and those above it, and their names safe: also those that were there, since a
/// process that made them may have died right after that.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)?;
    for above in path.ancestors().skip(1) {
        match sync_folder(above) {
            // Nobody has made anything in it who may not even read it, or where nothing is written.
            Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {}
            synced => synced?,
        }
    }
    Ok(())
}

pub(super) struct LocalFile {
    path: PathBuf,
    descriptor: Arc<Descriptor>,
    generation: Generation,
    /// Bytes, our own writes included.
    len: AtomicU64,
    writable: bool,
    direct: Mutex<DirectIo>,
}

impl LocalFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::with(path, OpenOptions::new().read(true), false)
    }

    /// Alone: an advisory lock keeps other pools and processes from writing it too.
    pub(super) fn open_to_write(path: &Path, create: bool) -> io::Result<Self> {
        let file = Self::with(path, OpenOptions::new().read(true).write(true).create(create), true)?;
        match rustix::fs::flock(file.file()?, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(io::Error::new(ErrorKind::ResourceBusy, "somebody else has it open to write"));
            }
            Err(error) => return Err(error.into()),
        }
        // The name is safe from a crash only when its folder is. If the file was there, the process
        // that made it may have died right after that.
        if create && let Some(folder) = path.parent() {
            sync_folder(folder)?;
        }
        Ok(file)
    }

    fn with(path: &Path, options: &mut OpenOptions, writable: bool) -> io::Result<Self> {
        let (file, direct) = direct::open(path, options)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
        }
        let generation = Generation::of_file(&metadata);
        let (len, direct) = (AtomicU64::new(generation.size()), Mutex::new(direct));
        let descriptor = if writable { Descriptor::lasting(file) } else { Descriptor::closable(file) };
        Ok(Self { path: path.to_owned(), descriptor, generation, len, writable, direct })
    }

    /// The open file, opened again if it was closed for others.
    pub(super) fn file(&self) -> io::Result<Arc<File>> {
        self.descriptor.file(|| {
            let (file, _) = direct::open(&self.path, OpenOptions::new().read(true))?;
            let now = Generation::of_file(&file.metadata()?);
            if now != self.generation {
                return Err(Changed { how: self.generation.difference(&now) }.into());
            }
            if matches!(self.direct(), DirectIo::Buffered { .. }) {
                direct::give_up(&file)?;
            }
            Ok(file)
        })
    }

    /// Takes notice of a request that was made in another way.
    pub(super) fn transferred(&self, request: &Request<'_>, bytes: usize) {
        if matches!(request.transfer, Transfer::Write(_)) {
            self.len.fetch_max(request.offset + bytes as u64, Relaxed);
        }
    }

    /// Makes a request; if it is refused because it is direct, again through the operating system's
    /// cache.
    fn request(&self, mut request: impl FnMut(&File) -> rustix::io::Result<usize>) -> io::Result<usize> {
        let file = self.file()?;
        match request(&file) {
            // Another thread may have fallen back between our request and now; the second try then
            // is buffered as well.
            Err(Errno::INVAL) => {
                let refusal = io::Error::from(Errno::INVAL);
                let was_direct = self.fall_back(&file, &refusal)?;
                request(&file).map_err(|error| match was_direct {
                    true => error.into(),
                    false => refusal,
                })
            }
            answer => Ok(answer?),
        }
    }

    /// After a refusal of a direct request: goes through the operating system's cache from now on,
    /// and remembers why. False if this is what is done already.
    fn fall_back(&self, file: &File, error: &io::Error) -> io::Result<bool> {
        let mut direct = self.direct.lock().unwrap_or_else(PoisonError::into_inner);
        // Even if another thread has fallen back: it may have had another descriptor.
        direct::give_up(file)?;
        if matches!(*direct, DirectIo::Buffered { .. }) {
            return Ok(false);
        }
        *direct = DirectIo::Buffered { reason: format!("a direct request was refused: {error}") };
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
        Ok(Generation::of_file(&std::fs::metadata(&self.path)?))
    }

    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.request(|file| rustix::io::preadv(file, bufs, offset))
    }

    fn alignment(&self) -> usize {
        ALIGNMENT
    }

    fn direct(&self) -> DirectIo {
        self.direct.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn len(&self) -> u64 {
        // Relaxed: who asks for a page beyond the old end learned of it from whoever made the file
        // longer.
        self.len.load(Relaxed)
    }

    fn is_writable(&self) -> bool {
        self.writable
    }

    fn write_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let written = self.request(|file| rustix::io::pwritev(file, bufs, offset))?;
        self.len.fetch_max(offset + written as u64, Relaxed);
        Ok(written)
    }

    fn sync(&self) -> io::Result<()> {
        self.file()?.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file()?.set_len(len)?;
        self.len.store(len, Relaxed);
        Ok(())
    }

    /// Without a promise where the file system gives none.
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)?;
        match reserve(self.file()?.as_ref(), len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Room on the device for the first `len` bytes.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn reserve(file: &File, len: u64) -> rustix::io::Result<()> {
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, len)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn reserve(_file: &File, _len: u64) -> rustix::io::Result<()> {
    Err(Errno::OPNOTSUPP)
}

/// Linux, Android and FreeBSD: a flag at open, that a file system may refuse then or at the first
/// read.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
mod direct {
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    use super::*;

    pub(super) const NAME: &str = "O_DIRECT";

    pub(super) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<(File, DirectIo)> {
        match options.custom_flags(OFlags::DIRECT.bits() as i32).open(path) {
            Ok(file) => Ok((file, DirectIo::Direct)),
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                let reason = "the file system refuses O_DIRECT".to_owned();
                Ok((options.custom_flags(0).open(path)?, DirectIo::Buffered { reason }))
            }
            Err(error) => Err(error),
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

    pub(super) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<(File, DirectIo)> {
        let file = options.open(path)?;
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

    pub(super) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<(File, DirectIo)> {
        let reason = "this system has no direct reads that pagecast knows".to_owned();
        Ok((options.open(path)?, DirectIo::Buffered { reason }))
    }

    pub(super) fn give_up(_file: &File) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, not(pagecast_shuttle)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::{read_full, write_full};
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
            return crate::skipped(&format!("{:?}", file.direct()));
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
        std::fs::write(&path, [2; 100]).unwrap();
        // File systems count time in ticks, and this may be the tick of the file's making.
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(10);
        File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
        let error = file.verify_unchanged().unwrap_err().to_string();
        assert!(error.contains("data") && error.contains("same size"), "{error}");
        std::fs::write(&path, [2; 99]).unwrap();
        assert!(file.verify_unchanged().unwrap_err().to_string().contains("from 100 to 99 bytes"));
        std::fs::remove_file(&path).unwrap();
        assert!(file.verify_unchanged().unwrap_err().to_string().contains("removed"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn more_files_than_a_process_may_open_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |i: usize| folder.path().join(i.to_string());
        let files: Vec<_> = (0..500)
            .map(|i| {
                std::fs::write(path(i), [i as u8; 100]).unwrap();
                LocalFile::open(&path(i)).unwrap()
            })
            .collect();
        let in_folder = |entry: io::Result<std::fs::DirEntry>| {
            std::fs::read_link(entry.unwrap().path()).is_ok_and(|target| target.starts_with(folder.path()))
        };
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|e| in_folder(e).then_some(())).count();
        assert!((1..=128).contains(&open()), "{} of 500 files are open", open());
        let mut memory = vec![0; 2 * ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        for _ in 0..2 {
            for (i, file) in files.iter().enumerate() {
                let read = file.read_at(0, &mut [IoSliceMut::new(&mut memory[start..start + ALIGNMENT])]).unwrap();
                assert_eq!(memory[start..start + read], [i as u8; 100]);
            }
            assert!(open() <= 128, "{} of 500 files are open", open());
        }
        // The first one is closed by now. Its name stands for another file.
        std::fs::write(path(500), [7; 100]).unwrap();
        std::fs::rename(path(500), path(0)).unwrap();
        let error = files[0].read_at(0, &mut [IoSliceMut::new(&mut memory[start..start + ALIGNMENT])]).unwrap_err();
        assert!(error.to_string().contains("another file"), "{error}");
    }

    #[test]
    fn a_folder_is_not_a_file() {
        assert!(LocalFile::open(std::env::temp_dir().as_path()).is_err());
    }

    #[test]
    fn our_own_writes_leave_the_file_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        assert_eq!(LocalFile::open_to_write(&path, false).err().unwrap().kind(), ErrorKind::NotFound);
        let file = LocalFile::open_to_write(&path, true).unwrap();
        let mut memory = vec![7; 8192 + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        write_full(&file, 4096, &memory[start..start + 8192]).unwrap();
        file.sync().unwrap();
        assert_eq!(file.len(), 12_288);
        file.set_len(20_480).unwrap();
        file.verify_unchanged().unwrap();
        read_full(&file, 0, &mut [IoSliceMut::new(&mut memory[start..start + 8192])]).unwrap();
        assert_eq!((memory[start], memory[start + 4095], memory[start + 4096]), (0, 0, 7));
        let error = LocalFile::open_to_write(&path, false).err().unwrap();
        assert!(error.to_string().contains("somebody else"), "{error}");
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(16_384).unwrap();
        assert!(file.verify_unchanged().unwrap_err().to_string().contains("from"), "it is shorter than we made it");
    }

    #[test]
    fn a_file_opened_to_be_read_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, [1; 100]).unwrap();
        let file = LocalFile::open(&path).unwrap();
        assert!(file.write_at(0, &[IoSlice::new(&[1])]).is_err());
        assert!(!file.is_writable());
    }
}
