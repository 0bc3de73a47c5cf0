//! The log of a table, replayed to a version.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use datafusion::common::DataFusionError;
use uuid::Uuid;

use crate::actions::{Action, Add, FileKey, Metadata, Protocol, Remove, Txn};
use crate::checkpoint;
use crate::error::{DeltaError, Result};
use crate::inside;
use crate::table::Options;

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

/// What the actions up to a version make.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) version: u64,
    pub(crate) protocol: Protocol,
    pub(crate) metadata: Metadata,
    pub(crate) files: BTreeMap<FileKey, Add>,
    /// Files that were taken out and may still be there.
    pub(crate) removed: BTreeMap<FileKey, Remove>,
    pub(crate) applications: BTreeMap<String, Txn>,
    pub(crate) made: Made,
}

/// Which file made a version, by its length and time: a version is written once, and another file
/// under its name is of a table that was made anew. Nothing if the log has it no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Made(Option<(u64, SystemTime)>);

impl Made {
    fn of(root: &Path, version: u64) -> Self {
        let file = fs::metadata(commit_path(root, version)).ok();
        Self(file.and_then(|file| Some((file.len(), file.modified().ok()?))))
    }
}

impl State {
    pub(crate) fn apply(&mut self, action: Action) {
        if let Some(protocol) = action.protocol {
            self.protocol = protocol;
        }
        if let Some(metadata) = action.meta_data {
            self.metadata = metadata;
        }
        if let Some(add) = action.add {
            self.removed.remove(&add.key());
            self.files.insert(add.key(), add);
        }
        if let Some(remove) = action.remove {
            self.files.remove(&remove.key());
            self.removed.insert(remove.key(), remove);
        }
        if let Some(txn) = action.txn {
            self.applications.insert(txn.app_id.clone(), txn);
        }
    }

    /// Applies the commits behind this version, up to `to`.
    fn advance(&mut self, root: &Path, to: u64) -> Result<()> {
        for version in self.version + 1..=to {
            read_commit(root, version)?.into_iter().for_each(|action| self.apply(action));
            self.version = version;
        }
        Ok(())
    }
}

/// The files of a log.
struct Listing {
    commits: Vec<u64>,
    /// By version, the files of a checkpoint that are there.
    checkpoints: BTreeMap<u64, Vec<Part>>,
}

/// The last version that a table can have: others count them as `i64`.
const LAST: u64 = i64::MAX as u64;

/// The version in a file's name, which has twenty digits.
fn version_of(text: &str) -> Option<u64> {
    let version = text.parse().ok().filter(|&version| version <= LAST)?;
    (text.len() == 20 && text.bytes().all(|digit| digit.is_ascii_digit())).then_some(version)
}

/// A file of a checkpoint, of so many.
struct Part {
    path: PathBuf,
    of: u64,
}

impl Listing {
    fn of(root: &Path) -> Result<Self> {
        let log = folder(root);
        inside::check(root, &log)?;
        let entries = fs::read_dir(&log).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                DeltaError::Missing { path: root.to_owned(), what: "no Delta table is here".to_owned() }
            }
            _ => DeltaError::io(&log)(error),
        })?;
        let mut listing = Self { commits: Vec::new(), checkpoints: BTreeMap::new() };
        for entry in entries {
            let path = entry.map_err(DeltaError::io(&log))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let parts: Vec<_> = name.split('.').collect();
            let Some(version) = parts.first().and_then(|text| version_of(text)) else { continue };
            match parts[1..] {
                ["json"] => listing.commits.push(version),
                ["checkpoint", "parquet"] => listing.checkpoints.entry(version).or_default().push(Part { path, of: 1 }),
                ["checkpoint", _, of, "parquet"] => {
                    // The other kind of name, with an id and no number, is a checkpoint of version
                    // 2, which only tables with that feature have.
                    let Ok(of) = of.parse() else { continue };
                    listing.checkpoints.entry(version).or_default().push(Part { path, of });
                }
                _ => {}
            }
        }
        listing.commits.sort_unstable();
        Ok(listing)
    }

    /// The newest checkpoint that is whole and not newer than `version`.
    fn checkpoint(&self, version: u64) -> Option<(u64, Vec<&Part>)> {
        self.checkpoints.range(..=version).rev().find_map(|(&version, parts)| {
            // Two writers may have made one in different numbers of files.
            let whole = |of: u64| parts.iter().filter(|part| part.of == of).count() as u64 == of;
            let of = parts.iter().map(|part| part.of).find(|&of| whole(of))?;
            let mut parts: Vec<_> = parts.iter().filter(|part| part.of == of).collect();
            parts.sort_unstable_by(|a, b| a.path.cmp(&b.path));
            Some((version, parts))
        })
    }

    fn newest(&self) -> Option<u64> {
        self.commits.last().copied().max(self.checkpoints.keys().last().copied())
    }
}

