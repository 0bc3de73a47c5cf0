//! Compaction: files of which many rows are deleted are written anew without them. It is what the
//! thesis calls a checkpoint (Świtakowski 2011, §2.9 and 4.7).
//!
//! The old files stay where they are. Scans of older versions read them to their end, and their
//! pages leave the pool as all pages do that nobody wants.

use std::sync::Arc;

use delta_kernel::transaction::UpdateTableOperation;

use crate::commit;
use crate::data::DataWriter;
use crate::error::{DeltaError, Result};
use crate::held::look_up;
use crate::protocol::{self, Asking};
use crate::snapshot::DataFile;
use crate::table::Table;
use crate::transaction::left;

impl Table {
    /// Writes those files anew of whose rows more than this share is deleted. The version that has
    /// the new files; nothing if there are no such files.
    ///
    /// # Errors
    /// Somebody has changed such a file meanwhile, a file cannot be read or written, or writers of
    /// the table must know what we do not. The table is as it was then.
    pub fn compact(&self, share: f64) -> Result<Option<u64>> {
        let base = look_up(|| self.newest())?;
        protocol::check_write(&self.root, &base.kernel)?;
        protocol::check_change(&self.root, &base.kernel, Asking::Move)?;
        let worn = |file: &&Arc<DataFile>| file.deleted.len() as f64 > share * file.rows as f64;
        let old: Vec<_> = base.files.iter().map(|(_, file)| file).filter(worn).collect();
        if old.is_empty() {
            return Ok(None);
        }
        let mut writer = DataWriter::new(&self.root, &self.options, &base.columns);
        for file in &old {
            writer.copy(file, left(file.rows, &file.deleted))?;
        }
        let new = writer.finish()?;
        let committed = commit::commit(self, &base, UpdateTableOperation::Optimize, true, |since, next| {
            old.iter().try_for_each(|file| since.unchanged(file))?;
            let places = old.iter().filter_map(|file| since.tip.place(&file.add.path));
            next.remove_files(since.tip.scanned(places)?);
            if !new.is_empty() {
                next.add_files(commit::added(&new)?);
            }
            Ok(())
        });
        // After another error the version may have its name, and then it has the files.
        if let Err(DeltaError::Conflict { .. } | DeltaError::Refused { .. }) = &committed {
            new.iter().for_each(|add| drop(self.options.disk.remove(&self.root.join(&add.path))));
        }
        committed.map(Some)
    }
}
