//! A Parquet scan whose partitions take row groups in file order from one queue, known to the pool as one scan.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;

use crate::Host;
use crate::execution::Siblings;
use crate::metrics::ScanMetrics;

/// In-order delivery: the data source that replaces a `FileScanConfig` of local Parquet files.
///
/// It decodes, filters and projects nothing itself. The wrapped configuration answers every question about the plan;
/// at execution its own stream is opened over a work queue of strokes, a row group each or several small ones (see [`Siblings`]).
#[derive(Clone, Debug)]
pub(crate) struct InOrderScan {
    pub(crate) config: FileScanConfig,
    host: Arc<Host>,
    metrics: Arc<ScanMetrics>,
}

impl InOrderScan {
    /// `config` reads Parquet through the host's reader factory and promises no order of rows.
    pub(crate) fn new(config: FileScanConfig, host: Arc<Host>) -> Self {
        Self { config, host, metrics: Arc::default() }
    }

    /// The scan that it wraps.
    pub(crate) fn config(&self) -> &FileScanConfig {
        &self.config
    }
}

impl DataSource for InOrderScan {
    /// Without siblings to share with, a partition is its own file group, as in stock delivery.
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.config.open(partition, context)
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let OpenArgs { partition, context, sibling_state } = args;
        match sibling_state.as_ref().and_then(|state| state.downcast_ref::<Siblings>()) {
            Some(siblings) => siblings.open(partition, context),
            None => self.open(partition, context),
        }
    }

    fn create_sibling_state(&self, _config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(Arc::new(Siblings::new(self.config.clone(), Arc::clone(&self.host), Arc::clone(&self.metrics))))
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.config.fmt_as(t, f)?;
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => write!(f, ", delivery=in-order"),
            DisplayFormatType::TreeRender => writeln!(f, "delivery=in-order"),
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
        self.metrics.with(&self.config.metrics())
    }

    /// The rule that makes this source is the optimizer's last, so there is nothing left to push into it.
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
