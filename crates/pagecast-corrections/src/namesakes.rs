//! Filters above joins whose two sides have a column of one name.
//!
//! DataFusion hands a filter down from node to node and finds its columns in the next node by their
//! names. Of two columns of one name that is the first, and the filter then leaves out row groups
//! and rows by the other column: an outer join's `WHERE a.id IS NULL` by `b.id`, say
//! (<https://github.com/apache/datafusion/issues/25262>). So a filter stops above a node in which
//! a name of it is not the only one. The rule and this file go when DataFusion finds columns by
//! place.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::fence::Fence;

/// The rule of DataFusion that hands filters down, kept from what it would confuse.
#[derive(Debug)]
struct Apart(Arc<dyn PhysicalOptimizerRule + Send + Sync>);

/// The rules of a session, of which those that hand filters down keep columns of one name apart.
pub fn apart(
    rules: &[Arc<dyn PhysicalOptimizerRule + Send + Sync>],
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let apart = |rule: &Arc<dyn PhysicalOptimizerRule + Send + Sync>| match rule.name().starts_with("FilterPushdown") {
        true => Arc::new(Apart(Arc::clone(rule))) as _,
        false => Arc::clone(rule),
    };
    rules.iter().map(apart).collect()
}

impl PhysicalOptimizerRule for Apart {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let fenced = plan.transform_up(|plan| {
            let alone = alone(&plan.schema());
            Ok(match alone.len() == plan.schema().fields().len() {
                true => Transformed::no(plan),
                false => Transformed::yes(Arc::new(Fence::of_filters(plan, alone)) as Arc<dyn ExecutionPlan>),
            })
        })?;
        let plan = self.0.optimize(fenced.data, config)?;
        if fenced.transformed { Fence::without_filters(plan) } else { Ok(plan) }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// The columns whose name no other column has.
fn alone(schema: &Schema) -> HashSet<usize> {
    let mut places = HashMap::<&str, Vec<usize>>::new();
    for (place, field) in schema.fields().iter().enumerate() {
        places.entry(field.name()).or_default().push(place);
    }
    places.into_values().filter(|places| places.len() == 1).flatten().collect()
}
