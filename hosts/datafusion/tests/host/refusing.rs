//! Plan nodes of other engines: those that refuse other children keep those that they have, and
//! those that count on whole files get them in a session that does not let files be divided.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, not_impl_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::context::SessionContext;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::StreamExt;
use pagecast_datafusion::{Delivery, Host, HostOptions, install, install_with};

use crate::data::{Session, numbers, register, write};
use crate::rows::run;
use crate::tpch::pool;

/// Hands its child's rows on, and takes no other child.
#[derive(Debug)]
struct Refusing(Arc<dyn ExecutionPlan>);

impl DisplayAs for Refusing {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Refusing")
    }
}

impl ExecutionPlan for Refusing {
    fn name(&self) -> &str {
        "Refusing"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.0]
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!("other children")
    }

    fn with_new_children(self: Arc<Self>, _children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!("other children")
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }
}

/// Puts a refusing node over the first filter.
#[derive(Debug)]
struct Refuse;

fn refuse(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.is::<FilterExec>() {
        return Ok(Arc::new(Refusing(plan)));
    }
    let children = plan.children().into_iter().map(|child| refuse(Arc::clone(child))).collect::<Result<Vec<_>>>()?;
    if children.is_empty() {
        return Ok(plan);
    }
    plan.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

impl PhysicalOptimizerRule for Refuse {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        refuse(plan)
    }

    fn name(&self) -> &str {
        "refuse"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn who_refuses_other_children_keeps_his_plan() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("0.parquet"), &numbers(0, 10_000), 1000);
    let stock = Session::plain(2).context();
    register(&stock, "t", folder.path()).await;
    let state = SessionStateBuilder::new_from_existing(stock.state()).with_physical_optimizer_rule(Arc::new(Refuse));
    let ours = SessionContext::new_with_state(state.build());
    let host = install(&ours, pool(1 << 20)).unwrap();

    let sql = "SELECT count(*), sum(id) FROM t WHERE even AND name LIKE '%7%'";
    assert_eq!(run(&ours, sql).await, run(&stock, sql).await);
    assert_eq!(host.refused_plans(), 1);
    let alone = host.pool().stats();
    assert!(alone.requests > 0, "what is below the refusing node is read through the pool");
    run(&ours, sql).await;
    assert_eq!(host.pool().stats().bytes_read, alone.bytes_read, "the second time, out of memory");

    let both = format!("SELECT * FROM (SELECT sum(length(name)) FROM t) CROSS JOIN ({sql})");
    assert_eq!(run(&ours, &both).await, run(&stock, &both).await);
    assert_eq!(host.refused_plans(), 3);

    // A store that is left as it is.
    let state = SessionStateBuilder::new_from_existing(stock.state()).with_physical_optimizer_rule(Arc::new(Refuse));
    let ours = SessionContext::new_with_state(state.build());
    let host = install_with(&ours, pool(1 << 20), HostOptions::default().stores(false)).unwrap();
    assert_eq!(run(&ours, sql).await, run(&stock, sql).await);
    assert_eq!((host.refused_plans(), host.pool().stats().requests), (1, 0));
}

/// Rows of each file, whose first column counts them over all files.
const ROWS: i64 = 10_000;

/// Counts the rows of each file as they come, and says nothing of an order.
#[derive(Debug)]
struct Counting(Arc<dyn ExecutionPlan>);

impl DisplayAs for Counting {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Counting")
    }
}

impl ExecutionPlan for Counting {
    fn name(&self) -> &str {
        "Counting"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.0]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self(children.remove(0))))
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self(children.remove(0))))
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (batches, mut next) = (self.0.execute(partition, context)?, [0, ROWS, 2 * ROWS]);
        let schema = batches.schema();
        let counted = batches.map(move |batch| {
            let batch = batch?;
            for &id in batch.column(0).as_primitive::<Int64Type>().values() {
                let next = &mut next[(id / ROWS) as usize];
                if *next != id {
                    return not_impl_err!("row {id} came where {next} was counted");
                }
                *next += 1;
            }
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counted)))
    }
}

/// Puts a counting node over each scan.
#[derive(Debug)]
struct Count;

fn count(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.is::<DataSourceExec>() {
        return Ok(Arc::new(Counting(Arc::new(CoalescePartitionsExec::new(plan)))));
    }
    let children = plan.children().into_iter().map(|child| count(Arc::clone(child))).collect::<Result<Vec<_>>>()?;
    plan.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

impl PhysicalOptimizerRule for Count {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        count(plan)
    }

    fn name(&self) -> &str {
        "count"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A session with a counting node over each scan, and whether files are divided among partitions.
async fn counting(folder: &Path, delivery: Delivery, divided: bool) -> (SessionContext, Arc<Host>) {
    let plain = Session::plain(3).context();
    let mut config = plain.copied_config();
    config.options_mut().optimizer.repartition_file_scans = divided;
    let state = SessionStateBuilder::new_from_existing(plain.state()).with_config(config);
    let ctx = SessionContext::new_with_state(state.with_physical_optimizer_rule(Arc::new(Count)).build());
    register(&ctx, "t", folder).await;
    let host = install_with(&ctx, pool(1 << 20), HostOptions::default().delivery(delivery)).unwrap();
    (ctx, host)
}

/// DataFusion, too, gives nobody whole files unless it is told to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_counts_the_rows_of_files_gets_whole_ones_where_nobody_divides_them() {
    const SQL: &str = "SELECT id, name FROM t";
    let folder = tempfile::tempdir().unwrap();
    for file in 0..3 {
        write(&folder.path().join(format!("{file}.parquet")), &numbers(file * ROWS, ROWS), 500);
    }
    for delivery in [Delivery::Stock, Delivery::InOrder, Delivery::OutOfOrder] {
        let (ctx, host) = counting(folder.path(), delivery, false).await;
        for round in 1..4 {
            assert_eq!(run(&ctx, SQL).await.len() as i64, 3 * ROWS, "{delivery:?}");
            let undivided = if delivery == Delivery::Stock { 0 } else { round };
            assert_eq!((host.undivided_scans(), host.refused_plans()), (undivided, 0), "{delivery:?}");
        }
        assert!(host.pool().stats().requests > 0);
        assert_eq!(host.out_of_order_scans(), 0);

        let (ctx, host) = counting(folder.path(), delivery, true).await;
        // Who counts then may count wrong, and does so without a pool, too.
        let _ = ctx.sql(SQL).await.unwrap().collect().await;
        assert_eq!(host.undivided_scans(), 0);
        assert_eq!(host.out_of_order_scans() > 0, delivery == Delivery::OutOfOrder);
    }
}
