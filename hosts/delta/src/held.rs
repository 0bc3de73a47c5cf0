//! Which data files scans of this process may still read: a vacuum leaves them where they are.
//!
//! Whoever has a version to be read holds its files: the readers of a scan, from its plan to the
//! end of its streams; a table at a version, and with it a statement that is not planned yet; a
//! transaction. The newest version that a [`Table`](crate::Table) knows is not held.
//!
//! A version is looked up and held in one step ([`look_up`]). A vacuum waits for those that are in
//! this step: what they found is held then. What is looked up later is no older than the version
//! that the vacuum knows, and so has no file that goes.

use std::collections::HashSet;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};

use crate::error;
use crate::snapshot::Snapshot;

/// The files of a version are read, or will be, while this is there.
#[derive(Debug)]
pub(crate) struct Held(Arc<Snapshot>);

impl Deref for Held {
    type Target = Arc<Snapshot>;

    fn deref(&self) -> &Arc<Snapshot> {
        &self.0
    }
}

static HELD: Mutex<Vec<Weak<Held>>> = Mutex::new(Vec::new());
/// Read by those that have looked up a version and do not hold its files yet.
static LOOKING_UP: RwLock<()> = RwLock::new(());

/// Holds the files of the version that `find` finds.
pub(crate) fn look_up(find: impl FnOnce() -> error::Result<Arc<Snapshot>>) -> error::Result<Arc<Held>> {
    let _until_held = LOOKING_UP.read();
    Ok(hold(&find()?))
}

/// Holds the files of this version.
pub(crate) fn hold(snapshot: &Arc<Snapshot>) -> Arc<Held> {
    let held = Arc::new(Held(Arc::clone(snapshot)));
    let mut all = HELD.lock();
    // Those that have gone are dropped whenever there may be as many of them as of the others.
    if all.len() == all.capacity() {
        all.retain(|held| held.strong_count() > 0);
    }
    all.push(Arc::downgrade(&held));
    held
}

/// The held files of the table in this folder, as the file system has them: a log may name a file
/// through a link.
pub(crate) fn files(root: &Path) -> HashSet<PathBuf> {
    drop(LOOKING_UP.write());
    let held: Vec<Arc<Held>> = HELD.lock().iter().filter_map(Weak::upgrade).collect();
    let of_table = held.iter().filter(|held| held.root == root);
    let of_version = |held: &Arc<Held>| -> Vec<PathBuf> {
        held.files().map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned())).collect()
    };
    of_table.flat_map(of_version).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};

    use super::*;
    use crate::transaction::Statement;
    use crate::{Options, Table, Vacuum};

    fn change(table: &Arc<Table>, statement: Statement) {
        let transaction = table.begin().unwrap();
        transaction.apply(statement).unwrap();
        transaction.commit().unwrap();
    }

    /// A vacuum begins between the looking up of a version and its being held.
    #[test]
    fn a_version_that_is_being_looked_up_keeps_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        let rows = RecordBatch::try_from_iter_with_nullable([("id", ids, true)]).unwrap();
        let table = Table::create(folder.path(), &rows.schema(), &[], Options::default()).unwrap();
        change(&table, Statement { operation: "WRITE", rows: vec![rows], ..Statement::default() });
        let everything = Vacuum { retention: Some(Duration::ZERO), force: true, ..Vacuum::default() };
        std::thread::scope(|scope| {
            let mut vacuum = None;
            let held = look_up(|| {
                let old = table.newest()?;
                change(&table, Statement { operation: "DELETE", deleted: (0..50).collect(), ..Statement::default() });
                table.compact(0.0)?;
                vacuum = Some(scope.spawn(|| table.vacuum(everything)));
                // It would be through by now if it did not wait.
                std::thread::sleep(Duration::from_millis(200));
                Ok(old)
            })
            .unwrap();
            let gone = vacuum.unwrap().join().unwrap().unwrap();
            assert_eq!(gone.len(), 1, "the deletion vector: {gone:?}");
            assert!(held.files().all(Path::exists));
            drop(held);
            assert_eq!(table.vacuum(everything).unwrap().len(), 1);
        });
    }
}
