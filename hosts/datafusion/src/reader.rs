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
use pagecast::{Relation, ScanId};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ParquetMetaData;

use crate::Host;
use crate::at_once::decoded_at_once;
use crate::guard::Reading;
use crate::metrics::PoolMetrics;
use crate::room::Room;
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
        let relation = self.host.open(&self.url, &file.object_meta)?;
        let counts = Counts::new(file.object_meta.location.as_ref(), metrics, partition);
        Ok(Box::new(PoolReader {
            bytes: ColumnBytes::new(&self.host, relation, counts, partition, &self.reading),
            row_groups: file.extension::<RowGroups>().cloned(),
            footer: None,
            ticket: file.extensions.get_arc::<Ticket>(),
        }))
    }
}

/// What a partition counts of the files that it reads. A set of them takes 5 KB.
#[derive(Clone)]
pub(crate) struct Counts {
    file: ParquetFileMetrics,
    pool: PoolMetrics,
}

impl Counts {
    /// Shown as those of `files`.
    pub(crate) fn new(files: &str, metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        Self { file: ParquetFileMetrics::new(partition, files, metrics), pool: PoolMetrics::new(metrics, partition) }
    }
}

/// The bytes of a file, for a partition.
pub(crate) struct ColumnBytes {
    host: Arc<Host>,
    relation: Relation,
    counts: Counts,
    /// Told which file the partition reads.
    reading: Arc<Reading>,
    partition: usize,
}

impl ColumnBytes {
    pub(crate) fn new(
        host: &Arc<Host>,
        relation: Relation,
        counts: Counts,
        partition: usize,
        reading: &Arc<Reading>,
    ) -> Self {
        Self { host: Arc::clone(host), relation, counts, reading: Arc::clone(reading), partition }
    }

    /// Where what is read of the file is counted.
    pub(crate) fn file_metrics(&self) -> &ParquetFileMetrics {
        &self.counts.file
    }

    /// Reads for `scan`, if it is registered. The ranges are of a file that `footer` describes.
    pub(crate) async fn read(
        &self,
        ranges: &[Range<u64>],
        footer: Option<&ParquetMetaData>,
        scan: Option<ScanId>,
    ) -> ParquetResult<Vec<Bytes>> {
        self.reading.reads(self.partition, self.relation.path());
        let requested: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let decoded = footer.map_or(0, |footer| decoded_at_once(footer, ranges));
        // Before anything is taken of the pool, so that nobody else waits for who waits here.
        let room = self.host.room.room(requested, decoded).await;
        let room = room.map_err(|error| ParquetError::External(Box::new(error)))?;
        self.counts.file.bytes_scanned.add(requested as usize);
        let read = self.relation.read(ranges, scan).await;
        let read = read.map_err(|error| ParquetError::External(Box::new(error)))?;
        self.counts.pool.add(&read.stats);
        let data = read.data.into_iter();
        Ok(data.map(|data| Bytes::from_owner(Roomed { data, _room: room.clone() })).collect())
    }
}

impl Drop for ColumnBytes {
    fn drop(&mut self) {
        let ratio = &self.counts.file.scan_efficiency_ratio;
        // Of all files that these counters are for.
        ratio.set_part(self.counts.file.bytes_scanned.value());
        ratio.add_total(self.relation.len() as usize);
    }
}

/// Bytes, and the room that they have if anybody was asked for it.
struct Roomed {
    data: Vec<u8>,
    _room: Option<Room>,
}

impl AsRef<[u8]> for Roomed {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

/// Reads one file, or some row groups of it if it came with a ticket.
struct PoolReader {
    bytes: ColumnBytes,
    row_groups: Option<RowGroups>,
    /// Once it was asked for.
    footer: Option<Arc<ParquetMetaData>>,
    /// The row groups' place in their scan. Dropped with the reader, which ends what was planned
    /// for them.
    ticket: Option<Arc<Ticket>>,
}

impl PoolReader {
    async fn read(&self, ranges: &[Range<u64>]) -> ParquetResult<Vec<Bytes>> {
        let scan = self.ticket.as_ref().and_then(|ticket| ticket.scan());
        self.bytes.read(ranges, self.footer.as_deref(), scan).await
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
        async move {
            let of = &self.bytes;
            let _timer = of.file_metrics().metadata_load_time.timer();
            of.reading.opens(of.partition, of.relation.path());
            let footer = of.host.footers.load(&of.relation).await?;
            let footer = match &self.row_groups {
                Some(row_groups) => row_groups.of(footer)?,
                None => footer,
            };
            Ok(Arc::clone(self.footer.insert(footer)))
        }
        .boxed()
    }
}
