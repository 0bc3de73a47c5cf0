//! Tables whose metadata say which files they have: Delta, and Iceberg and DuckLake if this build
//! has them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::prelude::SessionContext;

/// Such a table.
#[derive(Clone, Debug)]
pub(crate) enum Log {
    Delta(Arc<pagecast_delta::Table>),
    #[cfg(feature = "iceberg")]
    Iceberg(Arc<pagecast_iceberg::Table>),
    /// In an object store, by its URL. It is opened when a session asks for it.
    #[cfg(feature = "iceberg")]
    IcebergInStore {
        url: String,
        allowed: Vec<PathBuf>,
    },
    #[cfg(feature = "ducklake")]
    DuckLake(Arc<pagecast_ducklake::Table>),
}

/// The formats whose metadata a listing shows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LogFormat {
    Delta,
    Iceberg,
}

impl LogFormat {
    /// What a table has of which a file lies here, by the parts of its path below the table.
    pub(crate) fn of(parts: &[String]) -> Option<Self> {
        match parts {
            [folder, _, ..] if folder == "_delta_log" => Some(Self::Delta),
            [folder, name] if folder == "metadata" && is_metadata(name) => Some(Self::Iceberg),
            _ => None,
        }
    }
}

fn is_metadata(name: &str) -> bool {
    name.trim_end_matches(".gz").ends_with(".metadata.json")
}

/// Whether a folder is such a table.
pub(crate) fn is_table(folder: &Path) -> bool {
    pagecast_delta::is_table(folder) || is_iceberg(folder)
}

fn is_iceberg(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder.join("metadata")) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_str().is_some_and(is_metadata))
}

/// Endings of files that may be catalogs of DuckLake.
#[cfg(feature = "ducklake")]
const CATALOGS: [&str; 3] = ["ducklake", "sqlite", "db"];
/// The schema whose tables have no other name in SQL.
#[cfg(feature = "ducklake")]
const MAIN: &str = "main";

/// The tables of the catalog in this file; none if that is no catalog.
#[cfg(feature = "ducklake")]
pub(crate) fn tables_of(path: &Path) -> Vec<String> {
    let is_named = path.extension().is_some_and(|ending| CATALOGS.iter().any(|catalog| ending == *catalog));
    if !is_named || !path.is_file() {
        return Vec::new();
    }
    let tables = pagecast_ducklake::Catalog::at(path, &[]).tables().unwrap_or_default();
    tables.into_iter().filter(|(schema, _)| schema == MAIN).map(|(_, table)| table).collect()
}

#[cfg(not(feature = "ducklake"))]
pub(crate) fn tables_of(_path: &Path) -> Vec<String> {
    Vec::new()
}

/// How Delta tables are opened that may have files in these folders, too.
fn delta_options(allowed: &[PathBuf]) -> pagecast_delta::Options {
    let mut options = pagecast_delta::Options::default();
    options.allowed = allowed.to_vec();
    options
}

/// Lets SQL name old versions of such tables, and change them where their format can.
pub(crate) fn install(ctx: &SessionContext, allowed: &[PathBuf]) -> Result<()> {
    pagecast_delta::install_with(ctx, delta_options(allowed))?;
    #[cfg(feature = "iceberg")]
    pagecast_iceberg::install(ctx, &texts(allowed))?;
    #[cfg(feature = "ducklake")]
    pagecast_ducklake::install(ctx, allowed)?;
    pagecast_tables::install(ctx)
}

#[cfg(not(feature = "iceberg"))]
const NO_ICEBERG: &str = "is an Iceberg table, and this build reads none; one with --features iceberg does";

impl Log {
    /// The table in this folder, or with this name in the catalog at this path. It may have files
    /// in folders that are allowed, too.
    pub(crate) fn open(folder: &Path, name: &str, allowed: &[PathBuf]) -> anyhow::Result<Self> {
        #[cfg(not(feature = "ducklake"))]
        let _ = name;
        #[cfg(feature = "ducklake")]
        if folder.is_file() {
            let catalog = pagecast_ducklake::Catalog::at(folder, allowed);
            return Ok(Self::DuckLake(pagecast_ducklake::Table::open(catalog, MAIN, name)?));
        }
        if pagecast_delta::is_table(folder) {
            return Ok(Self::Delta(pagecast_delta::Table::open_with(folder, delta_options(allowed))?));
        }
        Self::open_iceberg(folder, allowed)
    }

