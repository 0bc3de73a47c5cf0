//! How changes of an older version become the next one: put on top of what others have committed
//! since, or refused by the version that they do not go with.

use std::sync::Arc;

use roaring::RoaringTreemap;

use crate::actions::Action;
use crate::error::{DeltaError, Result};
use crate::log;
use crate::snapshot::{DataFile, Snapshot};
use crate::table::Table;

/// What was committed since changes began.
pub(crate) struct Since<'a> {
    table: &'a Table,
    base: &'a Snapshot,
    /// The newest version.
    pub(crate) tip: &'a Snapshot,
}

/// Commits the actions that `changes` has for the newest version, and asks it again whenever
/// somebody else was first. The version.
pub(crate) fn commit(
    table: &Table,
    base: &Snapshot,
    changes: impl Fn(&Since<'_>) -> Result<Vec<Action>>,
) -> Result<u64> {
    loop {
        let tip = table.newest()?;
        let since = Since { table, base, tip: &tip };
        since.check_columns()?;
        let (actions, version) = (changes(&since)?, tip.version() + 1);
        if log::commit(&table.root, &table.options, version, &actions)? {
            table.after_commit(version);
            return Ok(version);
        }
    }
}

impl<'a> Since<'a> {
    fn check_columns(&self) -> Result<()> {
        let (tip, base) = (&self.tip.state, &self.base.state);
        if tip.metadata == base.metadata && tip.protocol == base.protocol {
            return Ok(());
        }
        let touches = |action: &Action| action.meta_data.is_some() || action.protocol.is_some();
        Err(self.conflict(touches, "has changed the table's columns or properties"))
    }

    /// The file as it is now, if these rows of it can be deleted there.
    pub(crate) fn file(&self, path: &str, rows: &RoaringTreemap) -> Result<&'a Arc<DataFile>> {
        let file = self.tip.files.iter().map(|(_, file)| file).find(|file| file.add.path == path);
        let what = match file {
            None => "has rewritten or removed a file in which this change deletes rows",
            Some(file) if !file.deleted.is_disjoint(rows) => "has changed a row that this change changes, too",
            Some(file) => return Ok(file),
        };
        Err(self.conflict(|action| touches(action, path), what))
    }

    /// That the file still has the rows that it had.
    pub(crate) fn unchanged(&self, file: &DataFile) -> Result<()> {
        if self.tip.state.files.contains_key(&file.add.key()) {
            return Ok(());
        }
        let what = "has changed a file that was being compacted";
        Err(self.conflict(|action| touches(action, &file.add.path), what))
    }

    /// The last version since the base with such an action.
    fn conflict(&self, touches: impl Fn(&Action) -> bool, what: &str) -> DeltaError {
        let versions = (self.base.version() + 1..=self.tip.version()).rev();
        let with = |version: &u64| {
            log::read_commit(&self.table.root, *version).is_ok_and(|actions| actions.iter().any(&touches))
        };
        let version = { versions }.find(with).unwrap_or(self.tip.version());
        DeltaError::Conflict { path: self.table.root.clone(), version, what: what.to_owned() }
    }
}

fn touches(action: &Action, path: &str) -> bool {
    let (add, remove) = (action.add.as_ref(), action.remove.as_ref());
    add.is_some_and(|add| add.path == path) || remove.is_some_and(|remove| remove.path == path)
}
