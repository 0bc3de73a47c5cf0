//! Least and greatest of a CAST.
//!
//! DataFusion casts the bounds of a column where a projection casts the column, and takes `min`,
//! `max` and the number of distinct values from there: of the texts '9' and '10' the greatest is
//! '9', and so is that of their numbers (<https://github.com/apache/datafusion/issues/25221>,
//! mended after 55.2 by <https://github.com/apache/datafusion/pull/25227>). Here an aggregate reads
//! rows if a cast below it does more than widen. This file goes with the next version.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::CastExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;

pub(crate) const OVER: &str = "aggregate_statistics";

/// DataFusion's rule that answers aggregates from statistics, where these are of the values asked
/// for.
pub(crate) fn optimize(
    rule: &dyn PhysicalOptimizerRule,
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    if !plan.exists(|node| Ok(has_other_values(node)))? {
        return rule.optimize(plan, config);
    }
    plan.map_children(|child| optimize(rule, child, config).map(Transformed::yes)).map(|plan| plan.data)
}

/// Whether a node casts its input's values to others.
fn has_other_values(node: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let input = projection.input().schema();
        return projection.expr().iter().any(|value| !widens(&value.expr, &input));
    }
    let Some(scan) = node.downcast_ref::<DataSourceExec>() else { return false };
    let Some(scan) = scan.data_source().downcast_ref::<FileScanConfig>() else { return false };
    let table = scan.file_source().table_schema().table_schema();
    let projection = scan.file_source().projection();
    projection.is_some_and(|projection| projection.iter().any(|value| !widens(&value.expr, table)))
}

/// Of other expressions than casts DataFusion knows no bounds.
fn widens(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> bool {
    let Some(cast) = expr.downcast_ref::<CastExpr>() else { return true };
    cast.expr().data_type(input).is_ok_and(|from| cast.is_bigger_cast(&from)) && widens(cast.expr(), input)
}
