//! The physical optimizer rule that puts the pool under every scan of local Parquet files.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
};

use crate::reader::PoolReaderFactory;
use crate::source::InOrderScan;
use crate::{Delivery, Host};

/// Replaces how local Parquet files are read, and nothing else of a plan.
///
/// Under [`Delivery::Stock`] a scan keeps DataFusion's `FileScanConfig` and reads through the pool. Under
/// [`Delivery::InOrder`] it becomes an [`InOrderScan`], unless what is above it relies on the order or the
/// partitioning of its rows, or wants the row groups in an order of its own (a top-k sort): those keep stock delivery.
#[derive(Debug)]
pub(crate) struct PoolUnderParquet {
    host: Arc<Host>,
}

impl PoolUnderParquet {
    pub(crate) fn new(host: Arc<Host>) -> Self {
        Self { host }
    }

    /// Rewrites the scans below `plan`, whose own rows must come in order when `ordered`.
    fn rewrite(&self, plan: Arc<dyn ExecutionPlan>, ordered: bool) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
            return Ok(self.scan(scan, ordered).map_or_else(|| Arc::clone(&plan), |scan| Arc::new(scan) as _));
        }
        let children = plan.children();
        if children.is_empty() {
            return Ok(plan);
        }
        let rewritten = children
            .iter()
            .enumerate()
            .map(|(i, child)| self.rewrite(Arc::clone(child), order_matters(plan.as_ref(), i, ordered)))
            .collect::<Result<Vec<_>>>()?;
        if children.iter().zip(&rewritten).all(|(old, new)| Arc::ptr_eq(old, new)) {
            return Ok(plan);
        }
        plan.replace_children(rewritten, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn scan(&self, scan: &DataSourceExec, ordered: bool) -> Option<DataSourceExec> {
        let (config, source) = scan.downcast_to_file_source::<ParquetSource>()?;
        if !is_local(config) {
            return None;
        }
        let factory = PoolReaderFactory::new(Arc::clone(&self.host));
        let source = source.clone().with_parquet_file_reader_factory(Arc::new(factory));
        let config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
        let in_order = self.host.options.delivery == Delivery::InOrder && !ordered && may_move_rows(&config);
        Some(if in_order {
            // Nobody needs the declared order, and rows that move between partitions no longer have it.
            let config =
                FileScanConfigBuilder::from(config).with_output_ordering(vec![]).with_preserve_order(false).build();
            DataSourceExec::from(InOrderScan::new(config, Arc::clone(&self.host)))
        } else {
            scan.clone().with_data_source(Arc::new(config))
        })
    }
}

impl PhysicalOptimizerRule for PoolUnderParquet {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        // The user sees the order of the root's rows, so an order that the root promises is one that it needs.
        let ordered = plan.output_ordering().is_some();
        self.rewrite(plan, ordered)
    }

    fn name(&self) -> &str {
        "pagecast"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether the files of this scan are local ones.
pub(crate) fn is_local(config: &FileScanConfig) -> bool {
    config.object_store_url.as_str() == "file:///"
}

/// Whether the rows of child `i` must reach `plan` in the order that the child declares.
fn order_matters(plan: &dyn ExecutionPlan, i: usize, ordered: bool) -> bool {
    // A top-k sort asks its scan for the most promising row groups first, and its threshold prunes the others.
    let top_k = plan.downcast_ref::<SortExec>().is_some_and(|sort| sort.fetch().is_some());
    // A limit over sorted input takes the first rows of that order, without saying that it requires it.
    let first_rows = plan.fetch().is_some() && plan.children()[i].output_ordering().is_some();
    // A partial sort builds on the order that it finds, without saying so either.
    let required = plan.required_input_ordering()[i].is_some() || plan.is::<PartialSortExec>();
    required || top_k || first_rows || (ordered && plan.maintains_input_order()[i])
}

/// Whether row groups of this scan may be handed to any of its partitions.
fn may_move_rows(config: &FileScanConfig) -> bool {
    let sorted_limit = config.preserve_order && config.output_ordering.is_empty();
    let selects_rows = config
        .file_groups
        .iter()
        .flat_map(|group| group.iter())
        .any(|f| f.extension::<ParquetRowSelection>().is_some());
    // The number of a row in its file is counted over all row groups of the file, and a stroke has a few of them.
    let counts_rows = !config.file_source().table_schema().virtual_columns().is_empty();
    config.output_partitioning.is_none() && !sorted_limit && !selects_rows && !counts_rows
}
