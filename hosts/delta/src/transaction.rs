//! What a session has changed and not yet committed, and how it becomes a version.
//!
//! Source: Świtakowski 2011, §4.5, with the positions of `pagecast_core::positions`. Stored rows
//! have their number over all files, deleted ones are known by it, and inserted ones follow behind
//! the last. A scan merges them: deleted rows leave the files' row selections, inserted rows come
//! from memory. Rows that memory has no room for go to files that no version has yet; they are
//! stored rows of this transaction alone.
//!
//! Isolation: a transaction sees the version at which it began, and its own changes. Whoever
//! commits first wins. A transaction that comes second is put on top of the newer version, unless
//! the columns changed there, or a row that both change, or a file was rewritten in which it
//! deletes. It is refused then, by the version's number. What it only read may have changed
//! (snapshot isolation).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use pagecast_core::positions::{Insert, Layer};
use parking_lot::Mutex;
use roaring::RoaringTreemap;
use serde_json::json;

use crate::actions::{Action, Add};
use crate::commit::{self, Since};
use crate::data::DataWriter;
use crate::error::{DeltaError, Result};
use crate::held::{Held, hold};
use crate::log;
use crate::snapshot::{DataFile, Snapshot};
use crate::table::Table;
use crate::vector::{VectorFile, stretches};
use crate::{now, protocol, vector};

/// Changes of a table that nobody else sees yet.
#[derive(Debug)]
pub struct Transaction {
    table: Arc<Table>,
    base: Arc<Held>,
    changes: Mutex<Changes>,
    /// Files that it wrote and that are in no version, by their names.
    written: Mutex<BTreeSet<String>>,
}

/// What was changed.
#[derive(Clone, Debug)]
pub(crate) struct Changes {
    /// The version, and behind its files those that were written since.
    pub(crate) snapshot: Arc<Held>,
    /// By the path of a file, the numbers of rows in it that were deleted since.
    deleted: BTreeMap<String, RoaringTreemap>,
    /// Inserted rows.
    pub(crate) rows: Vec<RecordBatch>,
    /// Those of them that were deleted again, by their numbers.
    dropped: RoaringTreemap,
    /// What was done, for the log.
    operations: BTreeSet<&'static str>,
    /// Whether it was committed, or tried to.
    ended: bool,
}

/// One statement's changes.
#[derive(Debug, Default)]
pub(crate) struct Statement {
    pub(crate) operation: &'static str,
    /// Positions of rows that go.
    pub(crate) deleted: Vec<i64>,
    pub(crate) rows: Vec<RecordBatch>,
    /// Files of rows that had no room in memory.
    pub(crate) files: Vec<Add>,
}

impl Transaction {
    pub(crate) fn new(table: &Arc<Table>, base: &Arc<Held>) -> Result<Arc<Self>> {
        protocol::check_write(&table.root, &base.state.protocol, &base.state.metadata)?;
        let changes = Changes {
            snapshot: Arc::clone(base),
            deleted: BTreeMap::new(),
            rows: Vec::new(),
            dropped: RoaringTreemap::new(),
            operations: BTreeSet::new(),
            ended: false,
        };
        let (table, base) = (Arc::clone(table), Arc::clone(base));
        Ok(Arc::new(Self { table, base, changes: Mutex::new(changes), written: Mutex::default() }))
    }

    /// The version at which it began.
    pub fn base(&self) -> &Arc<Snapshot> {
        &self.base
    }

    /// Whether anything was changed.
    pub fn has_changes(&self) -> bool {
        !self.changes.lock().operations.is_empty()
    }

    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.base
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The changes up to now.
    pub(crate) fn changes(&self) -> Changes {
        self.changes.lock().clone()
    }

    /// Adds what a statement has changed, all of it or nothing.
    pub(crate) fn apply(&self, statement: Statement) -> Result<()> {
        self.note(&statement.files);
        let mut changes = self.changes.lock();
        self.check_open(&changes)?;
        let mut after = changes.clone();
        after.delete(&statement.deleted)?;
        if !statement.files.is_empty() {
            after.snapshot = hold(&Arc::new(after.snapshot.with(statement.files)?));
        }
        after.rows.extend(statement.rows);
        after.operations.insert(statement.operation);
        *changes = after;
        Ok(())
    }

