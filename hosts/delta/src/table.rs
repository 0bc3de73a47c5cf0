//! A Delta table in a folder.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::Schema;
use parking_lot::Mutex;
use serde_json::json;
use uuid::Uuid;

use crate::actions::{Action, Format, Metadata, Protocol};
use crate::disk::{Disk, LocalDisk};
use crate::error::{DeltaError, Result};
use crate::held::look_up;
use crate::protocol::{DELETION_VECTORS, ENABLE_VECTORS};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use crate::{log, now, protocol, schema};

/// How a table is written. Start from the default and change what matters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Rows of a row group of new files: what scans share. Default: 131072.
    pub row_group_rows: usize,
    /// Rows of a page of new files: what a scan can leave out. Default: 8192.
    pub page_rows: usize,
    /// Bytes after which a new file is begun. Default: 128 MiB.
    pub file_bytes: usize,
    /// Bytes of inserted rows that a transaction keeps in memory before it writes a file of them.
    /// Default: 64 MiB.
    pub memory: usize,
    /// Where changes are written.
    pub disk: Arc<dyn Disk>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            row_group_rows: 128 << 10,
            page_rows: 8 << 10,
            file_bytes: 128 << 20,
            memory: 64 << 20,
            disk: Arc::new(LocalDisk),
        }
    }
}

/// A Delta table in a folder of this machine. It may be shared by any number of threads.
#[derive(Debug)]
pub struct Table {
    pub(crate) root: PathBuf,
    pub(crate) options: Options,
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
        let table = Self { root, options, newest: Mutex::default() };
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
        let features = vec![DELETION_VECTORS.to_owned()];
        let protocol = Protocol {
            min_reader_version: 3,
            min_writer_version: 7,
            reader_features: Some(features.clone()),
            writer_features: Some(features),
        };
        let metadata = Metadata {
            id: Uuid::new_v4().to_string(),
            format: Format { provider: "parquet".to_owned(), ..Format::default() },
            schema_string: columns.to_string(),
            partition_columns: partitions.iter().map(|&name| name.to_owned()).collect(),
            configuration: [(ENABLE_VECTORS.to_owned(), Some("true".to_owned()))].into(),
            created_time: Some(now()),
            ..Metadata::default()
        };
        let log = log::folder(folder);
        create_folders(&options, &log)?;
        let info = json!({"timestamp": now(), "operation": "CREATE TABLE", "engineInfo": crate::ENGINE});
        let actions = [
            Action { commit_info: Some(info), ..Action::default() },
            Action { protocol: Some(protocol), ..Action::default() },
            Action { meta_data: Some(metadata), ..Action::default() },
        ];
        if !log::commit(folder, &options, 0, &actions)? {
            return Err(refused("there is a Delta table here already".to_owned()));
        }
        Self::open_with(folder, options)
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
        let state = log::replay(&self.root, None, known.as_ref().map(|known| &*known.state))?;
        let is_same = |known: &&Arc<Snapshot>| known.version() == state.version && known.state.made == state.made;
        if let Some(known) = known.as_ref().filter(is_same) {
            return Ok(Arc::clone(known));
        }
        let snapshot = Arc::new(Snapshot::of(&self.root, state, known.as_deref())?);
        let mut newest = self.newest.lock();
        let is_older = |newest: &Arc<Snapshot>| {
            newest.version() < snapshot.version() || newest.state.metadata.id != snapshot.state.metadata.id
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
        let state = log::replay(&self.root, Some(version), known.as_ref().map(|known| &*known.state))?;
        if let Some(known) = known.as_ref().filter(|known| known.version() == version && known.state.made == state.made)
        {
            return Ok(Arc::clone(known));
        }
        let gone = |file: &Path| {
            let name = file.strip_prefix(&self.root).unwrap_or(file).display();
            let what = format!("version {version} is gone: {name} is not there, a vacuum may have deleted it");
            DeltaError::Missing { path: self.root.clone(), what }
        };
        let snapshot = match Snapshot::of(&self.root, state, known.as_deref()) {
            // A deletion vector, which is read along.
            Err(DeltaError::Io { path, source }) if source.kind() == ErrorKind::NotFound => {
                return Err(gone(&path));
            }
            snapshot => snapshot?,
        };
        let known = known.iter().flat_map(|known| known.files()).collect::<HashSet<_>>();
        if let Some(file) = snapshot.files().find(|&file| !known.contains(file) && !file.exists()) {
            return Err(gone(file));
        }
        Ok(Arc::new(snapshot))
    }

    /// Writes the log's checkpoint, where the table wants one at this version. The version is there
    /// with it or without.
    pub(crate) fn after_commit(&self, version: u64) {
        let every = |state: &log::State| {
            let every = state.metadata.property("delta.checkpointInterval").and_then(|text| text.parse().ok());
            every.filter(|&every: &u64| every > 0).unwrap_or(10)
        };
        if let Ok(snapshot) = self.at(version)
            && version.is_multiple_of(every(&snapshot.state))
        {
            let _ = log::write_checkpoint(&self.root, &self.options, &snapshot.state);
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
        protocol::check_write(&self.root, &snapshot.state.protocol, &snapshot.state.metadata)?;
        log::write_checkpoint(&self.root, &self.options, &snapshot.state)?;
        Ok(snapshot.version())
    }

    /// Begins changes of the newest version.
    ///
    /// # Errors
    /// As [`open`](Self::open), and writers of the table must know what we do not.
    pub fn begin(self: &Arc<Self>) -> Result<Arc<Transaction>> {
        Transaction::new(self, &look_up(|| self.newest())?)
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
