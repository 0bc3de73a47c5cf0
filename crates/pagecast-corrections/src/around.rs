//! A physical rule of DataFusion, kept from what it does wrong.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

/// What takes the rule's place, and mostly runs it between two steps of its own.
type Optimize =
    fn(&dyn PhysicalOptimizerRule, Arc<dyn ExecutionPlan>, &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>>;

/// A rule under its own name, with a correction around it.
pub(crate) struct Around {
    rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
    optimize: Optimize,
}

impl Around {
    pub(crate) fn new(rule: &Arc<dyn PhysicalOptimizerRule + Send + Sync>, optimize: Optimize) -> Arc<Self> {
        Arc::new(Self { rule: Arc::clone(rule), optimize })
    }
}

impl fmt::Debug for Around {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Around").field(&self.rule).finish()
    }
}

impl PhysicalOptimizerRule for Around {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        (self.optimize)(&*self.rule, plan, config)
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}
