//! Whether all rows read the same data: which files there are, and the size and time of change of
//! each.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, bail};

use crate::tables::Table;

/// The files of all tables as they were before the first row.
pub(super) struct Fingerprint(BTreeMap<PathBuf, (u64, SystemTime)>);

impl Fingerprint {
    pub(super) fn of(tables: &[Table]) -> anyhow::Result<Self> {
        let look = |file: &PathBuf| -> anyhow::Result<_> {
            let seen = look(file).with_context(|| format!("cannot look at {}", file.display()))?;
            Ok((file.clone(), seen))
        };
        Ok(Self(tables.iter().flat_map(|table| &table.files).map(look).collect::<anyhow::Result<_>>()?))
    }

    /// Fails if a file changed, came or went: the rows so far may have read different data.
    pub(super) fn check(&self, tables: &[Table]) -> anyhow::Result<()> {
        if let Some((file, _)) = self.0.iter().find(|(file, before)| look(file).ok().as_ref() != Some(before)) {
            bail!("{} changed while the bench ran", file.display());
        }
        for table in tables {
            if let Some(file) = table.list()?.iter().find(|file| !self.0.contains_key(*file)) {
                bail!("{} came while the bench ran", file.display());
            }
        }
        Ok(())
    }
}

fn look(file: &Path) -> io::Result<(u64, SystemTime)> {
    let metadata = file.metadata()?;
    Ok((metadata.len(), metadata.modified()?))
}
