//! A Delta table in a folder.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::Schema;
use delta_kernel::committer::FileSystemCommitter;
use delta_kernel::snapshot::Snapshot as Kernel;
use delta_kernel::transaction::CommitResult;
use delta_kernel::transaction::create_table::create_table;
use delta_kernel::transaction::data_layout::DataLayout;
use delta_kernel::{KernelError, KernelResult};
use parking_lot::Mutex;

use crate::engine::LocalEngine;
use crate::error::{DeltaError, Result, decoded};
use crate::log::Made;
use crate::options::Options;
use crate::protocol::ENABLE_VECTORS;
use crate::snapshot::Snapshot;
use crate::{log, protocol, schema};

/// A Delta table in a folder of this machine. It may be shared by any number of threads.
#[derive(Debug)]
pub struct Table {
    pub(crate) root: PathBuf,
    pub(crate) options: Options,
    pub(crate) engine: LocalEngine,
    /// The newest version that was seen, from which the next one is made.
    newest: Mutex<Option<Arc<Snapshot>>>,
}

impl Table {
    /// The table in this folder.
    ///
    /// # Errors
    /// There is none, its log is broken, or it needs what we do not know.
    pub fn open(folder: impl AsRef<Path>) -> Result<Arc<Self>> {
        Self::open_with(folder, Options::default())
    }