    /// Makes a version of the changes; its number. Without changes it is the base's. It can be done
    /// once.
    ///
    /// # Errors
    /// [`DeltaError::Conflict`], or a file could not be read or written. The table is as it was
    /// then, but for an error after which it cannot be known: the file system failed while the
    /// version got its name.
    pub fn commit(&self) -> Result<u64> {
        let changes = {
            let mut changes = self.changes.lock();
            self.check_open(&changes)?;
            changes.ended = true;
            changes.clone()
        };
        if changes.operations.is_empty() {
            return Ok(self.base.version());
        }
        if !changes.deleted.is_empty() && protocol::is_append_only(&self.base.state.metadata) {
            let what = "rows may only be added (delta.appendOnly)".to_owned();
            return Err(DeltaError::Refused { path: self.table.root.clone(), what });
        }
        let new = self.write_rows(&changes)?;
        let in_version = Mutex::new(BTreeSet::new());
        let committed = commit::commit(&self.table, &self.base, |since| {
            let actions = self.actions(&changes, &new, since)?;
            *in_version.lock() = actions.iter().flat_map(files_of).collect();
            Ok(actions)
        });
        match &committed {
            Ok(_) => self.written.lock().retain(|name| !in_version.lock().contains(name)),
            Err(DeltaError::Conflict { .. } | DeltaError::Refused { .. }) => {}
            // The version may have its name, and then it has the files.
            Err(_) => self.written.lock().clear(),
        }
        committed
    }

    fn check_open(&self, changes: &Changes) -> Result<()> {
        if changes.ended {
            let what = "the transaction has ended; begin another".to_owned();
            return Err(DeltaError::Refused { path: self.table.root.clone(), what });
        }
        Ok(())
    }

    /// Notes files that are to go if no version gets them.
    fn note<'a>(&self, adds: impl IntoIterator<Item = &'a Add>) {
        self.written.lock().extend(adds.into_iter().map(|add| add.path.clone()));
    }

    /// Writes the inserted rows that are left in memory.
    fn write_rows(&self, changes: &Changes) -> Result<Vec<Add>> {
        let mut writer = DataWriter::new(&self.table.root, &self.table.options, &self.base.columns);
        changes.inserted_rows().try_for_each(|rows| writer.write(&rows))?;
        let new = writer.finish()?;
        self.note(&new);
        Ok(new)
    }

    /// What brings the newest version to the next one.
    fn actions(&self, changes: &Changes, new: &[Add], since: &Since<'_>) -> Result<Vec<Action>> {
        let added = &changes.snapshot.files[self.base.files.len()..];
        let mut adds: Vec<Add> = new.to_vec();
        adds.extend(
            added
                .iter()
                .filter(|(_, file)| !changes.deleted.contains_key(&file.add.path))
                .map(|(_, file)| file.add.clone()),
        );
        let mut shrunk = Vec::new();
        for (path, rows) in &changes.deleted {
            let own = added.iter().find(|(_, file)| file.add.path == *path);
            let file = match own {
                Some((_, file)) => file,
                None => since.file(path, rows)?,
            };
            shrunk.push((file, rows | &file.deleted, own.is_some()));
        }
        let mut actions = vec![self.info(changes)];
        let removed = shrunk.iter().filter(|(_, _, own)| !own);
        actions.extend(
            removed.map(|(file, ..)| Action { remove: Some(file.add.removed(now(), true)), ..Action::default() }),
        );
        adds.extend(self.without_rows(shrunk.iter().map(|(file, rows, _)| (*file, rows)), since.tip)?);
        actions.extend(adds.into_iter().map(|add| Action { add: Some(add), ..Action::default() }));
        Ok(actions)
    }

    /// The files without these rows: with a deletion vector, or written anew.
    fn without_rows<'a>(
        &self,
        files: impl Iterator<Item = (&'a Arc<DataFile>, &'a RoaringTreemap)>,
        tip: &Snapshot,
    ) -> Result<Vec<Add>> {
        let Table { root, options, .. } = &*self.table;
        let marks = protocol::has_vectors(&tip.state.protocol, &tip.state.metadata);
        let (mut adds, mut vectors) = (Vec::new(), VectorFile::new());
        let mut writer = DataWriter::new(root, options, &tip.columns);
        for (file, rows) in files.filter(|(file, rows)| rows.len() < file.rows) {
            if marks {
                let stats = file.add.stats.as_deref().map(loosened);
                adds.push(Add {
                    deletion_vector: Some(vectors.push(rows)),
                    stats,
                    data_change: true,
                    ..file.add.clone()
                });
            } else {
                writer.copy(file, left(file.rows, rows))?;
            }
        }
        let copies = writer.finish()?;
        self.note(&copies);
        adds.extend(copies);
        if vectors.bytes.len() > 1 {
            self.written.lock().insert(vectors.name());
            log::write_file(options, &root.join(vectors.name()), &vectors.bytes)?;
            options.disk.sync_folder(root).map_err(DeltaError::io(root))?;
        }
        Ok(adds)
    }

    fn info(&self, changes: &Changes) -> Action {
        let operation = match changes.operations.iter().copied().collect::<Vec<_>>()[..] {
            [one] => one,
            _ => "MERGE",
        };
        let info = json!({
            "timestamp": now(),
            "operation": operation,
            "operationParameters": {},
            "readVersion": self.base.version(),
            "engineInfo": crate::ENGINE,
        });
        Action { commit_info: Some(info), ..Action::default() }
    }
}

