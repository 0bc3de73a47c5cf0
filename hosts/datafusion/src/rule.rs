//! The physical optimizer rule that puts the pool under every scan of Parquet files.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
};

use crate::join_kept::Kept;
use crate::merge_join::choice::choose;
use crate::needs::{Needs, Node, may_move_rows, node, shows_order};
use crate::reader::PoolReaderFactory;
use crate::source::{PoolScan, Streams};
use crate::{Delivery, Host};

/// What the rule is called. A session that has a rule of this name has a pool.
pub(crate) const NAME: &str = "pagecast";

/// Replaces how Parquet files are read, and nothing else of a plan.
///
/// Under [`Delivery::Stock`] a scan is executed as DataFusion does, and reads through the pool.
/// Under the other two, its row groups go to whichever partition asks, unless what is above it
/// relies on the order or the partitioning of its rows, or wants the row groups in an order of its
/// own (a top-k sort): those scans keep stock delivery. So do all of a session in which DataFusion
/// may not divide files among partitions. Scans that a node of another engine does not let be
/// exchanged read through the session's store. What [`Delivery::OutOfOrder`] leaves in order is in
/// [`Needs::sequence`]. Beneath functions whose results tell in which order rows came
/// ([`HostOptions::keep_order`](crate::HostOptions)), small files are read by one stream, and large
/// ones keep stock delivery.
///
/// A plan may share nodes. So one pass finds what all parents of a node need, and a second one
/// rewrites.
#[derive(Debug)]
pub(crate) struct PoolUnderParquet {
    host: Arc<Host>,
}

/// What is needed of each node of a plan.
type Needed = HashMap<Node, Needs>;

/// Nodes that were rewritten already. What is shared stays shared.
type Rewritten = HashMap<Node, Arc<dyn ExecutionPlan>>;

impl PoolUnderParquet {
    pub(crate) fn new(host: Arc<Host>) -> Self {
        Self { host }
    }

    /// Notes that `needs` are needed of `plan`, and what follows for the nodes below.
    fn annotate(&self, plan: &Arc<dyn ExecutionPlan>, needs: Needs, needed: &mut Needed) {
        let known = needed.get(&node(plan)).copied();
        let all = known.unwrap_or_default().and(needs);
        if known == Some(all) {
            return;
        }
        needed.insert(node(plan), all);
        let shows = self.host.options.keep_order && shows_order(plan.as_ref());
        for (i, child) in plan.children().into_iter().enumerate() {
            let of_child = all.of_child(plan.as_ref(), i);
            self.annotate(child, Needs { files: of_child.files || shows, ..of_child }, needed);
        }
    }

    /// Rewrites the scans below `plan`. A node that refuses other children keeps those that it has.
    /// `small` is the size up to which files are read by one stream.
    fn rewrite(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        needed: &Needed,
        small: u64,
        kept: &HashMap<Node, Kept>,
        done: &mut Rewritten,
    ) -> Arc<dyn ExecutionPlan> {
        if let Some(rewritten) = done.get(&node(plan)) {
            return Arc::clone(rewritten);
        }
        let rewritten = if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
            let needs = needed.get(&node(plan)).copied().unwrap_or_default();
            let join_kept = kept.get(&node(plan)).cloned();
            self.scan(scan, needs, small, join_kept).map_or_else(|| Arc::clone(plan), |scan| Arc::new(scan) as _)
        } else {
            let children = plan.children().into_iter();
            let rewritten = children.map(|child| self.rewrite(child, needed, small, kept, done)).collect();
            self.with_children(plan, rewritten)
        };
        done.insert(node(plan), Arc::clone(&rewritten));
        rewritten
    }

    fn with_children(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Arc<dyn ExecutionPlan> {
        if plan.children().into_iter().zip(&children).all(|(old, new)| Arc::ptr_eq(old, new)) {
            return Arc::clone(plan);
        }
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Arc::clone(plan).replace_children(children, options).unwrap_or_else(|_| {
            self.host.refused.fetch_add(1, Relaxed);
            self.host.kept_files.note(plan);
            Arc::clone(plan)
        })
    }

    fn scan(&self, scan: &DataSourceExec, needs: Needs, small: u64, join_kept: Option<Kept>) -> Option<DataSourceExec> {
        let (config, source) = scan.downcast_to_file_source::<ParquetSource>()?;
        let reading = Arc::default();
        let url = config.object_store_url.clone();
        let factory = PoolReaderFactory::new(Arc::clone(&self.host), url, Arc::clone(&reading), source);
        let source = source.clone().with_parquet_file_reader_factory(Arc::new(factory));
        let mut config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
        let delivery = self.host.options.delivery;
        let streams = match needs {
            _ if delivery == Delivery::Stock || !may_move_rows(&config) => Streams::Stock,
            Needs { whole_files: true, .. } => {
                self.host.undivided.fetch_add(1, Relaxed);
                Streams::Stock
            }
            Needs { declared: true, .. } => Streams::Stock,
            Needs { files: true, .. } if bytes(&config) < small => Streams::First,
            Needs { files: true, .. } => Streams::Stock,
            Needs { sequence: true, .. } => Streams::InOrder,
            _ if delivery == Delivery::InOrder || config.limit.is_some() => Streams::InOrder,
            _ => Streams::OutOfOrder,
        };
        if streams != Streams::Stock {
            // Nobody needs the declared order, and rows that move between partitions no longer have
            // it.
            let unordered = FileScanConfigBuilder::from(config).with_output_ordering(vec![]);
            config = unordered.with_preserve_order(false).build();
        }
        let scanned = PoolScan::new(config, Arc::clone(&self.host), streams, reading);
        Some(scan.clone().with_data_source(Arc::new(scanned.with_join_kept(join_kept))))
    }
}

impl PhysicalOptimizerRule for PoolUnderParquet {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        // The user sees the order of the root's rows, so an order that the root promises is one
        // that it needs.
        let declared = plan.output_ordering().is_some();
        // A node that counts the rows of files as they come says nothing of it. DataFusion takes
        // files apart below any node, unless it is told not to.
        let whole_files = !config.optimizer.repartition_file_scans;
        let needs = Needs { declared, whole_files, ..Needs::default() };
        let annotated = |plan: &_, needs| {
            let mut needed = Needed::new();
            self.annotate(plan, needs, &mut needed);
            needed
        };
        // Of a join's order, for which nobody has asked, several partitions show nothing.
        let is_shown = needs.declared && plan.output_partitioning().partition_count() == 1;
        let needed = annotated(&plan, Needs { declared: is_shown, ..needs });
        let of_node = |node| needed.get(&node).copied().unwrap_or_default();
        let (plan, kept) = choose(&self.host, plan, of_node, config);
        let small = config.optimizer.repartition_file_min_size as u64;
        Ok(self.rewrite(&plan, &annotated(&plan, needs), small, &kept, &mut Rewritten::new()))
    }

    fn name(&self) -> &str {
        NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Bytes of the files of a scan, or of the ranges that it reads of them.
fn bytes(config: &FileScanConfig) -> u64 {
    let files = config.file_groups.iter().flat_map(|group| group.iter());
    files.map(|file| file.range.as_ref().map_or(file.object_meta.size, |r| (r.end - r.start).max(0) as u64)).sum()
}
