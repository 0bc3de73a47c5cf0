//! Joins by floats, of which one side filters the other while they run.
//!
//! The side that is read first tells the other which keys it has, and that one leaves out what is
//! not among them. It compares them by their bits, so that 0 finds no -0, which the join itself
//! finds. It happens where filters go into scans (`datafusion.execution.parquet.pushdown_filters`).
//! No issue was found for it; 55.2 has it. Such joins tell their keys to nobody. The rule goes when
//! lists of literals compare floats as numbers.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::HashJoinExec;

use crate::fence::Fence;

pub(crate) const OVER: &str = "FilterPushdown(Post)";

/// The rule of DataFusion by which joins tell their keys, without floats.
pub(crate) fn optimize(
    rule: &dyn PhysicalOptimizerRule,
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    Fence::while_filters_go_down(rule, plan, config, fenced)
}

/// The join, whose sides take no filter by a float.
fn fenced(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
    let right = join.right().schema();
    if !join.on().iter().any(|(_, key)| key.data_type(&right).is_ok_and(|kind| kind.is_floating())) {
        return Ok(Transformed::no(node));
    }
    let sides = [join.left(), join.right()]
        .map(|side| Arc::new(Fence::of_types(Arc::clone(side), DataType::is_floating)) as Arc<dyn ExecutionPlan>);
    replace_children_if_necessary(node, sides.into()).map(Transformed::yes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::assert_batches_eq;
    use datafusion::prelude::{SessionConfig, SessionContext};

    #[tokio::test]
    async fn zeros_meet_where_filters_go_into_scans() {
        let config = SessionConfig::new().set_bool("datafusion.execution.parquet.pushdown_filters", true);
        let ctx = SessionContext::new_with_config(crate::configured(config));
        crate::install(&ctx, |_| false).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (name, zero) in [("a", "-0"), ("b", "0")] {
            let path = folder.path().join(format!("{name}.parquet")).display().to_string();
            let rows = format!("SELECT 1 AS id, CAST('{zero}' AS DOUBLE) AS x UNION ALL SELECT 2, 5.0");
            ctx.sql(&format!("COPY ({rows}) TO '{path}'")).await.unwrap().collect().await.unwrap();
            ctx.register_parquet(name, &path, Default::default()).await.unwrap();
        }
        let sql = "SELECT count(*) AS n FROM a JOIN b ON a.x = b.x WHERE a.id < 2";
        let rows = ctx.sql(sql).await.unwrap().collect().await.unwrap();
        assert_batches_eq!(["+---+", "| n |", "+---+", "| 1 |", "+---+"], &rows);
    }
}
