//! Cache and device, and what is left of them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use pagecast_core::random::Random;

/// Files by their names.
pub(crate) type Files = HashMap<PathBuf, Vec<u8>>;

/// How a process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// It is killed. The system goes on, and keeps what it has in its cache.
    Killed,
    /// So does the system: the device is left.
    PowerLost,
}

#[derive(Clone, Debug)]
pub(super) enum Operation {
    Write {
        path: PathBuf,
        offset: usize,
        bytes: Vec<u8>,
        /// How long the file is for the process when it writes: it does not become longer than
        /// before and shorter than that.
        len: usize,
    },
    Resize {
        path: PathBuf,
        len: usize,
    },
    Sync {
        path: PathBuf,
    },
    /// A sync that failed: what was written before it is no longer tried.
    FailedSync {
        path: PathBuf,
    },
    Create {
        path: PathBuf,
    },
    MakeFolder {
        path: PathBuf,
    },
}

#[derive(Clone, Default)]
pub(super) struct Media {
    /// As processes see the files.
    pub(super) cache: Files,
    device: Files,
    /// What the cache has and the device may lack, in order.
    pending: Vec<Operation>,
    folders: HashSet<PathBuf>,
    /// Files of which a sync has failed: the cache has what nobody is going to write.
    gave_up: HashSet<PathBuf>,
}

impl Media {
    pub(super) fn holding(files: Files) -> Self {
        let folders = files.keys().filter_map(|path| path.parent()).map(Path::to_owned).collect();
        Self { device: files.clone(), cache: files, folders, ..Self::default() }
    }

    pub(super) fn has_folder(&self, path: &Path) -> bool {
        path == Path::new("") || self.folders.contains(path)
    }

    pub(super) fn on_device(&self, path: &Path) -> &[u8] {
        self.device.get(path).map_or(&[], Vec::as_slice)
    }

    pub(super) fn perform(&mut self, operation: &Operation) {
        match operation {
            Operation::Sync { path } => self.reach_device(path, |_| true),
            Operation::FailedSync { path } => {
                // Of what a failed sync gave up, about half was on the device already.
                self.reach_device(path, Operation::is_lucky);
                self.gave_up.insert(path.clone());
            }
            Operation::Create { path } => {
                self.cache.entry(path.clone()).or_default();
                self.device.entry(path.clone()).or_default();
            }
            Operation::MakeFolder { path } => drop(self.folders.insert(path.clone())),
            Operation::Write { .. } | Operation::Resize { .. } => {
                apply(&mut self.cache, operation, |_| true, 1);
                self.pending.push(operation.clone());
            }
        }
    }

    /// What waits of a file is on the device if it is one of those, and waits no more.
    fn reach_device(&mut self, path: &Path, of: impl Fn(&Operation) -> bool) {
        let device = &mut self.device;
        self.pending.retain(|one| {
            let is_of = one.path() == path;
            if is_of && of(one) {
                apply(device, one, |_| true, 1);
            }
            !is_of
        });
    }

    /// What the next process finds, if this one ends in the middle of the operation `under_way`.
    pub(super) fn after(&self, end: End, under_way: Option<&Operation>, random: &mut Random, unit: usize) -> Self {
        match end {
            End::Killed => self.after_kill(under_way, random, unit),
            End::PowerLost => self.after_power_loss(under_way, random, unit),
        }
    }

    fn after_kill(&self, under_way: Option<&Operation>, random: &mut Random, unit: usize) -> Self {
        let mut after = self.clone();
        if let Some(operation) = under_way
            && random.below(3) > 0
        {
            let mut operation = operation.clone();
            if let Operation::Write { bytes, .. } = &mut operation
                && random.below(2) == 0
            {
                bytes.truncate((random.below(bytes.len() as u32) as usize).next_multiple_of(unit));
            }
            after.perform(&operation);
        }
        // Pages that no sync tries any more may leave the cache: then the device shows.
        for path in &self.gave_up {
            if random.below(2) == 0 {
                let mut shown = Files::from([(path.clone(), after.device.get(path).cloned().unwrap_or_default())]);
                let waiting = after.pending.iter().filter(|one| one.path() == path);
                waiting.for_each(|one| apply(&mut shown, one, |_| true, 1));
                after.cache.extend(shown);
            }
        }
        after.gave_up.clear();
        after
    }

    fn after_power_loss(&self, under_way: Option<&Operation>, random: &mut Random, unit: usize) -> Self {
        let (mut files, mut folders) = (self.device.clone(), self.folders.clone());
        let mut pending: Vec<&Operation> = self.pending.iter().chain(under_way).collect();
        for i in (1..pending.len()).rev() {
            pending.swap(i, random.below(i as u32 + 1) as usize);
        }
        for operation in pending {
            match (operation, random.below(3)) {
                (_, 0) => {}
                (Operation::MakeFolder { path }, _) => drop(folders.insert(path.clone())),
                (Operation::Create { path }, _) => drop(files.entry(path.clone()).or_default()),
                (_, 1) => apply(&mut files, operation, |_| true, unit),
                _ => apply(&mut files, operation, |_| random.below(2) == 0, unit),
            }
        }
        Self { cache: files.clone(), device: files, folders, ..Self::default() }
    }
}

/// Does an operation, of a write those parts of `unit` bytes that `survives` says.
fn apply(files: &mut Files, operation: &Operation, mut survives: impl FnMut(usize) -> bool, unit: usize) {
    match operation {
        Operation::Write { path, offset, bytes, len } => {
            let file = files.entry(path.clone()).or_default();
            if file.len() < offset + bytes.len() {
                file.resize((*len).max(offset + bytes.len()), 0);
            }
            let unit = if unit == 1 { bytes.len().max(1) } else { unit };
            for (number, part) in bytes.chunks(unit).enumerate() {
                if survives(number) {
                    let start = offset + number * unit;
                    file[start..start + part.len()].copy_from_slice(part);
                }
            }
        }
        // Files only grow here, and a growth that reaches the device late takes nothing away.
        Operation::Resize { path, len } => {
            let file = files.entry(path.clone()).or_default();
            file.resize(file.len().max(*len), 0);
        }
        _ => {}
    }
}

impl Operation {
    fn path(&self) -> &Path {
        match self {
            Operation::Write { path, .. }
            | Operation::Resize { path, .. }
            | Operation::Sync { path }
            | Operation::FailedSync { path }
            | Operation::Create { path }
            | Operation::MakeFolder { path } => path,
        }
    }

    /// One half of all writes is, by where they are and how long.
    fn is_lucky(&self) -> bool {
        let Operation::Write { offset, bytes, .. } = self else { return true };
        let mixed = (*offset as u64 ^ (bytes.len() as u64) << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed >> 63 == 0
    }
}
