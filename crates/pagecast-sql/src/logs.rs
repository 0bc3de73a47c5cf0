//! Tables whose metadata say which files they have: Delta, and Iceberg and DuckLake if this build
//! has them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::prelude::SessionContext;
use pagecast_delta::DeltaTable;

/// Such a table.
#[derive(Clone, Debug)]
pub(crate) enum Log {
    Delta(Arc<pagecast_delta::Table>),
    #[cfg(feature = "iceberg")]
    Iceberg(Arc<pagecast_iceberg::Table>),
}

/// Whether a folder is such a table.
pub(crate) fn is_table(folder: &Path) -> bool {
    pagecast_delta::is_table(folder) || is_iceberg(folder)
}

fn is_iceberg(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder.join("metadata")) else { return false };
    entries.flatten().any(|entry| {
        entry.file_name().to_str().is_some_and(|name| name.trim_end_matches(".gz").ends_with(".metadata.json"))
    })
}

/// Lets SQL name old versions of such tables, and change them where their format can.
pub(crate) fn install(ctx: &SessionContext) -> Result<()> {
    pagecast_delta::install(ctx)?;
    #[cfg(feature = "iceberg")]
    pagecast_iceberg::install(ctx)?;
    #[cfg(feature = "ducklake")]
    pagecast_ducklake::install(ctx);
    Ok(())
}

impl Log {
    /// The table in this folder, which may have files in those that are allowed, too.
    pub(crate) fn open(folder: &Path, allowed: &[PathBuf]) -> anyhow::Result<Self> {
        if pagecast_delta::is_table(folder) {
            let mut options = pagecast_delta::Options::default();
            options.allowed = allowed.to_vec();
            return Ok(Self::Delta(pagecast_delta::Table::open_with(folder, options)?));
        }
        Self::open_iceberg(folder, allowed)
    }

    #[cfg(feature = "iceberg")]
    fn open_iceberg(folder: &Path, allowed: &[PathBuf]) -> anyhow::Result<Self> {
        use anyhow::Context;
        let text = |path: &Path| {
            let text = path.to_str().with_context(|| format!("{}: its name is no text", path.display()))?;
            anyhow::Ok(text.to_owned())
        };
        let name = &text(folder)?;
        let allow = allowed.iter().map(|folder| text(folder)).collect::<anyhow::Result<_>>()?;
        let options = pagecast_iceberg::Options { allow };
        Ok(Self::Iceberg(wait(pagecast_iceberg::Table::open(name, &options, None))??))
    }

    #[cfg(not(feature = "iceberg"))]
    fn open_iceberg(folder: &Path, _allowed: &[PathBuf]) -> anyhow::Result<Self> {
        let folder = folder.display();
        anyhow::bail!("{folder} is an Iceberg table, and this build reads none; one with --features iceberg does")
    }

    /// The data files of its newest version.
    pub(crate) fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        match self {
            Self::Delta(table) => Ok(table.newest()?.files().map(Path::to_owned).collect()),
            #[cfg(feature = "iceberg")]
            Self::Iceberg(table) => Ok(wait(table.newest())??.files()?),
        }
    }

    /// The table for DataFusion, always at its newest version.
    pub(crate) async fn provider(&self) -> anyhow::Result<Arc<dyn TableProvider>> {
        match self {
            Self::Delta(table) => Ok(Arc::new(DeltaTable::newest(table)?)),
            #[cfg(feature = "iceberg")]
            Self::Iceberg(table) => Ok(Arc::new(pagecast_iceberg::IcebergTable::newest(table).await?)),
        }
    }
}

/// Waits for what reads this machine's files, also where a runtime waits for us.
#[cfg(feature = "iceberg")]
fn wait<T: Send>(reading: impl Future<Output = T> + Send) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let own = || Ok(tokio::runtime::Builder::new_current_thread().build()?.block_on(reading));
        scope.spawn(own).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