    /// [`open`](Self::open), written in this way.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(folder: impl AsRef<Path>, options: Options) -> Result<Arc<Self>> {
        let folder = folder.as_ref();
        let root = folder.canonicalize().map_err(DeltaError::io(folder))?;
        let engine = LocalEngine::new(&root, &options)?;
        let table = Self { root, options, engine, newest: Mutex::default() };
        table.newest()?;
        Ok(Arc::new(table))
    }

    /// Makes a table of these columns in a folder, with deletion vectors. Each row lies in the
    /// files of its values of `partitions`.
    ///
    /// # Errors
    /// There is one already, a column has a type that Delta does not have, or the file system
    /// fails.
    pub fn create(
        folder: impl AsRef<Path>,
        columns: &Schema,
        partitions: &[&str],
        options: Options,
    ) -> Result<Arc<Self>> {
        let folder = folder.as_ref();
        let refused = |what| DeltaError::Refused { path: folder.to_owned(), what };
        let columns = schema::to_log(columns).map_err(|what| refused(format!("{what}, which Delta does not have")))?;
        let log = log::folder(folder);
        create_folders(&options, &log)?;
        let root = folder.canonicalize().map_err(DeltaError::io(folder))?;
        let engine = LocalEngine::new(&root, &options)?;
        let made = || -> KernelResult<bool> {
            let mut made = create_table(root.to_string_lossy(), Arc::new(columns), crate::ENGINE, true)
                .with_table_properties([(ENABLE_VECTORS, "true")]);
            if !partitions.is_empty() {
                made = made.with_data_layout(DataLayout::partitioned(partitions));
            }
            match made.build(&engine, Box::new(FileSystemCommitter::new()))?.commit(&engine)? {
                CommitResult::Committed(_) => Ok(true),
                CommitResult::Conflicted(_) => Ok(false),
                CommitResult::Retryable(failed) => Err(failed.error),
            }
        };
        match made() {
            Ok(true) => Self::open_with(folder, options),
            Ok(false) | Err(KernelError::TableAlreadyExistsAtPath(_)) => {
                Err(refused("there is a Delta table here already".to_owned()))
            }
            Err(error) => Err(engine.fault(error)),
        }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.root
    }

    /// The newest version.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn newest(&self) -> Result<Arc<Snapshot>> {
        let known = self.newest.lock().clone();
        if let Some(known) = known.as_ref().filter(|known| self.is_newest(known)) {
            return Ok(Arc::clone(known));
        }
        let snapshot = Arc::new(self.load(None, known.as_ref())?);
        let mut newest = self.newest.lock();
        let is_older = |newest: &Arc<Snapshot>| {
            newest.version() < snapshot.version() || newest.made != Made::of(&self.root, newest.version())
        };
        if newest.as_ref().is_none_or(is_older) {
            *newest = Some(Arc::clone(&snapshot));
        }
        Ok(snapshot)
    }

    /// The table as it was at `version`.
    ///
    /// # Errors
    /// As [`open`](Self::open), there was no such version, the log no longer has it, or a vacuum
    /// has deleted files of it.
    pub fn at(&self, version: u64) -> Result<Arc<Snapshot>> {
        let known = self.newest.lock().clone();
        if let Some(known) = known.as_ref().filter(|known| known.version() == version && self.is_as_it_was(known)) {
            return Ok(Arc::clone(known));
        }
        let gone = |file: &Path| {
            let name = file.strip_prefix(&self.root).unwrap_or(file).display();
            let what = format!("version {version} is gone: {name} is not there, a vacuum may have deleted it");
            DeltaError::Missing { path: self.root.clone(), what }
        };
        let snapshot = match self.load(Some(version), known.as_ref()) {
            // A deletion vector, which is read along.
            Err(DeltaError::Io { path, source }) if source.kind() == ErrorKind::NotFound => {
                return Err(gone(&path));
            }
            Err(error) => return Err(self.why_missing(version, error)),
            Ok(snapshot) => snapshot,
        };
        let known = known.iter().flat_map(|known| known.files()).collect::<HashSet<_>>();
        if let Some(file) = snapshot.files().find(|&file| !known.contains(file) && !file.exists()) {
            return Err(gone(file));
        }
        Ok(Arc::new(snapshot))
    }

    /// A version could not be read: perhaps there is none.
    fn why_missing(&self, version: u64, error: DeltaError) -> DeltaError {
        let what = match (self.newest(), &error) {
            (Ok(newest), _) if newest.version() < version => {
                format!("there is no version {version}, the newest is {}", newest.version())
            }
            (Ok(_), DeltaError::Missing { .. }) => format!("version {version} is gone, the log begins after it"),
            _ => return error,
        };
        DeltaError::Missing { path: self.root.clone(), what }
    }

    /// Whether the log still has the version that it had, and nothing behind it.
    fn is_newest(&self, known: &Snapshot) -> bool {
        self.is_as_it_was(known) && !log::commit_path(&self.root, known.version() + 1).exists()
    }

    fn is_as_it_was(&self, known: &Snapshot) -> bool {
        known.made.is_there() && known.made == Made::of(&self.root, known.version())
    }

    /// Reads a version, or the newest. What lies before `known` need not be read.
    fn load(&self, version: Option<u64>, known: Option<&Arc<Snapshot>>) -> Result<Snapshot> {
        if !log::is_table(&self.root) {
            return Err(DeltaError::Missing { path: self.root.clone(), what: "no Delta table is here".to_owned() });
        }
        let url = self.engine.url()?;
        let earlier = known.filter(|known| version.is_none() && self.is_as_it_was(known));
        let kernel = decoded(&log::folder(&self.root), || {
            let loaded = match (earlier, version) {
                (Some(earlier), _) => Kernel::builder_from(Arc::clone(&earlier.kernel)).build(&self.engine),
                (None, Some(version)) => Kernel::builder_for(&url).at_version(version).build(&self.engine),
                (None, None) => Kernel::builder_for(&url).build(&self.engine),
            };
            loaded.map_err(|error| self.engine.fault(error))
        })?;
        protocol::check_read(&self.root, &kernel)?;
        Snapshot::of(&self.engine, &self.root, kernel, known.map(AsRef::as_ref), earlier.is_some())
    }

    /// Writes the log's checkpoint, where the table wants one at this version. The version is there
    /// with it or without.
    pub(crate) fn after_commit(&self, version: u64) {
        if let Ok(snapshot) = self.at(version) {
            let every = snapshot.kernel.table_properties().checkpoint_interval.map_or(10, NonZero::get);
            if version.is_multiple_of(every) {
                let _ = snapshot.kernel.checkpoint(&self.engine, None);
            }
        }
    }

    /// Writes a checkpoint of the newest version, so that nobody need read the log before it. The
    /// version.
    ///
    /// # Errors
    /// As [`open`](Self::open), writers of the table must know what we do not, or the file system
    /// fails.
    pub fn checkpoint(&self) -> Result<u64> {
        let snapshot = self.newest()?;
        protocol::check_write(&self.root, &snapshot.kernel)?;
        snapshot.kernel.checkpoint(&self.engine, None).map_err(|error| self.engine.fault(error))?;
        Ok(snapshot.version())
    }
}

/// Makes a folder and those above it, and their names durable: also of those that are there, since
/// a process that made them may have died right after that.
fn create_folders(options: &Options, folder: &Path) -> Result<()> {
    options.disk.create_folder(folder).map_err(DeltaError::io(folder))?;
    for above in folder.ancestors().skip(1) {
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        match options.disk.sync_folder(above) {
            // Nobody has made anything in it who may not even read it, or where nothing is written.
            Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {}
            synced => synced.map_err(DeltaError::io(above))?,
        }
    }
    Ok(())
}
