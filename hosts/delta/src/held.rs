//! Which data files scans of this process may still read: a vacuum leaves them where they are.
//!
//! Whoever has a version to be read holds its files: the readers of a scan, from its plan to the
//! end of its streams; a table at a version, and with it a statement that is not planned yet; a
//! transaction. The newest version that a [`Table`](crate::Table) knows is not held.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{DefaultParquetFileReaderFactory, ParquetFileReaderFactory};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use object_store::ObjectStore;
use parking_lot::Mutex;
use parquet::arrow::async_reader::AsyncFileReader;

use crate::snapshot::Snapshot;

/// The files of a version are read, or will be, while this is there.
#[derive(Debug)]
pub(crate) struct Held(Arc<Snapshot>);

static HELD: Mutex<Vec<Weak<Held>>> = Mutex::new(Vec::new());

/// Holds the files of this version.
pub(crate) fn hold(snapshot: &Arc<Snapshot>) -> Arc<Held> {
    let held = Arc::new(Held(Arc::clone(snapshot)));
    let mut all = HELD.lock();
    // Those that have gone are dropped whenever there may be as many of them as of the others.
    if all.len() == all.capacity() {
        all.retain(|held| held.strong_count() > 0);
    }
    all.push(Arc::downgrade(&held));
    held
}

/// The held files of the table in this folder.
pub(crate) fn files(root: &Path) -> HashSet<PathBuf> {
    let held: Vec<Arc<Held>> = HELD.lock().iter().filter_map(Weak::upgrade).collect();
    let of_table = held.iter().filter(|held| held.0.root == root);
    of_table.flat_map(|held| held.0.files().map(Path::to_owned).collect::<Vec<_>>()).collect()
}

/// DataFusion's readers of a scan's files, which hold these.
#[derive(Debug)]
pub(crate) struct HoldingReaders {
    inner: DefaultParquetFileReaderFactory,
    _held: Arc<Held>,
}

impl HoldingReaders {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, held: Arc<Held>) -> Self {
        Self { inner: DefaultParquetFileReaderFactory::new(store), _held: held }
    }
}

impl ParquetFileReaderFactory for HoldingReaders {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        self.inner.create_reader(partition, file, metadata_size_hint, metrics)
    }
}
