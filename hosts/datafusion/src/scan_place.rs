//! Where a running scan stands.

use std::path::PathBuf;

use pagecast::ScanId;

/// Where a running scan stands.
#[derive(Clone, Debug)]
pub struct ScanPlace {
    /// The scan's name in the pool.
    pub scan: ScanId,
    /// The file that it reads.
    pub path: PathBuf,
    /// The first byte that it has yet to read there, rounded down to a page.
    pub offset: u64,
    /// The size of the file.
    pub file_bytes: u64,
}
