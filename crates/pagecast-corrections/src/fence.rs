//! A node that hands on all rows, and less of what DataFusion concludes about them.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs};

/// A node of a plan, with the fences that belong around it.
type Fenced = fn(Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>>;

/// The rows of a node, above which something is not known of them.
#[derive(Debug)]
pub(crate) struct Fence {
    plan: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    /// A filter comes through if its columns are all of these.
    let_through: HashSet<usize>,
    hides_constants: bool,
}

impl Fence {
    /// Filters come through that name columns of `let_through` alone.
    pub(crate) fn of_filters(plan: Arc<dyn ExecutionPlan>, let_through: HashSet<usize>) -> Self {
        let properties = Arc::clone(plan.properties());
        Self { plan, properties, let_through, hides_constants: false }
    }

    /// Nothing above it knows that a column is constant, or has no value twice.
    ///
    /// # Errors
    /// Two columns are equal that DataFusion cannot take together; it could below.
    pub(crate) fn of_constants(plan: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let known = plan.properties().equivalence_properties();
        let orderings = known.oeq_class().iter().cloned();
        let mut equal = EquivalenceProperties::new_with_orderings(plan.schema(), orderings);
        for class in known.eq_group().iter() {
            let mut members = class.iter();
            let Some(first) = members.next() else { continue };
            if known.is_expr_constant(first).is_none() {
                members.try_for_each(|other| equal.add_equal_conditions(Arc::clone(first), Arc::clone(other)))?;
            }
        }
        let properties = Arc::new(plan.properties().as_ref().clone().with_eq_properties(equal));
        let let_through = (0..plan.schema().fields().len()).collect();
        Ok(Self { plan, properties, let_through, hides_constants: true })
    }

    /// Filters come through that name no column of such a type.
    pub(crate) fn of_types(plan: Arc<dyn ExecutionPlan>, stops: fn(&DataType) -> bool) -> Self {
        let schema = plan.schema();
        let let_through = (0..schema.fields().len()).filter(|&at| !stops(schema.field(at).data_type())).collect();
        Self::of_filters(plan, let_through)
    }

    /// What a rule that hands filters down makes of a plan, in which `fenced` has put up those that
    /// stop filters. They are gone afterwards.
    pub(crate) fn while_filters_go_down(
        rule: &dyn PhysicalOptimizerRule,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
        fenced: Fenced,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let fenced = plan.transform_up(fenced)?;
        let plan = rule.optimize(fenced.data, config)?;
        if !fenced.transformed {
            return Ok(plan);
        }
        let plan = plan.transform_up(|plan| {
            Ok(match plan.downcast_ref::<Self>() {
                Some(fence) if !fence.hides_constants => Transformed::yes(Arc::clone(&fence.plan)),
                _ => Transformed::no(plan),
            })
        });
        plan.map(|plan| plan.data)
    }
}

impl DisplayAs for Fence {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Fence {
    fn name(&self) -> &'static str {
        if self.hides_constants { "NoConstantsExec" } else { "FenceExec" }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.plan]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = children.pop().unwrap_or_else(|| Arc::clone(&self.plan));
        Ok(Arc::new(match self.hides_constants {
            true => Self::of_constants(plan)?,
            false => Self::of_filters(plan, self.let_through.clone()),
        }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.plan.execute(partition, context)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let through =
            ChildFilterDescription::from_child_with_allowed_indices(&filters, self.let_through.clone(), &self.plan)?;
        Ok(FilterDescription::new().with_child(through))
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(result))
    }
}
