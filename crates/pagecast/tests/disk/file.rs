//! An open file of the disk.

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::path::{Path, PathBuf};

use pagecast::storage::{DirectIo, Generation, Storage};

use super::media::Operation;
use super::{Disk, Failure, Planned, planned};

pub(super) struct DiskFile {
    disk: Disk,
    path: PathBuf,
}

impl DiskFile {
    pub(super) fn new(disk: &Disk, path: &Path) -> Self {
        Self { disk: disk.clone(), path: path.to_owned() }
    }
}

impl Storage for DiskFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn generation(&self) -> Generation {
        Generation::of_object(self.len(), 0, None)
    }

    fn current(&self) -> io::Result<Generation> {
        Ok(self.generation())
    }

    fn read_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.disk.let_others_in();
        let mut state = self.disk.lock();
        if state.planned().is_some() {
            return Err(planned());
        }
        let file = &state.media.cache[&self.path];
        let mut rest = &file[file.len().min(offset as usize)..];
        rest.read_vectored(bufs)
    }

    fn direct(&self) -> DirectIo {
        DirectIo::Buffered { reason: "it has a cache".to_owned() }
    }

    fn len(&self) -> u64 {
        self.disk.lock().media.cache[&self.path].len() as u64
    }

    fn is_writable(&self) -> bool {
        true
    }

    /// Now and then shorter than asked for, and sometimes failing in the middle.
    fn write_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.disk.let_others_in();
        let mut state = self.disk.lock();
        let mut bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        let plan = state.planned();
        // The log of the tests' own database does not fail so.
        let fails = self.path != Path::new("log") && state.fails(Failure::Writes);
        let is_cut = if plan.is_some() { plan == Some(Planned::Part) } else { fails || state.random.below(16) == 0 };
        if is_cut {
            let keep = state.random.below(bytes.len() as u32) as usize + 1;
            bytes.truncate(keep.next_multiple_of(state.unit));
        }
        let written = bytes.len();
        if plan != Some(Planned::Nothing) {
            let len = state.media.cache.get(&self.path).map_or(0, Vec::len);
            state.do_to(Operation::Write { path: self.path.clone(), offset: offset as usize, bytes, len });
        }
        drop(state);
        self.disk.let_others_in();
        match plan {
            Some(_) => Err(planned()),
            None if fails => Err(io::Error::other("a failure in the middle of a write")),
            None => Ok(written),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let path = self.path.clone();
        if self.disk.lock().fails(Failure::Syncs) {
            self.disk.lock().do_to(Operation::FailedSync { path });
            return Err(io::Error::other("a failure of a sync"));
        }
        self.disk.call(Operation::Sync { path })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.call(Operation::Resize { path: self.path.clone(), len: len as usize })
    }
}
