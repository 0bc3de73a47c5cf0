//! What every measuring verb writes: result files that appear whole or not at all, aligned tables, and the flags for them.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The flags that every measuring verb takes.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct OutputArgs {
    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write one self-contained page with charts
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

impl OutputArgs {
    /// Fails now, before hours of work, where a result file could not be written at the end.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        check_folder("--json", self.json.as_deref())?;
        check_folder("--html", self.html.as_deref())
    }
}

/// Fails if the file that `flag` names could not be written.
pub(crate) fn check_folder(flag: &str, path: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    if path.is_dir() {
        return Err(crate::failure::usage(format!("{flag}: {} is a folder", path.display())));
    }
    let folder = folder_of(path);
    if !folder.is_dir() {
        return Err(crate::failure::usage(format!("{flag}: no folder {}", folder.display())));
    }
    Ok(())
}

/// Writes `contents` beside `path` and renames it there, so that no reader ever sees half a file.
pub(crate) fn write_whole(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder_of(path))?;
        file.write_all(contents)?;
        make_readable(file.as_file())?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Temporary files are private; a result is for whoever may read the folder.
#[cfg(unix)]
pub(crate) fn make_readable(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
pub(crate) fn make_readable(_file: &std::fs::File) -> std::io::Result<()> {
    Ok(())
}

/// The folder that `path` lies in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A text table: columns as wide as their widest cell, text to the left and figures to the right.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    left: usize,
}

impl Table {
    /// A table with these column heads, of which the first `left` are text.
    pub(crate) fn new(heads: &[&str], left: usize) -> Self {
        Self { rows: vec![heads.iter().map(|&head| head.to_owned()).collect()], left }
    }

    /// Adds a row; it has as many cells as the heads.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.rows[0].len());
        self.rows.push(cells);
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows[0].len();
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                line += &if column < self.left { format!("{cell:<width$}  ") } else { format!("{cell:>width$}  ") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn columns_align() {
        let mut table = Table::new(&["policy", "read"], 1);
        table.row(vec!["pbm".into(), "1.5 MiB".into()]);
        table.row(vec!["random".into(), "900 B".into()]);
        assert_eq!(table.to_string(), "policy     read\npbm     1.5 MiB\nrandom    900 B\n");
    }

    #[test]
    fn a_result_replaces_the_old_one_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        write_whole(&path, b"old and long").unwrap();
        write_whole(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
