//! The physical optimizer rule that puts the pool under every scan of local Parquet files.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
};

use crate::reader::PoolReaderFactory;
use crate::source::{PoolScan, Streams};
use crate::{Delivery, Host};

/// What the rule is called. A session that has a rule of this name has a pool.
pub(crate) const NAME: &str = "pagecast";

/// Replaces how local Parquet files are read, and nothing else of a plan.
///
/// Under [`Delivery::Stock`] a scan is executed as DataFusion does, and reads through the pool.
/// Under [`Delivery::InOrder`] its row groups go to whichever partition asks, unless what is above
/// it relies on the order or the partitioning of its rows, or wants the row groups in an order of
/// its own (a top-k sort): those keep stock delivery. Beneath functions whose results tell in which
/// order rows came ([`HostOptions::keep_order`](crate::HostOptions)), small files are read by one
/// stream, and large ones keep stock delivery.
#[derive(Debug)]
pub(crate) struct PoolUnderParquet {
    host: Arc<Host>,
}

/// What the plan above needs of the order of rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    /// Nothing.
    Free,
    /// The declared one, where it gets through.
    Declared,
    /// That of the files, whatever is between: nobody promised it, but it shows. It can be had of
    /// files of fewer bytes than these, which no plan needs several streams for.
    Files(u64),
}

impl PoolUnderParquet {
    pub(crate) fn new(host: Arc<Host>) -> Self {
        Self { host }
    }

    /// Rewrites the scans below `plan`, whose own rows must come in this order. A node that refuses
    /// other children keeps those that it has. `small` is the size up to which files are read by
    /// one stream.
    fn rewrite(&self, plan: Arc<dyn ExecutionPlan>, order: Order, small: u64) -> Arc<dyn ExecutionPlan> {
        if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
            return self.scan(scan, order).map_or_else(|| Arc::clone(&plan), |scan| Arc::new(scan) as _);
        }
        let children = plan.children();
        if children.is_empty() {
            return plan;
        }
        let rewritten: Vec<_> = children
            .iter()
            .enumerate()
            .map(|(i, child)| {
                let shows = self.host.options.keep_order && shows_order(plan.as_ref());
                let of_child = if shows { Order::Files(small) } else { order_of_child(plan.as_ref(), i, order) };
                self.rewrite(Arc::clone(child), of_child, small)
            })
            .collect();
        if children.iter().zip(&rewritten).all(|(old, new)| Arc::ptr_eq(old, new)) {
            return plan;
        }
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Arc::clone(&plan).replace_children(rewritten, options).unwrap_or_else(|_| {
            self.host.refused.fetch_add(1, Relaxed);
            plan
        })
    }

    fn scan(&self, scan: &DataSourceExec, order: Order) -> Option<DataSourceExec> {
        let (config, source) = scan.downcast_to_file_source::<ParquetSource>()?;
        if !is_local(config) {
            return None;
        }
        let reading = Arc::default();
        let factory = PoolReaderFactory::new(Arc::clone(&self.host), Arc::clone(&reading));
        let source = source.clone().with_parquet_file_reader_factory(Arc::new(factory));
        let mut config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
        let streams = match order {
            _ if self.host.options.delivery == Delivery::Stock || !may_move_rows(&config) => Streams::Stock,
            Order::Free => Streams::InOrder,
            Order::Files(small) if bytes(&config) < small => Streams::First,
            Order::Files(_) | Order::Declared => Streams::Stock,
        };
        if streams != Streams::Stock {
            // Nobody needs the declared order, and rows that move between partitions no longer have
            // it.
            let unordered = FileScanConfigBuilder::from(config).with_output_ordering(vec![]);
            config = unordered.with_preserve_order(false).build();
        }
        let scanned = PoolScan::new(config, Arc::clone(&self.host), streams, reading);
        Some(scan.clone().with_data_source(Arc::new(scanned)))
    }
}

impl PhysicalOptimizerRule for PoolUnderParquet {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        // The user sees the order of the root's rows, so an order that the root promises is one
        // that it needs.
        let order = if plan.output_ordering().is_some() { Order::Declared } else { Order::Free };
        Ok(self.rewrite(plan, order, config.optimizer.repartition_file_min_size as u64))
    }

    fn name(&self) -> &str {
        NAME
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
    // A top-k sort asks its scan for the most promising row groups first, and its threshold prunes
    // the others.
    let top_k = plan.downcast_ref::<SortExec>().is_some_and(|sort| sort.fetch().is_some());
    // A limit over sorted input takes the first rows of that order, without saying that it requires
    // it.
    let first_rows = plan.fetch().is_some() && plan.children()[i].output_ordering().is_some();
    // A partial sort builds on the order that it finds, without saying so either.
    let required = plan.required_input_ordering()[i].is_some() || plan.is::<PartialSortExec>();
    required || top_k || first_rows || (ordered && plan.maintains_input_order()[i])
}

fn order_of_child(plan: &dyn ExecutionPlan, i: usize, order: Order) -> Order {
    match order {
        Order::Files(_) => order,
        _ if order_matters(plan, i, order == Order::Declared) => Order::Declared,
        _ => Order::Free,
    }
}

/// Bytes of the files of a scan, or of the ranges that it reads of them.
fn bytes(config: &FileScanConfig) -> u64 {
    let files = config.file_groups.iter().flat_map(|group| group.iter());
    files.map(|file| file.range.as_ref().map_or(file.object_meta.size, |r| (r.end - r.start).max(0) as u64)).sum()
}

/// Whether the result tells in which order rows came, though no order is promised: aggregates that
/// pick or list values, and windows, where rows tie.
fn shows_order(plan: &dyn ExecutionPlan) -> bool {
    const AGGREGATES: [&str; 5] = ["first_value", "last_value", "nth_value", "array_agg", "string_agg"];
    let aggregates = plan.downcast_ref::<AggregateExec>().map_or(&[][..], AggregateExec::aggr_expr);
    aggregates.iter().any(|aggregate| AGGREGATES.contains(&aggregate.fun().name()))
        || plan.is::<WindowAggExec>()
        || plan.is::<BoundedWindowAggExec>()
}

/// Whether row groups of this scan may be handed to any of its partitions.
fn may_move_rows(config: &FileScanConfig) -> bool {
    let sorted_limit = config.preserve_order && config.output_ordering.is_empty();
    let selects_rows = config
        .file_groups
        .iter()
        .flat_map(|group| group.iter())
        .any(|f| f.extension::<ParquetRowSelection>().is_some());
    // The number of a row in its file is counted over all row groups of the file, and a stroke has
    // a few of them.
    let counts_rows = !config.file_source().table_schema().virtual_columns().is_empty();
    config.output_partitioning.is_none() && !sorted_limit && !selects_rows && !counts_rows
}
