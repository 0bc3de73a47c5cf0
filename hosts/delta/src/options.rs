//! How a table is written, and where its files may lie.

use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::{Disk, LocalDisk};

/// How a table is written, and where its files may lie. Start from the default and change what matters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Rows of a row group of new files: what scans share. Default: 131072.
    pub row_group_rows: usize,
    /// Rows of a page of new files: what a scan can leave out. Default: 8192.
    pub page_rows: usize,
    /// Bytes after which a new file is begun. Default: 128 MiB.
    pub file_bytes: usize,
    /// Bytes of inserted rows that a transaction keeps in memory before it writes a file of them.
    /// Default: 64 MiB.
    pub memory: usize,
    /// Folders beside the table's own in which a log may name files, as shallow clones do. They are
    /// read, and nothing is written or deleted there. Default: none.
    pub allowed: Vec<PathBuf>,
    /// Where changes are written.
    pub disk: Arc<dyn Disk>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            row_group_rows: 128 << 10,
            page_rows: 8 << 10,
            file_bytes: 128 << 20,
            memory: 64 << 20,
            allowed: Vec::new(),
            disk: Arc::new(LocalDisk),
        }
    }
}
