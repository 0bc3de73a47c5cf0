//! Texts that are decoded for those rows alone that a filter leaves.
//!
//! A scan decodes all of its columns, and the filter above it throws most rows away. Where its own
//! columns are a small part of the bytes and few rows pass, DataFusion's reader evaluates it first
//! and decodes of the others what is left (late materialization; Abadi, Myers, DeWitt and Madden,
//! "Materialization Strategies in a Column-Oriented DBMS", ICDE 2007). It does so for all filters
//! or for none (`datafusion.execution.parquet.pushdown_filters`), since it costs more where many
//! rows pass, or where others are numbers: to leave these out takes as long as to decode them.
//! Here each scan is asked for: by the sizes of texts that its files tell, and by what DataFusion
//! guesses that the filter leaves.
//!
//! What is read stays the same. Only filters of cheap kinds go down, over values that are short:
//! whoever watches functions over long values does so in nodes.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{ColumnStatistics, Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

/// The rule of DataFusion that hands filters down.
pub(crate) const OVER: &str = "FilterPushdown";

/// How many times the bytes of the filter's columns the texts of others have at least.
const TEXTS: usize = 2;
/// Of how many rows the filter leaves at most one.
const FEW: usize = 4;
/// Bytes of a value in the filter's columns, on average, from which on it is long.
const LONG: usize = 256;

