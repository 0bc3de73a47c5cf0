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
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use delta_kernel::transaction::{Transaction as Next, UpdateTableOperation};
use pagecast_core::positions::{Insert, Layer};
use parking_lot::Mutex;
use roaring::RoaringTreemap;

use crate::add::Add;
use crate::commit::{self, Since};
use crate::data::DataWriter;
use crate::engine::write_file;
use crate::error::{DeltaError, Result};
use crate::held::{Held, hold, look_up};
use crate::protocol::{self, Asking};
use crate::snapshot::{DataFile, Snapshot};
use crate::table::Table;
use crate::vector::{VectorFile, stretches};

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

impl Table {
    /// Begins changes of the newest version.
    ///
    /// # Errors
    /// As [`open`](Self::open), and writers of the table must know what we do not.
    pub fn begin(self: &Arc<Self>) -> Result<Arc<Transaction>> {
        Transaction::new(self, &look_up(|| self.newest())?)
    }
}

impl Transaction {
    pub(crate) fn new(table: &Arc<Table>, base: &Arc<Held>) -> Result<Arc<Self>> {
        protocol::check_write(&table.root, &base.kernel)?;
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
        self.check_change(&statement)?;
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
        if !changes.deleted.is_empty() && self.base.kernel.table_properties().append_only == Some(true) {
            let what = "rows may only be added (delta.appendOnly)".to_owned();
            return Err(DeltaError::Refused { path: self.table.root.clone(), what });
        }
        let new = self.write_rows(&changes)?;
        let in_version = Mutex::new(BTreeSet::new());
        let committed = commit::commit(&self.table, &self.base, changes.operation(), false, |since, next| {
            *in_version.lock() = self.add_to(next, &changes, &new, since)?;
            Ok(())
        });
        match &committed {
            Ok(_) => self.written.lock().retain(|name| !in_version.lock().contains(name)),
            Err(DeltaError::Conflict { .. } | DeltaError::Refused { .. } | DeltaError::Feature { .. }) => {}
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

    fn check_change(&self, statement: &Statement) -> Result<()> {
        let check = |change| protocol::check_change(&self.table.root, &self.base.kernel, change);
        match (statement.deleted.is_empty(), statement.rows.is_empty() && statement.files.is_empty()) {
            (true, _) => Ok(()),
            (false, true) => check(Asking::Delete),
            (false, false) => check(Asking::Delete).and_then(|()| check(Asking::Move)),
        }
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

    /// Adds the changes of the newest version to the next one. The files that it brings into it.
    fn add_to(&self, next: &mut Next, changes: &Changes, new: &[Add], since: &Since<'_>) -> Result<BTreeSet<String>> {
        let added = &changes.snapshot.files[self.base.files.len()..];
        let (mut adds, mut gone, mut marked, mut copied) = (new.to_vec(), Vec::new(), Vec::new(), Vec::new());
        for (_, file) in added {
            match changes.deleted.get(&file.add.path) {
                None => adds.push(file.add.clone()),
                Some(rows) => copied.push((file, rows.clone())),
            }
        }
        let marks = protocol::has_vectors(&since.tip.kernel);
        let is_own = |path: &str| added.iter().any(|(_, file)| file.add.path == path);
        for (path, rows) in changes.deleted.iter().filter(|(path, _)| !is_own(path)) {
            let file = since.file(path, rows)?;
            let rows = rows | &file.deleted;
            match (rows.len() == file.rows, marks && file.is_counted) {
                (false, true) => marked.push((file, rows)),
                (all, _) => {
                    if !all {
                        protocol::check_change(&self.table.root, &since.tip.kernel, Asking::Move)?;
                    }
                    gone.extend(since.tip.place(path));
                    copied.extend((!all).then_some((file, rows)));
                }
            }
        }
        adds.extend(self.copies(&copied, since.tip)?);
        let mut files: BTreeSet<String> = adds.iter().map(|add| add.path.clone()).collect();
        if !adds.is_empty() {
            next.add_files(commit::added(&adds)?);
        }
        if !gone.is_empty() {
            next.remove_files(since.tip.scanned(gone)?);
        }
        files.extend(self.mark(next, &marked, since.tip)?);
        Ok(files)
    }

    /// The files written anew without these rows.
    fn copies(&self, files: &[(&Arc<DataFile>, RoaringTreemap)], tip: &Snapshot) -> Result<Vec<Add>> {
        let mut writer = DataWriter::new(&self.table.root, &self.table.options, &tip.columns);
        for (file, rows) in files.iter().filter(|(file, rows)| rows.len() < file.rows) {
            writer.copy(file, left(file.rows, rows))?;
        }
        let copies = writer.finish()?;
        self.note(&copies);
        Ok(copies)
    }

    /// Marks these rows as deleted. The file of deletion vectors that says so.
    fn mark(
        &self,
        next: &mut Next,
        files: &[(&Arc<DataFile>, RoaringTreemap)],
        tip: &Snapshot,
    ) -> Result<Option<String>> {
        let Table { root, options, engine, .. } = &*self.table;
        let fault = |error| engine.fault(error);
        let of_files = files.iter().map(|(file, rows)| (file.add.path.as_str(), rows));
        let Some(vectors) = VectorFile::of(of_files).map_err(fault)? else { return Ok(None) };
        let path = root.join(&vectors.name);
        self.written.lock().insert(vectors.name.clone());
        write_file(&options.disk, &path, &vectors.bytes).map_err(DeltaError::io(&path))?;
        options.disk.sync_folder(root).map_err(DeltaError::io(root))?;
        let marked = tip.scanned(files.iter().filter_map(|(file, _)| tip.place(&file.add.path)))?;
        next.update_deletion_vectors(vectors.vectors.into_iter().collect(), [Ok(marked)].into_iter()).map_err(fault)?;
        Ok(Some(vectors.name))
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

impl Changes {
    /// What was done, for the log.
    fn operation(&self) -> UpdateTableOperation {
        let mut done = self.operations.iter();
        match (done.next(), done.next()) {
            (Some(&"WRITE"), None) => UpdateTableOperation::Write,
            (Some(&"DELETE"), None) => UpdateTableOperation::Delete,
            (Some(&"UPDATE"), None) => UpdateTableOperation::Update,
            _ => UpdateTableOperation::Merge,
        }
    }

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
