//! EXPLAIN that says what would run now.
//!
//! DataFusion plans what it explains by itself: without what the statement is known to need, and
//! before its scans know what they will read. So the plan in which it ends is shown anew, with what
//! operators are [expected to keep](crate::expected_memory). As JSON DataFusion shows the logical
//! plan alone; here the plan that runs follows it.

use std::sync::Arc;

use datafusion::common::format::ExplainFormat;
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::human_readable_size;
use datafusion::logical_expr::{Explain, PlanType, StringifiedPlan};
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_plan::statistics::StatisticsContext;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use serde_json::{Value, json};

use crate::expected_memory::{kept, limit};
use crate::grace::operators_of;
use crate::grace_join::join_of;

/// What EXPLAIN shows, with the plan that `runs`.
pub(crate) fn with(
    explained: Arc<dyn ExecutionPlan>,
    explain: &Explain,
    runs: &Arc<dyn ExecutionPlan>,
    state: &SessionState,
) -> Arc<dyn ExecutionPlan> {
    let Some(shown) = explained.downcast_ref::<ExplainExec>() else { return explained };
    let options = &state.config_options().explain;
    let most = limit(state.runtime_env());
    let plan = displayable(runs.as_ref());
    let text = match explain.explain_format {
        ExplainFormat::Tree => {
            plan.set_tree_maximum_render_width(options.tree_maximum_render_width).tree_render().to_string()
        }
        ExplainFormat::Indent => {
            let statistics = explain.show_statistics.unwrap_or(options.show_statistics);
            let plan = plan.set_show_statistics(statistics).set_show_schema(options.show_schema);
            in_lines(&plan.indent(explain.verbose).to_string(), runs.as_ref(), most)
        }
        ExplainFormat::PostgresJSON => in_json(&plan.pgjson(explain.verbose).to_string(), runs.as_ref(), most),
        ExplainFormat::Graphviz => return explained,
    };
    let (mut plans, runs) =
        (shown.stringified_plans().to_vec(), StringifiedPlan::new(PlanType::FinalPhysicalPlan, text));
    match plans.iter_mut().find(|plan| plan.plan_type == PlanType::FinalPhysicalPlan) {
        Some(plan) => *plan = runs,
        None => plans.push(runs),
    }
    Arc::new(ExplainExec::new(explained.schema(), plans, shown.verbose()))
}

/// The nodes of a plan in the order in which they are shown.
fn in_order<'a>(node: &'a dyn ExecutionPlan, all: &mut Vec<&'a dyn ExecutionPlan>) {
    all.push(node);
    node.children().into_iter().for_each(|child| in_order(child.as_ref(), all));
}

/// The lines of a plan, of which some say what is kept.
fn in_lines(text: &str, runs: &dyn ExecutionPlan, most: Option<usize>) -> String {
    let mut nodes = Vec::new();
    in_order(runs, &mut nodes);
    let lines: Vec<_> = text.lines().collect();
    // A constant of the statement may be of several lines.
    if lines.len() != nodes.len() {
        return text.to_owned();
    }
    let context = StatisticsContext::new();
    let said = lines.iter().zip(nodes).map(|(line, node)| match (keeps(node, &context), spared(node, &context)) {
        (Some(bytes), _) => format!("{line}, keeps {}\n", told(bytes, most)),
        (None, Some(bytes)) => format!("{line}, goes to disk where a table keeps {}\n", told(bytes, most)),
        (None, None) => format!("{line}\n"),
    });
    said.collect()
}

/// Bytes that a node keeps; groups and windows may go to disk, and nobody knows before.
fn keeps(node: &dyn ExecutionPlan, context: &StatisticsContext) -> Option<usize> {
    kept(node, context).or_else(|| operators_of(node).iter().find_map(|operator| kept(operator.as_ref(), context)))
}

/// Bytes that a join which goes to disk would keep.
fn spared(node: &dyn ExecutionPlan, context: &StatisticsContext) -> Option<usize> {
    join_of(node).and_then(|join| kept(join, context))
}

fn told(bytes: usize, most: Option<usize>) -> String {
    let bytes = human_readable_size(bytes);
    most.map_or_else(|| format!("about {bytes}"), |most| format!("about {bytes} of {}", human_readable_size(most)))
}

/// The same in JSON.
fn in_json(text: &str, runs: &dyn ExecutionPlan, most: Option<usize>) -> String {
    fn say(shown: &mut Value, node: &dyn ExecutionPlan, most: Option<usize>, context: &StatisticsContext) {
        for (name, bytes) in [("Kept Bytes", keeps(node, context)), ("Table Bytes Spared", spared(node, context))] {
            if let Some(bytes) = bytes {
                shown[name] = json!(bytes);
                shown["Most Bytes"] = json!(most);
            }
        }
        let shown = shown["Plans"].as_array_mut().into_iter().flatten();
        shown.zip(node.children()).for_each(|(shown, child)| say(shown, child.as_ref(), most, context));
    }
    let Ok(mut plan) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
    say(&mut plan[0]["Plan"], runs, most, &StatisticsContext::new());
    format!("{plan:#}")
}