    #[cfg(feature = "iceberg")]
    fn open_iceberg(folder: &Path, allowed: &[PathBuf]) -> anyhow::Result<Self> {
        use anyhow::Context;
        let name = folder.to_str().with_context(|| format!("{}: its name is no text", folder.display()))?;
        let options = pagecast_iceberg::Options { allow: texts(allowed) };
        Ok(Self::Iceberg(wait(pagecast_iceberg::Table::open(name, &options, None))??))
    }

    #[cfg(not(feature = "iceberg"))]
    fn open_iceberg(folder: &Path, _allowed: &[PathBuf]) -> anyhow::Result<Self> {
        bail!("{} {}", folder.display(), NO_ICEBERG)
    }

    /// The table at this URL of an object store.
    pub(crate) fn in_store(format: LogFormat, url: String, allowed: &[PathBuf]) -> anyhow::Result<Self> {
        match format {
            LogFormat::Delta => bail!("{url} is a Delta table, and those are read from folders of this machine alone"),
            #[cfg(feature = "iceberg")]
            LogFormat::Iceberg => Ok(Self::IcebergInStore { url, allowed: allowed.to_vec() }),
            #[cfg(not(feature = "iceberg"))]
            LogFormat::Iceberg => {
                _ = allowed;
                bail!("{url} {NO_ICEBERG}")
            }
        }
    }

    /// Whether its metadata were read.
    pub(crate) fn is_open(&self) -> bool {
        #[cfg(feature = "iceberg")]
        return !matches!(self, Self::IcebergInStore { .. });
        #[cfg(not(feature = "iceberg"))]
        true
    }

    /// The data files of its newest version; none if it is not open.
    pub(crate) fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        match self {
            Self::Delta(table) => Ok(table.newest()?.files().map(Path::to_owned).collect()),
            #[cfg(feature = "iceberg")]
            Self::Iceberg(table) => Ok(wait(table.newest_version())??.files()?),
            #[cfg(feature = "iceberg")]
            Self::IcebergInStore { .. } => Ok(Vec::new()),
            #[cfg(feature = "ducklake")]
            Self::DuckLake(table) => Ok(table.files()?),
        }
    }

    /// The table for DataFusion, always at its newest version.
    pub(crate) async fn provider(&self, ctx: &SessionContext) -> anyhow::Result<Arc<dyn TableProvider>> {
        _ = ctx;
        let table = match self {
            Self::Delta(table) => table.provider()?,
            #[cfg(feature = "iceberg")]
            Self::Iceberg(table) => pagecast_tables::VersionedTable::newest(Arc::clone(table) as _).await?,
            #[cfg(feature = "iceberg")]
            Self::IcebergInStore { url, allowed } => {
                let options = pagecast_iceberg::Options { allow: texts(allowed) };
                let stores = Arc::clone(&ctx.runtime_env().object_store_registry);
                let table = pagecast_iceberg::Table::open(url, &options, Some(stores.as_ref())).await?;
                pagecast_tables::VersionedTable::newest(table).await?
            }
            #[cfg(feature = "ducklake")]
            Self::DuckLake(table) => pagecast_tables::VersionedTable::newest(Arc::clone(table) as _).await?,
        };
        Ok(Arc::new(table))
    }
}

/// Folders that are allowed, as Iceberg's metadata name them. A name that is no text is in none.
#[cfg(feature = "iceberg")]
fn texts(folders: &[PathBuf]) -> Vec<String> {
    folders.iter().filter_map(|folder| Some(folder.to_str()?.to_owned())).collect()
}

/// Waits for what reads this machine's files, also where a runtime waits for us.
#[cfg(feature = "iceberg")]
fn wait<T: Send>(reading: impl Future<Output = T> + Send) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let own = || Ok(tokio::runtime::Builder::new_current_thread().build()?.block_on(reading));
        scope.spawn(own).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