/// A transaction that was not committed leaves no files. What a process leaves that ends in its
/// middle is in no version, and harms nobody.
impl Drop for Transaction {
    fn drop(&mut self) {
        for name in self.written.get_mut().iter() {
            let _ = self.table.options.disk.remove(&self.table.root.join(name));
        }
    }
}

/// The files that an action brings into a version.
fn files_of(action: &Action) -> Vec<String> {
    let Some(add) = &action.add else { return Vec::new() };
    let vector = add.deletion_vector.as_ref().and_then(|vector| vector::path(Path::new(""), vector));
    let vector = vector.and_then(|path| Some(path.to_str()?.to_owned()));
    [add.path.clone()].into_iter().chain(vector).collect()
}

impl Changes {
    /// Where the rows are that the transaction sees.
    pub(crate) fn layer(&self) -> Result<Layer> {
        let before = self.snapshot.stored;
        let kept = self.kept().into_iter().map(|rows| Insert { before, rows });
        self.snapshot.layer(&self.deleted, kept)
    }

    /// The numbers of inserted rows that were not deleted again.
    fn kept(&self) -> Vec<Range<u64>> {
        let inserted: usize = self.rows.iter().map(RecordBatch::num_rows).sum();
        complement(inserted as u64, &self.dropped)
    }

    /// The inserted rows that are left.
    pub(crate) fn inserted_rows(&self) -> impl Iterator<Item = RecordBatch> {
        let mut first = 0;
        let kept = self.kept();
        self.rows.iter().flat_map(move |batch| {
            let (start, end) = (first, first + batch.num_rows() as u64);
            first = end;
            let parts =
                kept.iter().map(move |rows| rows.start.max(start)..rows.end.min(end)).filter(|rows| !rows.is_empty());
            parts
                .map(|rows| batch.slice((rows.start - start) as usize, (rows.end - rows.start) as usize))
                .collect::<Vec<_>>()
        })
    }

    fn delete(&mut self, positions: &[i64]) -> Result<()> {
        let snapshot = Arc::clone(&self.snapshot);
        for &position in positions {
            let first = match u64::try_from(position) {
                Ok(stored) => {
                    let (file, row) = snapshot.locate(stored).ok_or_else(|| not_there(position))?;
                    !file.deleted.contains(row) && self.deleted.entry(file.add.path.clone()).or_default().insert(row)
                }
                Err(_) => self.dropped.insert(!position as u64),
            };
            if !first {
                let what = "a row is to be changed twice: it meets several rows of what it is joined with".to_owned();
                return Err(DeltaError::Refused { path: snapshot.root.clone(), what });
            }
        }
        Ok(())
    }
}

fn not_there(position: i64) -> DeltaError {
    DataFusionError::Internal(format!("there is no row at position {position}")).into()
}

/// What is left of so many rows.
pub(crate) fn left(rows: u64, deleted: &RoaringTreemap) -> Vec<Range<usize>> {
    complement(rows, deleted).into_iter().map(|rows| rows.start as usize..rows.end as usize).collect()
}

fn complement(rows: u64, gone: &RoaringTreemap) -> Vec<Range<u64>> {
    let mut at = 0;
    let mut kept: Vec<_> = stretches(gone).map(|gone| std::mem::replace(&mut at, gone.end)..gone.start).collect();
    kept.push(at..rows);
    kept.retain(|rows| !rows.is_empty());
    kept
}

/// Statistics of a file of which rows were deleted: bounds that no row need reach.
fn loosened(stats: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<serde_json::Value>(stats) else { return stats.to_owned() };
    if let Some(fields) = value.as_object_mut() {
        fields.insert("tightBounds".to_owned(), false.into());
    }
    value.to_string()
}
