//! Vacuum: files that no version within the retention needs are deleted.
//!
//! A file is needed if the newest version has it, if it left the table within the retention, or if
//! a scan of this process may still read it. A file that the log does not name is of a writer that
//! has not committed yet, or that has died. Its time tells them apart, and so a retention must be
//! longer than any transaction. As with other Delta writers, one shorter than the table's own
//! (`delta.deletedFileRetentionDuration`, else 7 days) has to be forced.
//!
//! Looked at are data files (`*.parquet`), files of deletion vectors and drafts of our own log.
//! Whatever else lies in the folder stays.

use std::collections::HashSet;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow::json::LineDelimitedWriter;
use datafusion::common::DataFusionError;
use delta_kernel::actions::deletion_vector::DeletionVectorDescriptor;
use delta_kernel::actions::get_commit_schema;
use delta_kernel::engine::arrow_data::EngineDataArrowExt;

use crate::error::{DeltaError, Result};
use crate::log::Named;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::{held, log, now, protocol, vector};

/// The property that says for how long files stay that are no longer in the table.
const RETENTION: &str = "delta.deletedFileRetentionDuration";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a vacuum may delete. The default is as the table says, or what is older than 7 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vacuum {
    /// For how long versions can be read that are no longer the newest.
    pub retention: Option<Duration>,
    /// Whether nothing is deleted.
    pub dry_run: bool,
    /// Whether the retention may be shorter than the table's own. Nobody else may then write the
    /// table, nor read an old version of it in another process.
    pub force: bool,
}

/// A file that a vacuum has deleted, or would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vacuumed {
    /// Where it is, or was.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
}

impl Table {
    /// Deletes the files that no version within a retention needs. They come in the order of their
    /// paths.
    ///
    /// # Errors
    /// The retention is shorter than the table's own and not forced, writers of the table must know
    /// what we do not, or a file cannot be deleted. Those before it are gone then, and every
    /// version within the retention is whole.
    pub fn vacuum(&self, how: Vacuum) -> Result<Vec<Vacuumed>> {
        let snapshot = self.newest()?;
        protocol::check_write(&self.root, &snapshot.kernel)?;
        let own = retention_of(&snapshot)?;
        let retention = how.retention.unwrap_or(own);
        if retention < own && !how.force && !how.dry_run {
            let what = format!(
                "a retention of {} hours is shorter than the table's {}, which others may rely on; nothing was done",
                retention.as_secs() / 3600,
                own.as_secs() / 3600
            );
            return Err(DeltaError::Refused { path: self.root.clone(), what });
        }
        let cut = now().saturating_sub(i64::try_from(retention.as_millis()).unwrap_or(i64::MAX));
        let needed = self.needed(&snapshot, cut)?;
        let mut gone = Vec::new();
        let is_old = |entry: &DirEntry| modified(entry).is_some_and(|at| at <= cut);
        walk(&self.root, &mut |entry, bytes| {
            let path = entry.path();
            if is_ours(&path) && !needed.paths.contains(&path) && (needed.left.contains(&path) || is_old(entry)) {
                gone.push(Vacuumed { path, bytes });
            }
        })?;
        for entry in entries(&log::folder(&self.root))? {
            if log::is_draft(&entry.path()) && is_old(&entry) {
                gone.push(Vacuumed { bytes: entry.metadata().map_or(0, |file| file.len()), path: entry.path() });
            }
        }
        gone.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        if !how.dry_run {
            gone.iter().try_for_each(|file| self.remove(&file.path))?;
        }
        Ok(gone)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match self.options.disk.remove(path) {
            // Another vacuum was first.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(DeltaError::io(path)),
        }
    }

