//! What must hold, cell by cell, and by how much it does not where it does not.

use serde_json::{Value, json};

/// A goal in one cell.
pub(crate) struct Check {
    pub(crate) goal: String,
    pub(crate) cell: String,
    /// By how much the goal is missed, in `unit`; held if it is not above 0.
    pub(crate) by: f64,
    pub(crate) unit: &'static str,
}

impl Check {
    fn held(&self) -> bool {
        self.by <= 0.0
    }
}

/// `goal` holds in a cell if `found` is not above `limit`.
pub(crate) fn at_most(goal: String, cell: String, (found, limit): (f64, f64), unit: &'static str) -> Check {
    Check { goal, cell, by: found - limit, unit }
}

/// A line for each goal: in how many cells it holds, and which do not.
pub(crate) fn print(checks: &[Check]) {
    println!("\n| goal | cells | held | missed, by how much |\n|---|---|---|---|");
    for (goal, checks) in by_goal(checks) {
        let missed: Vec<String> = checks
            .iter()
            .filter(|check| !check.held())
            .map(|check| format!("{}: {:.2} {}", check.cell, check.by, check.unit))
            .collect();
        println!("| {goal} | {} | {} | {} |", checks.len(), checks.len() - missed.len(), missed.join("; "));
    }
}

/// What the JSON file has of them.
pub(crate) fn json(checks: &[Check]) -> Value {
    let check = |check: &Check| json!({ "goal": check.goal, "cell": check.cell, "held": check.held(), "missed_by": check.by.max(0.0), "unit": check.unit });
    checks.iter().map(check).collect()
}

/// The checks of each goal, in the order in which goals first come.
fn by_goal(checks: &[Check]) -> Vec<(&str, Vec<&Check>)> {
    let mut goals: Vec<(&str, Vec<&Check>)> = Vec::new();
    for check in checks {
        match goals.iter_mut().find(|(goal, _)| *goal == check.goal) {
            Some((_, of)) => of.push(check),
            None => goals.push((&check.goal, vec![check])),
        }
    }
    goals
}
