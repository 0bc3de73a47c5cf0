//! One execution of a scan: the strokes that its partitions share, and who is still reading.

use std::sync::{Arc, OnceLock};

use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use crate::metrics::ScanMetrics;
use crate::strokes::Strokes;
use crate::{Delivery, Host};

/// What the partitions of one plan node share: the execution that is under way.
///
/// DataFusion makes this once per plan and again after `reset_state`. A plan that is executed again
/// without that opens a partition for the second time, which starts a new execution here too.
pub(crate) struct Siblings {
    config: FileScanConfig,
    host: Arc<Host>,
    metrics: Arc<ScanMetrics>,
    delivery: Delivery,
    current: Mutex<(Arc<Execution>, Vec<bool>)>,
}

impl Siblings {
    /// `delivery` is out of order or in order.
    pub(crate) fn new(config: FileScanConfig, host: Arc<Host>, metrics: Arc<ScanMetrics>, delivery: Delivery) -> Self {
        let unopened = vec![false; config.file_groups.len()];
        Self { config, host, metrics, delivery, current: Mutex::new((Arc::default(), unopened)) }
    }

    pub(crate) fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let execution = self.join(partition);
        let attendance = Attendance::new(execution);
        let (config, host, metrics) = (self.config.clone(), Arc::clone(&self.host), Arc::clone(&self.metrics));
        let (schema, delivery) = (config.projected_schema()?, self.delivery);
        let opened = stream::once(async move {
            let plan = {
                let (config, context) = (config.clone(), Arc::clone(&context));
                async move { Strokes::plan(&config, &host, &context, &metrics, delivery).await }
            };
            let strokes = attendance.0.strokes(plan).await?;
            let batches = crate::stream::open(&config, partition, &context, strokes)?;
            // The stream carries its attendance to its end or its drop, whichever comes first.
            Ok::<_, DataFusionError>(batches.inspect(move |_| _ = &attendance))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, opened.try_flatten())))
    }

    fn join(&self, partition: usize) -> Arc<Execution> {
        let (execution, opened) = &mut *self.current.lock();
        if opened[partition] {
            *execution = Arc::default();
            opened.fill(false);
        }
        opened[partition] = true;
        Arc::clone(execution)
    }
}

/// The strokes as they are planned, by whichever partition is polled, and the number of streams
/// that may still take one.
#[derive(Default)]
struct Execution {
    strokes: OnceLock<Shared<BoxFuture<'static, Planned>>>,
    streams: Mutex<usize>,
}

type Planned = Result<Arc<Strokes>, Arc<DataFusionError>>;

impl Execution {
    /// The first to ask brings the plan. All who wait for it drive it, so that none depends on one
    /// who has stopped fetching.
    async fn strokes(&self, plan: impl Future<Output = Result<Arc<Strokes>>> + Send + 'static) -> Result<Arc<Strokes>> {
        let mut planned = false;
        let planning = self.strokes.get_or_init(|| {
            planned = true;
            async { plan.await.map_err(Arc::new) }.boxed().shared()
        });
        let strokes = planning.clone().await.map_err(DataFusionError::Shared)?;
        {
            // Under the lock, so that the last stream of a group that just left cannot end what
            // this one registers.
            let _streams = self.streams.lock();
            strokes.register();
        }
        if planned {
            // Partitions that waited for the plan were woken onto this thread, and no other thread
            // would run them while this one reads what is in memory.
            tokio::task::yield_now().await;
        }
        Ok(strokes)
    }
}

/// A stream's membership in its execution. The scan is finished when the last member goes, for
/// whatever reason: the end, an error, a limit that was reached, a query that was cancelled.
struct Attendance(Arc<Execution>);

impl Attendance {
    fn new(execution: Arc<Execution>) -> Self {
        *execution.streams.lock() += 1;
        Self(execution)
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        let mut streams = self.0.streams.lock();
        *streams -= 1;
        if *streams == 0
            && let Some(Ok(strokes)) = self.0.strokes.get().and_then(Shared::peek)
        {
            strokes.finish();
        }
    }
}