    /// The files that stay, and those that left the table before `cut`.
    fn needed(&self, snapshot: &Snapshot, cut: i64) -> Result<Needed> {
        let mut needed = Needed { paths: held::files(&self.root), left: HashSet::new() };
        for (_, file) in &snapshot.files {
            needed.paths.extend(self.files_of(&file.add.path, file.add.deletion_vector.as_ref())?);
        }
        let mut removed = self.removed(snapshot)?;
        // A checkpoint need not have the files that left the table long ago. The log may.
        for version in log::commits_since(&self.root, cut)? {
            removed.extend(log::lines(&self.root, version)?.into_iter().filter_map(|line| line.remove));
        }
        for file in removed {
            let paths = self.files_of(&file.path, file.deletion_vector.as_ref())?;
            let is_late = file.deletion_timestamp.is_none_or(|at| at > cut);
            if is_late { &mut needed.paths } else { &mut needed.left }.extend(paths);
        }
        Ok(needed)
    }

    /// The files that the log still says have left the table.
    fn removed(&self, snapshot: &Snapshot) -> Result<Vec<Named>> {
        let fault = |error| self.engine.fault(error);
        let actions = get_commit_schema().project(&["remove"]).map_err(fault)?;
        let mut json = LineDelimitedWriter::new(Vec::new());
        for batch in snapshot.kernel.log_segment().read_actions(&self.engine, actions).map_err(fault)? {
            let batch = batch.map(|batch| batch.actions).try_into_record_batch().map_err(fault)?;
            json.write(&batch).map_err(DataFusionError::from)?;
        }
        json.finish().map_err(DataFusionError::from)?;
        log::lines_of(&log::folder(&self.root), &json.into_inner())
            .map(|lines| lines.into_iter().filter_map(|line| line.remove).collect())
    }

    /// A data file, and that of its deletion vector, as the file system has them.
    fn files_of(&self, path: &str, vector: Option<&DeletionVectorDescriptor>) -> Result<Vec<PathBuf>> {
        let mut paths = vec![self.engine.places().path_of(path)?];
        if let Some(vector) = vector {
            paths.extend(vector::path(&self.engine, vector)?);
        }
        Ok(paths.into_iter().map(|path| path.canonicalize().unwrap_or(path)).collect())
    }
}

/// Paths as the file system has them: a log may name a file through a link.
struct Needed {
    paths: HashSet<PathBuf>,
    /// Files that no version within the retention has.
    left: HashSet<PathBuf>,
}

/// For how long the table keeps files that are no longer in it.
fn retention_of(snapshot: &Snapshot) -> Result<Duration> {
    let properties = snapshot.kernel.table_properties();
    match properties.unknown_properties.get(RETENTION) {
        None => Ok(properties.deleted_file_retention_duration.unwrap_or(7 * DAY)),
        Some(text) => {
            let what = format!("{RETENTION} is no time that pagecast knows: {text}; nothing was done");
            Err(DeltaError::Refused { path: snapshot.root.clone(), what })
        }
    }
}

/// Whether it is a data file or one of deletion vectors, by its name.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".parquet") || (name.starts_with("deletion_vector_") && name.ends_with(".bin"))
}

/// Visits the files of a table, each with its size. Links are not followed. What begins with an
/// underscore or a dot is none of them, unless it is a folder of a partition, and neither is what
/// lies in a folder that is a table itself.
fn walk(folder: &Path, visit: &mut impl FnMut(&DirEntry, u64)) -> Result<()> {
    for entry in entries(folder)? {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(['_', '.']) && !name.contains('=') {
            continue;
        }
        let path = entry.path();
        let file = match entry.metadata() {
            // Somebody else has deleted it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file.map_err(DeltaError::io(&path))?,
        };
        if file.is_dir() {
            if !log::is_table(&path) {
                walk(&path, visit)?;
            }
        } else if file.is_file() {
            visit(&entry, file.len());
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<DirEntry>> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect);
    entries.map_err(DeltaError::io(folder))
}

/// When a file was written, in milliseconds since 1970.
fn modified(entry: &DirEntry) -> Option<i64> {
    let at: SystemTime = entry.metadata().ok()?.modified().ok()?;
    i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}
