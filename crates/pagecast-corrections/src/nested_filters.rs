//! Filters of lists, structs and maps that go into a scan and get lost there.
//!
//! Where filters go into scans (`datafusion.execution.parquet.pushdown_filters`, or an option of
//! the scan's own), DataFusion takes `x IS NOT NULL OR array_length(l) > 1` for one that the reader
//! can do, because there is a test for NULL in it. The reader cannot, leaves it out, and nobody
//! filters. No issue was found for it; 55.2 has it. Such a filter stays above the scan. The rule
//! goes when planner and reader ask the same question.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::fence::Fence;

pub(crate) const OVER: &str = "FilterPushdown";

/// The rule of DataFusion that hands filters down, which stops above scans with those of nested
/// columns.
pub(crate) fn optimize(
    rule: &dyn PhysicalOptimizerRule,
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    Fence::while_filters_go_down(rule, plan, config, fenced)
}

/// The scan, which takes no filter by a nested column if it has one.
fn fenced(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let has_nested = node.schema().fields().iter().any(|field| field.data_type().is_nested());
    Ok(match node.downcast_ref::<DataSourceExec>() {
        Some(_) if has_nested => Transformed::yes(Arc::new(Fence::of_types(node, DataType::is_nested))),
        _ => Transformed::no(node),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::assert_batches_eq;
    use datafusion::prelude::{SessionConfig, SessionContext};

    #[tokio::test]
    async fn a_filter_of_a_list_filters() {
        let config = SessionConfig::new().set_bool("datafusion.execution.parquet.pushdown_filters", true);
        let ctx = SessionContext::new_with_config(crate::configured(config));
        crate::install(&ctx, |_| false).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet").display().to_string();
        let rows = "SELECT * FROM (VALUES (1, [1], NULL), (2, [1, 2], NULL), (3, [3], 7)) AS t (id, l, x)";
        ctx.sql(&format!("COPY ({rows}) TO '{path}'")).await.unwrap().collect().await.unwrap();
        ctx.register_parquet("t", &path, Default::default()).await.unwrap();
        let sql = "SELECT id FROM t WHERE x IS NOT NULL OR array_length(l) > 1 ORDER BY id";
        let rows = ctx.sql(sql).await.unwrap().collect().await.unwrap();
        assert_batches_eq!(["+----+", "| id |", "+----+", "| 2  |", "| 3  |", "+----+"], &rows);
    }
}
