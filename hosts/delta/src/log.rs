//! Names in the log of a table, and what of its lines we ask for ourselves.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use delta_kernel::actions::deletion_vector::DeletionVectorDescriptor;
use serde::Deserialize;
use serde::de::IgnoredAny;
use uuid::Uuid;

use crate::error::{DeltaError, Result};
use crate::inside;

/// The folder of a table's log.
pub(crate) fn folder(root: &Path) -> PathBuf {
    root.join("_delta_log")
}

/// The file that makes a version.
pub(crate) fn commit_path(root: &Path, version: u64) -> PathBuf {
    folder(root).join(format!("{version:020}.json"))
}

/// Whether there is a Delta table in this folder.
pub fn is_table(root: &Path) -> bool {
    folder(root).is_dir()
}

/// The last version that a table can have: others count them as `i64`.
pub(crate) const LAST: u64 = i64::MAX as u64;

/// The version in a file's name, which has twenty digits.
fn version_of(name: &str) -> Option<u64> {
    let (text, _) = name.split_once('.')?;
    let version = text.parse().ok().filter(|&version| version <= LAST)?;
    (text.len() == 20 && text.bytes().all(|digit| digit.is_ascii_digit())).then_some(version)
}

/// Whether a file of the log is of a version, by its name.
pub(crate) fn is_of_version(name: &str) -> bool {
    version_of(name).is_some()
}

/// Which file made a version, by its length and time: a version is written once, and another file
/// under its name is of a table that was made anew. Nothing if the log has it no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Made(Option<(u64, SystemTime)>);

impl Made {
    pub(crate) fn of(root: &Path, version: u64) -> Self {
        let file = fs::metadata(commit_path(root, version)).ok();
        Self(file.and_then(|file| Some((file.len(), file.modified().ok()?))))
    }

    /// Whether the log has the file.
    pub(crate) fn is_there(self) -> bool {
        self.0.is_some()
    }
}

/// A line of the log, as far as conflicts and vacuums ask.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    pub(crate) add: Option<Named>,
    pub(crate) remove: Option<Named>,
    meta_data: Option<IgnoredAny>,
    protocol: Option<IgnoredAny>,
}

/// A file that a line names.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Named {
    pub(crate) path: String,
    pub(crate) deletion_timestamp: Option<i64>,
    pub(crate) deletion_vector: Option<DeletionVectorDescriptor>,
}

impl Line {
    pub(crate) fn names(&self, path: &str) -> bool {
        [&self.add, &self.remove].into_iter().flatten().any(|file| file.path == path)
    }

    /// Whether it changes the columns or the properties.
    pub(crate) fn is_of_table(&self) -> bool {
        self.meta_data.is_some() || self.protocol.is_some()
    }
}

/// The lines of a version.
pub(crate) fn lines(root: &Path, version: u64) -> Result<Vec<Line>> {
    let path = commit_path(root, version);
    inside::check_own(root, &path)?;
    let bytes = fs::read(&path).map_err(DeltaError::io(&path))?;
    lines_of(&path, &bytes)
}

/// The lines of a file.
pub(crate) fn lines_of(path: &Path, bytes: &[u8]) -> Result<Vec<Line>> {
    let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let broken = |error| DeltaError::broken(path, None, format!("a line is no action ({error})"));
    lines.map(|line| serde_json::from_slice(line).map_err(broken)).collect()
}

/// The versions whose files were written after `cut`, in milliseconds since 1970.
pub(crate) fn commits_since(root: &Path, cut: i64) -> Result<Vec<u64>> {
    let cut = SystemTime::UNIX_EPOCH + Duration::from_millis(cut.try_into().unwrap_or(0));
    let log = folder(root);
    let mut versions = Vec::new();
    for entry in fs::read_dir(&log).map_err(DeltaError::io(&log))? {
        let name = entry.map_err(DeltaError::io(&log))?.file_name();
        let name = name.to_string_lossy();
        versions.extend(version_of(&name).filter(|version| name == format!("{version:020}.json")));
    }
    versions.retain(|&version| Made::of(root, version).0.is_none_or(|(_, at)| at > cut));
    Ok(versions)
}

/// A file that has no name yet which others look for.
pub(crate) fn draft(folder: &Path) -> PathBuf {
    folder.join(format!("_draft_{}.tmp", Uuid::new_v4()))
}

/// Whether this is such a file, of us or of delta-rs.
pub(crate) fn is_draft(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".tmp") && (name.starts_with("_draft_") || name.starts_with("_commit_"))
}
