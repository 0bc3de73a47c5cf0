//! Readers of Parquet files by [corrected](crate::footer) footers, for scans that no pool reads.
//! They go with those corrections.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetFileReaderFactory;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};

use crate::footer;

/// Makes readers as another factory does.
#[derive(Debug)]
pub struct CorrectedReaders<F>(pub F);

impl<F: ParquetFileReaderFactory> ParquetFileReaderFactory for CorrectedReaders<F> {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        Ok(Box::new(Reader(self.0.create_reader(partition, file, metadata_size_hint, metrics)?)))
    }
}

struct Reader(Box<dyn AsyncFileReader + Send>);

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        self.0.get_bytes(range)
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        self.0.get_byte_ranges(ranges)
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        let reader = &mut self.0;
        // Bounds of pages are read here, too: a scan that did so later would have them as they are.
        let options = options.cloned().unwrap_or_default().with_page_index_policy(PageIndexPolicy::Optional);
        async move {
            let footer = reader.get_metadata(Some(&options)).await?;
            footer::read(Arc::unwrap_or_clone(footer)).map(Arc::new)
        }
        .boxed()
    }
}
