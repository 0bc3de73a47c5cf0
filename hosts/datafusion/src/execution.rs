//! One execution of a scan: the chunks that its partitions share, and who is still reading.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use crate::chunks::Chunks;
use crate::guard::Reading;
use crate::metrics::ScanMetrics;
use crate::{Delivery, Host};

/// What the partitions of one scan share.
pub(crate) struct Siblings {
    config: FileScanConfig,
    host: Arc<Host>,
    metrics: Arc<ScanMetrics>,
    reading: Arc<Reading>,
    delivery: Delivery,
    executions: Executions<Arc<Chunks>>,
}

impl Siblings {
    /// `delivery` is out of order or in order.
    pub(crate) fn new(
        config: FileScanConfig,
        host: Arc<Host>,
        metrics: Arc<ScanMetrics>,
        reading: Arc<Reading>,
        delivery: Delivery,
    ) -> Self {
        let executions = Executions::new(config.file_groups.len());
        Self { config, host, metrics, reading, delivery, executions }
    }

    pub(crate) fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let attendance = self.executions.join(partition, &context);
        let (config, host, metrics) = (self.config.clone(), Arc::clone(&self.host), Arc::clone(&self.metrics));
        let (schema, delivery, reading) = (config.projected_schema()?, self.delivery, Arc::clone(&self.reading));
        let opened = stream::once(async move {
            let plan = {
                let (config, context, host) = (config.clone(), Arc::clone(&context), Arc::clone(&host));
                async move { Chunks::plan(&config, &host, &context, &metrics, delivery).await }
            };
            let chunks = attendance.chunks(plan).await?;
            let batches = crate::stream::open(&config, partition, &context, chunks, (&host, &reading))?;
            // The stream carries its attendance to its end or its drop, whichever comes first.
            Ok::<_, DataFusionError>(batches.inspect(move |_| _ = &attendance))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, opened.try_flatten())))
    }
}

/// The executions that are under way of one plan node.
///
/// DataFusion makes this once per plan and again after `reset_state`. A plan may be executed again
/// without that, also while it runs: then the task context tells whose a partition is. One in a
/// context that nobody knows belongs to the newest execution, because some open each partition in
/// a context of its own. A partition that was opened before starts a new execution.
pub(crate) struct Executions<S> {
    partitions: usize,
    /// The newest is the last, and stays.
    under_way: Mutex<Vec<UnderWay<S>>>,
}

struct UnderWay<S> {
    /// No other context has the pointer of one as long as it is here.
    contexts: Vec<Weak<TaskContext>>,
    execution: Arc<Execution<S>>,
    opened: Vec<bool>,
}

impl<S> UnderWay<S> {
    fn has(&self, context: &Arc<TaskContext>) -> bool {
        self.contexts.iter().any(|known| known.as_ptr() == Arc::as_ptr(context))
    }
}

impl<S> Executions<S> {
    pub(crate) fn new(partitions: usize) -> Self {
        Self { partitions, under_way: Mutex::default() }
    }

    /// The stream of this partition takes part.
    pub(crate) fn join(&self, partition: usize, context: &Arc<TaskContext>) -> Attendance<S>
    where
        S: AsRef<Chunks> + Clone,
    {
        let mut under_way = self.under_way.lock();
        let newest = under_way.pop();
        under_way.retain(|of| of.contexts.iter().any(|context| context.strong_count() > 0));
        under_way.extend(newest);
        let known = under_way.iter().position(|of| of.has(context)).or(under_way.len().checked_sub(1));
        let known = known.filter(|&at| !under_way[at].opened[partition]);
        let at = known.unwrap_or_else(|| {
            under_way.retain(|of| !of.has(context));
            let opened = vec![false; self.partitions];
            under_way.push(UnderWay { contexts: Vec::new(), execution: Arc::default(), opened });
            under_way.len() - 1
        });
        let of = &mut under_way[at];
        of.opened[partition] = true;
        if !of.has(context) {
            of.contexts.push(Arc::downgrade(context));
        }
        Attendance::new(Arc::clone(&of.execution))
    }
}

impl<S> fmt::Debug for Executions<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executions").finish_non_exhaustive()
    }
}

/// The chunks as they are planned, by whichever partition is polled, and the number of streams
/// that may still take one.
struct Execution<S> {
    chunks: OnceLock<Shared<BoxFuture<'static, Planned<S>>>>,
    streams: Mutex<usize>,
}

type Planned<S> = Result<S, Arc<DataFusionError>>;

impl<S> Default for Execution<S> {
    fn default() -> Self {
        Self { chunks: OnceLock::new(), streams: Mutex::new(0) }
    }
}

/// A stream's membership in its execution. The scan is finished when the last member goes, for
/// whatever reason: the end, an error, a limit that was reached, a query that was cancelled.
pub(crate) struct Attendance<S: AsRef<Chunks> + Clone>(Arc<Execution<S>>);

impl<S: AsRef<Chunks> + Clone> Attendance<S> {
    fn new(execution: Arc<Execution<S>>) -> Self {
        *execution.streams.lock() += 1;
        Self(execution)
    }

    /// The first to ask brings the plan. All who wait for it drive it, so that none depends on one
    /// who has stopped fetching.
    pub(crate) async fn chunks(&self, plan: impl Future<Output = Result<S>> + Send + 'static) -> Result<S> {
        let mut planned = false;
        let planning = self.0.chunks.get_or_init(|| {
            planned = true;
            async { plan.await.map_err(Arc::new) }.boxed().shared()
        });
        let chunks = planning.clone().await.map_err(DataFusionError::Shared)?;
        {
            // Under the lock, so that the last stream of a group that just left cannot end what
            // this one registers.
            let _streams = self.0.streams.lock();
            chunks.as_ref().register();
        }
        if planned {
            // Partitions that waited for the plan were woken onto this thread, and no other thread
            // would run them while this one reads what is in memory.
            tokio::task::yield_now().await;
        }
        Ok(chunks)
    }
}

impl<S: AsRef<Chunks> + Clone> Drop for Attendance<S> {
    fn drop(&mut self) {
        let mut streams = self.0.streams.lock();
        *streams -= 1;
        if *streams == 0
            && let Some(Ok(chunks)) = self.0.chunks.get().and_then(Shared::peek)
        {
            chunks.as_ref().finish();
        }
    }
}
