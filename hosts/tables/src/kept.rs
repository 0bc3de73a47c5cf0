//! Files stay where they are as long as a scan may read them.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{CachedParquetFileReaderFactory, ParquetFileReaderFactory};
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use object_store::ObjectStore;
use pagecast_corrections::CorrectedReaders;
use parquet::arrow::async_reader::AsyncFileReader;

/// Something by which a format knows that files of a version are still read.
pub(crate) type Pin = Arc<dyn Any + Send + Sync>;

/// DataFusion's readers of a scan's files, from its plan to the end of its streams.
pub(crate) struct KeepingReaders {
    inner: CorrectedReaders<CachedParquetFileReaderFactory>,
    _pin: Option<Pin>,
}

impl KeepingReaders {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, cache: Arc<FileMetadataCache>, pin: Option<Pin>) -> Self {
        Self { inner: CorrectedReaders(CachedParquetFileReaderFactory::new(store, cache)), _pin: pin }
    }
}

impl fmt::Debug for KeepingReaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl ParquetFileReaderFactory for KeepingReaders {
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
