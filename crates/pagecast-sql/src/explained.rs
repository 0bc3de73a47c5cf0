//! EXPLAIN that says what would run now.
//!
//! DataFusion plans what it explains by itself: without what the statement is known to need, and
//! before its scans know what they will read. So the plan in which it ends is shown anew.

use std::sync::Arc;

use datafusion::common::format::ExplainFormat;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Explain, PlanType, StringifiedPlan};
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};

/// What EXPLAIN shows, with the plan that `runs`.
pub(crate) fn with(
    explained: Arc<dyn ExecutionPlan>,
    explain: &Explain,
    runs: &Arc<dyn ExecutionPlan>,
    state: &SessionState,
) -> Arc<dyn ExecutionPlan> {
    let Some(shown) = explained.downcast_ref::<ExplainExec>() else { return explained };
    let options = &state.config_options().explain;
    let runs = displayable(runs.as_ref());
    let text = match explain.explain_format {
        ExplainFormat::Tree => {
            runs.set_tree_maximum_render_width(options.tree_maximum_render_width).tree_render().to_string()
        }
        ExplainFormat::Indent => {
            let statistics = explain.show_statistics.unwrap_or(options.show_statistics);
            let runs = runs.set_show_statistics(statistics).set_show_schema(options.show_schema);
            runs.indent(explain.verbose).to_string()
        }
        // They show the logical plan alone.
        ExplainFormat::PostgresJSON | ExplainFormat::Graphviz => return explained,
    };
    let plans = shown.stringified_plans().iter().map(|plan| match plan.plan_type {
        PlanType::FinalPhysicalPlan => StringifiedPlan::new(PlanType::FinalPhysicalPlan, text.as_str()),
        _ => plan.clone(),
    });
    Arc::new(ExplainExec::new(explained.schema(), plans.collect(), shown.verbose()))
}
