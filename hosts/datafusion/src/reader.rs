//! Parquet's reader over the pool: every byte of column data comes from here, footers from
//! [`crate::footers`].

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetSource;
use datafusion::datasource::physical_plan::parquet::{ParquetFileMetrics, ParquetFileReaderFactory};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use pagecast::Relation;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ParquetMetaData;

use crate::Host;
use crate::guard::Reading;
use crate::metrics::PoolMetrics;
use crate::row_groups::RowGroups;
use crate::ticket::Ticket;

/// Makes readers over the pool for a `ParquetSource`, in stock and in in-order delivery alike.
#[derive(Debug)]
pub(crate) struct PoolReaderFactory {
    host: Arc<Host>,
    /// The store of the files.
    url: ObjectStoreUrl,
    reading: Arc<Reading>,
    /// The source's own. It reads nothing, but may keep files from being deleted.
    _replaced: Option<Arc<dyn ParquetFileReaderFactory>>,
}

impl PoolReaderFactory {
    /// In place of the readers that `source` has.
    pub(crate) fn new(host: Arc<Host>, url: ObjectStoreUrl, reading: Arc<Reading>, source: &ParquetSource) -> Self {
        Self { host, url, reading, _replaced: source.parquet_file_reader_factory().cloned() }
    }
}

impl ParquetFileReaderFactory for PoolReaderFactory {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        _metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        Ok(Box::new(PoolReader {
            relation: self.host.open(&self.url, &file.object_meta)?,
            row_groups: file.extension::<RowGroups>().cloned(),
            ticket: file.extensions.get_arc::<Ticket>(),
            file_metrics: ParquetFileMetrics::new(partition, file.object_meta.location.as_ref(), metrics),
            pool_metrics: PoolMetrics::new(metrics, partition),
            host: Arc::clone(&self.host),
            reading: Arc::clone(&self.reading),
            partition,
        }))
    }
}

/// Reads one file, or some row groups of it if it came with a ticket.
struct PoolReader {
    host: Arc<Host>,
    relation: Relation,
    row_groups: Option<RowGroups>,
    /// The row groups' place in their scan. Dropped with the reader, which ends what was planned
    /// for them.
    ticket: Option<Arc<Ticket>>,
    file_metrics: ParquetFileMetrics,
    pool_metrics: PoolMetrics,
    /// Told which file the partition reads.
    reading: Arc<Reading>,
    partition: usize,
}

impl PoolReader {
    async fn read(&self, ranges: &[Range<u64>]) -> ParquetResult<Vec<Bytes>> {
        self.reading.begins(self.partition, self.relation.path());
        let requested: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        // Before anything is taken of the pool, so that nobody else waits for who waits here.
        let room = self.host.room.room(requested).await;
        let _room = room.map_err(|error| ParquetError::External(Box::new(error)))?;
        self.file_metrics.bytes_scanned.add(requested as usize);
        let scan = self.ticket.as_ref().and_then(|ticket| ticket.scan());
        let read = self.relation.read(ranges, scan).await;
        let read = read.map_err(|error| ParquetError::External(Box::new(error)))?;
        self.pool_metrics.add(&read.stats);
        Ok(read.data.into_iter().map(Bytes::from).collect())
    }
}

impl AsyncFileReader for PoolReader {
    /// One range: a Bloom filter. It is not part of what was planned.
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        async move {
            let mut data = self.read(std::slice::from_ref(&range)).await?;
            data.pop().ok_or_else(|| ParquetError::General("the pool answered no range for one".to_owned()))
        }
        .boxed()
    }

    /// All ranges of one phase of decoding a row group.
    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        async move {
            // Before the read, which begins by taking every page that is resident: none of them
            // needs to stay for it.
            if let Some(ticket) = &self.ticket {
                ticket.asked(&ranges);
            }
            self.read(&ranges).await
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        async {
            let _timer = self.file_metrics.metadata_load_time.timer();
            self.reading.begins(self.partition, self.relation.path());
            let footer = self.host.footers.load(&self.relation).await?;
            match &self.row_groups {
                Some(row_groups) => row_groups.of(footer),
                None => Ok(footer),
            }
        }
        .boxed()
    }
}

impl Drop for PoolReader {
    fn drop(&mut self) {
        let ratio = &self.file_metrics.scan_efficiency_ratio;
        ratio.add_part(self.file_metrics.bytes_scanned.value());
        ratio.set_total(self.relation.len() as usize);
    }
}
