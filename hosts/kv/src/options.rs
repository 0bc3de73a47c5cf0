//! What a store is made of.

use pagecast::TupleOptions;
use pagecast::policy::PolicySpec;
use pagecast::storage::Device;

/// How to open a store. Start from the default and change what matters:
///
/// ```
/// let options = pagecast_kv::Options::default().memory(64 << 20).sync_commits(false);
/// assert_eq!(options.page_size, 4096);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Bytes of memory: pages, all that the pool needs beside them, and the log's buffers. Copies
    /// come on top: of the pages that a batch changes, and of those that are being written, of at
    /// most 4 MiB and as much again for double writes. Default: 64 MiB.
    pub memory: u64,
    /// Bytes of a page of a new store: a multiple of 4096, at most 61,440. An entry has at most
    /// about half as many. Default: 4096.
    pub page_size: u32,
    /// Bytes of each of the two files of the log of a new store. A batch must fit into one, and
    /// more of them make checkpoints rarer and recoveries longer. Default: 8 MiB.
    pub log_size: u64,
    /// Whether a write returns only when it is safe from a crash. Without, that takes a
    /// [`flush`](crate::Store::flush); after a crash the last writes may be missing, and the store
    /// is whole. Default: yes.
    pub sync_commits: bool,
    /// How entries that are used often go on in memory when their page leaves: where hot entries
    /// lie scattered, much more of them fit. How much of the memory they get is found out from what
    /// is read and updated. `None`: pages only. Default: the pool's.
    pub tuples: Option<TupleOptions>,
    /// Which pages leave when others must come in. Default: `pbm`.
    pub policy: PolicySpec,
    /// Where the files are. Default: the local file system.
    pub device: Device,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            page_size: 4096,
            log_size: 8 << 20,
            sync_commits: true,
            tuples: Some(TupleOptions::default()),
            policy: pagecast::PoolOptions::default().policy,
            device: Device::local(),
        }
    }
}

impl Options {
    /// Bytes of the log that wait for a flush, and as many that are being written.
    pub(crate) fn log_buffer(&self) -> u64 {
        (self.memory / 128).clamp(4096, 256 << 10)
    }
}

/// One call for each field that is to differ from the default.
impl Options {
    pagecast::setters! {
        memory: u64,
        page_size: u32,
        log_size: u64,
        sync_commits: bool,
        tuples: impl Into<Option<TupleOptions>>,
        policy: PolicySpec,
        device: Device,
    }
}
