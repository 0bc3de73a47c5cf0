//! Folders of Parquet files as tables, and where the command keeps its own files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use datafusion::common::{DataFusionError, TableReference};
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use parquet::file::metadata::ParquetMetaDataReader;

/// A table: a Parquet file, or a folder of them.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// The file's name without `.parquet`, or the folder's name.
    pub(crate) name: String,
    path: PathBuf,
    /// Its Parquet files, sorted by name.
    pub(crate) files: Vec<PathBuf>,
}

impl Table {
    /// Its Parquet files as they are now.
    pub(crate) fn list(&self) -> anyhow::Result<Vec<PathBuf>> {
        files_of(&self.path)
    }
}

/// The tables in `folder`: each Parquet file, and each subfolder that holds some. Every footer is read, so that a broken
/// file is named here and not in the middle of a run.
pub(crate) fn discover(folder: &Path) -> anyhow::Result<Vec<Table>> {
    let folder = folder.canonicalize().with_context(|| format!("--data: cannot open folder {}", folder.display()))?;
    let mut tables: BTreeMap<String, Table> = BTreeMap::new();
    for path in entries(&folder)? {
        let name = if is_parquet(&path) { path.file_stem() } else { path.file_name() };
        let name = name.unwrap_or_default().to_string_lossy().into_owned();
        let files = files_of(&path)?;
        if files.is_empty() {
            continue;
        }
        files.iter().try_for_each(|file| check_footer(file))?;
        let path = path.clone();
        if let Some(other) = tables.insert(name.clone(), Table { name, path: path.clone(), files }) {
            bail!("--data: {} and {} would both be table {}", other.path.display(), path.display(), other.name);
        }
    }
    if tables.is_empty() {
        bail!("--data: no Parquet file in {}; each *.parquet file or folder of them is a table", folder.display());
    }
    Ok(tables.into_values().collect())
}

/// Makes `tables` known to SQL.
pub(crate) async fn register(ctx: &SessionContext, tables: &[Table]) -> anyhow::Result<()> {
    for table in tables {
        let name = TableReference::bare(table.name.as_str());
        let path = table.path.to_str().with_context(|| format!("{} is not UTF-8", table.path.display()))?;
        let registered = ctx.register_parquet(name, path, ParquetReadOptions::default()).await;
        registered.with_context(|| format!("cannot read table {} from {path}", table.name))?;
    }
    Ok(())
}

/// What went wrong in DataFusion, without the layers that only pass it on.
pub(crate) fn message(error: &DataFusionError) -> String {
    error.find_root().strip_backtrace()
}

/// Where generated data and the shell's history are kept: `$XDG_CACHE_HOME/pagecast`, else `~/.cache/pagecast`.
pub(crate) fn cache_folder() -> anyhow::Result<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = from("XDG_CACHE_HOME").filter(|path| path.is_absolute()).or_else(|| Some(from("HOME")?.join(".cache")));
    Ok(cache.context("set XDG_CACHE_HOME or HOME: there is no folder for generated data")?.join("pagecast"))
}

fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect()
    };
    let mut paths = read().with_context(|| format!("--data: cannot list folder {}", folder.display()))?;
    paths.retain(|path| !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")));
    paths.sort();
    Ok(paths)
}

/// The Parquet files of the table at `path`, sorted by name; none if it is no table.
fn files_of(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if is_parquet(path) {
        return Ok(vec![path.to_owned()]);
    }
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    Ok(entries(path)?.into_iter().filter(|path| is_parquet(path)).collect())
}

fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "parquet") && path.is_file()
}

/// Reads the footer, and checks that the data it speaks of lies inside the file.
fn check_footer(path: &Path) -> anyhow::Result<()> {
    let check = || -> anyhow::Result<()> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let footer = ParquetMetaDataReader::new().parse_and_finish(&file)?;
        for (number, group) in footer.row_groups().iter().enumerate() {
            for column in group.columns() {
                let (start, bytes) = column.byte_range();
                let end = start.saturating_add(bytes);
                if end > length {
                    bail!("row group {number}, column {}: ends at byte {end} of {length}", column.column_path());
                }
            }
        }
        Ok(())
    };
    check().with_context(|| format!("{} is truncated or no Parquet file", path.display()))
}