/// The state at `version`, or the newest. `known` spares reading what lies before it.
pub(crate) fn replay(root: &Path, version: Option<u64>, known: Option<&State>) -> Result<State> {
    let listing = Listing::of(root)?;
    let missing = |what: String| DeltaError::Missing { path: root.to_owned(), what };
    let newest = listing.newest().ok_or_else(|| missing("its log is empty".to_owned()))?;
    let to = version.unwrap_or(newest);
    if to > newest {
        return Err(missing(format!("there is no version {to}, the newest is {newest}")));
    }
    let checkpoint = listing.checkpoint(to);
    let known =
        known.filter(|state| state.version <= to && checkpoint.as_ref().is_none_or(|(at, _)| *at <= state.version));
    let known = known.filter(|state| state.made == Made::of(root, state.version));
    let (mut state, next) = match (known, &checkpoint) {
        (Some(known), _) => (known.clone(), known.version + 1),
        (None, Some((at, parts))) => {
            let mut state = State { version: *at, ..State::default() };
            for part in parts {
                inside::check(root, &part.path)?;
                checkpoint::read(&part.path)?.into_iter().for_each(|action| state.apply(action));
            }
            (state, at + 1)
        }
        (None, None) => (State::default(), 0),
    };
    // A folder that grows while it is listed may show a version without the one before.
    let is_there =
        |version: u64| listing.commits.binary_search(&version).is_ok() || commit_path(root, version).exists();
    if let Some(gap) = (next..=to).find(|&version| !is_there(version)) {
        let fault = format!("version {gap} is missing between the versions around it");
        return Err(DeltaError::broken(&commit_path(root, gap), None, fault));
    }
    if next == 0 {
        read_commit(root, 0)?.into_iter().for_each(|action| state.apply(action));
    }
    state.advance(root, to)?;
    state.made = Made::of(root, to);
    let first = commit_path(root, state.version);
    if state.protocol == Protocol::default() || state.metadata == Metadata::default() {
        return Err(DeltaError::broken(&first, None, "up to here the log names no protocol or no schema"));
    }
    Ok(state)
}

/// The actions of a version.
pub(crate) fn read_commit(root: &Path, version: u64) -> Result<Vec<Action>> {
    let path = commit_path(root, version);
    inside::check(root, &path)?;
    let bytes = fs::read(&path).map_err(DeltaError::io(&path))?;
    let mut actions = Vec::new();
    let mut start = 0;
    for line in bytes.split(|&byte| byte == b'\n') {
        if !line.trim_ascii().is_empty() {
            let action = serde_json::from_slice(line).map_err(|error| {
                let at = (start + error.column().saturating_sub(1).min(line.len())) as u64;
                let what = if error.is_eof() { "the line is torn" } else { "the line is no action" };
                DeltaError::broken(&path, at, format!("{what} ({error})"))
            })?;
            actions.push(action);
        }
        start += line.len() + 1;
    }
    Ok(actions)
}

/// The versions whose files were written after `cut`, in milliseconds since 1970.
pub(crate) fn commits_since(root: &Path, cut: i64) -> Result<Vec<u64>> {
    let cut = SystemTime::UNIX_EPOCH + Duration::from_millis(cut.try_into().unwrap_or(0));
    let mut versions = Listing::of(root)?.commits;
    versions.retain(|&version| Made::of(root, version).0.is_none_or(|(_, at)| at > cut));
    Ok(versions)
}

/// A file of the log that has no name yet which others look for.
fn draft(log: &Path) -> PathBuf {
    log.join(format!("_draft_{}.tmp", Uuid::new_v4()))
}

/// Whether this is such a file, of us or of delta-rs.
pub(crate) fn is_draft(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".tmp") && (name.starts_with("_draft_") || name.starts_with("_commit_"))
}

/// Writes a version, unless somebody has written it already. Nobody sees a part of it: the file
/// gets its name when it is whole.
pub(crate) fn commit(root: &Path, options: &Options, version: u64, actions: &[Action]) -> Result<bool> {
    if version > LAST {
        return Err(DeltaError::Refused { path: root.to_owned(), what: "it has its last version".to_owned() });
    }
    let mut lines = Vec::new();
    for action in actions {
        let line = serde_json::to_vec(action).map_err(|error| DataFusionError::External(Box::new(error)))?;
        lines.extend(line);
        lines.push(b'\n');
    }
    let log = folder(root);
    let (draft, path) = (draft(&log), commit_path(root, version));
    write_file(options, &draft, &lines)?;
    // The draft is ours alone, so that a second name is the version's: also where the file system
    // says that the link failed, or that the version was there.
    let linked = options.disk.link(&draft, &path).or_else(|error| match options.disk.names(&draft) {
        Ok(2..) => Ok(()),
        _ => Err(error),
    });
    // A draft that stays does no harm: no reader looks at it.
    let _ = options.disk.remove(&draft);
    match linked {
        Ok(()) => options.disk.sync_folder(&log).map_err(DeltaError::io(&log)).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(DeltaError::io(&path)(error)),
    }
}

/// Writes a file, durable but for its name.
pub(crate) fn write_file(options: &Options, path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let mut file = options.disk.create(path)?;
        file.write_all(bytes)?;
        file.sync()
    };
    write().map_err(DeltaError::io(path))
}

/// Writes the checkpoint of `state`, and says where it is.
pub(crate) fn write_checkpoint(root: &Path, options: &Options, state: &State) -> Result<()> {
    let (bytes, size) = checkpoint::bytes(state, crate::now())?;
    let log = folder(root);
    let hint = serde_json::json!({"version": state.version, "size": size});
    let path = log.join(format!("{:020}.checkpoint.parquet", state.version));
    for (path, bytes) in [(path, bytes), (log.join("_last_checkpoint"), hint.to_string().into_bytes())] {
        let draft = draft(&log);
        write_file(options, &draft, &bytes)?;
        options.disk.replace(&draft, &path).map_err(DeltaError::io(&path))?;
        options.disk.sync_folder(&log).map_err(DeltaError::io(&log))?;
    }
    Ok(())
}
