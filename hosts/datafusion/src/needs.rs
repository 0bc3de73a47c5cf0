//! What a plan needs of the order of the rows below its nodes.

use std::sync::Arc;

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// What the plan above a node needs of the order of its rows. Several parents need what any of them
/// needs.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// The declared order, where it gets through.
    pub(crate) declared: bool,
    /// That of the files, whatever is between: nobody promised it, but it shows.
    pub(crate) files: bool,
    /// Row groups one after the other, to whichever partition asks: a limit takes the first rows,
    /// or a sink writes rows as they come.
    pub(crate) sequence: bool,
    /// Whole files in their order, whatever is between: the session says that nobody divides files.
    pub(crate) whole_files: bool,
}

impl Needs {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            declared: self.declared || other.declared,
            files: self.files || other.files,
            sequence: self.sequence || other.sequence,
            whole_files: self.whole_files || other.whole_files,
        }
    }

    /// What `plan`, of which this is needed, needs of its child `i`.
    pub(crate) fn of_child(self, plan: &dyn ExecutionPlan, i: usize) -> Self {
        Self {
            declared: order_matters(plan, i, self.declared),
            files: self.files,
            sequence: takes_rows_as_they_come(plan) || (self.sequence && hands_rows_on(plan, i)),
            whole_files: self.whole_files,
        }
    }
}

/// A node of a plan, told apart by where it is.
pub(crate) type Node = *const ();

pub(crate) fn node(plan: &Arc<dyn ExecutionPlan>) -> Node {
    Arc::as_ptr(plan).cast()
}

/// Whether the rows of child `i` must reach `plan` in the order that the child declares.
fn order_matters(plan: &dyn ExecutionPlan, i: usize, ordered: bool) -> bool {
    // A top-k sort asks its scan for the most promising row groups first, and its threshold prunes
    // the others.
    let top_k = plan.downcast_ref::<SortExec>().is_some_and(|sort| sort.fetch().is_some());
    // A limit over sorted input takes the first rows of that order, without saying that it requires
    // it.
    let first_rows = plan.fetch().is_some() && plan.children()[i].output_ordering().is_some();
    // A partial sort builds on the order that it finds, without saying so either.
    let required = plan.required_input_ordering()[i].is_some() || plan.is::<PartialSortExec>();
    required || top_k || first_rows || (ordered && plan.maintains_input_order()[i])
}

/// Whether `plan` keeps the first rows that come, or writes rows down in the order in which they
/// come. Another run of the same statement is to find or write about the same.
fn takes_rows_as_they_come(plan: &dyn ExecutionPlan) -> bool {
    plan.fetch().is_some() || plan.is::<GlobalLimitExec>() || plan.is::<DataSinkExec>()
}

/// Whether the rows of child `i` leave `plan` about as they came: its order is kept, or only dealt
/// out to other partitions.
fn hands_rows_on(plan: &dyn ExecutionPlan, i: usize) -> bool {
    plan.maintains_input_order()[i] || plan.is::<RepartitionExec>() || plan.is::<CoalescePartitionsExec>()
}

/// Whether the result tells in which order rows came, though no order is promised: aggregates that
/// pick or list values, and windows, where rows tie.
pub(crate) fn shows_order(plan: &dyn ExecutionPlan) -> bool {
    const AGGREGATES: [&str; 5] = ["first_value", "last_value", "nth_value", "array_agg", "string_agg"];
    let aggregates = plan.downcast_ref::<AggregateExec>().map_or(&[][..], AggregateExec::aggr_expr);
    aggregates.iter().any(|aggregate| AGGREGATES.contains(&aggregate.fun().name()))
        || plan.is::<WindowAggExec>()
        || plan.is::<BoundedWindowAggExec>()
}

/// Whether row groups of this scan may be handed to any of its partitions.
pub(crate) fn may_move_rows(config: &FileScanConfig) -> bool {
    let sorted_limit = config.preserve_order && config.output_ordering.is_empty();
    config.output_partitioning.is_none() && !sorted_limit
}