/// That rule, before which scans are asked for it.
#[derive(Debug)]
pub(crate) struct Late(pub(crate) Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for Late {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.optimize(plan.transform_up(late)?.data, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// The filter, whose scan takes it if that spares more than it costs.
fn late(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(filter) = node.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(node)) };
    let scan = filter.input().downcast_ref::<DataSourceExec>();
    let Some((config, source)) = scan.and_then(DataSourceExec::downcast_to_file_source::<ParquetSource>) else {
        return Ok(Transformed::no(node));
    };
    if !is_cheap(filter.predicate())? || !spares(filter) {
        return Ok(Transformed::no(node));
    }
    let source = source.clone().with_pushdown_filters(true);
    let config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
    replace_children_if_necessary(node, vec![DataSourceExec::from_data_source(config)]).map(Transformed::yes)
}

/// Whether a filter compares columns with constants and each other, and nothing else.
fn is_cheap(predicate: &Arc<dyn PhysicalExpr>) -> Result<bool> {
    let is_other = |expr: &Arc<dyn PhysicalExpr>| {
        let compares = expr.downcast_ref::<BinaryExpr>().is_some_and(|expr| {
            let op = *expr.op();
            matches!(op, Operator::And | Operator::Or) || pagecast_corrections::compares(op)
        });
        let is_one = compares
            || expr.is::<Column>()
            || expr.is::<Literal>()
            || expr.is::<CastExpr>()
            || expr.is::<LikeExpr>()
            || expr.is::<InListExpr>()
            || expr.is::<IsNullExpr>()
            || expr.is::<IsNotNullExpr>()
            || expr.is::<NotExpr>();
        Ok(!is_one)
    };
    predicate.exists(is_other).map(|is_other| !is_other)
}

/// Whether few rows of long texts are left. Not known is no.
fn spares(filter: &FilterExec) -> bool {
    let context = StatisticsContext::new();
    let of = |node: &dyn ExecutionPlan| context.compute(node, &StatisticsArgs::new()).ok();
    let (Some(before), Some(after)) = (of(filter.input().as_ref()), of(filter)) else { return false };
    let (Some(&all), Some(&left)) = (before.num_rows.get_value(), after.num_rows.get_value()) else { return false };
    let Some((own, texts)) = sizes(filter, &before) else { return false };
    left <= all / FEW && own <= all.saturating_mul(LONG) && texts >= own.saturating_mul(TEXTS)
}

/// Bytes of the columns that a filter asks for, and of the texts that its scan gives besides.
fn sizes(filter: &FilterExec, known: &Statistics) -> Option<(usize, usize)> {
    let asked = collect_columns(filter.predicate());
    let schema = filter.input().schema();
    if asked.iter().any(|column| schema.field(column.index()).data_type().is_nested()) {
        return None;
    }
    let size = |of: &ColumnStatistics| of.byte_size.get_value().copied();
    let own = asked.iter().map(|column| size(known.column_statistics.get(column.index())?)).sum::<Option<usize>>()?;
    let is_text = |kind: &DataType| kind.is_string() || kind.is_binary();
    let others = schema.fields().iter().zip(&known.column_statistics).enumerate();
    let texts = others.filter(|(index, (field, _))| {
        is_text(field.data_type()) && !asked.iter().any(|column| column.index() == *index)
    });
    Some((own, texts.filter_map(|(_, (_, of))| size(of)).sum()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::execution::session_state::SessionStateBuilder;
    use datafusion::physical_plan::displayable;
    use datafusion::prelude::SessionContext;

    use super::*;

    /// Sessions without the rule and with it, over a file of 20,000 rows with long texts in `l` and
    /// `m`.
    async fn sessions(folder: &std::path::Path) -> [SessionContext; 2] {
        let stock = SessionContext::new();
        let path = folder.join("t.parquet").display().to_string();
        let rows = "SELECT value AS a, value % 100 AS b, 'x' || (value % 1000) AS t, repeat('l' || value, 9) AS l, \
                    repeat('m' || value, 300) AS m, [value] AS n FROM range(20000)";
        stock.sql(&format!("COPY ({rows}) TO '{path}'")).await.unwrap().collect().await.unwrap();
        let state = stock.state();
        let rules = state.physical_optimizers().iter().map(|rule| match rule.name() {
            OVER => Arc::new(Late(Arc::clone(rule))) as _,
            _ => Arc::clone(rule),
        });
        let rules = rules.collect();
        let state = SessionStateBuilder::new_from_existing(state).with_physical_optimizer_rules(rules).build();
        // They share their tables.
        stock.register_parquet("t", &path, Default::default()).await.unwrap();
        [stock, SessionContext::new_with_state(state)]
    }

    #[tokio::test]
    async fn few_rows_of_long_texts_are_decoded_late() {
        let folder = tempfile::tempdir().unwrap();
        let [stock, ours] = sessions(folder.path()).await;
        for (sql, is_late) in [
            ("SELECT * FROM t WHERE t LIKE '%77' ORDER BY a", true),
            ("SELECT a, l FROM t WHERE a IN (3, 500, 19000) OR a IS NULL ORDER BY a", true),
            ("SELECT a, l FROM t WHERE a < 4000 ORDER BY a", true),
            ("SELECT a, l FROM t WHERE a < 15000 ORDER BY a", false),
            ("SELECT count(*) FROM t WHERE t LIKE '%77'", false),
            ("SELECT a, b FROM t WHERE a IN (3, 500) ORDER BY a", false),
            ("SELECT a, b FROM t WHERE t LIKE '%77' ORDER BY a", false),
            ("SELECT * FROM t WHERE upper(t) = 'X77' ORDER BY a", false),
            ("SELECT * FROM t WHERE m LIKE '%7m77' ORDER BY a", false),
            ("SELECT * FROM t WHERE n = [77] ORDER BY a", false),
        ] {
            let plan = ours.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
            let shown = displayable(plan.as_ref()).indent(false).to_string();
            assert_eq!(!shown.contains("FilterExec"), is_late, "{sql}: {shown}");
            let rows = async |ctx: &SessionContext| ctx.sql(sql).await.unwrap().collect().await.unwrap();
            let [stock, ours] = [rows(&stock).await, rows(&ours).await];
            let of = |rows: &[_]| arrow::util::pretty::pretty_format_batches(rows).unwrap().to_string();
            assert_eq!(of(&ours), of(&stock), "{sql}");
        }
    }
}
