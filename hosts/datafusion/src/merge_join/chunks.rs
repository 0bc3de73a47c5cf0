//! The chunks of one execution of a join: planned, handed out, and joined.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricType};

use super::Parts;
use super::cuts::{Both, Interval};
use super::key::Key;
use super::side;
use crate::chunks::{Chunks, Handed};
use crate::metrics::ScanMetrics;
use crate::read_plan::plan_reads;
use crate::source::PoolScan;
use crate::units::Work;

/// What one chunk joins.
struct Joined {
    /// The scans of both sides, without files.
    scans: Both<FileScanConfig>,
    /// Whether they have rows of other chunks, too.
    divides: Both<bool>,
    interval: Interval<Key>,
    /// Of the files that are handed out those of the left side.
    lefts: usize,
}

/// The chunks of one execution.
#[derive(Clone)]
pub(super) struct JointChunks {
    chunks: Arc<Chunks>,
    joined: Arc<[Joined]>,
}

impl AsRef<Chunks> for JointChunks {
    fn as_ref(&self) -> &Chunks {
        &self.chunks
    }
}

impl JointChunks {
    /// Plans what each chunk reads of both tables. Those of which filters and pages leave so
    /// little that they give no row are dropped.
    pub(super) async fn plan(parts: &Parts, context: &Arc<TaskContext>, metrics: &ScanMetrics) -> Result<Self> {
        let host = &parts.host;
        let scans = [scan(parts, 0)?, scan(parts, 1)?];
        let (mut work, mut joined, mut bytes) = (Work::default(), Vec::new(), 0);
        for joint in parts.joints.iter() {
            let configs = [0, 1].map(|side| {
                let (config, source) = scans[side];
                parts.sides[side].of_chunk(config, source, &joint.pieces[side], &joint.interval, side)
            });
            let ignored = ExecutionPlanMetricsSet::new();
            let mut plans = Vec::new();
            for config in &configs {
                plans.push(plan_reads(config, host, context, &ignored).await?);
            }
            let has_rows = [0, 1].map(|side| plans[side].row_groups().next().is_some());
            if !parts.alone.matters(has_rows) {
                continue;
            }
            bytes += plans.iter().map(|plan| plan.bytes()).sum::<u64>();
            let lefts = work.add_chunk(plans, host.pool.page_size().into());
            joined.push(Joined {
                divides: [0, 1].map(|side| parts.sides[side].divides(&joint.pieces[side], &joint.interval, side)),
                scans: configs.map(|config| FileScanConfigBuilder::from(config).with_file_groups(Vec::new()).build()),
                interval: joint.interval.clone(),
                lefts,
            });
        }
        let dropped = MetricBuilder::new(metrics.planned()).with_type(MetricType::Summary);
        dropped.global_counter("chunks_dropped").add(parts.joints.len() - joined.len());
        metrics.add_planned(bytes);
        let chunks = Chunks::of(host, work, parts.partitions, metrics, parts.delivery);
        Ok(Self { chunks, joined: joined.into() })
    }

    /// The number of the next chunk, with its files.
    pub(super) async fn next(&self) -> Option<(usize, Vec<PartitionedFile>, Handed)> {
        self.chunks.next().await
    }

    /// Joins what the chunk has of both tables.
    pub(super) fn open(
        &self,
        number: usize,
        mut files: Vec<PartitionedFile>,
        parts: &Parts,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let chunk = &self.joined[number];
        let right = files.split_off(chunk.lefts);
        let inputs = [files, right].into_iter().enumerate().map(|(side, files)| chunk.input(side, files, parts));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let join = parts.join.builder().reset_state().with_new_children(inputs)?.recompute_properties().build()?;
        join.execute(0, Arc::clone(context))
    }
}

impl Joined {
    /// The input of a side.
    fn input(&self, side: usize, files: Vec<PartitionedFile>, parts: &Parts) -> Result<Arc<dyn ExecutionPlan>> {
        let chain = parts.join.children()[side];
        let scan = side::scan(chain);
        let opened: Arc<dyn ExecutionPlan> = if files.is_empty() {
            Arc::new(EmptyExec::new(scan.schema()))
        } else {
            let config = FileScanConfigBuilder::from(self.scans[side].clone());
            let config = config.with_file_groups(vec![FileGroup::new(files)]).build();
            DataSourceExec::from_data_source(pool_scan(scan)?.of_chunk(config)?)
        };
        let input = side::over(chain, opened)?;
        let key: Arc<dyn PhysicalExpr> = Arc::new(parts.sides[side].key.clone());
        match self.interval.filter(&key, side).filter(|_| self.divides[side]) {
            Some(filter) => Ok(Arc::new(FilterExec::try_new(filter, input)?)),
            None => Ok(input),
        }
    }
}

/// The scan of a side, as the host's rule made it.
fn scan(parts: &Parts, side: usize) -> Result<(&FileScanConfig, &ParquetSource)> {
    let config = pool_scan(side::scan(parts.join.children()[side]))?.config();
    let source = config.file_source().downcast_ref::<ParquetSource>();
    Ok((config, source.ok_or_else(|| DataFusionError::Internal("a join of no Parquet scans".to_owned()))?))
}

fn pool_scan(scan: &Arc<dyn ExecutionPlan>) -> Result<&PoolScan> {
    let source = scan.downcast_ref::<DataSourceExec>().map(DataSourceExec::data_source);
    let scan = source.and_then(|source| source.downcast_ref::<PoolScan>());
    scan.ok_or_else(|| DataFusionError::Internal("a join of scans that read past the pool".to_owned()))
}
