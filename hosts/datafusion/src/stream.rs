//! A partition's stream: one chunk after the other, whoever hands them out.
//!
//! DataFusion's own stream takes files from a queue that is closed before it starts. Which chunk
//! comes next is not known by then: so its stream gets one file, which stands for all chunks, and
//! what opens it is the loop here. What DataFusion's stream does is left to it: it counts a limit
//! over all chunks, and keeps the metrics. The opener of Parquet files is made once for a
//! partition and opens every chunk.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{
    FileGroup, FileOpenFuture, FileOpener, FileScanConfig, FileScanConfigBuilder, FileSource, FileStreamBuilder,
};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coop::cooperative;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use object_store::ObjectStore;

use crate::Host;
use crate::chunks::{Chunks, Handed};
use crate::guard::Reading;
use crate::opener::Opener;

/// The rows of a chunk.
pub(crate) type Batches = BoxStream<'static, Result<RecordBatch>>;

/// The stream of one partition of `config`, which reads what `chunks` hands out.
pub(crate) fn open(
    config: &FileScanConfig,
    partition: usize,
    context: &Arc<TaskContext>,
    chunks: Arc<Chunks>,
    (host, reading): (&Arc<Host>, &Arc<Reading>),
) -> Result<SendableRecordBatchStream> {
    let batch_size = config.batch_size.unwrap_or_else(|| context.session_config().batch_size());
    let source = config.file_source().with_batch_size(batch_size);
    let all = FileGroup::new(vec![PartitionedFile::new("all chunks", 0)]);
    let groups = vec![all; config.file_groups.len()];
    let config = FileScanConfigBuilder::from(config.clone()).with_file_groups(groups).build();
    let store = context.runtime_env().object_store(&config.object_store_url)?;
    let metrics = source.metrics().clone();
    let whole = Opener::new(host, &config, source.as_ref(), (partition, batch_size), reading)?.map(Arc::new);
    let loop_of = Loop { source, store, config: config.clone(), partition, chunks, whole };
    let stream = FileStreamBuilder::new(&config)
        .with_partition(partition)
        .with_file_opener(Arc::new(loop_of))
        .with_metrics(&metrics)
        .build()?;
    Ok(Box::pin(cooperative(stream)))
}

/// Opens the file that stands for all chunks.
struct Loop {
    source: Arc<dyn FileSource>,
    store: Arc<dyn ObjectStore>,
    config: FileScanConfig,
    partition: usize,
    chunks: Arc<Chunks>,
    /// Opens those that are whole row groups.
    whole: Option<Arc<Opener>>,
}

impl FileOpener for Loop {
    fn open(&self, _all: PartitionedFile) -> Result<FileOpenFuture> {
        let opener = Arc::new(self.source.create_morselizer(Arc::clone(&self.store), &self.config, self.partition)?);
        let whole = self.whole.clone();
        let open = move |file: PartitionedFile| {
            let (opener, whole) = (Arc::clone(&opener), whole.clone());
            async move {
                if let Some(whole) = whole
                    && let Some(batches) = whole.open(&file).await?
                {
                    return Ok(batches);
                }
                let (mut planners, mut morsels) = (VecDeque::from([opener.plan_file(file)?]), Vec::new());
                while let Some(planner) = planners.pop_front() {
                    let Some(mut plan) = planner.plan()? else { continue };
                    morsels.extend(plan.take_morsels());
                    planners.extend(plan.take_ready_planners());
                    if let Some(reading) = plan.take_pending_planner() {
                        planners.push_back(reading.await?);
                    }
                }
                Ok(stream::iter(morsels).flat_map(|morsel| morsel.into_stream()).boxed())
            }
            .boxed()
        };
        let batches = rows(Files { open, chunks: Arc::clone(&self.chunks) }).boxed();
        Ok(futures::future::ready(Ok(batches)).boxed())
    }
}

impl fmt::Debug for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loop").field("partition", &self.partition).finish_non_exhaustive()
    }
}

/// The chunks of one scan, opened by `open`.
struct Files<F> {
    open: F,
    chunks: Arc<Chunks>,
}

impl<F> Opened for Files<F>
where
    F: Fn(PartitionedFile) -> BoxFuture<'static, Result<Batches>> + Send + 'static,
{
    async fn next(&mut self) -> Result<Option<(Batches, Handed)>> {
        loop {
            let Some((_, files, handed)) = self.chunks.next().await else { return Ok(None) };
            // A chunk of one scan is one file. `handed` is dropped here if the opening fails or is
            // given up.
            let Some(file) = files.into_iter().next() else { continue };
            return Ok(Some(((self.open)(file).await?, handed)));
        }
    }
}

/// What takes chunks and opens them, one after the other.
pub(crate) trait Opened: Send + 'static {
    /// The rows of the next chunk, and the chunk itself; `None` if there is no other.
    fn next(&mut self) -> impl Future<Output = Result<Option<(Batches, Handed)>>> + Send;
}

/// The rows of all chunks that a partition takes.
pub(crate) fn rows(chunks: impl Opened) -> impl Stream<Item = Result<RecordBatch>> + Send {
    stream::try_unfold(Rows { chunks, current: None }, |mut rows| async move {
        let next = rows.next().await?;
        Ok(next.map(|batch| (batch, rows)))
    })
}

/// Where the loop is. Dropped with the stream, which gives back a chunk of which nothing was
/// delivered.
struct Rows<S> {
    chunks: S,
    current: Option<(Batches, Handed)>,
}

impl<S: Opened> Rows<S> {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some((batches, handed)) = &mut self.current {
                let batch = batches.try_next().await?;
                handed.delivered();
                if batch.is_some() {
                    return Ok(batch);
                }
                self.current = None;
            }
            self.current = self.chunks.next().await?;
            if self.current.is_none() {
                return Ok(None);
            }
        }
    }
}
