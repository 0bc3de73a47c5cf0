//! What DataFusion gets wrong, put right: a file for each fault.
//!
//! A file opens with the upstream issue, the versions that it is needed for, and what makes it go.
//! It holds the test that fails without it. Nothing here knows a pool, a host or a statement of
//! ours; whoever plans queries with DataFusion can install these corrections.
//!
//! | module | what is wrong without it |
//! |---|---|
//! | `settings` | options of which the default gives wrong rows |
//! | `set_operations` | EXCEPT ALL and INTERSECT ALL take or keep all copies of a row |
//! | `subqueries` | IN and NOT IN beside NULL; subqueries in select lists; correlated ones over LIMIT |

mod set_operations;
mod settings;
mod subqueries;

use std::sync::Arc;

use datafusion::common::Result;
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
    Ok(())
}
