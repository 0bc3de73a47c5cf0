//! Whether all rows read the same data: which files or objects there are, and what tells one
//! content of each from another.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, bail};
use object_store::ObjectMeta;
use pagecast_sql::stores::Source;
use pagecast_sql::tables::Table;

/// The data of all tables as they were before the first row.
pub(super) enum Fingerprint {
    Files(Files),
    Objects(Arc<Source>, Vec<ObjectMeta>),
}

impl Fingerprint {
    /// Of the objects of `source`, or else of files.
    pub(super) async fn of(tables: &[Table], source: Option<Arc<Source>>) -> anyhow::Result<Self> {
        match source {
            None => Files::of(tables).map(Self::Files),
            Some(source) => {
                let listed = source.list().await?;
                Ok(Self::Objects(source, listed))
            }
        }
    }

    /// How many bytes there are.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Files(files) => files.0.values().map(|(len, _)| len).sum(),
            Self::Objects(_, listed) => listed.iter().map(|meta| meta.size).sum(),
        }
    }

    /// Fails if something changed, came or went: the rows so far may have read different data.
    pub(super) async fn check(&self, tables: &[Table]) -> anyhow::Result<()> {
        let (source, before) = match self {
            Self::Files(files) => return files.check(tables),
            Self::Objects(source, before) => (source, before),
        };
        let now = source.list().await?;
        let is_other = |meta: &&ObjectMeta| !(before.contains(meta) && now.contains(meta));
        match before.iter().chain(&now).find(is_other) {
            Some(meta) => bail!("{} changed while the bench ran", source.name_of(meta)),
            None => Ok(()),
        }
    }
}

/// Size and time of change of each file.
pub(super) struct Files(BTreeMap<PathBuf, (u64, SystemTime)>);

impl Files {
    fn of(tables: &[Table]) -> anyhow::Result<Self> {
        let look = |file: &PathBuf| -> anyhow::Result<_> {
            let seen = look(file).with_context(|| format!("cannot look at {}", file.display()))?;
            Ok((file.clone(), seen))
        };
        Ok(Self(tables.iter().flat_map(|table| &table.files).map(look).collect::<anyhow::Result<_>>()?))
    }

    fn check(&self, tables: &[Table]) -> anyhow::Result<()> {
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
