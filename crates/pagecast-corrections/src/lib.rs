//! What DataFusion gets wrong, put right: a file for each fault.
//!
//! A file opens with the upstream issue, the versions that it is needed for, and what makes it go.
//! It holds the test that fails without it. Nothing here knows a pool, a host or a statement of
//! ours; whoever plans queries with DataFusion can install these corrections.
//!
//! | module | what is wrong without it |
//! |---|---|
//! | `settings` | options of which the default gives wrong rows |
//! | `casts` | a CAST has the order and the bounds of what is cast; a filter by one makes that a constant |
//! | `null_keys` | a join of which one key may equal NULL by NULL lets all keys |
//! | `set_operations` | EXCEPT ALL and INTERSECT ALL take or keep all copies of a row |
//! | `subqueries` | IN and NOT IN beside NULL; subqueries in select lists; correlated ones over LIMIT |
//! | `window_groups` | a window over groups sees those that ORDER BY and LIMIT keep |

mod casts;
mod null_keys;
mod set_operations;
mod settings;
mod subqueries;
mod window_groups;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::optimizer::OptimizerRule;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::prelude::{SessionConfig, SessionContext};

/// The options of a session under which DataFusion gives right rows.
pub fn configured(config: SessionConfig) -> SessionConfig {
    settings::right(config)
}

/// Puts the corrections that are rules of the planner into a session, before its first statement.
///
/// # Errors
/// The session refuses a rule.
pub fn install(ctx: &SessionContext) -> Result<()> {
    ctx.add_analyzer_rule(Arc::new(set_operations::CountedCopies));
    ctx.add_analyzer_rule(Arc::new(subqueries::ThreeValued::default()));
    ctx.add_optimizer_rule(Arc::new(casts::HiddenCasts));
    let state = ctx.state_ref();
    let mut state = state.write();
    let logical = state.optimizers().iter().map(corrected_logical).collect();
    let physical = state.physical_optimizers().iter().map(corrected).collect();
    *state = SessionStateBuilder::new_from_existing(state.clone())
        .with_session_id(state.session_id().to_owned())
        .with_optimizer_rules(logical)
        .with_physical_optimizer_rules(physical)
        .build();
    Ok(())
}

/// A rule, kept from what it does wrong.
fn corrected_logical(rule: &Arc<dyn OptimizerRule + Send + Sync>) -> Arc<dyn OptimizerRule + Send + Sync> {
    match rule.name() {
        name if null_keys::OwnEquality::OVER.contains(&name) => Arc::new(null_keys::OwnEquality(Arc::clone(rule))),
        _ => Arc::clone(rule),
    }
}

/// A physical rule, kept from what it does wrong.
fn corrected(rule: &Arc<dyn PhysicalOptimizerRule + Send + Sync>) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    match rule.name() {
        casts::bounds::BoundsOfValues::OVER => Arc::new(casts::bounds::BoundsOfValues(Arc::clone(rule))),
        window_groups::WholeGroups::OVER => Arc::new(window_groups::WholeGroups(Arc::clone(rule))),
        _ => Arc::clone(rule),
    }
}
