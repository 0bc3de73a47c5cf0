//! Rules between which the planning of a statement can be ended.
//!
//! A statement of thousands of joins, windows or branches is planned for minutes, and the planner
//! never waits for anything. It goes from rule to rule, and most rules from node to node.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, Result};
use datafusion::config::ConfigOptions;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::held::Held;

/// A session all of whose rules are watched.
pub(crate) fn watched(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    if let Some(analyzer) = builder.analyzer() {
        analyzer.rules.iter_mut().for_each(|rule| *rule = Arc::new(Watched(Arc::clone(rule))));
    }
    if let Some(optimizer) = builder.optimizer() {
        optimizer.rules.iter_mut().for_each(|rule| *rule = Arc::new(Watched(Arc::clone(rule))));
    }
    if let Some(optimizer) = builder.physical_optimizers() {
        optimizer.rules.iter_mut().for_each(|rule| *rule = Arc::new(Watched(Arc::clone(rule))));
    }
    builder
}

#[derive(Debug)]
struct Watched<R: ?Sized>(Arc<R>);

impl AnalyzerRule for Watched<dyn AnalyzerRule + Send + Sync> {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        Held::check_current()?;
        self.0.analyze(plan, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

impl OptimizerRule for Watched<dyn OptimizerRule + Send + Sync> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>, DataFusionError> {
        Held::check_current()?;
        self.0.rewrite(plan, config)
    }
}

impl PhysicalOptimizerRule for Watched<dyn PhysicalOptimizerRule + Send + Sync> {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        Held::check_current()?;
        self.0.optimize(plan, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
