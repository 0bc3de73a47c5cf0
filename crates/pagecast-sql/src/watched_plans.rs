//! Places where the planning of a statement can be ended.
//!
//! A statement of thousands of joins, windows or branches is planned for minutes, and the planner
//! never waits for anything. From the text it goes from relation to relation and from operator to
//! operator; later from rule to rule, and most rules from node to node.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::config::ConfigOptions;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawWindowExpr, RelationPlanner,
    RelationPlannerContext, RelationPlanning,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::TableFactor;

use crate::budget::Budget;
use crate::held::Held;
use crate::order::{be_large, is_planning};

/// A `SELECT *` from a table of more columns takes long, and has nothing where anybody could look.
const WIDE: usize = 250;

/// A session whose way from text to plan and all of whose rules are watched.
pub(crate) fn watched(mut builder: SessionStateBuilder, budget: &Budget) -> SessionStateBuilder {
    builder.expr_planners().get_or_insert_default().insert(0, Arc::new(FromText(budget.clone())));
    builder.relation_planners().get_or_insert_default().insert(0, Arc::new(FromText(budget.clone())));
    fn watched<R: ?Sized>(rule: &Arc<R>, budget: &Budget) -> Arc<Watched<R>> {
        Arc::new(Watched { rule: Arc::clone(rule), budget: budget.clone() })
    }
    if let Some(analyzer) = builder.analyzer() {
        analyzer.rules.iter_mut().for_each(|rule| *rule = watched(rule, budget));
    }
    if let Some(optimizer) = builder.optimizer() {
        optimizer.rules.iter_mut().for_each(|rule| *rule = watched(rule, budget));
    }
    if let Some(optimizer) = builder.physical_optimizers() {
        optimizer.rules.iter_mut().for_each(|rule| *rule = watched(rule, budget));
    }
    builder
}

/// What is planned ends here with its statement, or if it takes too much memory, and large plans
/// wait for each other. A statement that is planned anew while it runs holds more than its plan.
fn look(budget: &Budget) -> Result<()> {
    Held::check_turn()?;
    if is_planning() { budget.check_plan() } else { Ok(()) }
}

/// Plans nothing itself: it is asked first for whatever the text names.
#[derive(Debug)]
struct FromText(Budget);

impl RelationPlanner for FromText {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if let TableFactor::Table { name, args: None, .. } = &relation
            && let Ok(name) = context.object_name_to_table_reference(name.clone())
            && let Ok(table) = context.context_provider().get_table_source(name)
            && table.schema().fields().len() > WIDE
        {
            be_large();
        }
        look(&self.0)?;
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}

impl ExprPlanner for FromText {
    fn plan_binary_op(&self, expr: RawBinaryExpr, _schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        look(&self.0)?;
        Ok(PlannerResult::Original(expr))
    }

    fn plan_aggregate(&self, expr: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        look(&self.0)?;
        Ok(PlannerResult::Original(expr))
    }

    fn plan_window(&self, expr: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        look(&self.0)?;
        Ok(PlannerResult::Original(expr))
    }
}

#[derive(Debug)]
struct Watched<R: ?Sized> {
    rule: Arc<R>,
    budget: Budget,
}

impl AnalyzerRule for Watched<dyn AnalyzerRule + Send + Sync> {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        look(&self.budget)?;
        self.rule.analyze(plan, config)
    }

    fn name(&self) -> &str {
        self.rule.name()
    }
}

impl OptimizerRule for Watched<dyn OptimizerRule + Send + Sync> {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>, DataFusionError> {
        look(&self.budget)?;
        self.rule.rewrite(plan, config)
    }
}

impl PhysicalOptimizerRule for Watched<dyn PhysicalOptimizerRule + Send + Sync> {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        // Files that were listed and looked at are in a physical plan, and are kept for others.
        Held::check_turn()?;
        self.rule.optimize(plan, config)
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::budget::tests::budget;
    use crate::query::Query;
    use crate::watched;
    use datafusion::prelude::SessionContext;

    #[tokio::test]
    async fn planning_ends_at_each_step_that_a_text_may_have_many_of() {
        let ctx = SessionContext::new();
        watched::install(&ctx, Budget::default());
        let ended = Held::default();
        ended.end();
        for sql in
            ["SELECT 1 FROM range(3)", "VALUES (1 + 1)", "SELECT count()", "SELECT sum(1) OVER ()", "SELECT abs(1)"]
        {
            // From its text alone, without a rule.
            let planned = ended.counted(ctx.state().create_logical_plan(sql)).await;
            // Calls of functions and constants are quick, and not asked for.
            assert_eq!(planned.is_ok(), sql.contains("abs"), "{sql}");
            ctx.state().create_logical_plan(sql).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_plan_may_take_a_part_of_the_memory() {
        let ctx = SessionContext::new();
        watched::install(&ctx, budget(64 << 20));
        let columns: Vec<_> = (0..1000).map(|column| format!("value AS c{column}")).collect();
        let wide = format!("WITH w AS (SELECT {} FROM range(3)) SELECT 1 FROM w", columns.join(", "));
        let planned = async |sql: &str| {
            let (state, sql) = (ctx.state(), sql.to_owned());
            Query::plan(async move { state.create_logical_plan(&sql).await }).await
        };
        planned(&wide).await.unwrap();
        let joins: String = (0..100).map(|join| format!(" CROSS JOIN w AS w{join}")).collect();
        let error = planned(&format!("{wide}{joins}")).await.unwrap_err();
        assert!(error.to_string().contains("to plan the statement took"), "{error}");
    }
}
