//! The source that reads Parquet files through the pool, in every delivery.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayFormatType, EmptyRecordBatchStream};
use pagecast_corrections::floats::with_one_nan;

use crate::cooperative::why_not;
use crate::execution::Siblings;
use crate::guard::{Reading, guarded};
use crate::join_kept::Kept;
use crate::metrics::{Expected, ScanMetrics};
use crate::read_plan::plan_reads;
use crate::reader::PoolReaderFactory;
use crate::units::Work;
use crate::{Delivery, Host};

/// The data source that replaces a `FileScanConfig` of Parquet files.
///
/// It decodes, filters and projects nothing itself. The wrapped configuration answers every
/// question about the plan. In stock delivery it is executed as it is. Else its partitions share
/// chunks, a row group each or several small ones (see [`Siblings`]), and are one scan of the
/// pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolScan {
    pub(crate) config: FileScanConfig,
    host: Arc<Host>,
    streams: Streams,
    reading: Arc<Reading>,
    metrics: Arc<ScanMetrics>,
    /// Why the join above it stays as it was planned, if it could be one of chunks.
    join_kept: Option<Kept>,
}

/// Which partition reads what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Streams {
    /// As DataFusion does.
    Stock,
    /// Each the chunk that comes next, as one scan of the pool.
    InOrder,
    /// Each the chunk that the pool hands out, as one scan of the pool.
    OutOfOrder,
    /// The first one all chunks, so that rows come in the order of the files.
    First,
}

impl PoolScan {
    /// `config` reads Parquet through the host's readers, who tell `reading`. Unless DataFusion
    /// delivers, it promises no order of rows.
    pub(crate) fn new(config: FileScanConfig, host: Arc<Host>, streams: Streams, reading: Arc<Reading>) -> Self {
        Self { config, host, streams, reading, metrics: Arc::default(), join_kept: None }
    }

    /// The same, with the reason why the join above it stays.
    pub(crate) fn with_join_kept(self, join_kept: Option<Kept>) -> Self {
        Self { join_kept, ..self }
    }

    /// The scan of a chunk of it, which `config` describes: one partition, whose rows come in the
    /// order of its files.
    pub(crate) fn of_chunk(&self, config: FileScanConfig) -> Result<Self> {
        let reading: Arc<Reading> = Arc::default();
        let source = config.file_source().downcast_ref::<ParquetSource>().cloned();
        let source = source.ok_or_else(|| DataFusionError::Internal("a chunk of no Parquet files".to_owned()))?;
        let url = config.object_store_url.clone();
        let factory = PoolReaderFactory::new(Arc::clone(&self.host), url, Arc::clone(&reading), &source);
        let source = source.with_parquet_file_reader_factory(Arc::new(factory));
        let config = FileScanConfigBuilder::from(config).with_source(Arc::new(source)).build();
        Ok(Self::new(config, Arc::clone(&self.host), Streams::Stock, reading))
    }

    /// Has EXPLAIN show what an execution would read now, and how that would be delivered. Reads
    /// footers, and nothing else.
    pub(crate) async fn expect(&self, context: &Arc<TaskContext>) -> Result<()> {
        let plan = plan_reads(&self.config, &self.host, context, &ExecutionPlanMetricsSet::new()).await?;
        let expected = Expected { bytes: plan.bytes(), in_memory: plan.bytes_in_memory(&self.host.pool) };
        let why = match self.delivery() {
            Some(Delivery::OutOfOrder) => why_not(&self.host, &Work::of_units(plan, self.host.pool.page_size().into())),
            _ => None,
        };
        self.metrics.expect(expected, why);
        Ok(())
    }

    /// The scan that it wraps.
    pub(crate) fn config(&self) -> &FileScanConfig {
        &self.config
    }

    /// How its chunks are delivered; nothing if DataFusion delivers.
    pub(crate) fn delivery(&self) -> Option<Delivery> {
        match self.streams {
            Streams::Stock => None,
            Streams::InOrder | Streams::First => Some(Delivery::InOrder),
            Streams::OutOfOrder => Some(Delivery::OutOfOrder),
        }
    }
}

impl DataSource for PoolScan {
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    /// Without siblings to share with, a partition is its own file group, as in stock delivery.
    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let partition = args.partition;
        if self.streams == Streams::First && partition > 0 {
            return Ok(Box::pin(EmptyRecordBatchStream::new(self.config.projected_schema()?)));
        }
        let siblings = args.sibling_state.as_ref().and_then(|state| state.downcast_ref::<Siblings>());
        let batches = match siblings {
            Some(siblings) => siblings.open(partition, Arc::clone(&args.context))?,
            None => self.config.open_with_args(args)?,
        };
        let (schema, reading) = (batches.schema(), Arc::clone(&self.reading));
        let batches = guarded(with_one_nan(batches), reading, partition);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn create_sibling_state(&self, options: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        let Some(delivery) = self.delivery() else { return self.config.create_sibling_state(options) };
        let (host, metrics) = (Arc::clone(&self.host), Arc::clone(&self.metrics));
        Some(Arc::new(Siblings::new(self.config.clone(), host, metrics, Arc::clone(&self.reading), delivery)))
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.config.fmt_as(t, f)?;
        match (&self.join_kept, t) {
            (None, _) => {}
            (Some(why), DisplayFormatType::TreeRender) => writeln!(f, "join=as planned ({why})")?,
            (Some(why), _) => write!(f, ", join=as planned ({why})")?,
        }
        match (self.metrics.expected(), t) {
            (None, _) => {}
            (Some(expected), DisplayFormatType::TreeRender) => writeln!(f, "reads={expected}")?,
            (Some(expected), _) => write!(f, ", reads={expected}")?,
        }
        let Some(delivery) = self.delivery() else { return Ok(()) };
        let delivery = match (delivery, self.metrics.back_in_order()) {
            (Delivery::OutOfOrder, None) => "out-of-order".to_owned(),
            (Delivery::OutOfOrder, Some(why)) => format!("in-order ({why})"),
            _ => "in-order".to_owned(),
        };
        let first = if self.streams == Streams::First { ", streams=first" } else { "" };
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => write!(f, ", delivery={delivery}{first}"),
            DisplayFormatType::TreeRender => writeln!(f, "delivery={delivery}{first}"),
        }
    }

    fn output_partitioning(&self) -> Partitioning {
        self.config.output_partitioning()
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        self.config.eq_properties()
    }

    fn scheduling_type(&self) -> SchedulingType {
        self.config.scheduling_type()
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.config.partition_statistics(partition)
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        let config = FileScanConfigBuilder::from(self.config.clone()).with_limit(limit).build();
        Some(Arc::new(Self { config, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.config.fetch()
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        match self.streams {
            Streams::Stock => self.config.metrics(),
            Streams::InOrder | Streams::OutOfOrder | Streams::First => self.metrics.with(&self.config.metrics()),
        }
    }

    /// The rule that makes this source is the optimizer's last, so there is nothing left to push
    /// into it.
    fn try_swapping_with_projection(&self, _projection: &ProjectionExprs) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(None)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.config.apply_expressions(f)
    }
}
