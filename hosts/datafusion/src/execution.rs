//! One execution of an in-order scan: the queue of row groups that its partitions share, and who is
//! still reading.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::Host;
use crate::metrics::ScanMetrics;
use crate::progress::{Progress, Ticket};
use crate::read_plan::{PlannedRowGroup, ReadPlan, plan_reads, total};

/// What the partitions of one plan node share: the execution that is under way.
///
/// DataFusion makes this once per plan and again after `reset_state`. A plan that is executed again
/// without that opens a partition for the second time, which starts a new execution here too.
pub(crate) struct Siblings {
    config: FileScanConfig,
    host: Arc<Host>,
    metrics: Arc<ScanMetrics>,
    current: Mutex<(Arc<Execution>, Vec<bool>)>,
}

impl Siblings {
    pub(crate) fn new(config: FileScanConfig, host: Arc<Host>, metrics: Arc<ScanMetrics>) -> Self {
        let unopened = vec![false; config.file_groups.len()];
        Self { config, host, metrics, current: Mutex::new((Arc::default(), unopened)) }
    }

    pub(crate) fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let execution = self.join(partition);
        let attendance = Attendance::new(execution);
        let (config, host, metrics) = (self.config.clone(), Arc::clone(&self.host), Arc::clone(&self.metrics));
        let schema = config.projected_schema()?;
        let opened = stream::once(async move {
            let queue = attendance.0.queue(config, host, &context, &metrics).await?;
            let batches = queue.open(partition, context)?;
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

/// The queue, filled by the partition that is polled first, and the number of streams that may
/// still take from it.
#[derive(Default)]
struct Execution {
    queue: OnceCell<Queue>,
    streams: Mutex<usize>,
}

impl Execution {
    async fn queue(
        &self,
        config: FileScanConfig,
        host: Arc<Host>,
        context: &Arc<TaskContext>,
        metrics: &ScanMetrics,
    ) -> Result<&Queue> {
        let queue = self.queue.get_or_try_init(|| Queue::fill(config, host, context, metrics)).await?;
        // Under the lock, so that the last stream of a group that just left cannot end what this
        // one registers.
        let _streams = self.streams.lock();
        queue.progress.register();
        Ok(queue)
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
            && let Some(queue) = self.0.queue.get()
        {
            queue.progress.finish();
        }
    }
}

/// Strokes in file order, as files of their own in DataFusion's shared work queue.
struct Queue {
    /// The scan with as many partitions as the plan has and no files: the work comes from `work`.
    config: FileScanConfig,
    /// DataFusion's shared work source, opaque to us.
    work: Option<Arc<dyn std::any::Any + Send + Sync>>,
    progress: Arc<Progress>,
}

impl Queue {
    async fn fill(
        config: FileScanConfig,
        host: Arc<Host>,
        context: &Arc<TaskContext>,
        metrics: &ScanMetrics,
    ) -> Result<Self> {
        let plan = plan_reads(&config, &host, context, metrics.planned()).await?;
        metrics.add_planned(plan.bytes());
        let progress = Arc::new(Progress::new(&host, &plan));
        host.watch(&progress);
        let (enough, mut first, mut files) = (stroke_work(&plan, config.file_groups.len()), 0, Vec::new());
        for file in &plan.files {
            for stroke in strokes(&file.row_groups, enough) {
                files.push(file.with(stroke).with_extension(Ticket::new(Arc::clone(&progress), first, stroke)));
                first += stroke.len();
            }
        }
        let full = with_groups(&config, vec![FileGroup::new(files)]);
        // Sharing work is what this source is for, whatever the session says about stock scans.
        let mut options = ConfigOptions::default();
        options.execution.enable_file_stream_work_stealing = true;
        let work = full.create_sibling_state(&options);
        let empty = config.file_groups.iter().map(|_| FileGroup::new(vec![])).collect();
        Ok(Self { config: with_groups(&config, empty), work, progress })
    }

    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.config.open_with_args(OpenArgs::new(partition, context).with_shared_state(self.work.clone()))
    }
}

fn with_groups(config: &FileScanConfig, groups: Vec<FileGroup>) -> FileScanConfig {
    FileScanConfigBuilder::from(config.clone()).with_file_groups(groups).build()
}

/// The work of opening a stroke, as bytes that are decoded meanwhile.
const OPENING: u64 = 4 << 10;
/// A stroke of this much work is opened for next to nothing. Larger ones would keep more row groups
/// from other partitions.
const STROKE: u64 = 1 << 20;
/// Each partition is to get about this many strokes, if there are so many row groups.
const STROKES_EACH: u64 = 16;

fn work(row_group: &PlannedRowGroup) -> u64 {
    OPENING + total(&row_group.bytes)
}

/// How much work makes a stroke: so much that opening does not count, and so little that no
/// partition goes without.
pub(crate) fn stroke_work(plan: &ReadPlan, partitions: usize) -> u64 {
    let all: u64 = plan.row_groups().map(|(_, row_group)| work(row_group)).sum();
    (all / (STROKES_EACH * partitions.max(1) as u64)).min(STROKE)
}

/// The row groups of a file in strokes: one each, or as many small ones as make enough work.
pub(crate) fn strokes(row_groups: &[PlannedRowGroup], enough: u64) -> impl Iterator<Item = &[PlannedRowGroup]> {
    let mut rest = row_groups;
    std::iter::from_fn(move || {
        let mut done = 0;
        let last = rest.iter().position(|row_group| {
            done += work(row_group);
            done >= enough
        });
        let (stroke, left) = rest.split_at(last.map_or(rest.len(), |last| last + 1));
        rest = left;
        Some(stroke).filter(|stroke| !stroke.is_empty())
    })
}
